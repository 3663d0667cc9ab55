"""Numbers in kernel text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter, named_counters


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0", 0),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", None),
        ("18446743919241604546", None),
        ("-1", None),
        ("1.5", None),
        ("1_0", None),
        ("", None),
        ("\u00b2", None),
        ("9" * 5000, None),
    ],
)
def test_counter(word, value):
    """Only an unsigned decimal number below 2^63 is a value."""
    assert counter(word) == value


def test_lines_of_names_with_numbers():
    """Each line gives one value."""
    assert named_counters("a 1\nb 2\n", "file") == {"a": 1, "b": 2}


@pytest.mark.parametrize("bad", ["word", "a b c", "x -5", "x 18446743919241604546", "x 1.5", ""])
def test_bad_line_costs_only_itself(bad):
    """A line of another shape, or with an impossible number, is skipped."""
    assert named_counters(f"a 1\n{bad}\nb 2\n", "file") == {"a": 1, "b": 2}


def test_two_bad_lines_do_not_hide_each_other():
    """A line without a number before one with two moves no value to another name."""
    assert named_counters("a\nb 1 2\nc 3\n", "file") == {"b": 1, "c": 3}


def test_empty_text():
    """An empty file has no values."""
    assert named_counters("", "file") == {}


def test_text_of_another_kind():
    """Where no line fits, the error names the file."""
    with pytest.raises(ParseError, match="some/file"):
        named_counters("no such thing here\n", "some/file")


@given(st.text() | st.lists(st.sampled_from(["a", "b", " ", "\n", "1", "-1", "9" * 19, "1e3"])).map("".join))
def test_any_text(text):
    """Nothing but ParseError leaves, and no value is negative or 2^63 and more."""
    try:
        values = named_counters(text, "file")
    except ParseError:
        return
    assert all(0 <= value < 2**63 for value in values.values())
