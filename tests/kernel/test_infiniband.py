"""Files of an InfiniBand port."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.infiniband import parse_counter, parse_rate, parse_state


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("900112233\n", 900112233),
        ("N/A (no PMA)\n", None),
        ("", None),
        ("18446744073709551615\n", None),
        ("-1", None),
    ],
)
def test_counter(text, value):
    """Text in place of a number means not available."""
    assert parse_counter(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("200 Gb/sec (4X HDR)\n", 25_000_000_000),
        ("2.5 Gb/sec (1X SDR)\n", 312_500_000),
        ("fast\n", None),
        ("", None),
        ("nan Gb/sec", None),
        ("inf Gb/sec", None),
        ("-1 Gb/sec", None),
        ("100 Mb/sec", None),
    ],
)
def test_rate(text, value):
    """A rate is in gigabits a second and becomes bytes a second."""
    assert parse_rate(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("4: ACTIVE\n", 4), ("1: DOWN\n", 1), ("ACTIVE\n", None), ("", None)]
)
def test_state(text, value):
    """A state begins with its number."""
    assert parse_state(text) == value


@given(st.text() | st.text(alphabet="0123456789. :Gb/sec"))
def test_any_text(text):
    """Nothing raises, and no value is negative."""
    for parse in (parse_counter, parse_rate, parse_state):
        value = parse(text)
        assert value is None or 0 <= value < float("inf")
