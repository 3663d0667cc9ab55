"""The sampler: its grid, its endurance, and an invented host through all readers."""

import gc
import logging
import os
import random
import threading
from types import SimpleNamespace

import pytest

from gpuwait.gpu.protocol import GpuReading, Process
from gpuwait.host import Host as Paths
from gpuwait.sources import Sources
from gpuwait.thresholds import Thresholds
from gpuwait.wait.delays import DelayClient
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.live import RECENT, Live
from gpuwait.wait.observer import Observer
from gpuwait.wait.sampler import Sampler
from gpuwait.wait.snapshot import Gpu, Host, Snapshot
from gpuwait.wait.verdict import State
from gpuwait.workload.tree import WorkloadTree

KEY = ("pod", "", "11111111-2222-3333-4444-555555555555", "abababababab")
POD = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"
SCOPE = f"{POD}/cri-containerd-{'ab' * 32}.scope"


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self, end=10.0):
        self.now, self.end = 0.0, end

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        return self.now >= self.end


class Script:
    """An observer that returns GPUs with this utilisation and takes some time."""

    skipped = 0
    reading = 1.0
    at = "/proc/1/mountstats"

    def __init__(self, clock, utilization=0.95, takes=None):
        self.clock, self.utilization, self.takes = clock, utilization, takes or {}
        self.ticks, self.looks, self.stopped = [], [], False
        self.reasons = {"wchan": "hidden"}

    def snapshot(self, urgent=()):
        self.ticks.append((round(self.clock.now, 3), set(urgent)))
        self.clock.now += self.takes.get(len(self.ticks), 0.0)
        gpu = Gpu(0, "GPU-a", utilization=self.utilization, in_use=True, workloads=(KEY,))
        return Snapshot(self.clock.now, Host(), (gpu,))

    def starved(self, line):
        return {KEY} if self.reading < line else set()

    def look(self, urgent):
        self.looks.append((round(self.clock.now, 3), set(urgent)))

    def stop(self):
        self.stopped = True


def build(clock, observer, engine=None):
    limits, ledger = Thresholds(), Ledger()
    live = Live(ledger, limits)
    sources = Sources(Paths("/nowhere", "/nowhere"), clock=clock)
    engine = engine or Engine(limits)
    return Sampler(sources, engine, ledger, live, observer=observer, pause=clock.sleep), live


def test_one_tick_a_second():
    """Ticks lie on the grid, and a busy GPU's threads are looked at once in each."""
    clock = Clock(5)
    observer = Script(clock)
    sampler, live = build(clock, observer)
    sampler.run()
    assert [at for at, _ in observer.ticks] == [0, 1, 2, 3, 4]
    assert observer.looks == []
    assert (live.ticks, live.lag_seconds) == (5, 0)
    assert live.ledger.sums().gpus[0, "GPU-a"].states[State.BUSY] == pytest.approx(4 * 0.95)
    assert live.reasons == {"wchan": "hidden"}
    assert live.cpu_seconds > 0


def test_a_gpu_below_the_line_is_looked_at_four_times():
    """From the first verdict on: three looks between two ticks, and the tick's own."""
    clock = Clock(3)
    observer = Script(clock, 0.3)
    sampler, _ = build(clock, observer)
    sampler.run()
    assert observer.looks == [(t, {KEY}) for t in (1.25, 1.5, 1.75, 2.25, 2.5, 2.75)]
    assert observer.ticks == [(0, set()), (1, set()), (2, {KEY})]


def test_a_new_reading_below_the_line_is_enough():
    """Before the verdict of the tick says so, threads are looked at."""
    clock = Clock(1)
    observer = Script(clock)
    observer.reading = 0.2
    sampler, _ = build(clock, observer)
    sampler.run()
    assert observer.looks == [(t, {KEY}) for t in (0.25, 0.5, 0.75)]


