"""Threads of GPU workloads on an invented host, then on the real one."""

import os
import subprocess  # noqa: TID251 - a process with threads to look at
import sys
import threading
import time

import pytest

from gpuwait.host import Host
from gpuwait.wait.discovery import Discovery, Watched
from gpuwait.wait.snapshot import WaitClass
from gpuwait.wait.threads import ThreadReader
from gpuwait.workload.tree import WorkloadTree

KEY = ("pod", "", "11111111-2222-3333-4444-555555555555", "abababababab")
POD = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"
SCOPE = f"{POD}/cri-containerd-{'ab' * 32}.scope"


class Proc:
    """An invented host; files are replaced in place, so that kept descriptors see the change."""

    def __init__(self, root):
        self.root = root
        self.now = 1000.0
        self.host = Host(f"{root}/proc", f"{root}/sys", str(root))

    def write(self, path, text):
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def thread(self, pid, tid, state="S", run=1000, queue=0, user=0, system=0, cpu=0, wchan="0", parent=1):
        """A thread as it is now; `run` is what tells whether it ran since."""
        base = f"proc/{pid}/task/{tid}"
        columns = [state, parent, 0, 0, 0, 0, 0, 0, 0, 0, 0, user, system, 0, 0, 20, 0, 1, 0, 5000, 0, 0, 0]
        columns += [0] * 13 + [cpu, 0, 0]
        text = f"{tid} (python) {' '.join(map(str, columns))}\n"
        self.write(f"{base}/stat", text)
        self.write(f"{base}/schedstat", f"{run} {queue} 7\n")
        self.write(f"{base}/wchan", wchan)
        if pid == tid:
            self.write(f"proc/{pid}/stat", text)

    def clock(self):
        return self.now

    def reader(self, *threads, files=100, most=4096, holders=()):
        reader = ThreadReader(self.host, files, self.clock, most)
        reader.choose([Watched(KEY, None, holders, sorted({p for p, _ in threads}), list(threads))])
        return reader


@pytest.fixture
def proc(tmp_path):
    found = Proc(tmp_path)
    found.write("sys/devices/system/node/node0/cpulist", "0-1\n")
    found.write("sys/devices/system/node/node1/cpulist", "2-3\n")
    return found


def test_counters_of_a_thread(proc):
    """Ticks of 1/100 s and nanoseconds become seconds, the last CPU a NUMA node."""
    proc.thread(10, 11, user=150, system=25, queue=2_500_000_000, cpu=3)
    reader = proc.reader((10, 11))
    assert not reader.read(())
    threads, count, looks, blocked = reader.take(KEY)
    thread = threads[11]
    assert (thread.user_seconds, thread.system_seconds, thread.queue_seconds) == (1.5, 0.25, 2.5)
    assert (thread.numa_node, thread.name, thread.state, thread.wait) == (1, "python", "S", None)
    assert (count, looks, blocked) == (1, 1, {})


@pytest.mark.parametrize("files", [100, 0])
def test_a_thread_that_did_not_run_is_as_it_was(proc, files):
    """Its stat is not read again until its schedstat changes, whether or not that is kept open."""
    proc.thread(10, 11, user=100)
    reader = proc.reader((10, 11), files=files)
    reader.read(())
    first = reader.take(KEY)[0][11]
    proc.thread(10, 11, user=999)
    reader.read(())
    assert reader.take(KEY)[0][11] is first
    proc.thread(10, 11, user=999, run=2000)
    reader.read(())
    assert reader.take(KEY)[0][11].user_seconds == 9.99


def test_a_running_thread_is_always_read(proc):
    """The kernel updates schedstat of a running thread late."""
    proc.thread(10, 11, state="R", user=100)
    reader = proc.reader((10, 11))
    reader.read(())
    proc.thread(10, 11, state="R", user=200)
    reader.read(())
    assert reader.take(KEY)[0][11].user_seconds == 2.0


def test_blocked_looks_are_counted_by_class(proc):
    """A look counts once for a class, however many threads are in it, and anew after each snapshot."""
    proc.thread(10, 10, state="D", wchan="rpc_wait_bit_killable")
    proc.thread(10, 11, state="D", wchan="rpc_wait_bit_killable")
    proc.thread(10, 12, state="D", wchan="kernel_clone")
    reader = proc.reader((10, 10), (10, 11), (10, 12))
    for _ in range(3):
        reader.read({KEY}, whole=False)
    proc.thread(10, 10, state="R", run=2000)
    proc.thread(10, 11, state="D", wchan="__iomap_dio_rw", run=2000)
    reader.read({KEY})
    threads, _, looks, blocked = reader.take(KEY)
    assert looks == 4
    assert blocked == {WaitClass.NFS: 3, WaitClass.LOCAL_IO: 1}
    assert threads[11].wait is WaitClass.LOCAL_IO
    assert threads[12].wait is None
    assert reader.take(KEY)[2:] == (0, {})


