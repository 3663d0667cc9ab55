"""Counters of the cgroups of GPU workloads, of both versions."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpuwait.kernel.cgroup_files import (
    parse_cfs_quota,
    parse_cpu_max,
    parse_flat_keyed,
    parse_limit,
    parse_number,
)
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numa_stat import parse_numa_stat
from gpuwait.wait.discovery import Watched
from gpuwait.wait.host_reader import pressure_of
from gpuwait.wait.kept import Kept
from gpuwait.wait.snapshot import Key, Pressure
from gpuwait.workload.tree import Group

#: Seconds between two readings of what changes slowly: limits, and memory by node.
SLOW_EVERY = 10.0
#: Levels above a group where its limit may be set: a job's above its steps, a pod's above its containers.
_ABOVE = 6
MICRO, NANO = 1_000_000, 1_000_000_000
_RESOURCES = ("cpu", "memory", "io")


@dataclass(frozen=True, slots=True)
class Counters:
    """What `snapshot.Workload` has of a cgroup."""

    pressure: dict[str, Pressure] = field(default_factory=dict)
    cpu_seconds: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None
    quota_cores: float | None = None
    reclaim_pages: int | None = None
    refaults: int | None = None
    memory_by_node: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Slow:
    """Of one group: its tightest CPU quota and where that is, where its memory limit is, memory by node."""

    at: float
    group: Group
    quota: float | None = None
    cpu: str = ""
    memory: str = ""
    by_node: dict[int, int] = field(default_factory=dict)


class WorkloadReader:
    """Used by one thread."""

    def __init__(self, kept: Kept, clock: Callable[[], float]) -> None:
        self._kept = kept
        self._clock = clock
        self._slow: dict[str, _Slow] = {}  # by path of the group
        self._files: dict[Key, set[str]] = {}
        self._missing: set[str] = set()
        self._page = resource.getpagesize()

    def choose(self, workloads: Iterable[Watched]) -> None:
        """Forget the groups that are not among these, and try missing files again."""
        groups = {watched.key: watched.group for watched in workloads if watched.group is not None}
        self._missing.clear()
        parts = {part.path: part for group in groups.values() for part in (group, *group.others)}
        self._slow = {path: slow for path, slow in self._slow.items() if parts.get(path) is slow.group}
        for key in self._files.keys() - groups.keys():
            for path in self._files.pop(key):
                self._kept.close(path)

    def read(self, watched: Watched) -> Counters:
        """Counters of one workload; without a cgroup of its own there are none."""
        group = watched.group
        if group is None:
            return Counters()
        found = [self._part(watched.key, part) for part in (group, *group.others)]
        return found[0] if len(found) == 1 else _sum(found)

    def _part(self, key: Key, group: Group) -> Counters:
        now = self._clock()
        slow = self._slow.get(group.path)
        if slow is None or now - slow.at >= SLOW_EVERY:
            slow = self._slow[group.path] = self._limits(key, group, now)
        cpu = self._flat(key, f"{slow.cpu}/cpu.stat") if slow.cpu else {}
        reclaim, refaults = self._reclaim(key, group, slow)
        return Counters(
            self._pressure(key, group),
            self._cpu_seconds(key, group),
            cpu.get("nr_periods"),
            cpu.get("nr_throttled"),
            _seconds(cpu),
            slow.quota,
            reclaim,
            refaults,
            slow.by_node,
        )

    def _read(self, key: Key, path: str) -> str:
        """Text of a file, empty where it cannot be read: the group ended, or has no such file."""
        if path in self._missing:
            return ""
        try:
            text = self._kept.text(path)
        except OSError:
            self._missing.add(path)
            return ""
        self._files.setdefault(key, set()).add(path)
        return text

    def _flat(self, key: Key, path: str) -> dict[str, int]:
        with suppress(ParseError):  # one odd file costs its part of this workload
            return parse_flat_keyed(self._read(key, path), path)
        return {}

    def _number(self, key: Key, path: str) -> int | None:
        with suppress(ParseError):
            return parse_number(self._read(key, path), path)
        return None

    def _pressure(self, key: Key, group: Group) -> dict[str, Pressure]:
        found = {}
        for name in _RESOURCES if group.unified else ():
            with suppress(ParseError):
                pressure = pressure_of(self._read(key, f"{group.unified}/{name}.pressure"))
                if pressure is not None:
                    found[name] = pressure
        return found

    def _cpu_seconds(self, key: Key, group: Group) -> float | None:
        if group.cpuacct:
            used = self._number(key, f"{group.cpuacct}/cpuacct.usage")
            return None if used is None else used / NANO
        if group.unified:
            used = self._flat(key, f"{group.unified}/cpu.stat").get("usage_usec")
            return None if used is None else used / MICRO
        return None

    def _reclaim(self, key: Key, group: Group, slow: _Slow) -> tuple[int | None, int | None]:
        """Pages reclaimed at the limit, or with v1 the times that it was hit; and pages that came back."""
        if group.memory:
            stat = self._flat(key, f"{group.memory}/memory.stat")
            return self._number(key, f"{slow.memory or group.memory}/memory.failcnt"), _refaults(stat)
        if group.unified:
            stat = self._flat(key, f"{group.unified}/memory.stat")
            return stat.get("pgscan_direct"), _refaults(stat)
        return None, None

    def _limits(self, key: Key, group: Group, now: float) -> _Slow:
        slow = _Slow(now, group, cpu=group.cpu or group.unified)
        for directory in _upwards(slow.cpu):
            quota = self._quota(directory, unified=not group.cpu)
            if quota is not None and (slow.quota is None or quota < slow.quota):
                slow.quota, slow.cpu = quota, directory
        for directory in _upwards(group.memory):
            with suppress(OSError, ParseError):
                path = f"{directory}/memory.limit_in_bytes"
                if parse_limit(self._kept.once(path), path) is not None:
                    slow.memory = directory
                    break
        directory = group.memory or group.unified
        if directory:
            with suppress(ParseError):
                slow.by_node = parse_numa_stat(self._read(key, f"{directory}/memory.numa_stat"), self._page)
        return slow

    def _quota(self, directory: str, *, unified: bool) -> float | None:
        with suppress(OSError, ParseError):
            if unified:
                return parse_cpu_max(self._kept.once(f"{directory}/cpu.max"))
            files = [self._kept.once(f"{directory}/cpu.cfs_{name}_us") for name in ("quota", "period")]
            return parse_cfs_quota(*files)
        return None


def _sum(parts: list[Counters]) -> Counters:
    """Of a job in several cgroups, as under two slurmd of a host."""

    def add(name: str) -> Any:
        values = [value for part in parts if (value := getattr(part, name)) is not None]
        return sum(values) if values else None

    nodes: dict[int, int] = {}
    pressure: dict[str, Pressure] = {}
    for part in parts:
        for node, size in part.memory_by_node.items():
            nodes[node] = nodes.get(node, 0) + size
        for name, found in part.pressure.items():
            # Those who wait at the same time wait once: the longer time is the least that is true.
            if name not in pressure or found.some > pressure[name].some:
                pressure[name] = found
    limited = all(part.quota_cores is not None for part in parts)
    return Counters(
        pressure,
        add("cpu_seconds"),
        add("periods"),
        add("throttled_periods"),
        add("throttled_seconds"),
        add("quota_cores") if limited else None,
        add("reclaim_pages"),
        add("refaults"),
        nodes,
    )


def _upwards(directory: str) -> list[str]:
    """The directory and those above it within the hierarchies, nearest first."""
    found: list[str] = []
    while directory and len(found) < _ABOVE and not directory.endswith("/fs/cgroup"):
        found.append(directory)
        directory = directory.rpartition("/")[0]
    return found


def _seconds(cpu: dict[str, int]) -> float | None:
    if "throttled_usec" in cpu:
        return cpu["throttled_usec"] / MICRO
    return cpu["throttled_time"] / NANO if "throttled_time" in cpu else None


def _refaults(stat: dict[str, int]) -> int | None:
    """Pages that were dropped and are wanted again; v1 has the sums over groups inside as `total_`."""
    for prefix in ("total_workingset_refault", "workingset_refault"):
        # Split into file and anon since 5.9.
        parts = [stat[name] for name in (f"{prefix}_file", f"{prefix}_anon", prefix) if name in stat]
        if parts:
            return sum(parts)
    return None