def test_missed_ticks_are_left_out():
    """After a tick of 2.3 s the next is at the next second, and none is made up for; the time is observed."""
    clock = Clock(7)
    observer = Script(clock, takes={2: 2.3})
    sampler, live = build(clock, observer)
    sampler.run()
    assert [at for at, _ in observer.ticks] == [0, 1, 4, 5, 6]
    live.ledger.settle()
    assert sum(live.ledger.sums().gpus[0, "GPU-a"].states.values()) == pytest.approx(6)


def test_lag_is_how_late_a_tick_began():
    """A wait that lasts too long is the lag of the next tick."""
    clock = Clock(3)
    observer = Script(clock)
    sampler, live = build(clock, observer)
    slept = clock.sleep

    def late(seconds):
        slept(seconds + (0.4 if 1.9 < clock.now + seconds < 2.1 else 0))
        return len(observer.ticks) == 3

    sampler._pause = late
    sampler.run()
    assert live.lag_seconds == pytest.approx(0.4)


def test_a_fault_of_the_engine_ends_nothing(caplog):
    """It is logged once, and ticks go on."""
    clock = Clock(5)

    class Broken(Engine):
        def judge(self, before, after):
            raise ZeroDivisionError("oh")

    sampler, live = build(clock, Script(clock), Broken(Thresholds()))
    sampler.run()
    assert live.ticks == 5
    assert live.verdict is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_fault_of_a_snapshot_or_a_listener_ends_nothing(caplog):
    """The tick is lost, or only who wanted to hear of it; the next one is as usual."""
    clock = Clock(6)
    observer = Script(clock)
    snapshot = observer.snapshot

    def broken(urgent=()):
        found = snapshot(urgent)
        if len(observer.ticks) == 3:
            raise MemoryError
        return found

    observer.snapshot = broken
    sampler, live = build(clock, observer)
    sampler._after = lambda verdict, _: verdict.at / 0 if verdict else None
    sampler.run()
    assert len(observer.ticks) == 6
    assert live.ticks == 5
    live.ledger.settle()
    assert sum(live.ledger.sums().gpus[0, "GPU-a"].states.values()) == pytest.approx(5)
    assert len(caplog.records) == 2


def test_a_stuck_sampler_says_where():
    """Five periods without a tick, and the file that it was reading."""
    clock = Clock()
    sampler, _ = build(clock, Script(clock))
    assert sampler.stuck == ""
    sampler.tick()
    clock.now += 5
    assert sampler.stuck == ""
    clock.now += 2
    assert sampler.stuck == "sampler stuck for 7 s in /proc/1/mountstats"


def test_it_runs_where_there_are_gpus_only():
    """Without a GPU reader there is no thread."""
    limits, ledger = Thresholds(), Ledger()
    sampler = Sampler(Sources(Paths("/nowhere", "/nowhere")), Engine(limits), ledger, Live(ledger, limits))
    sampler.start()
    assert "sampler" not in {thread.name for thread in threading.enumerate()}
    sampler.stop()


def test_the_thread_starts_and_ends():
    """Real time, short ticks."""
    limits, ledger = Thresholds(), Ledger()
    live = Live(ledger, limits)
    observer = Script(SimpleNamespace(now=0.0))
    done = threading.Event()
    observer.snapshot = lambda _=(): (len(observer.ticks) > 3 and done.set()) or Script.snapshot(observer)
    sampler = Sampler(
        Sources(Paths("/nowhere", "/nowhere")), Engine(limits), ledger, live, period=0.02, observer=observer
    )
    sampler.start()
    sampler.start()
    assert done.wait(5)
    sampler.stop()
    assert observer.stopped
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


