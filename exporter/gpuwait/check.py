"""`gpuwait check`: what this node offers, what is missing and what brings it back, what is risky."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from gpuwait.collector import Reason
from gpuwait.explain.model import Lost
from gpuwait.explain.wording import printable
from gpuwait.gather import Outcome
from gpuwait.risks import Finding, findings
from gpuwait.workload import readiness

#: Characters of one text: names of mounts and devices come from outside.
MOST = 1000

#: What is lost without a source, and what brings it back: a command, or a sentence where there is
#: none that fits every host. A source that is not listed is no loss: the node has no such thing.
REMEDIES: dict[tuple[str, Reason], tuple[str, str, bool]] = {
    ("pressure", Reason.UNSUPPORTED): (
        "no pressure figures: causes rest on fewer signals",
        "boot with psi=1 on the kernel command line",
        False,
    ),
    ("nfs", Reason.NO_PERMISSION): (
        "NFS mounts of the host; only the exporter's own are seen",
        "systemctl edit gpuwait  # add: [Service] AmbientCapabilities=CAP_DAC_READ_SEARCH; or run as root",
        True,
    ),
    ("workload", Reason.NO_PERMISSION): (
        "open files of GPU workloads of other users",
        "systemctl edit gpuwait  # add: [Service] AmbientCapabilities=CAP_DAC_READ_SEARCH; or run as root",
        True,
    ),
    ("gpu", Reason.NO_LIBRARY): (
        "every GPU series",
        "make the driver's libnvidia-ml.so.1 visible: install the driver, or mount it into the container",
        False,
    ),
    ("gpu", Reason.NO_DRIVER): ("every GPU series", "modprobe nvidia", True),
    ("gpu", Reason.READER_STUCK): (
        "GPU series until the driver answers",
        "dmesg | grep -i -e nvrm -e xid",
        True,
    ),
    # The first reading takes less than a second; this command waits 3 s for it, and the reader
    # is called stuck a little later only.
    ("gpu", Reason.STARTING): (
        "every GPU series: the GPU reader gave no reading within 3 s, so the driver may be stuck",
        "dmesg | grep -i -e nvrm -e xid",
        True,
    ),
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `check` reports on.

    lost:    signals of the wait causes that this node does not give.
    sources: of names and owners; missing: what they do not tell.
    """

    outcomes: list[Outcome]
    lost: tuple[Lost, ...]
    sources: tuple[readiness.Source, ...]
    missing: tuple[readiness.Missing, ...]


def report(found: Inspection, out: TextIO) -> int:
    """Print the report on one gathering. 0 where nothing is lost and nothing risky, else 1."""
    outcomes, signals = found.outcomes, found.lost
    lost = list(losses(outcomes))
    told = any("psi=1" in finding.fix for finding in lost)
    for item in signals:
        if not (told and "psi=1" in item.enable):
            what = f"wait causes: {', '.join(item.signals)}"
            lost.append(Finding(what, item.reason, item.enable, command=False))
    lost += [Finding(item.what, item.why, item.fix, command=False) for item in found.missing]
    risky = findings(outcomes)
    _sources(outcomes, out)
    out.write("\nNames and owners\n")
    for source in found.sources:
        out.write(f"  {source.name:15} {source.state:7} {printable(source.detail, MOST)}\n")
    _list("Lost, and what brings it back", lost, out)
    _list("Risky settings of this node", risky, out)
    out.write(f"\n{len(lost)} lost, {len(risky)} risky\n")
    return 1 if lost or risky else 0


def losses(outcomes: Sequence[Outcome]) -> Iterator[Finding]:
    """What could be had here and is not, with what brings it back."""
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
            lost, fix, command = remedy
            yield Finding(f"{name}: {outcome.detail}", f"lost: {lost}", fix, command)
        elif outcome.reason == Reason.NO_PERMISSION:
            yield Finding(f"{name}: {outcome.detail}", "not readable for this user", "sudo gpuwait serve")


def _sources(outcomes: Sequence[Outcome], out: TextIO) -> None:
    out.write("Sources\n")
    for outcome in outcomes:
        rest = f" - {printable(outcome.detail, MOST)}" if outcome.detail else ""
        out.write(f"  {outcome.collector.name:15} {outcome.state:7} {outcome.series:5} series{rest}\n")


def _list(title: str, items: Sequence[Finding], out: TextIO) -> None:
    if not items:
        return
    out.write(f"\n{title}\n")
    for item in items:
        out.write(f"  {printable(item.what, MOST)}\n")
        out.write(textwrap.indent(textwrap.fill(printable(item.why, MOST), 96), "      ") + "\n")
        fix = printable(item.fix, MOST)
        # A name that cannot be shown cannot be pasted either.
        prompt = "$ " if item.command and "\N{REPLACEMENT CHARACTER}" not in fix else ""
        out.write(f"      {prompt}{fix}\n")