def test_looks_leave_out_who_sleeps(proc):
    """A thread quiet for ten passes is not read in a look; a blocked one is, however long it is blocked."""
    proc.thread(10, 10, state="D", wchan="rpc_wait_bit_killable")
    proc.thread(10, 11)
    reader = proc.reader((10, 10), (10, 11))
    for _ in range(12):
        reader.read({KEY})
    reader.take(KEY)
    proc.thread(10, 11, state="D", wchan="rpc_wait_bit_killable", run=3000)
    reader.read({KEY}, whole=False)
    threads, _, looks, blocked = reader.take(KEY)
    assert (looks, blocked) == (1, {WaitClass.NFS: 1})
    assert threads[11].state == "S"
    reader.read({KEY})
    assert reader.take(KEY)[0][11].state == "D"


def test_sleepers_of_a_busy_gpu_are_read_every_fourth_time(proc):
    """A thread that wakes after a long sleep is seen within four passes."""
    proc.thread(10, 11)
    reader = proc.reader((10, 11))
    for _ in range(11):
        reader.read(())
    proc.thread(10, 11, user=70, run=9000)
    for _ in range(4):
        reader.read(())
    assert reader.take(KEY)[0][11].user_seconds == 0.7


def test_hidden_wait_channels(proc):
    """Five blocked threads that all read 0 and none with a name: nothing is said of classes."""
    for tid in range(10, 15):
        proc.thread(10, tid, state="D")
    reader = proc.reader(*((10, tid) for tid in range(10, 15)))
    reader.read(())
    assert "CAP_SYS_PTRACE" in reader.hidden
    assert reader.take(KEY)[2:] == (0, {})  # nobody could look, as against looks that found nothing
    proc.thread(10, 10, state="D", wchan="folio_wait_bit_common", run=2)
    reader.read(())
    assert reader.hidden == ""
    assert reader.take(KEY)[3] == {WaitClass.PAGE: 1}


def test_about_to_sleep(proc):
    """Blocked without a name yet, a thread is in what it was in when it last had one."""
    proc.thread(10, 11, state="D", wchan="__iomap_dio_rw")
    reader = proc.reader((10, 11))
    reader.read(())
    proc.thread(10, 11, state="D", run=2)
    reader.read(())
    assert reader.take(KEY)[2:] == (2, {WaitClass.LOCAL_IO: 2})


def test_a_process_that_ends_is_told(proc):
    """Its threads are gone; the end of a single thread is no reason to look for processes."""
    proc.thread(10, 10)
    proc.thread(10, 11)
    reader = proc.reader((10, 10), (10, 11), files=0)
    assert not reader.read(())
    for name in ("stat", "schedstat"):
        (proc.root / f"proc/10/task/11/{name}").unlink()
    proc.thread(10, 10, run=2)
    assert not reader.read({KEY})
    assert list(reader.take(KEY)[0]) == [10]
    for name in ("stat", "schedstat"):
        (proc.root / f"proc/10/task/10/{name}").unlink()
    assert reader.read({KEY})


def test_without_schedstat(proc):
    """A kernel without CONFIG_SCHED_INFO gives everything but the run queue."""
    proc.thread(10, 11, user=100)
    (proc.root / "proc/10/task/11/schedstat").unlink()
    reader = proc.reader((10, 11))
    reader.read(())
    thread = reader.take(KEY)[0][11]
    assert (thread.user_seconds, thread.queue_seconds) == (1.0, None)


def test_few_descriptors(proc):
    """Beyond the limit files are opened for each reading, and all are closed at the end."""
    for tid in range(10, 20):
        proc.thread(10, tid)
    reader = proc.reader(*((10, tid) for tid in range(10, 20)), files=4)
    for _ in range(3):
        reader.read(())
    assert reader.open == 4
    assert len(reader.take(KEY)[0]) == 10
    reader.close()
    assert reader.open == 0


def test_too_many_threads_are_sampled_in_turn(proc):
    """The holder of the GPU is always there, each of the others at some time; the rest is counted."""
    everyone = [(10, 10), *((10, tid) for tid in range(100, 130))]
    for pid, tid in everyone:
        proc.thread(pid, tid)
    watched = Watched(KEY, None, (10,), [10], everyone)
    reader = proc.reader(*everyone, most=11, holders=(10,))
    seen = set()
    for turn in range(6):
        proc.now = 1000.0 + turn * 10
        reader.choose([watched])
        reader.read(())
        threads, count, _, _ = reader.take(KEY)
        assert len(threads) == 11
        assert 10 in threads
        assert count == 31
        assert reader.skipped == 20
        seen |= threads.keys()
    assert seen == {tid for _, tid in everyone}


