"""Threads, and the CPUs of a node."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numa_stat import parse_numa_stat
from gpuwait.kernel.task import Task, parse_cpulist, parse_queue, parse_task

STAT = (
    b"4242 (pt (data) loader) D 4240 4240 4240 0 -1 4194368 921 0 12 0 1204 388 0 0 20 0 41 0 91820 "
    b"17002496 3011 18446744073709551615 1 1 0 0 0 0 0 16781312 16386 0 0 0 17 37 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


def test_a_thread():
    """The name ends at the last parenthesis; times are ticks; the last CPU is column 39 of the file."""
    assert parse_task(STAT) == Task("pt (data) loader", "D", 4240, 1204, 388, 91820, 37)


def test_without_a_cpu():
    """A line that ends early has no last CPU, and one that cannot be true is none."""
    assert parse_task(STAT[: STAT.index(b" 17 37")]).cpu is None
    assert parse_task(STAT.replace(b" 17 37 ", b" 17 -1 ")).cpu is None
    assert parse_task(STAT.replace(b" 17 37 ", b" 17 99999999 ")).cpu is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"4242",
        b"4242 x S 1 2 3",
        STAT.replace(b"1204", b"-4"),
        STAT.replace(b"388", b"99999999999999999999"),
        STAT.replace(b"1204", b"many"),
    ],
)
def test_no_thread(text):
    """What is no thread is refused."""
    with pytest.raises(ParseError):
        parse_task(text)


def test_run_queue():
    """The second number of schedstat."""
    assert parse_queue(b"15920771231 90211704 31204\n") == 90211704
    assert parse_queue(b"15920771231 -5 3\n") is None
    assert parse_queue(b"") is None
    assert parse_queue(b"1 99999999999999999999 1") is None


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8\n", [0, 1, 2, 3, 8]), ("\n", []), ("5", [5]), ("x,1-,2", [2]), ("0-99999999", [])],
)
def test_cpulist(text, cpus):
    """Ranges and single CPUs; a part that is none is skipped."""
    assert parse_cpulist(text) == cpus


def test_memory_by_node():
    """v2 adds up anonymous and file memory in bytes; v1 has pages, and the sum over groups inside counts."""
    v2 = "anon N0=1048576 N1=4096\nfile N0=8192 N1=0\nkernel_stack N0=999 N1=999\n"
    assert parse_numa_stat(v2, 4096) == {0: 1056768, 1: 4096}
    v1 = "total=3 N0=1 N1=2\nfile=1 N0=1 N1=0\nhierarchical_total=30 N0=10 N1=20\n"
    assert parse_numa_stat(v1, 4096) == {0: 40960, 1: 81920}
    assert parse_numa_stat("total=3 N0=1 N1=2\n", 65536) == {0: 65536, 1: 131072}
    assert parse_numa_stat("", 4096) == {}
    assert parse_numa_stat("anon N0=-1 Nx=3 N1=18446744073709551615 N2=7\n", 4096) == {2: 7}
    with pytest.raises(ParseError):
        parse_numa_stat("nothing here", 4096)


@given(st.binary(max_size=300), st.integers(0, 260), st.binary(max_size=6))
def test_arbitrary_bytes(noise, cut, change):
    """Nothing but ParseError, and no negative number."""
    for text in (noise, STAT[:cut], STAT[:cut] + change + STAT[cut + len(change) :]):
        try:
            task = parse_task(text)
        except ParseError:
            continue
        assert min(task.user, task.system, task.start) >= 0
        assert task.cpu is None or task.cpu >= 0
    queue = parse_queue(noise)
    assert queue is None or queue >= 0


@given(st.text(max_size=200))
def test_arbitrary_text(text):
    """Nothing but ParseError, and no negative number."""
    assert all(cpu >= 0 for cpu in parse_cpulist(text))
    with suppress(ParseError):
        assert all(size >= 0 for size in parse_numa_stat(text, 4096).values())
