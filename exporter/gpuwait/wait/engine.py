"""Two snapshots in, one verdict out: where each GPU's time went, and what it waited for. Pure.

States of one GPU in one tick of `dt` seconds (a share `u` of it busy): busy
gets `u * dt`, and exactly one other state gets the rest. In this order:

unknown: the GPU does not answer, has no reading, or the tick was too long to say.
free:    no process holds it and nobody was given it.
gap:     `u` at or above 0.70: the slack of a healthy pipeline.
idle:    held or given, but its workload neither runs nor waits for anything.
waiting: the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuwait.thresholds import Thresholds
from gpuwait.wait.attribution import Attribution, Finding
from gpuwait.wait.delta import rise
from gpuwait.wait.snapshot import Delay, Gpu, Snapshot
from gpuwait.wait.tick import LoadTick
from gpuwait.wait.verdict import Cause, GpuVerdict, State, Verdict

#: A GPU that is used less than this is at rest: drivers report 0, or 1 % for their own housekeeping.
AT_REST = 0.01


@dataclass(slots=True)
class _Memory:
    """What is remembered of one GPU.

    rested: seconds up to now in which the GPU was not used.
    slept:  seconds up to now in which its workload slept, however much the GPU was used.
    awake:  its workload was seen to run, be blocked or use the GPU well.
    """

    seen: float
    ever_busy: bool = False
    rested: float = 0.0
    slept: float = 0.0
    awake: bool = False

    def wake(self) -> None:
        """Note that the workload works, or tries to."""
        self.awake, self.slept = True, 0.0


def _utilization(before: Gpu, after: Gpu) -> float | None:
    """Share of the tick with a kernel running, 0 to 1; None without a reading."""
    observed = rise(before.observed_seconds, after.observed_seconds)
    busy = rise(before.busy_seconds, after.busy_seconds)
    if observed and busy is not None:
        return min(1.0, busy / observed)
    last = after.utilization
    if last is None or not last >= 0:
        return None
    return min(1.0, last)


def _split(dt: float, u: float, rest: State) -> dict[State, float]:
    """Seconds by state; they add up to `dt`."""
    busy = u * dt
    return {State.BUSY: busy, rest: dt - busy}


class Engine:
    """Judges ticks one after the other; reads no clock and no file.

    dropped: delay samples beyond the possible so far, by class.
    """

    def __init__(self, limits: Thresholds) -> None:
        self.limits = limits
        self._causes = Attribution(limits)
        self._gpus: dict[tuple[int, str], _Memory] = {}

    @property
    def dropped(self) -> Mapping[Delay, int]:
        """Impossible delay samples by class, counted while their GPU was looked at."""
        return dict(self._causes.dropped)

    def judge(self, before: Snapshot, after: Snapshot) -> Verdict:
        """Judge the time between two snapshots. A clock that stands still or falls gives an empty verdict."""
        dt = after.at - before.at
        if not dt > 0:
            return Verdict(after.at, 0.0, ())
        old = {(gpu.index, gpu.uuid): gpu for gpu in before.gpus}
        new = {(gpu.index, gpu.uuid): gpu for gpu in after.gpus}
        known = [key for key in new if key in old or key in self._gpus]
        # One that is not listed is unknown until it is gone for good; one just found counts from now on.
        known += [key for key in {**self._gpus, **old} if key not in new]
        observed = dt <= self.limits("gpu", "max_gap")
        if observed:
            self._causes.start(before, after, dt)
        else:
            self._causes.reset()
        verdicts = []
        for key in known:
            memory = self._gpus.setdefault(key, _Memory(before.at))
            if observed and key in old and key in new:
                verdicts.append(self._gpu(old[key], new[key], memory, dt))
            else:
                gone = GpuVerdict(*key, {State.UNKNOWN: dt}, None, None)
                verdicts.append(gone)
        if observed:
            self._causes.finish()
        self._remember(new, after.at)
        return Verdict(after.at, dt, tuple(verdicts))

    def _remember(self, present: Iterable[tuple[int, str]], at: float) -> None:
        """Note who is here; forget who was away for too long."""
        for key in present:
            self._gpus.setdefault(key, _Memory(at)).seen = at
        away = self.limits("gpu", "forget_after")
        self._gpus = {key: memory for key, memory in self._gpus.items() if at - memory.seen < away}

    def _gpu(self, before: Gpu, after: Gpu, memory: _Memory, dt: float) -> GpuVerdict:
        u = _utilization(before, after) if after.up is True else None
        if u is None:
            seconds, finding, cause = {State.UNKNOWN: dt}, None, None
        else:
            memory.ever_busy = memory.ever_busy or u >= AT_REST
            memory.rested = memory.rested + dt if u < AT_REST else 0.0
            rest, finding = self._rest(after, u, memory, dt)
            seconds = _split(dt, u, rest)
            cause = finding.cause if finding and rest is State.WAITING else None
            if not seconds[rest] > 0:
                cause = None
        evidence = finding.evidence if finding else ()
        return GpuVerdict(after.index, after.uuid, seconds, cause, u, evidence, after.workloads)

    def _rest(self, gpu: Gpu, u: float, memory: _Memory, dt: float) -> tuple[State, Finding | None]:
        """The state of the time that is not busy, and the evidence where it was looked for."""
        if gpu.in_use is False:
            memory.slept = 0.0
            return (State.IDLE if gpu.allocated else State.FREE), None
        below = u < self.limits("gpu", "utilization")
        # A good tick amid the trouble: what is active is watched on, and clears by its own signals only.
        looked = below or self._causes.was_active(gpu)
        finding = self._causes.find(gpu, starved=below) if looked else None
        if not below or finding is None:
            memory.wake()
            return State.GAP, finding
        return (State.IDLE if self._asleep(gpu, memory, finding, dt) else State.WAITING), finding

    def _asleep(self, gpu: Gpu, memory: _Memory, finding: Finding, dt: float) -> bool:
        """Tell whether the GPU is held without being worked with.

        What it is used below the line is no work of a workload that sleeps: a kernel that was left to run, a
        driver that counts its own. Only a GPU that is not used at all stays idle over a burst of CPU time.
        """
        long = self.limits("gpu", "idle_after")
        at_rest = memory.rested > 0 and (memory.rested >= long or not memory.ever_busy)
        loads = [load for key in gpu.workloads if (load := self._causes.load(key)) is not None]
        known = [load for load in loads if load.cpu_known is not None]
        if not known:
            # Nothing is known of its workload: idle unless the node itself gives a reason to wait.
            return at_rest and finding.cause is Cause.UNEXPLAINED
        if any(self._alive(load) for load in known):
            memory.wake()
            return False
        memory.slept += dt
        return at_rest or memory.slept >= long or not memory.awake

    def _alive(self, load: LoadTick) -> bool:
        """Tell whether a workload runs, or is blocked in something."""
        if (load.cpu_known or 0.0) >= self.limits("gpu", "idle_cpu"):
            return True
        if sum(load.after.blocked.values()) > 0:
            return True
        limit = self.limits("gpu", "idle_pressure")
        # Not of CPUs: on a loaded node each wake-up of a sleeper that polls waits for one.
        return any((load.pressure(resource) or 0.0) >= limit for resource in ("memory", "io"))
