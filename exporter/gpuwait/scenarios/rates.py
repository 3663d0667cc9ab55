"""What happens on the example node in one second; scenarios change single figures of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwait.wait.snapshot import Delay, Key, WaitClass

GIB = 1 << 30

#: The workload that each story is about holds GPUs 0 to 3, its neighbour GPUs 4 to 7.
STORY: Key = ("pod", "research", "train-0", "main")
NEIGHBOUR: Key = ("pod", "serving", "llm-0", "server")

RANKS = (4101, 4102, 4103, 4104)
LOADERS = tuple(range(4201, 4217))
SLEEPERS = tuple(range(4301, 4313))


@dataclass(slots=True)
class ThreadRate:
    """One thread: seconds per second in user mode, kernel and run queue; its node and its wait."""

    name: str
    user: float = 0.0
    system: float = 0.0
    queue: float = 0.002
    numa_node: int = 0
    state: str = "S"
    wait: WaitClass | None = None


@dataclass(slots=True)
class DiskRate:
    """One disk: operations per second, mean seconds of one, share of time with any in flight; of reads."""

    operations: float
    latency: float
    busy: float
    reads: float = 1.0


@dataclass(slots=True)
class NfsRate:
    """One mount: requests and answers per second, mean response in seconds, retransmissions and timeouts."""

    sends: float
    answers: float
    response: float
    lost: float = 0.0


@dataclass(slots=True)
class PortRate:
    """One fabric port: state, bytes per second, errors and retransmissions per second."""

    up: bool = True
    bytes_per_second: float = 50e9
    errors: float = 0.0
    retransmissions: float = 0.0
    numa_node: int = 0


@dataclass(slots=True)
class LoadRate:
    """One workload. `blocked`: share of the looks by class; `delays`: seconds per second by process."""

    threads: dict[int, ThreadRate]
    blocked: dict[WaitClass, float] = field(default_factory=dict)
    delays: dict[int, dict[Delay, float]] = field(default_factory=dict)
    covered: float | None = 1.0
    pressure: dict[str, float] = field(default_factory=lambda: {"memory": 0.001, "io": 0.01, "cpu": 0.006})
    throttled: float = 0.0  # share of periods
    throttled_seconds: float = 0.0  # summed over CPUs
    quota_cores: float | None = None
    reclaim_pages: float = 0.0
    refaults: float = 3.0
    memory_by_node: dict[int, int] = field(default_factory=lambda: {0: 180 * GIB, 1: 20 * GIB})


@dataclass(slots=True)
class Rates:
    """One second of the node."""

    use: dict[int, float]
    story: LoadRate
    neighbour: LoadRate
    vmstat: dict[str, float]
    pressure: dict[str, float]
    disks: dict[str, DiskRate]
    nfs: dict[str, NfsRate]
    fabric: dict[str, PortRate]
    dirty: float = 0.04  # of the limit, with what is being written
    writeback: float = 0.1  # part of it that is being written
    unusable: dict[int, float] = field(default_factory=lambda: {0: 0.22, 1: 0.18})
    settings: dict[str, str] = field(
        default_factory=lambda: {"thp_enabled": "madvise", "thp_defrag": "madvise", "numa_balancing": "0"}
    )
    lustre: float | None = None  # seconds of operations per second
    gpfs: float | None = None  # age of the oldest waiter
    in_use: bool = True


def wobble(second: int, salt: int) -> float:
    """Noise between -1 and 1 that is the same in every run."""
    return ((second * 7919 + salt * 104729 + second * second * 31) % 2001) / 1000 - 1


def _threads(second: int) -> dict[int, ThreadRate]:
    """Four ranks, sixteen loaders that do their share, and threads that sleep."""
    threads = {tid: ThreadRate("pt_main_thread", 0.58 + 0.05 * wobble(second, tid), 0.12) for tid in RANKS}
    for tid in LOADERS:
        threads[tid] = ThreadRate("pt_data_worker", 0.32 + 0.1 * wobble(second, tid), 0.06, 0.004)
    for tid in SLEEPERS:
        threads[tid] = ThreadRate("pt_pin_memory", 0.004, 0.001, 0.0)
    return threads


def _serving() -> LoadRate:
    threads = {5101 + i: ThreadRate("vllm", 0.7, 0.1, 0.01, 1) for i in range(4)}
    return LoadRate(threads, memory_by_node={1: 90 * GIB, 0: 5 * GIB})


def usual(second: int) -> Rates:
    """Make one second of a busy, healthy node, with the noise that must not be taken for a cause.

    Other pods keep the CPUs under pressure and a disk at 40 ms; the local flash is never idle; for 20 s of
    each minute a neighbour compacts memory; all GPUs are at 95 %.
    """
    compacts = second % 60 >= 40
    return Rates(
        use={i: min(1.0, 0.95 + 0.04 * wobble(second, i)) for i in range(8)},
        story=LoadRate(_threads(second)),
        neighbour=_serving(),
        vmstat={
            "compact_stall": 45.0 if compacts else 0.0,
            "compact_fail": 20.0 if compacts else 0.0,
            "allocstall_normal": 0.0,
            "allocstall_movable": 6.0 if compacts else 0.0,
            "pswpin": 0.0,
            "pgfault": 60_000.0,
            "numa_hint_faults": 0.0,
            "numa_hint_faults_local": 0.0,
        },
        pressure={"memory": 0.18 if compacts else 0.01, "io": 0.35, "cpu": 0.30 + 0.1 * wobble(second, 11)},
        disks={
            "nvme0n1": DiskRate(11_000 + 900 * wobble(second, 12), 0.00009, 0.98),
            "sda": DiskRate(140, 0.040, 0.85),
        },
        nfs={
            "/data": NfsRate(900, 900, 0.0012),
            "/home": NfsRate(3, 3, 0.002),
        },
        fabric={f"mlx5_{i}/1": PortRate(numa_node=i // 4) for i in range(8)},
    )


def starve(rates: Rates, use: float, loaders: float = 0.04) -> None:
    """The GPUs of the story fall to `use`; its ranks and loaders hardly run."""
    for i in range(4):
        rates.use[i] = use
    for tid in RANKS:
        rates.story.threads[tid].user, rates.story.threads[tid].system = 0.10, 0.02
    for tid in LOADERS:
        rates.story.threads[tid].user, rates.story.threads[tid].system = loaders, loaders / 4


def block(rates: Rates, kind: WaitClass, share: float) -> None:
    """Loaders are blocked in this wait, seen in that share of the looks."""
    rates.story.blocked[kind] = share
    for tid in LOADERS[: max(1, round(share * len(LOADERS)))]:
        thread = rates.story.threads[tid]
        thread.state, thread.wait = "D", kind
