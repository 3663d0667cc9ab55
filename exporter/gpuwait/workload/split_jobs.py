"""One Slurm job in several cgroups: a host may run more than one slurmd, each with a tree of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwait.metrics import Family, Sample
from gpuwait.workload.cgroup_families import CPU_QUOTA, MEMORY_LIMIT, PRESSURE_FULL, PRESSURE_SOME
from gpuwait.workload.tree import Group, Labels

#: Two groups that wait at the same time wait once: the longer of both times is the least that is true.
_TIMES = frozenset({PRESSURE_SOME, PRESSURE_FULL})
#: A job of which one part has no limit has none.
_LIMITS = frozenset({CPU_QUOTA, MEMORY_LIMIT})


class SplitJobs:
    """Adds the parts up. The counters of a part that ended stay in the sum, else it would fall."""

    def __init__(self) -> None:
        self._parts: dict[Labels, dict[str, list[Sample]]] = {}

    def forget(self, groups: Sequence[Group]) -> None:
        """Drop what is known of jobs that are over."""
        if self._parts:
            there = {group.labels for group in groups}
            self._parts = {labels: parts for labels, parts in self._parts.items() if labels in there}

    def samples(self, group: Group, read: Callable[[Group], list[Sample]]) -> list[Sample]:
        """Samples of the workload; `read` gives those of one cgroup."""
        if not group.others and group.labels not in self._parts:
            return read(group)
        parts = self._parts.setdefault(group.labels, {})
        now = {part.path: read(part) for part in (group, *group.others)}
        # A part that ended uses no memory and has no limit, but its seconds were spent.
        ended = {
            path: [sample for sample in samples if sample[0].kind == "counter"]
            for path, samples in parts.items()
            if not now.get(path)
        }
        parts |= now | ended
        return _sum([samples for samples in parts.values() if samples])


def _sum(parts: list[list[Sample]]) -> list[Sample]:
    sums: dict[tuple[Family, tuple[str, ...]], int | float] = {}
    limited: dict[Family, int] = dict.fromkeys(_LIMITS, 0)
    for family, labels, value in [sample for samples in parts for sample in samples]:
        earlier = sums.get((family, labels), 0)
        sums[family, labels] = max(earlier, value) if family in _TIMES else earlier + value
        if family in _LIMITS:
            limited[family] += 1
    # Parts that ended have only counters; those that are there say whether they have a limit.
    there = sum(any(family.kind == "gauge" for family, _, _ in samples) for samples in parts)
    return [
        (family, labels, value)
        for (family, labels), value in sums.items()
        if family not in _LIMITS or limited[family] == there
    ]
