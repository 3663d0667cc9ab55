"""Signals of an invented node, then of the real one."""

import os
import re
import resource
import threading
import time

import pytest

from gpuwait.host import Host
from gpuwait.sources import CollectorOptions, Filter, Sources
from gpuwait.wait import mounts
from gpuwait.wait.fabric import Fabric
from gpuwait.wait.host_reader import HostReader
from gpuwait.wait.kept import Kept
from gpuwait.wait.mounts import Mounts
from gpuwait.wait.snapshot import Disk, FabricPort, Nfs, Pressure

PAGE = resource.getpagesize()


class Node:
    """A host made of files, and a clock."""

    def __init__(self, root):
        self.root, self.now = root, 100.0
        self.host = Host(f"{root}/proc", f"{root}/sys", str(root))

    def write(self, files):
        for path, text in files.items():
            full = self.root / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text)

    def reader(self):
        options = CollectorOptions(disk_devices=Filter(exclude=re.compile("loop[0-9]+")))
        sources = Sources(self.host, options, clock=lambda: self.now)
        return HostReader(sources, Kept(20))


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_an_empty_host(node):
    """Nothing is there, nothing is 0, and each absence has its reason."""
    reader = node.reader()
    host = reader.read()
    assert host.vmstat == host.pressure == host.disks == host.nfs == host.fabric == {}
    assert (host.dirty_bytes, host.dirty_limit_bytes, host.lustre_seconds) == (None, None, None)
    assert host.gpfs_waiter_seconds is None
    assert host.cpus == 1
    assert {"vmstat", "diskstats", "pressure"} <= reader.reasons.keys()
    reader.stop()


def test_memory(node):
    """Counters by name, dirty memory in bytes, the worst zone of each node, the settings in force."""
    node.write(
        {
            "proc/vmstat": "nr_free_pages 5\nnr_dirty 100\nnr_writeback 20\nnr_dirty_threshold 1000\n"
            "allocstall_normal 7\ncompact_stall 9\npswpin 3\n",
            "proc/buddyinfo": "Node 0, zone DMA 8 0 0 0 0 0 0 0 0 0 0\n"
            "Node 0, zone Normal 1024 0 0 0 0 0 0 0 0 1 1\n"
            "Node 1, zone Normal 0 0 0 0 0 0 0 0 0 0 4\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "sys/kernel/mm/transparent_hugepage/defrag": "[always] defer defer+madvise madvise never\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "sys/devices/system/cpu/online": "0-63,128-191\n",
        }
    )
    reader = node.reader()
    host = reader.read()
    assert host.vmstat["compact_stall"] == 9
    assert host.vmstat["allocstall_normal"] == 7
    assert "nr_free_pages" not in host.vmstat
    assert host.dirty_bytes == 120 * PAGE
    assert host.dirty_limit_bytes == 1000 * PAGE
    # 1024 single pages of 1024 + 512 + 1024
    assert host.unusable_ratio == {0: 0.4, 1: 0.0}
    assert host.settings == {"thp_enabled": "madvise", "thp_defrag": "always", "numa_balancing": "1"}
    assert host.cpus == 128
    node.write({"proc/vmstat": "compact_stall 11\n"})
    assert reader.read().vmstat == {"compact_stall": 11}


def test_pressure(node):
    """Totals in seconds; the node has no full of cpu."""
    line = "{} avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
    both = line.format("some", 2500000) + line.format("full", 1500000)
    node.write({f"proc/pressure/{name}": both for name in ("cpu", "io")})
    assert node.reader().read().pressure == {"cpu": Pressure(2.5), "io": Pressure(2.5, 1.5)}


def test_disks(node):
    """Whole disks that are wanted; times of reads and writes are added up."""
    node.write(
        {
            "proc/diskstats": " 259 0 nvme0n1 100 2 800 3000 50 1 400 500 2 2500 4500 0 0 0 0 7 20\n"
            " 259 1 nvme0n1p1 90 2 700 2900 50 1 400 500 0 2400 4400 0 0 0 0\n"
            "   7 0 loop0 1 0 1 1 0 0 0 0 0 1 1 0 0 0 0\n"
        }
    )
    assert node.reader().read().disks == {"nvme0n1": Disk(150, 3.5, 2.5, 4.5, 2)}


