"""Counters of /proc/vmstat."""

from gpuwait.collector import Reason
from gpuwait.collectors.vmstat import COLLECTOR


def test_new_kernel(tree):
    """Counters come as written, and allocstall is the sum over zones; gauges are left out."""
    tree.write(
        {
            "proc/vmstat": "nr_free_pages 5\ncompact_stall 7\nthp_fault_fallback 9\nworkingset_nodes 3\n"
            "allocstall_dma32 1\nallocstall_normal 20\nallocstall_movable 300\nnr_dirtied 11\n"
        },
    )
    assert tree.run(COLLECTOR) == (
        {
            ("vmstat_compact_stall_total",): 7,
            ("vmstat_thp_fault_fallback_total",): 9,
            ("vmstat_allocstall_dma32_total",): 1,
            ("vmstat_allocstall_normal_total",): 20,
            ("vmstat_allocstall_movable_total",): 300,
            ("vmstat_allocstall_total",): 321,
            ("vmstat_nr_dirtied_total",): 11,
        },
        None,
    )


def test_old_kernel(tree):
    """Names of RHEL 7 stay as they are, and what it lacks gives no series."""
    tree.write({"proc/vmstat": "allocstall 4\nthp_split 5\npgscan_direct_normal 6\n"})
    assert tree.run(COLLECTOR)[0] == {
        ("vmstat_allocstall_total",): 4,
        ("vmstat_thp_split_total",): 5,
        ("vmstat_pgscan_direct_normal_total",): 6,
    }


def test_every_name_is_its_field():
    """A family's name is the kernel's field between prefix and suffix."""
    for family in COLLECTOR.families[1:]:
        field = family.source.removeprefix("/proc/vmstat ")
        assert family.name == f"gpuwait_vmstat_{field}_total"
        assert family.kind == "counter"


def test_no_file(tree):
    """Without the file there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)
