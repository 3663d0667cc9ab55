"""Signals that are not there, and what would bring them. Where nothing is lost nothing is said. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuwait.explain.model import Lost
from gpuwait.explain.wording import percent, printable, ranges
from gpuwait.wait.snapshot import Snapshot

_DELAYS = ("compaction delay", "reclaim delay", "swap delay")
_BLOCKED = ("writeback blocked", "nfs blocked", "lustre blocked", "gpfs blocked", "disk blocked")
_PRESSURE = (
    "compaction pressure",
    "reclaim pressure",
    "swap pressure",
    "writeback pressure",
    "disk pressure",
    "cpu_contention pressure",
)


def lost(snapshot: Snapshot, reasons: Mapping[str, str]) -> tuple[Lost, ...]:
    """What this node could tell and does not. `reasons`: of the sampler, by source."""
    return tuple(_lost(snapshot, reasons))


def _lost(snapshot: Snapshot, reasons: Mapping[str, str]) -> Iterator[Lost]:
    if "taskstats" in reasons:
        yield Lost(
            _DELAYS,
            printable(reasons["taskstats"]),
            "sysctl -w kernel.task_delayacct=1 before the job starts; run gpuwait as root or with "
            "CAP_NET_ADMIN in the host's process namespace",
        )
    else:
        yield from _coverage(snapshot)
    if not snapshot.host.pressure:
        yield Lost(
            _PRESSURE,
            "the kernel gives no pressure figures (PSI)",
            "boot with psi=1 on the kernel command line",
        )
    if "wchan" in reasons:
        yield Lost(_BLOCKED, printable(reasons["wchan"]), "run gpuwait as root or with CAP_SYS_PTRACE")
    nodes = {gpu.numa_node for gpu in snapshot.gpus if gpu.numa_node is not None and gpu.numa_node >= 0}
    if snapshot.host.settings.get("numa_balancing") == "0" and len(nodes) > 1:
        yield Lost(
            ("numa_remote faults",),
            "remote accesses are sampled only while automatic NUMA balancing is on; where threads run and "
            "memory lies is told without it",
            "for the time of a search, since it slows the workload: sysctl -w kernel.numa_balancing=1",
        )
    hidden = [gpu.index for gpu in snapshot.gpus if gpu.in_use and not gpu.workloads]
    if hidden:
        yield Lost(
            ("the workload's own signals",),
            f"GPU {ranges(hidden)} in use, and its processes cannot be seen from here",
            "run gpuwait in the host's process namespace (Kubernetes: hostPID: true)",
        )


def _coverage(snapshot: Snapshot) -> Iterator[Lost]:
    shares = [load.covered for load in snapshot.workloads.values() if load.covered is not None]
    if shares and min(shares) < 0.99:
        yield Lost(
            _DELAYS,
            f"delay accounting covers {percent(min(shares))} of a workload's processes: those that started "
            "after it was switched on",
            "start the job again with kernel.task_delayacct=1 already set",
        )
