"""Where the threads of a workload are, for a verdict that has no cause. Pure but for `sleeps`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpuwait.explain.model import Busy, Whereabouts
from gpuwait.explain.wording import printable
from gpuwait.host import Host, read_bytes
from gpuwait.wait.snapshot import Key, Snapshot, Thread, WaitClass

#: The state of a thread that sleeps, alone or with what it sleeps in behind a colon.
SLEEPS = "sleeping"
#: Stands for those that a pass had no room for.
UNSEEN = "not looked at"
#: Threads shown by name.
BUSIEST = 5
#: Threads whose sleep is looked up; 4 us each.
MOST = 1024
#: Share of a core below which a thread is not running.
_RUNS = 0.05

_BLOCKED: Mapping[WaitClass, str] = {
    WaitClass.NFS: "blocked: NFS",
    WaitClass.LUSTRE: "blocked: Lustre",
    WaitClass.GPFS: "blocked: GPFS",
    WaitClass.LOCAL_IO: "blocked: local I/O",
    WaitClass.DIRTY: "blocked: dirty throttling",
    WaitClass.MMAP_LOCK: "blocked: memory map lock",
    WaitClass.PAGE: "blocked: a page of a file",
    WaitClass.OTHER: "blocked: other",
}

#: Beginnings of the kernel functions that a thread sleeps in (5.4 to 6.18), and what that says.
_SLEEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("sleeping: lock", ("futex_",)),
    ("sleeping: pipe", ("pipe_", "anon_pipe_", "wait_for_partner")),
    (
        "sleeping: poll or select",
        ("do_poll", "poll_schedule", "do_sys_poll", "do_select", "ep_poll", "do_epoll", "io_cqring"),
    ),
    ("sleeping: socket", ("sk_wait", "inet_csk_accept", "wait_woken", "unix_", "__skb_wait", "tcp_")),
    ("sleeping: timer", ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "do_sigtimed")),
    ("sleeping: child process", ("do_wait", "kernel_wait", "wait4")),
)


def whereabouts(
    earlier: Snapshot | None,
    latest: Snapshot,
    keys: Iterable[Key],
    sleeping: Mapping[int, str] | None = None,
) -> Whereabouts | None:
    """States of the threads and the busiest of them; None where no thread is known.

    earlier:  a snapshot some seconds before, for shares of CPU; without it none are told.
    sleeping: from `sleeps`, by thread id.
    """
    where: Counter[str] = Counter()
    busy: list[Busy] = []
    total = 0
    dt = latest.at - earlier.at if earlier is not None else 0.0
    for key in dict.fromkeys(keys):
        load = latest.workloads.get(key)
        if load is None:
            continue
        total += max(load.thread_count, len(load.threads))
        old = earlier.workloads.get(key) if earlier is not None else None
        for tid, thread in load.threads.items():
            before = old.threads.get(tid) if old is not None else None
            used = _used(tid, before, thread, dt)
            busy.append(used)
            where[_where(thread, used, (sleeping or {}).get(tid))] += 1
    if not busy:
        return None
    busy = [one for one in busy if one.user + one.system > 0.001]
    busy.sort(key=lambda one: (-(one.user + one.system), one.tid))
    found = dict(where.most_common())
    unseen = total - sum(where.values())
    if unseen > 0:
        found[UNSEEN] = unseen
    return Whereabouts(total, found, tuple(busy[:BUSIEST]), _note(where, sleeping))


def _note(where: Mapping[str, int], sleeping: Mapping[int, str] | None) -> str:
    """Of how many sleepers it is known what they sleep in, where that is not all."""
    sleepers = sum(count for state, count in where.items() if state.startswith(SLEEPS))
    unread = where.get(SLEEPS, 0)
    if sleeping is None or not unread:
        return ""
    return f"what {sleepers - unread:,} of the {sleepers:,} sleepers sleep in was read"


def states(threads: Whereabouts) -> str:
    """One line: how many threads are in which state, the sleepers together."""
    sleepers = sum(count for state, count in threads.where.items() if state.startswith(SLEEPS))
    rest = {s: n for s, n in threads.where.items() if not s.startswith(SLEEPS) and s != UNSEEN}
    parts = [f"{sleepers:,} of {threads.total:,} sleeping"] if sleepers else []
    parts += [f"{count:,} {state}" for state, count in rest.items()]
    unseen = threads.where.get(UNSEEN, 0)
    return ", ".join(parts) + (f"; {unseen:,} not looked at" if unseen else "")


def _used(tid: int, before: Thread | None, after: Thread, dt: float) -> Busy:
    user = system = 0.0
    if before is not None and dt > 0:
        user = min(1.0, max(0.0, (after.user_seconds - before.user_seconds) / dt))
        system = min(1.0, max(0.0, (after.system_seconds - before.system_seconds) / dt))
    return Busy(printable(after.name, 32) or "?", user, system, tid)


def _where(thread: Thread, used: Busy, sleep: str | None) -> str:
    if thread.state == "D":
        return _BLOCKED.get(thread.wait, "blocked: other") if thread.wait else "blocked: other"
    if thread.state == "R" or used.user + used.system >= 0.5:
        if used.user + used.system < _RUNS:
            return "ready to run"
        return "running: user mode" if used.user >= used.system else "running: system mode"
    if thread.state in {"T", "t"}:
        return "stopped"
    return sleep or SLEEPS


def sleep_class(function: str) -> str:
    """What a sleeping thread waits for, by the kernel function in its `wchan`."""
    for text, beginnings in _SLEEPS:
        if function.startswith(beginnings):
            return text
    return "sleeping: other" if function not in {"", "0"} else "sleeping"


def sleeps(host: Host, tids: Iterable[int], most: int = MOST) -> dict[int, str]:
    """What these threads sleep in; those that ended or may not be looked at are left out."""
    found = {}
    for tid, _ in zip(tids, range(most), strict=False):
        try:
            name = read_bytes(f"{host.procfs}/{tid}/wchan").decode("ascii", "replace").strip()
        except OSError:  # ended meanwhile, or no permission: then it is plainly sleeping
            continue
        if name not in {"", "0"}:
            found[tid] = sleep_class(name)
    return found
