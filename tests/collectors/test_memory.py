"""Memory of the node."""

from gpuwait.collector import Reason
from gpuwait.collectors.memory import COLLECTOR


def test_bytes_and_counts(tree):
    """Sizes are in bytes, huge pages a count; what the kernel lacks gives no series."""
    tree.write(
        {
            "proc/meminfo": "MemTotal:  1000 kB\nDirty:  3 kB\nHugePages_Total:  64\nHugePages_Free:  2\n"
            "Hugepagesize:  2048 kB\nVmallocTotal:  99 kB\n"
        },
    )
    assert tree.run(COLLECTOR) == (
        {
            ("memory_total_bytes",): 1024000,
            ("memory_dirty_bytes",): 3072,
            ("memory_huge_pages",): 64,
            ("memory_huge_pages_free",): 2,
            ("memory_huge_page_size_bytes",): 2097152,
        },
        None,
    )


def test_dirty_limits(tree, monkeypatch):
    """Limits of dirty memory are pages, of the size that this machine has."""
    monkeypatch.setattr("resource.getpagesize", lambda: 65536)
    tree.write(
        {
            "proc/meminfo": "MemFree: 1 kB\n",
            "proc/vmstat": "nr_dirty_threshold 10\nnr_dirty_background_threshold 5\n",
        },
    )
    assert tree.run(COLLECTOR)[0] == {
        ("memory_free_bytes",): 1024,
        ("memory_dirty_threshold_bytes",): 655360,
        ("memory_dirty_background_threshold_bytes",): 327680,
    }


def test_no_file(tree):
    """Without the file there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)
