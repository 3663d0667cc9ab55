"""Settings of memory management."""

import pytest

from gpuwait.collector import Reason
from gpuwait.collectors.thp import COLLECTOR
from gpuwait.kernel.errors import ParseError

THP = "sys/kernel/mm/transparent_hugepage"


def test_words(tree):
    """One series for each word, 1 for the one in force."""
    tree.write({f"{THP}/enabled": "always [madvise] never\n"})
    assert tree.run(COLLECTOR) == (
        {
            ("thp_setting", "enabled", "always"): 0,
            ("thp_setting", "enabled", "madvise"): 1,
            ("thp_setting", "enabled", "never"): 0,
        },
        None,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n", {"0": 0, "1": 1, "2": 0}),
        ("0\n", {"0": 1, "1": 0, "2": 0}),
        ("3\n", {"0": 0, "1": 0, "2": 0, "3": 1}),
    ],
)
def test_balancing(tree, text, expected):
    """NUMA balancing has numbers for words, and an unknown one is told too."""
    tree.write({"proc/sys/kernel/numa_balancing": text})
    samples, _ = tree.run(COLLECTOR)
    assert samples == {("thp_setting", "numa_balancing", mode): on for mode, on in expected.items()}


def test_numbers(tree):
    """Numbers are in bytes and seconds where they measure memory or time."""
    tree.write(
        {
            "proc/sys/vm/min_free_kbytes": "67584\n",
            "proc/sys/vm/swappiness": "60\n",
            "proc/sys/vm/zone_reclaim_mode": "0\n",
            "proc/sys/kernel/task_delayacct": "1\n",
            f"{THP}/khugepaged/scan_sleep_millisecs": "10500\n",
            f"{THP}/khugepaged/pages_to_scan": "4096\n",
            f"{THP}/khugepaged/defrag": "1\n",
        },
    )
    assert tree.run(COLLECTOR)[0] == {
        ("vm_setting", "min_free_bytes"): 69206016,
        ("vm_setting", "swappiness"): 60,
        ("vm_setting", "zone_reclaim_mode"): 0,
        ("vm_setting", "task_delayacct"): 1,
        ("vm_setting", "khugepaged_scan_sleep_seconds"): 10.5,
        ("vm_setting", "khugepaged_pages_to_scan"): 4096,
        ("thp_setting", "khugepaged_defrag", "0"): 0,
        ("thp_setting", "khugepaged_defrag", "1"): 1,
    }


def test_one_broken_file(tree):
    """A setting that cannot be read is a fault, after the others have been told."""
    tree.write({f"{THP}/enabled": "", "proc/sys/vm/swappiness": "60\n"})
    samples, outcome = tree.run(COLLECTOR)
    assert isinstance(outcome, ParseError)
    assert samples == {("vm_setting", "swappiness"): 60}


def test_nothing(tree):
    """Without any file there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)
