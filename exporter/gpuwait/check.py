"""`gpuwait check`: what this node offers, what is missing and what brings it back, what is risky."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TextIO

from gpuwait.collector import Reason
from gpuwait.gather import Outcome
from gpuwait.risks import Finding, findings

#: What is lost without a source, and the line that brings it back. A source that is not listed is
#: no loss: the node has no such thing.
REMEDIES: dict[tuple[str, Reason], tuple[str, str]] = {
    ("pressure", Reason.UNSUPPORTED): (
        "no pressure figures: causes rest on fewer signals",
        "boot with psi=1 on the kernel command line",
    ),
    ("nfs", Reason.NO_PERMISSION): (
        "NFS mounts of the host; only the exporter's own are seen",
        "run as root or with CAP_DAC_READ_SEARCH (systemd: AmbientCapabilities=CAP_DAC_READ_SEARCH)",
    ),
    ("gpu", Reason.NO_LIBRARY): (
        "every GPU series",
        "make the driver's libnvidia-ml.so.1 visible: install the driver, or mount it into the container",
    ),
    ("gpu", Reason.NO_DRIVER): ("every GPU series", "load the driver: modprobe nvidia"),
    ("gpu", Reason.READER_STUCK): (
        "GPU series until the driver answers",
        "dmesg | grep -i -e nvrm -e xid",
    ),
}


def report(outcomes: Sequence[Outcome], out: TextIO) -> int:
    """Print the report on one gathering. 0 where nothing is lost and nothing risky, else 1."""
    lost = list(losses(outcomes))
    risky = findings(outcomes)
    _sources(outcomes, out)
    _list("Lost, and what brings it back", lost, out)
    _list("Risky settings of this node", risky, out)
    out.write(f"\n{len(lost)} lost, {len(risky)} risky\n")
    return 1 if lost or risky else 0


def losses(outcomes: Sequence[Outcome]) -> Iterator[Finding]:
    """What could be had here and is not, with the line that brings it back."""
    gpus_on_bus = any(
        family.name == "gpuwait_gpu_pci_devices" and any(values.values())
        for outcome in outcomes
        for family, values in outcome.groups.items()
    )
    for outcome in outcomes:
        name = outcome.collector.name
        if not outcome.success:
            yield Finding(
                f"collector {name} fails",
                outcome.detail,
                f"gpuwait once --log.level=debug 2>&1 | grep {name}",
            )
            continue
        if not outcome.reason or (name == "gpu" and outcome.reason == Reason.NO_LIBRARY and not gpus_on_bus):
            continue
        remedy = REMEDIES.get((name, Reason(outcome.reason)))
        if remedy:
            yield Finding(f"{name}: {outcome.detail}", f"lost: {remedy[0]}", remedy[1])
        elif outcome.reason == Reason.NO_PERMISSION:
            yield Finding(f"{name}: {outcome.detail}", "not readable for this user", "run as root")


def _sources(outcomes: Sequence[Outcome], out: TextIO) -> None:
    out.write("Sources\n")
    for outcome in outcomes:
        count = sum(map(len, outcome.groups.values()))
        if not outcome.success:
            state = "FAILS"
        elif outcome.reason and not count:
            state = "absent"
        else:
            state = "partly" if outcome.reason else "ok"
        rest = f" - {printable(outcome.detail)}" if outcome.detail else ""
        out.write(f"  {outcome.collector.name:15} {state:7} {count:5} series{rest}\n")


def _list(title: str, items: Sequence[Finding], out: TextIO) -> None:
    if not items:
        return
    out.write(f"\n{title}\n")
    for item in items:
        out.write(f"  {printable(item.what)}\n")
        out.write(textwrap.indent(textwrap.fill(printable(item.why), 96), "      ") + "\n")
        out.write(f"      $ {printable(item.fix)}\n")


def printable(text: str) -> str:
    """The text without control characters: names of mounts and devices come from outside."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