class Node:
    """An invented node with GPUs, whose processes come and go."""

    def __init__(self, root):
        self.root, self.clock = root, Clock()
        self.snapshot = None
        self.busy = self.observed = 0.0
        self.paths = Paths(f"{root}/proc", f"{root}/sys", str(root))
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        self.write("proc/vmstat", "pswpin 1\nnr_dirty 1\nnr_writeback 1\nnr_dirty_threshold 100\n")

    def latest(self):
        return self

    def write(self, path, text):
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def process(self, pid, group, parent=1, state="S", run=1, wchan="0"):
        columns = [state, parent, *[0] * 9, run, 0, 0, 0, 20, 0, 1, 0, 5000, *[0] * 16, 0, 0, 0]
        stat = f"{pid} (python) {' '.join(map(str, columns))}\n"
        base = f"proc/{pid}"
        self.write(f"{base}/cgroup", f"0::/{group}\n")
        self.write(f"{base}/stat", stat)
        self.write(f"{base}/task/{pid}/stat", stat)
        self.write(f"{base}/task/{pid}/schedstat", f"{run} 0 1\n")
        self.write(f"{base}/task/{pid}/wchan", wchan)

    def remove(self, path):
        full = self.root / path
        for below in sorted(full.rglob("*"), reverse=True):
            below.rmdir() if below.is_dir() else below.unlink()
        full.rmdir()

    def gpus(self, utilization, *pids):
        self.busy += utilization
        self.observed += 1
        device = GpuReading(
            index=0,
            uuid="GPU-a",
            up=True,
            utilization_ratio=utilization,
            busy_seconds=self.busy,
            observed_seconds=self.observed,
            processes=tuple(Process(pid, 1) for pid in pids),
        )
        self.snapshot = SimpleNamespace(devices=(device,))

    def observer(self, **more):
        sources = Sources(self.paths, clock=self.clock, gpu=self)
        sources.workloads = WorkloadTree(self.paths, self.clock)
        return Observer(sources, **more)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def pod(node):
    node.write(f"sys/fs/cgroup/{SCOPE}/cgroup.procs", "100\n101\n")
    node.write(f"sys/fs/cgroup/{SCOPE}/cpu.stat", "usage_usec 5000000\n")
    node.process(100, SCOPE)
    node.process(101, SCOPE, state="D", wchan="rpc_wait_bit_killable")


def test_a_whole_snapshot(node):
    """A pod with a trainer and a loader that waits for NFS, from the GPU to the wait channel."""
    pod(node)
    node.gpus(0.3, 100)
    observer = node.observer()
    observer.snapshot()
    assert (observer.starved(0.7), observer.starved(0.2)) == ({KEY}, set())
    observer.look({KEY})
    node.clock.now += 1
    found = observer.snapshot({KEY})
    load = found.workloads[KEY]
    assert found.at == 1.0
    assert found.gpus[0].workloads == (KEY,)
    assert (load.thread_count, load.looks, load.blocked) == (2, 2, {"nfs": 2})
    assert (load.cpu_seconds, load.delays, load.covered) == (5.0, {}, None)
    assert load.threads[101].wait == "nfs"
    assert "hostPID" in observer.reasons["taskstats"]
    observer.stop()


class Delays(DelayClient):
    """Delays of everyone, and who was asked for them."""

    def __init__(self, host, clock):
        super().__init__(host, clock)
        self.reason, self.asked = "", []

    def read(self, pids):
        self.asked.append(sorted(pids))
        return {pid: {"compact": 0.5, "cpu": 1.0} for pid in pids}


def test_delays_of_those_that_ran(node):
    """Everyone is asked once, later who ran; the others keep what they had."""
    pod(node)
    node.write("proc/sys/kernel/task_delayacct", "1\n")
    node.gpus(0.3, 100)
    client = Delays(node.paths, node.clock)
    observer = node.observer(delays=client, boot_seconds=lambda: 60.0)
    assert observer.snapshot().workloads[KEY].covered == 1.0
    node.clock.now += 1
    node.process(100, SCOPE, run=2)
    found = observer.snapshot().workloads[KEY]
    assert client.asked == [[100, 101], [100]]
    assert found.delays == {100: {"compact": 0.5, "cpu": 1.0}, 101: {"compact": 0.5, "cpu": 1.0}}
    observer.stop()


