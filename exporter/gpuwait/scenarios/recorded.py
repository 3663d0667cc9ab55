"""Incidents that were recorded on a real kernel: one snapshot a second, as the sampler took them.

A recording is a JSON file of this package, shaped as a `Snapshot` is. What changes is a series, what does
not stands there once:

    [1, 500, 3, 3]                  whole numbers, the first and by how much the others grew: 500, 503, 506
    [10000, 20000, 5, 0]            the same in parts of 1/10000: 2.0, 2.0005, 2.0005
    {"each": [["S", 2], ["D", 1]]}  anything else, and how often in a row: S, S, D
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, TypeVar

from gpuwait.scenarios.rates import STORY
from gpuwait.scenarios.scenario import Phase, Scenario
from gpuwait.wait.snapshot import (
    Delay,
    Disk,
    Gpu,
    Host,
    Nfs,
    Pressure,
    Snapshot,
    Thread,
    WaitClass,
    Workload,
)
from gpuwait.wait.verdict import Cause

T = TypeVar("T")

#: A part of a recording, or of what it holds of one tick.
Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded(Scenario):
    """An incident as it was recorded. Its phases change nothing: they say what happened when."""

    def snapshots(self) -> Iterator[Snapshot]:
        """About one a second, the first before the first phase."""
        return iter(_film(self.name))


@cache
def _film(name: str) -> tuple[Snapshot, ...]:
    return film((files(__package__) / "recordings" / f"{name}.json").read_text(encoding="utf-8"))


def film(recording: str) -> tuple[Snapshot, ...]:
    """Snapshots of a recording. Raises ValueError or KeyError for what is none."""
    tree = _unrolled(json.loads(recording))
    return tuple(_snapshot(_at(tree, tick)) for tick in range(len(tree["at"])))


def _unrolled(part: Any) -> Any:
    """Every series as the list of its values."""
    if isinstance(part, list):
        divisor, *values = part
        numbers = accumulate(values)
        return list(numbers) if divisor == 1 else [number / divisor for number in numbers]
    if not isinstance(part, dict):
        return part
    if "each" in part:
        return [value for value, times in part["each"] for _ in range(times)]
    return {key: _unrolled(value) for key, value in part.items()}


def _at(part: Any, tick: int) -> Any:
    """The same tree with the values of one tick."""
    if isinstance(part, list):
        return part[tick]
    return {key: _at(value, tick) for key, value in part.items()} if isinstance(part, dict) else part


def _all(make: Callable[..., T], parts: Tree) -> dict[str, T]:
    return {name: make(**fields) for name, fields in parts.items()}


def _snapshot(tree: Tree) -> Snapshot:
    host, load = dict(tree["host"]), dict(tree["workload"])
    host |= {
        "pressure": _all(Pressure, host["pressure"]),
        "disks": _all(Disk, host["disks"]),
        "nfs": _all(Nfs, host["nfs"]),
        "unusable_ratio": {int(node): ratio for node, ratio in host["unusable_ratio"].items()},
    }
    load |= {
        "threads": {int(tid): _thread(fields) for tid, fields in load["threads"].items()},
        "blocked": {WaitClass(kind): looks for kind, looks in load["blocked"].items()},
        "delays": {
            int(pid): {Delay(kind): seconds for kind, seconds in delays.items()}
            for pid, delays in load["delays"].items()
        },
        "pressure": _all(Pressure, load["pressure"]),
        "memory_by_node": {int(node): size for node, size in load["memory_by_node"].items()},
    }
    gpu = Gpu(**tree["gpu"], workloads=(STORY,))
    return Snapshot(tree["at"], Host(**host), (gpu,), {STORY: Workload(**load)})


def _thread(fields: Tree) -> Thread:
    wait = fields["wait"]
    return Thread(**{**fields, "wait": WaitClass(wait) if wait else None})


def _outage(version: str, seconds: int, seen: str) -> Recorded:
    return Recorded(
        f"nfs-outage-v{version}",
        f"The NFS server stops under load, version {version}",
        "Recorded on Linux 6.1: four loaders read small files, two of them with direct reads, when the "
        f"server is stopped; after 25 s it is started again. {seen}",
        (
            Phase("training", 20),
            Phase("server stopped", seconds, cause=Cause.NFS),
            Phase("server back", 20),
        ),
        Cause.NFS,
    )


NFS_OUTAGE_V3 = _outage(
    "3",
    28,
    "It answered all that it was asked before it went: nothing is in flight and the mount's counters stand "
    "still; the loaders try to connect every 3 s. Timeouts are counted when all is over.",
)
NFS_OUTAGE_V4 = _outage(
    "4",
    29,
    "It answered all that it was asked before it went: nothing is in flight and the mount's counters stand "
    "still. Only loaders that do not run any more, on a mount that used to answer, tell of it.",
)
