"""What sleeping threads sleep in."""

import pytest

from gpuwait.explain import sleeps
from gpuwait.explain.whereabouts import sleep_class
from gpuwait.host import Host


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
