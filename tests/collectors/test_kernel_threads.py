"""CPU time of kernel threads."""

from gpuwait.collector import Reason
from gpuwait.collectors.kernel_threads import COLLECTOR


def _stat(name, *, parent=2, start=100, ticks=0):
    return f"7 ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 0 {ticks} 0 0 20 0 1 0 {start} 0 0\n"


def _thread(tree, pid, name, nanoseconds, **more):
    files = {f"proc/{pid}/stat": _stat(name, **more)}
    if nanoseconds is not None:
        files[f"proc/{pid}/schedstat"] = f"{nanoseconds} 5 6\n"
    tree.write(files)


def _remove(tree, pid):
    for file in (tree.root / "proc" / str(pid)).iterdir():
        file.unlink()
    (tree.root / "proc" / str(pid)).rmdir()


NAME = "kernel_thread_cpu_seconds_total"


def test_sum_over_nodes(tree):
    """Threads of a kind are summed; a process of the same name is none of them."""
    _thread(tree, 50, "kswapd0", 1_000_000_000)
    _thread(tree, 51, "kswapd1", 500_000_000)
    _thread(tree, 52, "kcompactd0", 250_000_000)
    _thread(tree, 53, "khugepaged", 125_000_000)
    _thread(tree, 54, "kswapd2", 9_000_000_000, parent=1)
    _thread(tree, 55, "kworker/0:1", 9_000_000_000)
    tree.write({"proc/self/stat": "", "proc/60/stat": "garbage"})
    assert tree.run(COLLECTOR) == (
        {(NAME, "kswapd"): 1.5, (NAME, "kcompactd"): 0.25, (NAME, "khugepaged"): 0.125},
        None,
    )


def test_without_schedstat(tree):
    """Without schedstat the ticks of 10 ms are taken."""
    _thread(tree, 50, "kswapd0", None, ticks=123)
    assert tree.run(COLLECTOR)[0] == {(NAME, "kswapd"): 1.23}


def test_vanished_thread(tree):
    """A thread that is gone drops its kind once; then its last value stays in the sum."""
    _thread(tree, 50, "kswapd0", 1_000_000_000)
    _thread(tree, 51, "kswapd1", 2_000_000_000)
    _thread(tree, 52, "khugepaged", 4_000_000_000)
    sources = tree.sources(clock=lambda: 0.0)
    assert tree.run(COLLECTOR, sources)[0] == {(NAME, "kswapd"): 3.0, (NAME, "khugepaged"): 4.0}
    _remove(tree, 51)
    assert tree.run(COLLECTOR, sources)[0] == {(NAME, "khugepaged"): 4.0}
    _thread(tree, 50, "kswapd0", 1_500_000_000)
    assert tree.run(COLLECTOR, sources)[0] == {(NAME, "kswapd"): 3.5, (NAME, "khugepaged"): 4.0}


def test_pid_used_again(tree):
    """Another process with the pid of a thread is not read as that thread."""
    _thread(tree, 50, "kswapd0", 1_000_000_000)
    sources = tree.sources(clock=lambda: 0.0)
    assert tree.run(COLLECTOR, sources)[0] == {(NAME, "kswapd"): 1.0}
    _thread(tree, 50, "python", 9_000_000_000, parent=1, start=999)
    assert tree.run(COLLECTOR, sources)[0] == {}
    assert tree.run(COLLECTOR, sources) == ({}, Reason.ABSENT)


def test_new_thread_is_found_within_a_minute(tree):
    """Threads are looked for once a minute."""
    now = [0.0]
    _thread(tree, 50, "kswapd0", 1_000_000_000)
    sources = tree.sources(clock=lambda: now[0])
    tree.run(COLLECTOR, sources)
    _thread(tree, 70, "khugepaged", 500_000_000)
    now[0] = 59.0
    assert tree.run(COLLECTOR, sources)[0] == {(NAME, "kswapd"): 1.0}
    now[0] = 60.0
    assert tree.run(COLLECTOR, sources)[0] == {(NAME, "kswapd"): 1.0, (NAME, "khugepaged"): 0.5}


def test_container(tree):
    """Where no kernel thread is to be seen there is no data, and no fault."""
    _thread(tree, 1, "python", 5, parent=0)
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)


def test_no_proc(tree):
    """Without a proc file system there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)
