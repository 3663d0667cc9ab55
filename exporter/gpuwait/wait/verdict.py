"""What the engine says of one tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuwait.wait.snapshot import Key


class State(StrEnum):
    """Where a GPU's time goes. The states of a GPU add up to the observed time."""

    BUSY = "busy"
    GAP = "gap"
    WAITING = "waiting"
    IDLE = "idle"
    FREE = "free"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """What a GPU waits for, in the order that breaks ties."""

    COMPACTION = "compaction"
    RECLAIM = "reclaim"
    SWAP = "swap"
    WRITEBACK = "writeback"
    NFS = "nfs"
    LUSTRE = "lustre"
    GPFS = "gpfs"
    DISK = "disk"
    CPU_THROTTLING = "cpu_throttling"
    CPU_CONTENTION = "cpu_contention"
    NUMA_REMOTE = "numa_remote"
    FABRIC = "fabric"
    HOST_CPU = "host_cpu"
    HOST_KERNEL = "host_kernel"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure that speaks for a cause.

    name:      of its threshold in `thresholds.DEFAULTS[cause, name]`, or a fact without a number.
    value:     None where the source is not there.
    source:    the kernel file or call, as a person would look it up.
    group:     two fired signals of different groups make a cause; those of one group are one observation.
    """

    name: str
    value: float | None
    threshold: float | None
    unit: str
    source: str
    fired: bool
    group: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for one cause in one tick.

    share:  of the tick that the workload lost to it, 0 to 1.
    active: two independent signals fired, or it was active before and has not cleared.
    detail: what it concerns (a mount point, a device, a port), for people; never a label.
    """

    cause: Cause
    share: float
    active: bool
    signals: tuple[Signal, ...]
    detail: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the signals whose source is not there."""
        return tuple(signal.name for signal in self.signals if signal.value is None)


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """One GPU in one tick.

    seconds:  of the tick by state; they add up to `dt` of the verdict.
    cause:    of the waiting seconds, None where there are none.
    evidence: of every cause that was looked at, strongest first.
    """

    index: int
    uuid: str
    seconds: Mapping[State, float]
    cause: Cause | None
    utilization: float | None
    evidence: tuple[Evidence, ...] = ()
    workloads: tuple[Key, ...] = ()

    @property
    def state(self) -> State:
        """The state that is not busy and has most of the rest, else busy."""
        rest = {state: s for state, s in self.seconds.items() if state is not State.BUSY and s > 0}
        return max(rest, key=lambda s: rest[s]) if rest else State.BUSY


@dataclass(frozen=True, slots=True)
class Verdict:
    """All GPUs in one tick that ended at `at` (monotonic seconds) and lasted `dt` seconds."""

    at: float
    dt: float
    gpus: tuple[GpuVerdict, ...]
