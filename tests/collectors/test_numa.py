"""NUMA nodes."""

from gpuwait.collector import Reason
from gpuwait.collectors.numa import COLLECTOR
from gpuwait.kernel.errors import ParseError

NODE = "sys/devices/system/node"
RATIO = ("numa_remote_hint_ratio",)


def _hints(tree, faults, local):
    tree.write({"proc/vmstat": f"numa_hint_faults {faults}\nnuma_hint_faults_local {local}\n"})


def test_nodes_with_a_hole(tree):
    """Each node reports by its number; a node of memory only has no CPUs; other names are no nodes."""
    tree.write(
        {
            f"{NODE}/node0/numastat": "numa_hit 31500112\nnuma_miss 0\nnuma_foreign 0\n"
            "interleave_hit 19660\nlocal_node 31500112\nother_node 3\n",
            f"{NODE}/node0/meminfo": "Node 0 MemTotal: 16 kB\nNode 0 MemFree: 4 kB\n",
            f"{NODE}/node0/cpulist": "0-3,8-11\n",
            f"{NODE}/node2/cpulist": "\n",
            f"{NODE}/node2/meminfo": "Node 2 MemTotal: 0 kB\n",
            f"{NODE}/online": "0,2\n",
            f"{NODE}/power/control": "auto\n",
            f"{NODE}/node-x/cpulist": "0\n",
        }
    )
    assert tree.run(COLLECTOR) == (
        {
            ("numa_hit_total", "0"): 31500112,
            ("numa_miss_total", "0"): 0,
            ("numa_foreign_total", "0"): 0,
            ("numa_interleave_hit_total", "0"): 19660,
            ("numa_local_node_total", "0"): 31500112,
            ("numa_other_node_total", "0"): 3,
            ("numa_memory_total_bytes", "0"): 16384,
            ("numa_memory_free_bytes", "0"): 4096,
            ("numa_node_cpus", "0"): 8,
            ("numa_node_cpus", "2"): 0,
            ("numa_memory_total_bytes", "2"): 0,
        },
        Reason.BALANCING_OFF,
    )


def test_node_that_goes_away(tree):
    """A node whose files are gone gives nothing and disturbs no other."""
    tree.write({f"{NODE}/node1/cpulist": "1\n"})
    (tree.root / NODE / "node0").mkdir()
    assert tree.run(COLLECTOR) == ({("numa_node_cpus", "1"): 1}, Reason.BALANCING_OFF)


def test_broken_node(tree):
    """A node that cannot be read is a fault, after the others have been told."""
    tree.write({f"{NODE}/node0/cpulist": "x\n", f"{NODE}/node1/cpulist": "1\n"})
    samples, outcome = tree.run(COLLECTOR)
    assert isinstance(outcome, ParseError)
    assert samples == {("numa_node_cpus", "1"): 1}


def test_no_nodes(tree):
    """A kernel without NUMA has no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)


def test_remote_share(tree):
    """The share is that of the faults since the earlier reading."""
    now = [0.0]
    tree.write({f"{NODE}/node0/cpulist": "0\n", "proc/sys/kernel/numa_balancing": "1\n"})
    sources = tree.sources(clock=lambda: now[0])
    _hints(tree, 50_000, 50_000)
    samples, outcome = tree.run(COLLECTOR, sources)
    assert outcome is None
    assert RATIO not in samples
    _hints(tree, 54_000, 51_000)
    now[0] = 15.0
    assert tree.run(COLLECTOR, sources)[0][RATIO] == 0.75


def test_last_minute_only(tree):
    """What lies more than a minute back no longer counts."""
    now = [0.0]
    tree.write({f"{NODE}/node0/cpulist": "0\n", "proc/sys/kernel/numa_balancing": "1\n"})
    sources = tree.sources(clock=lambda: now[0])
    for second, faults, local in [(0, 0, 0), (30, 8_000, 0), (60, 10_000, 2_000), (90, 12_000, 4_000)]:
        now[0] = float(second)
        _hints(tree, faults, local)
        samples, _ = tree.run(COLLECTOR, sources)
    assert samples[RATIO] == 0.0


def test_few_faults(tree):
    """Below 1000 faults the share says nothing."""
    tree.write({f"{NODE}/node0/cpulist": "0\n", "proc/sys/kernel/numa_balancing": "1\n"})
    sources = tree.sources(clock=lambda: 0.0)
    _hints(tree, 0, 0)
    tree.run(COLLECTOR, sources)
    _hints(tree, 999, 0)
    assert RATIO not in tree.run(COLLECTOR, sources)[0]
    _hints(tree, 1000, 0)
    assert tree.run(COLLECTOR, sources)[0][RATIO] == 1.0


def test_counters_that_fall(tree):
    """A counter that goes back begins anew."""
    tree.write({f"{NODE}/node0/cpulist": "0\n", "proc/sys/kernel/numa_balancing": "1\n"})
    sources = tree.sources(clock=lambda: 0.0)
    for faults, local in [(90_000, 10), (50, 0)]:
        _hints(tree, faults, local)
        samples, _ = tree.run(COLLECTOR, sources)
    assert RATIO not in samples
    _hints(tree, 2_050, 500)
    assert tree.run(COLLECTOR, sources)[0][RATIO] == 0.75


def test_balancing_switched_off(tree):
    """Off, or only moving pages to slower memory, samples nothing; what was read before is dropped."""
    tree.write({f"{NODE}/node0/cpulist": "0\n", "proc/sys/kernel/numa_balancing": "1\n"})
    sources = tree.sources(clock=lambda: 0.0)
    _hints(tree, 0, 0)
    tree.run(COLLECTOR, sources)
    _hints(tree, 5_000, 0)
    for mode in ("0\n", "2\n"):
        tree.write({"proc/sys/kernel/numa_balancing": mode})
        samples, outcome = tree.run(COLLECTOR, sources)
        assert (RATIO in samples, outcome) == (False, Reason.BALANCING_OFF)
    tree.write({"proc/sys/kernel/numa_balancing": "1\n"})
    assert RATIO not in tree.run(COLLECTOR, sources)[0]
