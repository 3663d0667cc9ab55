"""Workloads that hold a GPU, found from the processes the driver reports."""

from types import SimpleNamespace

import pytest

from gpuwait.collector import Reason
from gpuwait.collectors import cgroup, workload
from gpuwait.kernel.process import parse_open_files_limit, parse_threads
from gpuwait.wait.snapshot import Host, Snapshot, Thread, WaitClass, Workload
from gpuwait.workload.tree import WorkloadTree

POD = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"
ID = "ab" * 32
SCOPE = f"{POD}/cri-containerd-{ID}.scope"
LABELS = ("pod", "", "11111111-2222-3333-4444-555555555555", "abababababab")
LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n"


class Reader:
    """The GPU client's view: these processes hold a GPU."""

    def __init__(self, *pids):
        device = SimpleNamespace(processes=tuple(SimpleNamespace(pid=p) for p in pids))
        self.snapshot = SimpleNamespace(devices=(device,))

    def latest(self):
        return self


def process(pid, threads, files, limit="1024"):
    written = {
        f"proc/{pid}/cgroup": f"0::/{SCOPE}\n",
        f"proc/{pid}/status": f"Name:\tpython\nThreads:\t{threads}\n",
        f"proc/{pid}/limits": f"{LIMITS}Max open files            {limit}         4096         files\n",
    }
    return written | {f"proc/{pid}/fd/{n}": "" for n in range(files)}


def sources(tree, *pids):
    found = tree.sources(gpu=Reader(*pids))
    found.workloads = WorkloadTree(found.host, found.clock)
    found.workloads.groups()
    return found


@pytest.fixture
def pod(tree):
    """A container with a trainer that holds a GPU, a loader in it, and a loader in a group inside."""
    tree.write(
        {"sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}
        | {f"sys/fs/cgroup/{SCOPE}/cgroup.procs": "100\n101\n"}
        | {f"sys/fs/cgroup/{SCOPE}/inner/cgroup.procs": "102\n"}
        | {
            f"sys/fs/cgroup/{SCOPE}/cpu.stat": "usage_usec 5\n",
            f"sys/fs/cgroup/{POD}/cpu.stat": "usage_usec 9\n",
        }
        | {"sys/fs/cgroup/system.slice/a.service/cpu.stat": "usage_usec 1\n"}
        | process(100, 40, 10)
        | process(101, 2, 30, "64")
        | process(102, 3, 900, "unlimited")
    )
    return tree


def test_every_process_of_the_cgroup_counts(pod):
    """Threads are summed over loaders that hold no GPU; the process nearest to its limit speaks for files."""
    samples, outcome = pod.run(workload.COLLECTOR, sources(pod, 100))
    assert outcome is None
    assert samples == {
        ("workload_threads", *LABELS): 45,
        ("workload_open_files", *LABELS): 30,
        ("workload_open_files_limit", *LABELS): 64,
    }


def test_a_process_that_ended_is_skipped(pod):
    """A pid in cgroup.procs without a directory in proc costs nothing."""
    pod.write({f"sys/fs/cgroup/{SCOPE}/cgroup.procs": "100\n999\n\nx\n0\n"})
    samples, _ = pod.run(workload.COLLECTOR, sources(pod, 100))
    assert samples["workload_threads", *LABELS] == 43


def test_no_gpu_no_workload(pod):
    """Nothing is looked at where no process holds a GPU."""
    assert pod.run(workload.COLLECTOR, sources(pod)) == ({}, None)
    assert pod.run(workload.COLLECTOR, pod.sources()) == ({}, None)


def test_closed_descriptor_lists_are_said(pod, monkeypatch):
    """Without the capability threads remain, and the reason is no_permission."""

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpuwait.workload.gpu_users.names", refuse)
    samples, outcome = pod.run(workload.COLLECTOR, sources(pod, 100))
    assert samples == {("workload_threads", *LABELS): 45}
    assert outcome == Reason.NO_PERMISSION


def test_the_info_series_says_who_holds_a_gpu(pod):
    """The container and its pod hold one, the service does not; those that hold one come first."""
    samples, _ = pod.run(cgroup.COLLECTOR, sources(pod, 101))
    holds = {key[3]: [] for key in samples if key[0] == "workload_info"}
    for key in samples:
        if key[0] == "workload_info":
            holds[key[3]].append((key[4], key[8]))
    assert holds == {
        LABELS[2]: [("", "true"), (LABELS[3], "true")],
        "a.service": [("", "false")],
    }


@pytest.mark.parametrize("text", ["", "Threads:", "Threads:\tx", "Threads:\t-1", "Threads:\t99999999999"])
def test_threads_absent(text):
    """No line or no number is absence."""
    assert parse_threads(text) is None


@pytest.mark.parametrize(
    "text", ["", "Max open files", "Max open files   unlimited  unlimited files", "nothing"]
)
def test_limit_absent(text):
    """No line, or no limit, is absence."""
    assert parse_open_files_limit(text) is None


def test_blocked_threads_of_the_last_look(pod):
    """Threads in state D by the sampler; a sample of them, hidden wait channels, or no cgroup, give none."""
    waits = Thread(0.0, 0.0, state="D", wait=WaitClass.NFS)
    loads = {
        LABELS: Workload(
            threads={1: waits, 2: waits, 3: Thread(1.0, 0.0, state="R")}, thread_count=3, looks=1
        ),
        ("slurm", "", "7", "0"): Workload(threads={4: waits}, thread_count=5000, looks=1),
        ("other", "", "process 41", ""): Workload(threads={5: waits}, thread_count=1, looks=1),
        ("slurm", "", "8", "0"): Workload(threads={6: waits}, thread_count=1, looks=0),
    }
    found = sources(pod)
    found.wait = SimpleNamespace(snapshot=Snapshot(1.0, Host(), (), loads))
    samples, _ = pod.run(workload.COLLECTOR, found)
    assert samples == {("workload_blocked_threads", *LABELS): 2}


def test_a_sum_over_too_many_processes_is_none(pod, monkeypatch):
    """Where not every process is looked at there is no sum of threads."""
    monkeypatch.setattr(workload, "MOST_PROCESSES", 3)
    samples, _ = pod.run(workload.COLLECTOR, sources(pod, 100))
    assert ("workload_threads", *LABELS) not in samples
