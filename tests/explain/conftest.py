"""The data set incident by hand: eight GPUs wait 62 % of a minute, and the ranks compact memory."""

import pytest

from gpuwait.wait.snapshot import Gpu, Host, Snapshot, Thread, Workload
from gpuwait.wait.verdict import Cause, Evidence, GpuVerdict, Signal, State, Verdict

KEY = ("slurm", "", "4711", "0")


def signal(name, value, threshold, unit, source, fired, group=None):
    return Signal(name, value, threshold, unit, source, fired, group or name)


COMPACTION = Evidence(
    Cause.COMPACTION,
    0.58,
    True,
    (
        signal("delay", 0.58, 0.05, "ratio", "taskstats compact_delay", True),
        signal("pressure", 0.71, 0.10, "ratio", "cgroup memory.pressure", False),
        signal("stalls", 1240.0, 2.0, "per_second", "/proc/vmstat compact_stall", True, "counter"),
    ),
)
RECLAIM = Evidence(
    Cause.RECLAIM,
    0.03,
    False,
    (
        signal("delay", 0.03, 0.05, "ratio", "taskstats freepages_delay", False),
        signal("stalls", 4.0, 2.0, "per_second", "/proc/vmstat allocstall", True, "counter"),
    ),
)
GPFS = Evidence(
    Cause.GPFS,
    0.0,
    False,
    (
        signal("blocked", 0.0, 0.10, "ratio", "/proc/PID/task/TID/{stat,wchan}", False),
        signal("waiter", 0.004, 0.5, "seconds", "GPFS waiters", False),
    ),
)
NUMA = Evidence(
    Cause.NUMA_REMOTE,
    0.0,
    False,
    (signal("faults", None, 0.5, "ratio", "/proc/vmstat numa_hint_faults", False),),
)


def verdicts(
    evidence=(COMPACTION, RECLAIM, GPFS, NUMA), *, cause=Cause.COMPACTION, seconds=None, u=0.31, n=60
):
    """Sixty ticks of eight GPUs of one job."""
    split = seconds or {State.BUSY: 0.31, State.WAITING: 0.62, State.GAP: 0.07}
    gpus = tuple(GpuVerdict(i, f"GPU-{i}", split, cause, u, evidence, (KEY,)) for i in range(8))
    return [Verdict(100.0 + tick, 1.0, gpus) for tick in range(1, n + 1)]


def snapshot(at, *, system=0.97, **host):
    """One job of eight ranks, whose threads have spent `system` of each second in the kernel."""
    threads = {
        1000 + i: Thread(at * 0.02, at * system, 0.0, i // 4, "python3", "R" if i < 4 else "S")
        for i in range(8)
    }
    gpus = tuple(Gpu(i, f"GPU-{i}", numa_node=i // 4, in_use=True, workloads=(KEY,)) for i in range(8))
    values = {
        "unusable_ratio": {0: 0.998, 1: 0.991},
        "settings": {"thp_enabled": "madvise", "thp_defrag": "madvise", "numa_balancing": "0"},
        "cpus": 128,
    } | host
    return Snapshot(at, Host(**values), gpus, {KEY: Workload(threads, 8, looks=1, covered=1.0)})


@pytest.fixture
def incident():
    """Verdicts, the last snapshot and one 10 s before."""
    return verdicts(), snapshot(160.0), snapshot(150.0)


@pytest.fixture
def make():
    """The builders themselves, for incidents that differ."""
    return verdicts, snapshot, signal