def test_small_workloads_are_not_crowded_out(proc):
    """A workload with few threads keeps all of them beside one with thousands."""
    small = Watched(("slurm", "", "77", "0"), None, (), [1], [(1, tid) for tid in range(1, 4)])
    large = Watched(KEY, None, (), [10], [(10, tid) for tid in range(10, 60)])
    for watched in (small, large):
        for pid, tid in watched.threads:
            proc.thread(pid, tid)
    reader = ThreadReader(proc.host, 100, proc.clock, 20)
    reader.choose([large, small])
    reader.read(())
    assert len(reader.take(small.key)[0]) == 3
    assert len(reader.take(KEY)[0]) == 17


@pytest.fixture
def pod(proc):
    """A container with a trainer and a loader, and a session's process with a child and a grandchild."""
    proc.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    proc.write(f"sys/fs/cgroup/{SCOPE}/cgroup.procs", "100\n101\n")
    for pid, parent in ((100, 1), (101, 100), (200, 50), (201, 200), (202, 201), (50, 1)):
        proc.thread(pid, pid, parent=parent)
        proc.write(f"proc/{pid}/cgroup", f"0::/{SCOPE}\n" if pid < 200 else "0::/user.slice/a.scope\n")
    proc.thread(100, 105)
    return proc


def test_a_cgroup_and_a_process_tree(pod):
    """The cgroup's processes with all threads; without one of its own a process and its descendants."""
    found = Discovery(pod.host, WorkloadTree(pod.host, pod.clock), pod.clock)
    assert found.update({100, 200})
    alone = ("other", "", "process 200", "")
    assert set(found.workloads) == {KEY, alone}
    assert found.workloads[KEY].pids == [100, 101]
    assert sorted(found.workloads[KEY].threads) == [(100, 100), (100, 105), (101, 101)]
    assert found.workloads[KEY].group is not None
    assert found.workloads[alone].pids == [200, 201, 202]
    assert found.key_of(200) == alone
    assert found.key_of(100) == KEY
    assert found.key_of(999) is None


def test_holders_below_one_another_are_one_workload(pod):
    """A process that holds a GPU and whose ancestor does too belongs to that one."""
    found = Discovery(pod.host, None, pod.clock)
    found.update({200, 202})
    assert list(found.workloads) == [("other", "", "process 200", "")]
    assert found.workloads["other", "", "process 200", ""].holders == (200, 202)


def test_when_it_looks(pod):
    """At once for a new holder, soon after an end, else every 10 s."""
    found = Discovery(pod.host, None, pod.clock)
    assert found.update({100})
    pod.now += 2
    assert not found.update({100})
    assert found.update({100, 200})
    found.vanished()
    pod.now += 2
    assert not found.update({100, 200})
    pod.now += 1
    assert found.update({100, 200})
    pod.now += 9
    assert not found.update({100, 200})
    pod.now += 1
    assert found.update({100, 200})


def test_a_holder_that_is_gone(pod):
    """A process id without a directory, as of another namespace, is no workload."""
    found = Discovery(pod.host, WorkloadTree(pod.host, pod.clock), pod.clock)
    found.update({999})
    assert found.workloads == {}


@pytest.mark.root
def test_the_real_kernel():
    """A child of this process that computes has user time, and its sleeping thread has none."""
    sleeper = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    code = f"import threading, time\n{sleeper}\nwhile 1: pass"
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.3)
        found = Discovery(Host(), None, time.monotonic)
        found.update({child.pid})
        (key,) = found.workloads
        reader = ThreadReader(Host(), 50, time.monotonic)
        reader.choose(found.workloads.values())
        reader.read({key})
        before, count, _, _ = reader.take(key)
        time.sleep(0.5)
        reader.read({key})
        after = reader.take(key)[0]
        assert count == 2
        worked = {
            tid: t.user_seconds + t.system_seconds - before[tid].user_seconds for tid, t in after.items()
        }
        assert worked.pop(child.pid) > 0.1
        assert all(seconds < 0.1 for seconds in worked.values())
        assert after[child.pid].numa_node == 0
    finally:
        child.kill()
        child.wait()
    assert reader.read({key})
    reader.close()


def test_this_process_has_its_threads():
    """Without any privilege: our own threads, on the real proc file system."""
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    try:
        found = Discovery(Host(), None, time.monotonic)
        found.update({os.getpid()})
        (key,) = found.workloads
        reader = ThreadReader(Host(), 10, time.monotonic)
        reader.choose(found.workloads.values())
        reader.read(())
        assert thread.native_id in reader.take(key)[0]
        reader.close()
    finally:
        event.set()
        thread.join()
