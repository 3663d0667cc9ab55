"""Allocations and CPUs of a NUMA node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numastat import count_cpus, parse_numastat


def test_counters():
    """Values are as written: events, not bytes."""
    assert parse_numastat("numa_hit 31500112\nnuma_miss 0\nother_node 17129\n") == {
        "numa_hit": 31500112,
        "numa_miss": 0,
        "other_node": 17129,
    }


def test_error_names_the_file():
    """A file of another kind is an error that says which file."""
    with pytest.raises(ParseError, match="numastat"):
        parse_numastat("x\n")


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-15,32-47\n", 32), ("3\n", 1), ("\n", 0), ("", 0), ("0,2,4-5\n", 4)]
)
def test_count_of_cpus(text, cpus):
    """Ranges include both ends; a node of memory only has an empty list."""
    assert count_cpus(text) == cpus


@pytest.mark.parametrize("text", ["x", "5-3", "1-", "-1", "0-99999999999", "1-2-3"])
def test_no_list_of_cpus(text):
    """Anything but ranges is an error."""
    with pytest.raises(ParseError, match="cpulist"):
        count_cpus(text)


@given(st.text() | st.text(alphabet="0123,-\n "))
def test_any_text(text):
    """Nothing but ParseError leaves, and no count is negative."""
    try:
        assert count_cpus(text) >= 0
    except ParseError:
        return
