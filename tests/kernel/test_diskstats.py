"""Counters of block devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.diskstats import COLUMNS, disk_of_partition, parse_diskstats
from gpuwait.kernel.errors import ParseError


def test_twenty_columns() -> None:
    """All 17 numbers of a recent kernel are read in order."""
    (row,) = parse_diskstats("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n")
    assert (row.device, row.name) == ("8:0", "sda")
    assert row.values() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]


@pytest.mark.parametrize(("columns", "numbers"), [(14, 11), (15, 12), (17, 14), (18, 15), (20, 17), (23, 17)])
def test_widths(columns: int, numbers: int) -> None:
    """Fourteen columns and more are read, what is not known is ignored."""
    (row,) = parse_diskstats("8 0 sda" + " 1" * (columns - 3) + "\n")
    assert row.values() == [1] * numbers


def test_short_lines_are_skipped() -> None:
    """A partition of a 2.6 kernel with 7 columns, and a cut line, cost themselves only."""
    text = " 8 1 sda1 35486 38030 38030 38030\n 8 0 sda 1 2 3\n 8 16 sdb 1 1 1 1 1 1 1 1 1 1 1\n"
    assert [row.name for row in parse_diskstats(text)] == ["sdb"]


def test_odd_numbers() -> None:
    """A negative number, one of 2^63 and more and a word are absent, the rest of the row stays."""
    (row,) = parse_diskstats("8 0 sda -1 18446744073709551615 3 x 5 9223372036854775807 7 8 9 10 11\n")
    assert row.values() == [None, None, 3, None, 5, 9223372036854775807, 7, 8, 9, 10, 11]


def test_requests_in_flight_below_zero() -> None:
    """A sum below zero that was printed as unsigned is absent."""
    (row,) = parse_diskstats("8 0 sda 1 1 1 1 1 1 1 1 4294967295 1 4294967295\n")
    assert row.values()[8:] == [None, 1, 4294967295]


def test_a_name_counts_once() -> None:
    """A row that was printed twice while devices changed is taken once."""
    text = "8 0 sda" + " 1" * 11 + "\n8 0 sda" + " 2" * 11 + "\n"
    assert [row.values()[0] for row in parse_diskstats(text)] == [1]


def test_empty_and_foreign() -> None:
    """No disks is no fault; another format is."""
    assert parse_diskstats("") == []
    with pytest.raises(ParseError, match="diskstats"):
        parse_diskstats("rpc 1 2 3\n")


NAMES = {"sda", "nvme0n1", "mmcblk0", "md127", "cciss/c0d0", "dm-1", "loop0", "nvme0n1p1", "sda1", "md1"}


@pytest.mark.parametrize(
    ("name", "disk"),
    [
        ("sda", None),
        ("sda1", "sda"),
        ("sda15", "sda"),
        ("sdb1", None),
        ("xvda1", None),
        ("nvme0n1", None),
        ("nvme0n1p2", "nvme0n1"),
        ("nvme0n11", None),
        ("mmcblk0p1", "mmcblk0"),
        ("mmcblk0boot0", None),
        ("md127", None),
        ("md127p1", "md127"),
        ("dm-10", None),
        ("cciss/c0d0p1", "cciss/c0d0"),
        ("loop0p1", "loop0"),
        ("sdap1", None),
        ("123", None),
        ("p1", None),
    ],
)
def test_partitions_by_name(name: str, disk: str | None) -> None:
    """A row is a partition where the row of its disk exists and the digits follow by the kernel's rule."""
    assert disk_of_partition(name, NAMES) == disk


VALID = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"


@given(st.text() | st.builds(lambda at, word: VALID[:at] + word + VALID[at:], st.integers(0, 60), st.text()))
def test_any_text(text: str) -> None:
    """No text raises anything but ParseError; numbers are never negative; names are unique."""
    try:
        rows = parse_diskstats(text)
    except ParseError:
        return
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        values = row.values()
        assert 11 <= len(values) <= len(COLUMNS)
        assert all(value is None or 0 <= value < 2**63 for value in values)
