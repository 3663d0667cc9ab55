"""What a metric is here: a family with its reference text, and a sample of it.

Nothing in this file knows about an exposition library, so that every other
part of the program can name metrics without importing one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Sorts of metric in the text format; an info or a state set is a gauge of 1 (or 0).
Kind = Literal["counter", "gauge"]

#: One reading: the family, the label values in the family's order, the value in base units.
#: A plain tuple, since a large node yields tens of thousands of them per scrape.
Sample = tuple["Family", tuple[str, ...], int | float]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One metric of the public contract.

    Compared by identity: a family is declared once, at the top of its collector.

    name:   full literal name, base unit, `_total` on counters.
    kind:   counter or gauge.
    help:   one sentence that a person reads in the exposition.
    source: the kernel file, NVML call or other place the value comes from.
    labels: label names in the order in which samples give the values.
    """

    name: str
    kind: Kind
    help: str
    source: str
    labels: tuple[str, ...] = ()