def test_delays_are_not_asked_for_while_off(node):
    """With the switch off nothing is read, nobody is covered, and the reason is said; never a silent 0."""
    pod(node)
    node.write("proc/sys/kernel/task_delayacct", "0\n")
    node.gpus(0.3, 100)
    client = Delays(node.paths, node.clock)
    observer = node.observer(delays=client)
    found = observer.snapshot().workloads[KEY]
    assert client.asked == [[os.getpid()]]
    assert (found.delays, found.covered) == ({}, 0.0)
    assert observer.reasons["taskstats"] == "kernel.task_delayacct is 0: delays are not counted"
    observer.stop()


@pytest.mark.parametrize(
    ("part", "remains"),
    [
        ("gpuwait.wait.host_reader.HostReader.read", lambda s: s.host == Host() and s.workloads[KEY].threads),
        ("gpuwait.wait.threads.ThreadReader.read", lambda s: s.host.vmstat and s.workloads[KEY].cpu_seconds),
        ("gpuwait.wait.workload_reader.WorkloadReader.read", lambda s: s.workloads[KEY].threads),
        ("gpuwait.wait.gpu_view.GpuView.gpus", lambda s: s.host.vmstat and s.workloads[KEY].threads),
        ("gpuwait.wait.observer.Observer._ask", lambda s: s.workloads[KEY].threads),
    ],
)
def test_a_fault_costs_its_part(node, monkeypatch, caplog, part, remains):
    """The rest of the snapshot is there; it is logged once, and once when it is over."""
    caplog.set_level(logging.INFO)
    pod(node)
    node.gpus(0.3, 100)
    observer = node.observer()

    def broken(*_, **__):
        raise RuntimeError("oh")

    with monkeypatch.context() as patch:
        patch.setattr(part, broken)
        for _ in range(3):
            assert remains(observer.snapshot())
            node.clock.now += 1
        assert "RuntimeError: oh" in observer.reasons.values()
    observer.snapshot()
    assert "RuntimeError: oh" not in observer.reasons.values()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    observer.stop()


def sizes(observer):
    """Descriptors of this process, and entries of everything that the readers remember."""
    gc.collect()
    found = {"descriptors": len(os.listdir("/proc/self/fd"))}
    for name, part in vars(observer).items():
        for field in dir(part):
            value = getattr(part, field, None) if field.startswith("_") else None
            if isinstance(value, dict | set | list):
                found[f"{name}.{field}"] = len(value)
    return found


def test_a_day_of_churn_leaves_nothing_behind(node):
    """24 hours in which a pod and a session come and go every 2 minutes: no descriptor, no entry stays."""
    limits, ledger = Thresholds(), Ledger()
    live = Live(ledger, limits)
    observer = node.observer()
    sources = Sources(node.paths, clock=node.clock)
    sampler = Sampler(sources, Engine(limits), ledger, live, observer=observer, pause=node.clock.sleep)
    random.seed(3)
    early = None
    # A tick each 2 minutes, so that every one finds other processes.
    for turn in range(24 * 30):
        pid = 1000 + 2 * turn
        group = f"{POD[:-6]}.slice/cri-containerd-{turn:064x}.scope"
        node.write(f"sys/fs/cgroup/{group}/cgroup.procs", f"{pid}\n")
        node.process(pid, group, state=random.choice("SRD"))
        node.process(pid + 1, "user.slice/a.scope")
        node.gpus(random.random(), pid, pid + 1)
        sampler.tick()
        node.remove(f"proc/{pid}")
        node.remove(f"proc/{pid + 1}")
        node.remove(f"sys/fs/cgroup/{group}")
        node.clock.now += 120
        if turn == 400:
            early = sizes(observer)
    late = sizes(observer)
    assert late.keys() == early.keys()
    assert {name: size - early[name] for name, size in late.items() if size > early[name] + 3} == {}
    assert len(live.recent) == RECENT == len(live.history())
    assert live.ticks == 24 * 30
    observer.stop()
    assert len(os.listdir("/proc/self/fd")) <= early["descriptors"]
