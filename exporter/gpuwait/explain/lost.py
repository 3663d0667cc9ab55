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
_COUNTERS = ("compaction stalls", "reclaim stalls", "swap pages", "writeback dirty", "numa_remote faults")
_DISK = ("disk busy", "disk latency", "disk queue")
_NFS = ("nfs missing", "nfs response", "nfs busy", "nfs lost")
_FABRIC = ("fabric errors", "fabric retransmissions", "fabric link")
_THREADS = ("cpu_contention queue", "numa_remote threads", "host_cpu thread", "host_kernel thread")
_CGROUP = (
    "reclaim pages",
    "cpu_throttling periods",
    "cpu_throttling time",
    "numa_remote memory",
    "host_cpu group",
    "host_kernel group",
    "pressure of the workload",
)
_HOST_PROC = "run gpuwait as root, with the host's /proc and /sys (--path.procfs, --path.sysfs)"
_SAY_MORE = "gpuwait serve --log.level=debug shows where it fails"

#: Source, as the sampler names it -> the signals that it feeds, and what brings them. Taskstats, pressure
#: and wait channels come first and are told by `_lost` itself.
_SOURCES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "gpus": (("every GPU", "every verdict"), f"see gpuwait check; {_SAY_MORE}"),
    "host": (("every signal of the node",), _SAY_MORE),
    "processes": (("which workload holds which GPU", "the workload's own signals"), _HOST_PROC),
    "threads": ((*_BLOCKED, *_THREADS), _HOST_PROC),
    "workloads": (("the workload's own signals",), _SAY_MORE),
    "cgroup": (_CGROUP, "run gpuwait with the host's /sys/fs/cgroup visible (--path.sysfs)"),
    "vmstat": (_COUNTERS, _HOST_PROC),
    "diskstats": (_DISK, _HOST_PROC),
    "nfs": (
        _NFS,
        "run gpuwait as root or with CAP_DAC_READ_SEARCH in the host's process namespace; where the file "
        "does not answer, a mount hangs: dmesg | grep -i nfs",
    ),
    "lustre": (("lustre busy",), "run gpuwait as root: /sys/kernel/debug is closed to others"),
    "gpfs": (("gpfs waiter",), "run gpuwait as root with --collector.gpfs"),
    "fabric": (_FABRIC, _HOST_PROC),
    "buddyinfo": (("free blocks for huge pages (told with compaction)",), _HOST_PROC),
    "settings": (("settings of huge pages and NUMA balancing",), _HOST_PROC),
    "cpus": (("number of CPUs", "cpu_throttling time"), _HOST_PROC),
}


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
    if not snapshot.host.pressure or "pressure" in reasons:
        yield Lost(
            _PRESSURE,
            printable(reasons.get("pressure") or "the kernel gives no pressure figures (PSI)"),
            "boot with psi=1 on the kernel command line",
        )
    if "wchan" in reasons:
        yield Lost(_BLOCKED, printable(reasons["wchan"]), "run gpuwait as root or with CAP_SYS_PTRACE")
    yield from _sources(reasons)
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


def _sources(reasons: Mapping[str, str]) -> Iterator[Lost]:
    """What other sources feed; of one that is not listed, at least that it fails."""
    for name, (signals, enable) in _SOURCES.items():
        if name in reasons:
            yield Lost(signals, printable(reasons[name]), enable)
    for name in sorted(reasons.keys() - _SOURCES.keys() - {"taskstats", "pressure", "wchan"}):
        yield Lost((f"what {printable(name, 32)} tells",), printable(reasons[name]), _SAY_MORE)


def _coverage(snapshot: Snapshot) -> Iterator[Lost]:
    shares = [load.covered for load in snapshot.workloads.values() if load.covered is not None]
    if shares and min(shares) < 0.99:
        yield Lost(
            _DELAYS,
            f"delay accounting covers {percent(min(shares))} of a workload's processes: those that started "
            "after it was switched on",
            "start the job again with kernel.task_delayacct=1 already set",
        )
