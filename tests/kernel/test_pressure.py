"""Pressure files of the system and of cgroups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.pressure import Pressure, parse_pressure

SOME = "some avg10=2.71 avg60=2.80 avg300=2.95 total=111802447190\n"
FULL = "full avg10=0.00 avg60=0.09 avg300=0.31 total=81120\n"


def test_both_lines():
    """Totals are microseconds, and may be above 2^32."""
    assert parse_pressure(SOME + FULL) == Pressure(some=111802447190, full=81120)


def test_cpu_before_5_13():
    """Without the line `full` that total is absent, not 0."""
    assert parse_pressure(SOME) == Pressure(some=111802447190, full=None)


def test_interrupts():
    """Interrupts have the line `full` only."""
    assert parse_pressure(FULL) == Pressure(some=None, full=81120)


def test_impossible_total():
    """A total of 2^63 and more is absent; the other line stays."""
    text = "some avg10=0.00 total=18446744073709551615\n" + FULL
    assert parse_pressure(text) == Pressure(some=None, full=81120)


def test_new_line_and_column():
    """A kind of line or a column of later kernels is ignored."""
    assert parse_pressure("most avg10=1.00 total=5\nsome avg10=0.00 total=7 max=3\n") == Pressure(some=7)


def test_empty_file():
    """An empty file tells nothing."""
    assert parse_pressure("") == Pressure()


def test_text_of_another_kind():
    """Where no line has a total, that is an error."""
    with pytest.raises(ParseError, match="no line has a total"):
        parse_pressure("nothing\n")


@given(
    st.text()
    | st.lists(st.sampled_from(["some", "full", " avg10=1.00", " total=", "7", "-", "\n"])).map("".join)
)
def test_any_text(text):
    """Nothing but ParseError leaves, and no total is negative."""
    try:
        pressure = parse_pressure(text)
    except ParseError:
        return
    assert pressure.some is None or pressure.some >= 0
    assert pressure.full is None or pressure.full >= 0
