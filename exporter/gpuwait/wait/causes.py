"""The causes, in the order that breaks ties: one pure function each, all with one signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuwait.thresholds import Thresholds
from gpuwait.wait.causes_cpu import cpu_contention, cpu_throttling, host_cpu, host_kernel, numa_remote
from gpuwait.wait.causes_fabric import fabric
from gpuwait.wait.causes_io import disk, gpfs, lustre, nfs, writeback
from gpuwait.wait.causes_memory import compaction, reclaim, swap
from gpuwait.wait.history import History
from gpuwait.wait.tick import Tick
from gpuwait.wait.verdict import Cause, Evidence

Judge = Callable[[Tick, History, Thresholds], Evidence]

#: Every cause but `unexplained`, which is the lack of one.
CAUSES: Mapping[Cause, Judge] = {
    Cause.COMPACTION: compaction,
    Cause.RECLAIM: reclaim,
    Cause.SWAP: swap,
    Cause.WRITEBACK: writeback,
    Cause.NFS: nfs,
    Cause.LUSTRE: lustre,
    Cause.GPFS: gpfs,
    Cause.DISK: disk,
    Cause.CPU_THROTTLING: cpu_throttling,
    Cause.CPU_CONTENTION: cpu_contention,
    Cause.NUMA_REMOTE: numa_remote,
    Cause.FABRIC: fabric,
    Cause.HOST_CPU: host_cpu,
    Cause.HOST_KERNEL: host_kernel,
}

#: The host code itself is the bottleneck: only where nothing else is.
LAST_RESORT = frozenset({Cause.HOST_CPU, Cause.HOST_KERNEL})

#: Rates of the node that are learnt, and the causes during which they are not.
LEARNT: Mapping[str, frozenset[Cause]] = {
    "compact_stall": frozenset({Cause.COMPACTION}),
    "allocstall": frozenset({Cause.RECLAIM, Cause.SWAP}),
    "pswpin": frozenset({Cause.SWAP}),
    "pressure memory": frozenset({Cause.COMPACTION, Cause.RECLAIM, Cause.SWAP}),
    "pressure io": frozenset({Cause.SWAP, Cause.WRITEBACK, Cause.DISK, Cause.NFS}),
}
