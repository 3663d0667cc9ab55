"""Time in which tasks of the node stood still for lack of CPU, memory or I/O."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import maybe_text
from gpuwait.kernel.pressure import Pressure, parse_pressure
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

SOME = Family(
    "gpuwait_pressure_some_seconds_total",
    "counter",
    "Seconds in which at least one task waited for the resource.",
    "/proc/pressure/* some total",
    ("resource",),
)
FULL = Family(
    "gpuwait_pressure_full_seconds_total",
    "counter",
    "Seconds in which all tasks that were not idle waited for the resource.",
    "/proc/pressure/* full total",
    ("resource",),
)

_RESOURCES = ("memory", "io", "cpu", "irq")


def _read(procfs: str, faults: Faults) -> dict[str, Pressure]:
    """Pressure by resource: one bad file costs that resource only."""
    found = {}
    for resource in _RESOURCES:
        with faults.at(path := f"{procfs}/pressure/{resource}"):
            text = maybe_text(path)
            if text is not None:
                found[resource] = parse_pressure(text)
    return found


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the totals in seconds. Raises NoData, OSError, ParseError."""
    faults = Faults()
    found = _read(sources.host.procfs, faults)
    for resource, pressure in found.items():
        if pressure.some is not None:
            yield SOME, (resource,), pressure.some / 1_000_000
    for resource, pressure in found.items():
        # All CPUs waiting for a CPU is undefined for a whole system: 0, or nonsense from 5.13 on.
        if pressure.full is not None and resource != "cpu":
            yield FULL, (resource,), pressure.full / 1_000_000
    faults.finish()
    if not found:
        raise NoData(Reason.UNSUPPORTED, "no pressure stall information: boot with psi=1")


COLLECTOR = Collector(
    name="pressure",
    help="Pressure stall totals of the node for memory, I/O, CPU and interrupts.",
    families=(SOME, FULL),
    collect=collect,
)
