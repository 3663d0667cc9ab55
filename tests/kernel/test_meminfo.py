"""/proc/meminfo and the same of a NUMA node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.meminfo import parse_meminfo


def test_kibibytes_become_bytes():
    """A value with a unit is in bytes, one without is a count."""
    text = "MemTotal:       32784212 kB\nHugePages_Total:      64\nActive(anon):          2 kB\n"
    assert parse_meminfo(text) == {"MemTotal": 33571033088, "HugePages_Total": 64, "Active(anon)": 2048}


def test_file_of_a_node():
    """The node before each name is left out."""
    assert parse_meminfo("Node 0 MemTotal:       16 kB\nNode 0 HugePages_Free:     3\n") == {
        "MemTotal": 16384,
        "HugePages_Free": 3,
    }


@pytest.mark.parametrize(
    "bad", ["Dirty:", "Dirty", "Dirty: -4 kB", "Dirty: 9223372036854775807 kB", "Dirty: x kB"]
)
def test_bad_line_costs_only_itself(bad):
    """A line without a possible number is skipped."""
    assert parse_meminfo(f"{bad}\nMemFree: 1 kB\n") == {"MemFree": 1024}


def test_text_of_another_kind():
    """Where no line fits, the error names the file."""
    with pytest.raises(ParseError, match="meminfo"):
        parse_meminfo("nothing\n")


@given(
    st.text()
    | st.lists(st.sampled_from(["Node 0 ", "A", ":", " 5", " kB", "\n", " -1", " 9" * 3])).map("".join)
)
def test_any_text(text):
    """Nothing but ParseError leaves, and no value is negative."""
    try:
        values = parse_meminfo(text)
    except ParseError:
        return
    assert all(0 <= value < 2**63 for value in values.values())
