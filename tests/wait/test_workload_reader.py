"""Counters of the cgroups of GPU workloads, and GPUs as the engine sees them."""

from types import SimpleNamespace

import pytest

from gpuwait.gpu.protocol import GpuReading, Process
from gpuwait.host import Host
from gpuwait.wait.discovery import Watched
from gpuwait.wait.gpu_view import GpuView
from gpuwait.wait.kept import Kept
from gpuwait.wait.snapshot import Pressure
from gpuwait.wait.workload_reader import Counters, WorkloadReader
from gpuwait.workload.claims import Given
from gpuwait.workload.identity import Owner
from gpuwait.workload.tree import Group

KEY = ("slurm", "", "77", "0")


class Tree:
    """A cgroup file system made of files."""

    def __init__(self, root):
        self.root, self.now = root, 50.0
        self.kept = Kept(30)
        self.reader = WorkloadReader(self.kept, lambda: self.now)

    def write(self, files):
        for path, text in files.items():
            full = self.root / "sys/fs/cgroup" / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text)

    def watched(self, **directories):
        paths = {role: f"{self.root}/sys/fs/cgroup/{path}" for role, path in directories.items()}
        return Watched(
            KEY, Group(Owner("slurm", workload="77", container="0"), KEY, "/job_77/step_0", **paths)
        )


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def psi(some, full):
    return f"some avg10=0.00 total={some}\nfull avg10=0.00 total={full}\n"


def test_version_2(tree):
    """Microseconds become seconds; refaults of files and anonymous memory are added up."""
    tree.write(
        {
            "job/step/cpu.stat": "usage_usec 4500000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 250000\n",
            "job/step/cpu.max": "200000 100000\n",
            "job/step/memory.stat": "anon 5\npgscan_direct 70\n"
            "workingset_refault_anon 3\nworkingset_refault_file 4\n",
            "job/step/memory.numa_stat": "anon N0=10 N1=20\nfile N0=1 N1=2\n",
            "job/step/cpu.pressure": psi(3000000, 2000000),
            "job/step/memory.pressure": psi(500000, 0),
        }
    )
    assert tree.reader.read(tree.watched(unified="job/step")) == Counters(
        pressure={"cpu": Pressure(3.0, 2.0), "memory": Pressure(0.5, 0.0)},
        cpu_seconds=4.5,
        periods=10,
        throttled_periods=4,
        throttled_seconds=0.25,
        quota_cores=2.0,
        reclaim_pages=70,
        refaults=7,
        memory_by_node={0: 11, 1: 22},
    )


def test_version_1(tree):
    """Nanoseconds, failcnt for reclaim, and sums over the groups inside."""
    tree.write(
        {
            "cpu/job/step/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000\n",
            "cpu/job/step/cpu.cfs_quota_us": "-1\n",
            "cpu/job/step/cpu.cfs_period_us": "100000\n",
            "cpuacct/job/step/cpuacct.usage": "2500000000\n",
            "memory/job/step/memory.failcnt": "33\n",
            "memory/job/step/memory.stat": "workingset_refault 1\ntotal_workingset_refault 9\n",
        }
    )
    where = {"cpu": "cpu/job/step", "cpuacct": "cpuacct/job/step", "memory": "memory/job/step"}
    assert tree.reader.read(tree.watched(**where)) == Counters(
        cpu_seconds=2.5,
        periods=10,
        throttled_periods=4,
        throttled_seconds=1.5,
        reclaim_pages=33,
        refaults=9,
    )


def test_limits_above_the_group_count(tree):
    """A Slurm job's quota is set above its step, and throttling is counted there; the tighter one holds."""
    tree.write(
        {
            "job/step/cpu.stat": "usage_usec 1000000\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            "job/step/cpu.max": "max 100000\n",
            "job/cpu.stat": "usage_usec 9000000\nnr_periods 50\nnr_throttled 40\nthrottled_usec 7000000\n",
            "job/cpu.max": "400000 100000\n",
            "cpu.max": "800000 100000\n",
        }
    )
    found = tree.reader.read(tree.watched(unified="job/step"))
    assert (found.quota_cores, found.periods, found.throttled_periods) == (4.0, 50, 40)
    assert (found.throttled_seconds, found.cpu_seconds) == (7.0, 1.0)