def test_one_bad_file_costs_itself(node):
    """Text of another kind is said, and the other files are read."""
    node.write({"proc/vmstat": "????\n", "proc/pressure/io": "some avg10=0 total=1000000\n"})
    reader = node.reader()
    host = reader.read()
    assert host.pressure == {"io": Pressure(1.0)}
    assert reader.reasons["vmstat"] == "vmstat: no line is a name with a number"
    node.write({"proc/vmstat": "pswpin 1\n"})
    reader.read()
    assert "vmstat" not in reader.reasons


def test_lustre(node):
    """Seconds and number of the operations that are timed, over all file systems."""
    stats = "snapshot_time 1.2 secs.nsecs\nread_bytes 9 samples [bytes] 1 2 30\n"
    stats += "open 3 samples [usec] 10 90 150 9000\nclose 2 samples [usec] 1 2 3 5\n"
    node.write({f"sys/fs/lustre/llite/{name}-ffff/stats": stats for name in ("a", "b")})
    host = node.reader().read()
    assert (host.lustre_seconds, host.lustre_operations) == (0.000306, 10)


PORT = "sys/class/infiniband/mlx5_0/ports/1"


def test_fabric(node):
    """A port with what it counts; a counter that it lacks adds nothing."""
    node.write(
        {
            f"{PORT}/state": "4: ACTIVE\n",
            f"{PORT}/rate": "200 Gb/sec (4X HDR)\n",
            f"{PORT}/counters/symbol_error": "3\n",
            f"{PORT}/counters/link_downed": "1\n",
            f"{PORT}/hw_counters/out_of_sequence": "40\n",
            f"{PORT}/hw_counters/packet_seq_err": "2\n",
            "sys/class/infiniband/mlx5_0/device/numa_node": "1\n",
        }
    )
    assert node.reader().read().fabric == {"mlx5_0/1": FabricPort(True, 25e9, 4, 42, 1)}


def test_fabric_counters_grow_evenly(node):
    """What five seconds brought is given out over the next five, and all of it."""
    node.write({f"{PORT}/state": "4: ACTIVE", f"{PORT}/hw_counters/out_of_sequence": "100"})
    fabric = Fabric(node.host)
    assert fabric.read(0.0)["mlx5_0/1"].retransmissions == 100
    node.write({f"{PORT}/hw_counters/out_of_sequence": "150"})
    seen = [fabric.read(float(second))["mlx5_0/1"].retransmissions for second in range(1, 11)]
    assert seen == [100, 100, 100, 100, 100, 110, 120, 130, 140, 150]


def test_fabric_counters_begin_anew(node):
    """A driver that was loaded again counts from 0; a port that is gone is gone."""
    node.write({f"{PORT}/state": "1: DOWN", f"{PORT}/hw_counters/out_of_sequence": "100"})
    fabric = Fabric(node.host)
    assert not fabric.read(0.0)["mlx5_0/1"].up
    node.write({f"{PORT}/hw_counters/out_of_sequence": "3"})
    assert fabric.read(5.0)["mlx5_0/1"].retransmissions == 3
    (node.root / PORT / "state").unlink()
    assert fabric.read(10.0) == {}


def mount(point, sends, receives, read, export="filer:/vol"):
    """One NFS mount: transport counters, and the row of READ."""
    return (
        f"device {export} mounted on {point} with fstype nfs4 statvers=1.1\n"
        "\topts:\trw,vers=4.2,hard,proto=tcp\n\tage:\t100\n"
        f"\txprt:\ttcp 903 1 2 0 4 {sends} {receives} 0 0 0 40 0 0\n"
        "\tper-op statistics\n"
        f"\t        NULL: 0 0 0 0 0 0 0 0 0\n\t        READ: {read}\n"
    )


