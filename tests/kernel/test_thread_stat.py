"""stat and schedstat of a thread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.thread_stat import ThreadStat, parse_schedstat, parse_thread_stat

TAIL = "S 2 0 0 0 -1 10754112 0 0 0 0 3 1204 0 0 20 0 1 0 112 0 0\n"


def test_kernel_thread():
    """Parent, start and CPU time: 3 and 1204 ticks of 10 ms."""
    assert parse_thread_stat(f"61 (kswapd0) {TAIL}") == ThreadStat("kswapd0", 2, 112, 12_070_000_000)


@pytest.mark.parametrize("name", ["a b", "a) S 1", "((", "", "a\nb", "a\\xff"])
def test_name_of_any_kind(name):
    """A name may hold spaces, parentheses and line feeds."""
    assert parse_thread_stat(f"61 ({name}) {TAIL}").name == name


@pytest.mark.parametrize("text", ["", "61 kswapd0 S 2", "61 (kswapd0) S 2 0", "61 (x) " + "y " * 30])
def test_no_stat(text):
    """Too few columns, or words for numbers, is an error."""
    with pytest.raises(ParseError, match="stat"):
        parse_thread_stat(text)


def test_schedstat():
    """The first number is the CPU time in nanoseconds."""
    assert parse_schedstat("12040771231 90211 3120\n") == 12040771231


@pytest.mark.parametrize("text", ["", "\n", "x 1 2", "-1 0 0", "18446744073709551615 0 0"])
def test_no_schedstat(text):
    """Anything but a possible number is an error."""
    with pytest.raises(ParseError, match="schedstat"):
        parse_schedstat(text)


@given(st.text() | st.lists(st.sampled_from(["61 ", "(", ")", "x ", "S 2 ", "0 " * 18, "-1 "])).map("".join))
def test_any_text(text):
    """Nothing but ParseError leaves, and no time is negative."""
    for parse in (parse_thread_stat, parse_schedstat):
        try:
            value = parse(text)
        except ParseError:
            continue
        assert (value if isinstance(value, int) else value.cpu_nanoseconds) >= 0