def test_the_memory_limit_of_version_1_may_be_above(tree):
    """Hits are counted at the group that has the limit."""
    tree.write(
        {
            "memory/job/step/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/job/step/memory.failcnt": "0\n",
            "memory/job/memory.limit_in_bytes": "1073741824\n",
            "memory/job/memory.failcnt": "812\n",
        }
    )
    assert tree.reader.read(tree.watched(memory="memory/job/step")).reclaim_pages == 812


def test_a_job_under_two_slurmd(tree):
    """The parts are added up: seconds, periods, quotas and memory; of pressure the longer time counts."""
    stat = "usage_usec {}\nnr_periods {}\nnr_throttled 1\nthrottled_usec 500000\n"
    tree.write(
        {
            "a/job/cpu.stat": stat.format(1000000, 10),
            "a/job/cpu.max": "200000 100000\n",
            "a/job/memory.numa_stat": "anon N0=10\n",
            "a/job/io.pressure": psi(4000000, 1000000),
            "b/job/cpu.stat": stat.format(2500000, 30),
            "b/job/cpu.max": "100000 100000\n",
            "b/job/memory.numa_stat": "anon N0=5 N1=7\n",
            "b/job/io.pressure": psi(3000000, 2000000),
        }
    )
    watched = tree.watched(unified="a/job")
    watched.group.others.append(
        Group(watched.group.owner, KEY, "/b/job", unified=f"{tree.root}/sys/fs/cgroup/b/job")
    )
    found = tree.reader.read(watched)
    assert (found.cpu_seconds, found.periods, found.throttled_periods) == (3.5, 40, 2)
    assert (found.throttled_seconds, found.quota_cores) == (1.0, 3.0)
    assert found.memory_by_node == {0: 15, 1: 7}
    assert found.pressure == {"io": Pressure(4.0, 1.0)}
    (tree.root / "sys/fs/cgroup/b/job/cpu.max").write_text("max 100000\n")
    tree.now += 11
    assert tree.reader.read(watched).quota_cores is None


def test_nothing_is_nothing(tree):
    """Without files there are no numbers, and without a cgroup none of a tree above."""
    assert tree.reader.read(tree.watched(unified="gone")) == Counters()
    assert tree.reader.read(Watched(KEY, None)) == Counters()


def test_odd_files_cost_themselves(tree):
    """Text of another kind is no number; the other files are read."""
    tree.write({"a/cpu.stat": "?\n", "a/cpu.pressure": "?\n", "a/memory.stat": "pgscan_direct 5\n"})
    assert tree.reader.read(tree.watched(unified="a")) == Counters(reclaim_pages=5)


def test_descriptors_are_closed_with_the_workload(tree):
    """They are kept while the workload is there, and no longer."""
    tree.write({"a/cpu.stat": "usage_usec 1\n", "a/memory.stat": "pgscan_direct 5\n"})
    watched = tree.watched(unified="a")
    for second in (1000000, 2000000):
        tree.write({"a/cpu.stat": f"usage_usec {second}\n"})
        assert tree.reader.read(watched).cpu_seconds == second / 1000000
    assert len(tree.kept) == 2
    tree.reader.choose([watched])
    assert len(tree.kept) == 2
    tree.reader.choose([])
    assert len(tree.kept) == 0