def test_nfs(node):
    """Sums of a mount; the time is that of whole operations."""
    text = "device proc mounted on /proc with fstype proc\n"
    text += mount("/data", 30, 27, "20 21 1 4000 99000 500 3000 3600 0")
    node.write({"proc/1/mountstats": text})
    reader = node.reader()
    assert reader.read().nfs == {"/data": Nfs(30, 27, 2, 20, 21, 1, 3.6)}
    node.now += 1
    node.write({"proc/1/mountstats": mount("/data", 35, 35, "25 25 1 4000 99000 500 3000 4600 0")})
    assert reader.read().nfs == {"/data": Nfs(35, 35, 0, 25, 25, 1, 4.6)}
    reader.stop()


def test_one_file_system_bound_to_many_places_counts_once(node):
    """A pod's bind mount shows the same numbers again; another export is another mount."""
    read = "20 20 0 4000 99000 500 3000 3600 0"
    text = mount("/data", 30, 30, read) + mount("/pod/data", 30, 30, read)
    node.write({"proc/1/mountstats": text + mount("/home", 30, 30, read, "filer:/home")})
    assert list(Mounts(node.host, lambda: 0.0).read()) == ["/data", "/home"]


def test_many_mounts_are_bounded(node, monkeypatch):
    """Beyond the bound mounts are counted, not read."""
    monkeypatch.setattr(mounts, "MOST", 2)
    text = "".join(mount(f"/{n}", n, n, f"{n} {n} 0 0 0 0 0 0 0", f"filer:/{n}") for n in range(5))
    node.write({"proc/1/mountstats": text})
    reader = Mounts(node.host, lambda: 0.0)
    assert len(reader.read()) == 2
    assert reader.skipped == 3


def test_without_nfs_mounts_the_file_is_read_rarely(node):
    """A mount that comes later is seen within 10 s."""
    node.write({"proc/1/mountstats": "device proc mounted on /proc with fstype proc\n"})
    reader = Mounts(node.host, lambda: node.now)
    assert reader.read() == {}
    node.write({"proc/1/mountstats": mount("/data", 1, 1, "1 1 0 0 0 0 0 0 0")})
    node.now += 9
    assert reader.read() == {}
    node.now += 1
    assert list(reader.read()) == ["/data"]


def test_a_file_that_hangs_stops_nobody(node, monkeypatch):
    """The tick goes on without, says for how long, asks once, and takes no answer that is too old."""
    node.write({"proc/1/mountstats": mount("/data", 1, 1, "1 1 0 0 0 0 0 0 0")})
    gate, asked = threading.Event(), []
    real = Host.maybe_proc

    def hang(host, path):
        asked.append(path)
        gate.wait(10)
        return real(host, path)

    monkeypatch.setattr(Host, "maybe_proc", hang)
    reader = Mounts(node.host, lambda: node.now)
    for _ in range(3):
        begun = time.monotonic()
        assert reader.read(0.05) == {}
        assert time.monotonic() - begun < 1
        node.now += 1
    assert asked == ["1/mountstats"]
    assert reader.reason == "mountstats has not answered for 2 s"
    gate.set()
    assert reader.read(5) == {}
    assert list(reader.read(5)) == ["/data"]
    assert reader.reason == ""
    reader.stop()


def test_a_slow_file_is_a_tick_late(node, monkeypatch):
    """An answer that takes longer than the deadline each time is used at the next tick, every tick."""
    node.write({"proc/1/mountstats": mount("/data", 1, 1, "1 1 0 0 0 0 0 0 0")})
    real = Host.maybe_proc

    def slow(host, path):
        time.sleep(0.1)
        return real(host, path)

    monkeypatch.setattr(Host, "maybe_proc", slow)
    reader = Mounts(node.host, lambda: node.now)
    assert reader.read(0.01) == {}
    for _ in range(4):
        time.sleep(0.15)
        node.now += 1
        assert list(reader.read(0.05)) == ["/data"]
    reader.stop()


def test_the_real_host():
    """Whatever this machine is: counters are there and its own dirty limit is above nothing."""
    reader = HostReader(Sources(Host()), Kept(20))
    host = reader.read()
    assert host.vmstat["pgmajfault"] > 0
    assert host.dirty_limit_bytes > 0
    assert host.cpus == os.cpu_count()
    reader.stop()
