"""Files of one cgroup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.cgroup_files import (
    parse_cfs_quota,
    parse_cpu_max,
    parse_flat_keyed,
    parse_limit,
    parse_number,
)
from gpuwait.kernel.errors import ParseError


def test_flat_keyed_v2_cpu_stat() -> None:
    """Every line of a v2 cpu.stat is a key and a number."""
    text = "usage_usec 300\nuser_usec 200\nsystem_usec 100\nnr_periods 7\ncore_sched.force_idle_usec 0\n"
    assert parse_flat_keyed(text, "cpu.stat") == {
        "usage_usec": 300,
        "user_usec": 200,
        "system_usec": 100,
        "nr_periods": 7,
        "core_sched.force_idle_usec": 0,
    }


def test_flat_keyed_without_final_newline() -> None:
    """A text whose last line is not ended loses nothing."""
    assert parse_flat_keyed("user 12\nsystem 34", "cpuacct.stat") == {"user": 12, "system": 34}


def test_flat_keyed_odd_lines_cost_themselves() -> None:
    """A line without a number, with two numbers or with text is left out alone."""
    text = "user_usec 5\nsystem_usec\nnr_periods 1 2\nnr_throttled x\nthrottled_usec 9\n"
    assert parse_flat_keyed(text, "cpu.stat") == {"user_usec": 5, "throttled_usec": 9}


def test_flat_keyed_impossible_counters() -> None:
    """Negative numbers and those of 2^63 and more are no counters."""
    text = "a -1\nb 9223372036854775808\nc 18446744073709551615\nd 9223372036854775807\n"
    assert parse_flat_keyed(text, "cpu.stat") == {"d": 9223372036854775807}


def test_flat_keyed_empty() -> None:
    """An empty file has no fields and is no fault."""
    assert parse_flat_keyed("", "cpu.stat") == {}


def test_flat_keyed_foreign_text() -> None:
    """A text without any key and number is named as unreadable."""
    with pytest.raises(ParseError, match=r"memory\.events"):
        parse_flat_keyed("nonsense\n", "memory.events")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096\n", 4096),
        ("0\n", 0),
        ("", None),
        ("\n", None),
        ("-5\n", None),
        ("18446744073709551615\n", None),
    ],
)
def test_number(text: str, value: int | None) -> None:
    """A number is taken as it is; what cannot be true is absent."""
    assert parse_number(text, "memory.current") == value


def test_number_foreign_text() -> None:
    """A text that is no number is named as unreadable."""
    with pytest.raises(ParseError, match=r"memory\.current"):
        parse_number("four\n", "memory.current")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max\n", None),
        ("1073741824\n", 1073741824),
        ("0\n", 0),
        ("9223372036854771712\n", None),  # pages of 4 KiB
        ("9223372036854710272\n", None),  # pages of 64 KiB
        ("9223372036854775807\n", None),
        ("", None),
        ("-1\n", None),
    ],
)
def test_limit(text: str, value: int | None) -> None:
    """Both versions' ways to say "no limit" are no limit."""
    assert parse_limit(text, "memory.max") == value


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000\n", None),
        ("400000 100000\n", 4.0),
        ("50000 100000\n", 0.5),
        ("50000 0\n", None),
        ("50000\n", None),
        ("", None),
        ("max", None),
    ],
)
def test_cpu_max(text: str, cores: float | None) -> None:
    """The quota in CPUs is quota by period."""
    assert parse_cpu_max(text) == cores


@pytest.mark.parametrize(
    ("quota", "period", "cores"),
    [
        ("-1\n", "100000\n", None),
        ("200000\n", "100000\n", 2.0),
        ("200000\n", "", None),
        ("", "100000\n", None),
    ],
)
def test_cfs_quota(quota: str, period: str, cores: float | None) -> None:
    """The v1 quota in CPUs; -1 is no limit."""
    assert parse_cfs_quota(quota, period) == cores


TEXTS = st.text() | st.builds(
    lambda at, insert: "usage_usec 300\nuser_usec 200\n400000 100000\n"[:at] + insert,
    st.integers(0, 40),
    st.text(max_size=9),
)


@given(TEXTS, TEXTS)
def test_any_text(text: str, other: str) -> None:
    """No text raises anything but ParseError or gives a number below zero or of 2^63 and more."""
    values: list[float] = []
    for parse in (
        lambda: values.extend(parse_flat_keyed(text, "f").values()),
        lambda: values.append(parse_number(text, "f") or 0),
        lambda: values.append(parse_limit(text, "f") or 0),
        lambda: values.append(parse_cpu_max(text) or 0),
        lambda: values.append(parse_cfs_quota(text, other) or 0),
    ):
        try:
            parse()
        except ParseError:
            continue
    assert all(0 <= value < 2**63 for value in values)