def test_kept_files(tmp_path):
    """Within the limit descriptors stay open, beyond it files are opened each time; long ones come whole."""
    kept = Kept(1)
    for name in "ab":
        (tmp_path / name).write_text(name * 40000)
    for _ in range(2):
        assert kept.read(f"{tmp_path}/a") == b"a" * 40000
        assert kept.read_all(f"{tmp_path}/a") == b"a" * 40000
        assert kept.read(f"{tmp_path}/b") == b"b" * 40000
        assert kept.read_all(f"{tmp_path}/b") == b"b" * 40000
    assert len(kept) == 1
    assert kept.at == f"{tmp_path}/b"
    kept.close_all()
    assert len(kept) == 0
    with pytest.raises(FileNotFoundError):
        kept.read(f"{tmp_path}/c")


class Client:
    """The reader's last snapshot."""

    snapshot = None

    def latest(self):
        return self

    def say(self, *devices):
        self.snapshot = SimpleNamespace(devices=devices)


@pytest.fixture
def gpus(tmp_path):
    """A view, its client, and a bus with one GPU on node 1."""
    device = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    device.mkdir(parents=True)
    for name, text in {"vendor": "0x10de\n", "class": "0x030200\n", "numa_node": "1\n"}.items():
        (device / name).write_text(text)
    client = Client()
    view = GpuView(client, Host(f"{tmp_path}/proc", f"{tmp_path}/sys"), lambda: 0.0)

    def look():
        readings = view.readings()
        return view.gpus(readings, {100: KEY}.get), readings

    return client, look


def test_a_gpu_and_its_workload(gpus):
    """Its integral, its node from the bus, and the workloads of its processes."""
    client, look = gpus
    client.say(
        GpuReading(
            index=0,
            uuid="GPU-a",
            up=True,
            name="H100",
            pci_address="0000:18:00.0",
            utilization_ratio=0.4,
            busy_seconds=3.0,
            observed_seconds=5.0,
            processes=(Process(100, 1), Process(0, None), Process(555, 1)),
        ),
        GpuReading(index=1, uuid="GPU-b", up=True, processes=()),
        GpuReading(index=2, uuid="GPU-c", up=False),
    )
    (first, second, third), readings = look()
    assert (first.busy_seconds, first.observed_seconds, first.utilization) == (3.0, 5.0, 0.4)
    assert (first.numa_node, first.model, first.in_use, first.workloads) == (1, "H100", True, (KEY,))
    assert (second.in_use, second.numa_node, second.workloads) == (False, None, ())
    assert (third.up, third.in_use) == (False, None)
    assert readings.holders == {100, 555}


def test_a_gpu_that_was_given(tmp_path):
    """A GPU without a process has the workload that it was given to; one in use has those that use it."""
    given = ("pod", "ml", "idle-0", "main")
    client, asked = Client(), []

    def of(gpu, holders):
        asked.append(holders)
        return Given(True, (given,))

    view = GpuView(client, Host(f"{tmp_path}/p", f"{tmp_path}/s"), lambda: 0.0, SimpleNamespace(of=of))
    client.say(
        GpuReading(index=0, uuid="GPU-a", up=True, processes=(Process(100, 1),)),
        GpuReading(index=1, uuid="GPU-b", up=True, processes=()),
        GpuReading(index=2, uuid="GPU-c", up=True),
    )
    used, unused, unknown = view.gpus(view.readings(), {100: KEY}.get)
    assert [gpu.allocated for gpu in (used, unused, unknown)] == [True, True, True]
    assert [gpu.workloads for gpu in (used, unused, unknown)] == [(KEY,), (given,), ()]
    assert asked == [(KEY,), (), ()]


def test_a_silent_reader(gpus):
    """Known GPUs are unknown, not absent, and keep their processes."""
    client, look = gpus
    assert look()[0] == ()
    client.say(
        GpuReading(index=0, uuid="GPU-a", up=True, utilization_ratio=0.4, processes=(Process(100, 1),))
    )
    look()
    client.snapshot = None
    (gpu,), readings = look()
    assert (gpu.uuid, gpu.up, gpu.utilization, gpu.workloads) == ("GPU-a", None, None, (KEY,))
    assert readings.holders == {100}
