"""What the sampler saw at one moment. Frozen, without behaviour; scenarios are made of the same types.

Everything cumulative is a counter as the kernel gives it, in base units;
differences are made in `wait.tick` and nowhere else. None means that the
source is not there or could not be read, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: Labels of a workload: kind, namespace, workload, container.
Key = tuple[str, str, str, str]


class WaitClass(StrEnum):
    """What a thread in state D waits for, by its wait channel."""

    NFS = "nfs"
    LUSTRE = "lustre"
    GPFS = "gpfs"
    LOCAL_IO = "local_io"
    DIRTY = "dirty_throttling"
    MMAP_LOCK = "mmap_lock"
    PAGE = "page"  # a page of some file: local disk or NFS, the channel does not say
    OTHER = "other"


class Delay(StrEnum):
    """Delay classes of taskstats (delay accounting)."""

    CPU = "cpu"
    BLKIO = "blkio"
    SWAPIN = "swapin"
    RECLAIM = "freepages"
    THRASHING = "thrashing"
    COMPACT = "compact"
    WPCOPY = "wpcopy"
    IRQ = "irq"


@dataclass(frozen=True, slots=True)
class Pressure:
    """PSI totals in seconds of one resource."""

    some: float
    full: float | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """One whole disk: operations completed and their summed seconds; seconds busy and weighted; in flight.

    reads, read_seconds: what of the first two were reads, where that is told apart; no cause needs it.
    """

    operations: int
    operation_seconds: float
    busy_seconds: float
    weighted_seconds: float
    in_flight: int
    reads: int | None = None
    read_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Nfs:
    """One NFS mount: transport sends and receives, and sums over its operations."""

    sends: int
    receives: int
    in_flight: int
    operations: int
    transmissions: int
    timeouts: int
    response_seconds: float


@dataclass(frozen=True, slots=True)
class FabricPort:
    """One InfiniBand or RoCE port: whether it is up, its rate, and errors and retransmissions so far."""

    up: bool
    bytes_per_second: float | None
    errors: int
    retransmissions: int
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """Signals of the whole node. `vmstat` holds counters by their kernel name."""

    vmstat: Mapping[str, int] = field(default_factory=dict)
    pressure: Mapping[str, Pressure] = field(default_factory=dict)
    dirty_bytes: int | None = None  # dirty and under writeback
    dirty_limit_bytes: int | None = None
    unusable_ratio: Mapping[int, float] = field(default_factory=dict)  # order 9, worst zone, by NUMA node
    settings: Mapping[str, str] = field(default_factory=dict)  # thp_enabled, thp_defrag, numa_balancing
    disks: Mapping[str, Disk] = field(default_factory=dict)
    nfs: Mapping[str, Nfs] = field(default_factory=dict)  # by mount point
    fabric: Mapping[str, FabricPort] = field(default_factory=dict)  # by device/port
    lustre_seconds: float | None = None  # summed operation time of all file systems
    lustre_operations: int | None = None
    gpfs_waiter_seconds: float | None = None  # age of the oldest waiter
    cpus: int = 1


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    up:         False where it is lost; None where the reader does not answer.
    busy_seconds, observed_seconds: integral of the driver's samples; None without them.
    utilization: last reading, 0 to 1; used where there is no integral.
    in_use:     a process holds it; None where that is not known.
    allocated:  given to a pod or job, whether or not a process runs; None where that is not known.
    workloads:  keys of the workloads whose processes hold it.
    """

    index: int
    uuid: str
    up: bool | None = True
    busy_seconds: float | None = None
    observed_seconds: float | None = None
    utilization: float | None = None
    in_use: bool | None = None
    allocated: bool | None = None
    numa_node: int | None = None
    model: str = ""
    workloads: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread's counters: CPU seconds in user and system mode, seconds in the run queue, last CPU's node.

    name: the kernel's `comm`, shown by explain only, never a label.
    """

    user_seconds: float
    system_seconds: float
    queue_seconds: float | None = None
    numa_node: int | None = None
    name: str = ""
    state: str = ""
    wait: WaitClass | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Signals of one workload: every process in its cgroup, else its process tree.

    looks:   how often its threads' states were looked at since the snapshot before.
    blocked: in how many of these looks at least one thread was blocked in each class (benign waits left out).
    delays:  seconds by class and thread group (pid), for those with delay accounting.
    covered: share of its processes whose delays are accounted (0 to 1); None where taskstats is not there.
    """

    threads: Mapping[int, Thread] = field(default_factory=dict)
    thread_count: int = 0
    looks: int = 0
    blocked: Mapping[WaitClass, int] = field(default_factory=dict)
    delays: Mapping[int, Mapping[Delay, float]] = field(default_factory=dict)
    covered: float | None = None
    pressure: Mapping[str, Pressure] = field(default_factory=dict)
    cpu_seconds: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None
    quota_cores: float | None = None
    reclaim_pages: int | None = None  # memory.stat pgscan_direct; v1: failcnt
    refaults: int | None = None  # memory.stat workingset_refault_*
    memory_by_node: Mapping[int, int] = field(default_factory=dict)  # bytes, memory.numa_stat


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment; `at` is seconds on the monotonic clock."""

    at: float
    host: Host
    gpus: tuple[Gpu, ...] = ()
    workloads: Mapping[Key, Workload] = field(default_factory=dict)
