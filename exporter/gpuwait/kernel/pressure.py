"""Time in which tasks stood still for lack of a resource: `/proc/pressure/*` and `*.pressure` of a cgroup.

https://docs.kernel.org/accounting/psi.html

    some avg10=2.71 avg60=2.80 avg300=2.95 total=111802447190
    full avg10=0.00 avg60=0.09 avg300=0.31 total=81120044017

The line `full` of cpu came with 5.13; irq (6.1) has `full` only.
The error leaves it to the caller to say which file it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter


@dataclass(frozen=True, slots=True)
class Pressure:
    """Totals of one resource in microseconds; None where the kernel has no such line.

    some: at least one task waited.
    full: all tasks that were not idle waited.
    """

    some: int | None = None
    full: int | None = None


def parse_pressure(text: str) -> Pressure:
    """Totals of one pressure file. Raises ParseError.

    Sources: `/proc/pressure/{cpu,io,memory,irq}`, `{cpu,io,memory,irq}.pressure` of a cgroup.
    """
    totals: dict[str, int | None] = {}
    for line in text.split("\n"):
        # The averages before it are not read: they lag by up to their own length.
        head, found, total = line.partition(" total=")
        if found:
            totals[head.partition(" ")[0]] = counter(total.partition(" ")[0])
    pressure = Pressure(totals.get("some"), totals.get("full"))
    if not totals and text.strip():
        raise ParseError("no line has a total")
    return pressure
