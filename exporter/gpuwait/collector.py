"""What a collector is: a name, the families it may emit, and one function.

A collector is a value. It has no base class and registers nothing when it is
imported; `gpuwait.collectors.ALL` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources


class Reason(StrEnum):
    """Why a source is not available; the bounded value of the label `reason`."""

    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    NO_PERMISSION = "no_permission"
    BALANCING_OFF = "numa_balancing_off"
    NO_LIBRARY = "no_library"
    NO_DRIVER = "no_driver"
    READER_STUCK = "reader_stuck"
    STARTING = "starting"


class NoData(Exception):
    """A source, or a part of it, is not there. Not a fault: the collector still counts as working.

    A collector yields what it has and raises this last, so that what it
    yielded is kept. `detail` names the file or call, for the log and `check`.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, eq=False)
class Collector:
    """One source of samples.

    name:     flag (`--collector.NAME`), value of the label `collector`, and file name.
    help:     one sentence for `--help` and the reference.
    families: every family that `collect` may yield, in the order of the exposition.
    collect:  yields samples; raises NoData, OSError or kernel.errors.ParseError.
    budget:   samples of one scrape; what goes beyond is dropped and counted.
    """

    name: str
    help: str
    families: tuple[Family, ...]
    collect: Callable[[Sources], Iterable[Sample]]
    enabled: bool = True
    budget: int = 2000
