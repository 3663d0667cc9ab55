"""Files that are there and cannot be read, or hold something else: what each collector says."""

import pytest

from gpuwait import collectors
from gpuwait.collector import Reason
from gpuwait.kernel.errors import ParseError

#: Collector and a file of its own.
OWN = [
    ("vmstat", "proc/vmstat"),
    ("memory", "proc/meminfo"),
    ("buddyinfo", "proc/buddyinfo"),
    ("disk", "proc/diskstats"),
    ("pressure", "proc/pressure/io"),
    ("thp", "proc/sys/vm/swappiness"),
    ("numa", "sys/devices/system/node/node0/numastat"),
    ("nfs", "proc/1/net/rpc/nfs"),
]
#: A file of the same collector, and a series that comes from it.
BESIDE = {
    "memory": ("proc/vmstat", "nr_dirty_threshold 5\n", "memory_dirty_threshold_bytes"),
    "pressure": ("proc/pressure/cpu", "some total=5\n", "pressure_some_seconds_total"),
    "thp": ("proc/sys/vm/zone_reclaim_mode", "0\n", "vm_setting"),
    "numa": ("sys/devices/system/node/node0/cpulist", "0-3\n", "numa_node_cpus"),
    "nfs": (
        "proc/1/mountstats",
        "device a:/b mounted on /c with fstype nfs statvers=1.1\n\tage:\t5\n",
        "nfs_mount_age_seconds",
    ),
}


def collector_named(name):
    return next(collector for collector in collectors.ALL if collector.name == name)


def beside(tree, name):
    """Write a file that the collector can read; names of the series that are to come of it."""
    path, text, series = BESIDE.get(name, ("x", "", ""))
    tree.write({path: text})
    return {series} - {""}


@pytest.mark.parametrize(("name", "path"), OWN)
def test_may_not_be_read(tree, monkeypatch, name, path):
    """A file that this user may not read is a named absence, and costs what it holds."""
    series = beside(tree, name)
    tree.write({path: ""})
    tree.refuse(monkeypatch, path)
    samples, outcome = tree.run(collector_named(name))
    assert outcome == Reason.NO_PERMISSION
    assert tree.detail == f"{tree.root}/{path}: Permission denied"
    assert series <= {key[0] for key in samples}


@pytest.mark.parametrize(("name", "path"), OWN)
def test_other_content(tree, name, path):
    """A file of another kind is a fault that names it by its whole path, and costs what it holds."""
    series = beside(tree, name)
    tree.write({path: "nonsense"})
    samples, outcome = tree.run(collector_named(name))
    assert isinstance(outcome, ParseError)
    assert tree.detail.startswith(f"{tree.root}/{path}: no")
    assert series <= {key[0] for key in samples}


def test_empty_setting(tree):
    """An empty setting costs that setting alone, and is named."""
    tree.write({"proc/sys/vm/swappiness": "", "proc/sys/vm/zone_reclaim_mode": "1\n"})
    samples, outcome = tree.run(collector_named("thp"))
    assert samples == {("vm_setting", "zone_reclaim_mode"): 1}
    assert isinstance(outcome, ParseError)
    assert tree.detail == f"{tree.root}/proc/sys/vm/swappiness: not one number"


def test_bad_cpulist(tree):
    """A malformed list of CPUs costs the number of CPUs of that node, and is named."""
    node = "sys/devices/system/node/node"
    tree.write(
        {
            f"{node}0/cpulist": "0-x\n",
            f"{node}0/numastat": "numa_hit 5\n",
            f"{node}0/meminfo": "Node 0 MemFree: 4 kB\n",
            f"{node}1/cpulist": "4-7\n",
        }
    )
    samples, outcome = tree.run(collector_named("numa"))
    assert samples == {
        ("numa_hit_total", "0"): 5,
        ("numa_memory_free_bytes", "0"): 4096,
        ("numa_node_cpus", "1"): 4,
    }
    assert isinstance(outcome, ParseError)
    assert tree.detail == f"{tree.root}/{node}0/cpulist: '0-x' is no range of CPUs"


def test_bad_cpulist_costs_no_share_of_remote_accesses(tree):
    """What the nodes' files say does not decide whether the sampled accesses are told."""
    now = [0.0]
    sources = tree.sources(clock=lambda: now[0])
    files = {
        "sys/devices/system/node/node0/cpulist": "x\n",
        "proc/sys/kernel/numa_balancing": "1\n",
    }
    tree.write(files | {"proc/vmstat": "numa_hint_faults 0\nnuma_hint_faults_local 0\n"})
    tree.run(collector_named("numa"), sources)
    now[0] = 10.0
    tree.write({"proc/vmstat": "numa_hint_faults 4000\nnuma_hint_faults_local 1000\n"})
    samples, outcome = tree.run(collector_named("numa"), sources)
    assert samples == {("numa_remote_hint_ratio",): 0.75}
    assert isinstance(outcome, ParseError)
