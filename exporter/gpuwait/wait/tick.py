"""What happened to one workload and its node between two snapshots. Pure; None where a source is not there.

Counters that fall are resets and give None. Threads, thread groups, disks and
mounts that came or went within the tick are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gpuwait.wait.delta import SLACK, rate, ratio, rise, share
from gpuwait.wait.host_tick import HostTick
from gpuwait.wait.snapshot import Delay, Thread, WaitClass, Workload

#: Delays that burn CPU in the kernel instead of sleeping (compaction is never seen in state D).
_BURNING = frozenset({Delay.COMPACT, Delay.RECLAIM})

#: A thread with less of its time in the kernel has no part in a delay that burns CPU.
_SOME_SYSTEM = 0.02

#: The delays of a group are read some milliseconds off the tick.
_SKEW = 1.1


class ThreadTick(NamedTuple):
    """One thread that ran: shares of the tick in user mode, kernel and run queue; node of its last CPU."""

    name: str
    user: float
    system: float
    queue: float | None
    numa_node: int | None


def _thread(before: Thread, after: Thread, dt: float) -> ThreadTick | None:
    """Differences of one thread; None where it did not run, or its number was given to another thread.

    Written out for speed: a node has thousands of threads, most of which sleep.
    """
    user = after.user_seconds - before.user_seconds
    system = after.system_seconds - before.system_seconds
    queued, queued_before = after.queue_seconds, before.queue_seconds
    queue = None if queued is None or queued_before is None else queued - queued_before
    if not user and not system and not queue:
        return None
    most = SLACK * dt
    if not (0 <= user <= most and 0 <= system <= most):
        return None
    if queue is not None:
        queue = min(1.0, queue / dt) if 0 <= queue <= most else None
    return ThreadTick(after.name, min(1.0, user / dt), min(1.0, system / dt), queue, after.numa_node)


class LoadTick:
    """Differences of one workload over `dt` seconds; each is worked out when it is first asked for."""

    def __init__(self, before: Workload, after: Workload, dt: float, cpus: int = 1) -> None:
        self.before = before
        self.after = after
        self.dt = dt
        self.cpus = cpus
        self.dropped: Counter[Delay] = Counter()

    @cached_property
    def threads(self) -> tuple[ThreadTick, ...]:
        """Threads that were there at both ends and ran, or waited for a CPU."""
        old, dt = self.before.threads, self.dt
        found = []
        for tid, after in self.after.threads.items():
            before = old.get(tid)
            if before is not None and before is not after and (tick := _thread(before, after, dt)):
                found.append(tick)
        return tuple(found)

    @property
    def ran(self) -> int:
        """Threads that ran or wanted to."""
        return len(self.threads)

    def pressure(self, resource: str) -> float | None:
        """Share of the tick in which some task of the workload waited."""
        before, after = self.before.pressure.get(resource), self.after.pressure.get(resource)
        return share(before.some, after.some, self.dt) if before and after else None

    def blocked(self, kind: WaitClass) -> float | None:
        """Share of the looks that found a thread in this wait; None where nobody looked."""
        return ratio(self.after.blocked.get(kind, 0), self.after.looks)

    @cached_property
    def stuck(self) -> Mapping[WaitClass, float]:
        """Waits that had a thread at both ends, and the share of the tick that the idlest one ran or queued.

        0 is a thread that was in its wait all the tick. Known by the time in the run queue, in ns, only: CPU
        times stand still for a thread that runs briefly.
        """
        old, found = self.before.threads, dict[WaitClass, float]()
        for tid, after in self.after.threads.items():
            kind, before = after.wait, old.get(tid)
            if kind is None or before is None or before.wait is not kind:
                continue
            queued = rise(before.queue_seconds, after.queue_seconds)
            ran = rise(before.user_seconds + before.system_seconds, after.user_seconds + after.system_seconds)
            if queued is not None and ran is not None:
                found[kind] = min(found.get(kind, 1.0), (queued + ran) / self.dt)
        return found

    def delay(self, kind: Delay) -> float | None:
        """Share of the tick that a delayed thread lost to this class; None without delay accounting."""
        return self._delays.get(kind)

    @cached_property
    def _delays(self) -> dict[Delay, float]:
        """The strongest thread group of each class, per thread that can have had a part in it.

        A group's delays are summed over its threads and nothing says which
        thread had them. So a group's seconds are divided by the threads that
        can have shared them: for delays that burn CPU those with at least half
        the kernel time of the one with most, for the others those asleep in
        state D; both spread over the delayed groups. A single stalled loader
        divides by 1 and shows its whole loss; 32 threads that lose 5 % each
        show 5 %, not all.
        """
        sums: dict[Delay, list[float]] = {}
        most = self.dt * max(1, self.after.thread_count, len(self.after.threads))
        for group, after in self.after.delays.items():
            before = self.before.delays.get(group)
            if before is None:
                continue
            for kind, seconds in after.items():
                grown = rise(before.get(kind), seconds)
                if grown is None:
                    continue
                if grown > most * _SKEW:
                    self.dropped[kind] += 1
                    continue
                sums.setdefault(kind, []).append(min(grown, most))
        return {kind: self._per_thread(kind, values) for kind, values in sums.items()}

    def _per_thread(self, kind: Delay, values: list[float]) -> float:
        largest = max(values)
        groups = sum(value >= largest / 2 for value in values)
        sharers = self._in_kernel if kind in _BURNING else self._asleep
        # Sharers are counted in the whole workload, delayed groups only where they are accounted.
        groups_in_all = groups / (self.after.covered or 1.0)
        return min(1.0, largest / self.dt / max(1.0, sharers / groups_in_all))

    @cached_property
    def _in_kernel(self) -> int:
        top = max((thread.system for thread in self.threads), default=0.0)
        if top < _SOME_SYSTEM:
            return 1
        return sum(thread.system >= top / 2 for thread in self.threads)

    @cached_property
    def _asleep(self) -> int:
        return sum(thread.state == "D" for thread in self.after.threads.values())

    @cached_property
    def cpu(self) -> float | None:
        """CPUs used, by the cgroup's own counter."""
        return rate(self.before.cpu_seconds, self.after.cpu_seconds, self.dt)

    @cached_property
    def cpu_known(self) -> float | None:
        """CPUs used, by the cgroup's counter, else summed over the threads."""
        if self.cpu is not None or not self.after.threads:
            return self.cpu
        return sum(thread.user + thread.system for thread in self.threads)

    @cached_property
    def queue(self) -> float | None:
        """Share of the tick that the worst thread waited for a CPU."""
        if all(thread.queue_seconds is None for thread in self.after.threads.values()):
            return None
        return max((thread.queue for thread in self.threads if thread.queue is not None), default=0.0)

    @cached_property
    def throttled_periods(self) -> float | None:
        """Share of the enforcement periods in which the quota ran out."""
        periods = rise(self.before.periods, self.after.periods)
        return ratio(rise(self.before.throttled_periods, self.after.throttled_periods), periods)

    @cached_property
    def throttled_time(self) -> float | None:
        """Share of the tick for which the quota held back each of those that wanted to run.

        The kernel sums over CPUs: divided by the threads that ran, or the CPUs where those are fewer; by the
        quota where threads are not known.
        """
        seconds = rate(self.before.throttled_seconds, self.after.throttled_seconds, self.dt)
        if seconds is None:
            return None
        by = min(self.ran, self.cpus) if self.ran else (self.after.quota_cores or 1.0)
        return min(1.0, seconds / max(1.0, by))

    @cached_property
    def reclaimed(self) -> float | None:
        """Pages per second that the workload scanned or refaulted itself, at its own limit."""
        scanned = rate(self.before.reclaim_pages, self.after.reclaim_pages, self.dt)
        refaulted = rate(self.before.refaults, self.after.refaults, self.dt)
        if scanned is None and refaulted is None:
            return None
        return (scanned or 0.0) + (refaulted or 0.0)

    def far_cpu(self, home: frozenset[int]) -> float | None:
        """Share of the CPU time spent off these nodes."""
        known = [thread for thread in self.threads if thread.numa_node is not None]
        total = sum(thread.user + thread.system for thread in known)
        return ratio(sum(t.user + t.system for t in known if t.numa_node not in home), total)

    def far_memory(self, home: frozenset[int]) -> float | None:
        """Share of the memory off these nodes, at the end."""
        sizes = self.after.memory_by_node
        return ratio(sum(size for node, size in sizes.items() if node not in home), sum(sizes.values()))


@dataclass(frozen=True, slots=True)
class Tick:
    """One workload and its node.

    load: None where the workload of the GPU is not known or came within the tick.
    home: NUMA nodes of the GPUs that the workload holds; empty where not known.
    """

    host: HostTick
    load: LoadTick | None = None
    home: frozenset[int] = frozenset()

    def blocked(self, *kinds: WaitClass) -> float | None:
        """The most frequent of these waits, as a share of the looks."""
        if self.load is None or not self.load.after.looks:
            return None
        return max(self.load.blocked(kind) or 0.0 for kind in kinds)

    def looked(self, *kinds: WaitClass) -> bool | None:
        """Tell whether any of these waits was seen; None where too few looks were taken to say."""
        if self.load is None or self.load.after.looks < 3:
            return None
        seen: Mapping[WaitClass, int] = self.load.after.blocked
        return any(seen.get(kind) for kind in kinds)
