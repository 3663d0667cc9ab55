"""Fragmentation."""

from gpuwait.collector import Reason
from gpuwait.collectors.buddyinfo import COLLECTOR


def test_two_nodes(tree):
    """Free blocks by order, and the share that a huge page cannot use."""
    tree.write(
        {
            "proc/buddyinfo": "Node 0, zone   Normal 0 0 0 0 0 0 0 0 0 0 2 \n"
            "Node 1, zone   Normal 4 2 0 0 0 0 0 0 0 0 0 \n"
        },
    )
    samples, outcome = tree.run(COLLECTOR)
    assert outcome is None
    assert samples["fragmentation_unusable_ratio", "0", "Normal", "9"] == 0.0
    assert samples["fragmentation_unusable_ratio", "1", "Normal", "9"] == 1.0
    assert samples["buddyinfo_free_blocks", "0", "Normal", "10"] == 2
    assert samples["buddyinfo_free_blocks", "1", "Normal", "0"] == 4
    assert samples["buddyinfo_free_blocks", "1", "Normal", "9"] == 0
    assert len(samples) == 24


def test_huge_page_of_large_pages(tree):
    """In pages of 64 KiB a huge page is a block of order 13: smaller ones are of no use for it."""
    tree.write(
        {
            "proc/buddyinfo": "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 0 0 2 3 \n",
            "sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "536870912\n",
        },
    )
    samples, outcome = tree.run(COLLECTOR)
    assert outcome is None
    assert samples["fragmentation_unusable_ratio", "0", "Normal", "13"] == 0.25
    assert ("fragmentation_unusable_ratio", "0", "Normal", "9") not in samples


def test_huge_page_of_unknown_size(tree):
    """A size that no known page size gives is taken for the usual one."""
    tree.write(
        {
            "proc/buddyinfo": "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 2 \n",
            "sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "16777216\n",
        },
    )
    samples, _ = tree.run(COLLECTOR)
    assert samples["fragmentation_unusable_ratio", "0", "Normal", "9"] == 0.0


def test_nothing_free(tree):
    """A zone without free memory has no share."""
    tree.write({"proc/buddyinfo": "Node 0, zone DMA" + " 0" * 11 + "\n"})
    samples, _ = tree.run(COLLECTOR)
    assert ("fragmentation_unusable_ratio", "0", "DMA", "9") not in samples
    assert samples["buddyinfo_free_blocks", "0", "DMA", "0"] == 0


def test_no_file(tree):
    """Without the file there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)
