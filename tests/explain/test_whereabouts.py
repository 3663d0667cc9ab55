"""What sleeping threads sleep in."""

import pytest

from gpuwait.explain import sleeps
from gpuwait.explain.whereabouts import sleep_class, states, whereabouts
from gpuwait.host import Host
from gpuwait.wait import snapshot as shots


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("futex_do_wait", "sleeping: lock"),
        ("futex_wait_queue", "sleeping: lock"),
        ("anon_pipe_read", "sleeping: pipe"),
        ("pipe_read", "sleeping: pipe"),
        ("do_epoll_wait", "sleeping: poll or select"),
        ("ep_poll", "sleeping: poll or select"),
        ("poll_schedule_timeout.constprop.0", "sleeping: poll or select"),
        ("hrtimer_nanosleep", "sleeping: timer"),
        ("do_wait", "sleeping: child process"),
        ("something_new", "sleeping: other"),
        ("0", "sleeping"),
        ("", "sleeping"),
    ],
)
def test_names_of_kernels_old_and_new(function, told):
    """Functions of 6.1 and 6.18 fall into the same class."""
    assert sleep_class(function) == told


def test_reads_wchan_of_threads(tmp_path):
    """Threads that ended and those that hide are left out; no more are read than asked for."""
    for tid, text in ((5, "futex_do_wait"), (6, "0"), (8, "ep_poll"), (9, "\xff\x00")):
        (tmp_path / str(tid)).mkdir()
        (tmp_path / str(tid) / "wchan").write_text(text, encoding="latin-1")
    host = Host(procfs=str(tmp_path))
    assert sleeps(host, [5, 6, 7, 8, 9]) == {
        5: "sleeping: lock",
        8: "sleeping: poll or select",
        9: "sleeping: other",
    }
    assert sleeps(host, [5, 8], most=1) == {5: "sleeping: lock"}


def job(sleepers, runners, total):
    """A snapshot of one workload with these threads looked at."""
    threads = {i: shots.Thread(0, 0, state="S") for i in range(sleepers)}
    threads |= {sleepers + i: shots.Thread(0, 0, state="R") for i in range(runners)}
    key = ("slurm", "", "9", "")
    return shots.Snapshot(1.0, shots.Host(), (), {key: shots.Workload(threads, total)}), key


def test_threads_that_were_not_looked_at_are_told():
    """The states add up to all threads; those left out are a line of their own, the last."""
    latest, key = job(3072, 1024, 5001)
    found = whereabouts(None, latest, [key], dict.fromkeys(range(1024), "sleeping: lock"))
    assert list(found.where.items())[-1] == ("not looked at", 905)
    assert sum(found.where.values()) == found.total == 5001
    assert found.note == "what 1,024 of the 3,072 sleepers sleep in was read"
    assert states(found) == "3,072 of 5,001 sleeping, 1,024 ready to run; 905 not looked at"


def test_all_looked_at_says_no_more():
    """Where every thread was looked at, and every sleep read or none asked for, nothing is added."""
    latest, key = job(2, 0, 2)
    assert whereabouts(None, latest, [key]).note == ""
    found = whereabouts(None, latest, [key], {0: "sleeping: lock", 1: "sleeping: pipe"})
    assert (found.note, found.where) == ("", {"sleeping: lock": 1, "sleeping: pipe": 1})
    assert states(found) == "2 of 2 sleeping"
