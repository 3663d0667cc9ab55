"""Workloads that hold a GPU: threads, and how near their processes are to the limit of open files."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.host import Host
from gpuwait.kernel.process import parse_open_files_limit, parse_threads
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources
from gpuwait.workload.gpu_users import MOST_PROCESSES, gpu_users, open_files, processes_of

WORKLOAD = ("workload_kind", "workload_namespace", "workload", "workload_container")

THREADS = Family(
    "gpuwait_workload_threads",
    "gauge",
    "Threads of all processes of a workload that holds a GPU.",
    "/proc/PID/status Threads, of every process in the cgroup",
    WORKLOAD,
)
BLOCKED = Family(
    "gpuwait_workload_blocked_threads",
    "gauge",
    "Threads of a GPU workload that were in uninterruptible sleep (state D) at the last look.",
    "/proc/PID/task/TID/stat and wchan, by the sampler; benign waits left out",
    WORKLOAD,
)
OPEN_FILES = Family(
    "gpuwait_workload_open_files",
    "gauge",
    "Open files of that process of a GPU workload which is nearest to its limit.",
    "entries of /proc/PID/fd",
    WORKLOAD,
)
OPEN_FILES_LIMIT = Family(
    "gpuwait_workload_open_files_limit",
    "gauge",
    "Limit of open files of the process nearest to its limit; beyond it loaders fail with EMFILE.",
    "/proc/PID/limits Max open files, soft",
    WORKLOAD,
)


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield for each workload that holds a GPU. Raises NoData where no open file may be counted."""
    refused = seen = 0
    for labels, pids in gpu_users(sources.gpu, sources.workloads).items():
        group = sources.workloads.find(labels) if sources.workloads else None
        threads, worst = 0, (0, 0)
        processes = processes_of(sources.host, group, pids)
        for pid in processes:
            seen += 1
            threads += _threads(sources.host, pid)
            try:
                files = open_files(sources.host, pid)
            except PermissionError:
                refused += 1
                continue
            limit = _limit(sources.host, pid) if files else None
            if files and limit and (not worst[1] or files / limit > worst[0] / worst[1]):
                worst = (files, limit)
        if threads and len(processes) < MOST_PROCESSES:  # beyond it the sum would lack some
            yield THREADS, labels, threads
        if worst[1]:
            yield OPEN_FILES, labels, worst[0]
            yield OPEN_FILES_LIMIT, labels, worst[1]
    yield from _blocked(sources)
    if seen and refused == seen:
        raise NoData(Reason.NO_PERMISSION, f"{sources.host.procfs}/PID/fd of GPU processes")


def _blocked(sources: Sources) -> Iterator[Sample]:
    snapshot = sources.wait.snapshot if sources.wait else None
    for key, load in snapshot.workloads.items() if snapshot else ():
        # Keys outside cgroups name a pid; and a sample of the threads is no count of them.
        # Without looks wait channels are hidden, and blocked threads look like benign ones.
        if key[0] != "other" and load.looks and 0 < load.thread_count <= len(load.threads):
            yield BLOCKED, key, sum(thread.wait is not None for thread in load.threads.values())


def _threads(host: Host, pid: int) -> int:
    return parse_threads(host.maybe_proc(f"{pid}/status") or "") or 0


def _limit(host: Host, pid: int) -> int | None:
    return parse_open_files_limit(host.maybe_proc(f"{pid}/limits") or "")


COLLECTOR = Collector(
    name="workload",
    help="Threads and open files of the workloads that hold a GPU.",
    families=(THREADS, BLOCKED, OPEN_FILES, OPEN_FILES_LIMIT),
    collect=collect,
)
