"""Outages of an NFS server as a kernel showed them: what moves, when, and what stays wrong afterwards."""

from dataclasses import replace

import pytest

from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.snapshot import Disk, Host, Nfs, Thread, WaitClass, Workload
from gpuwait.wait.verdict import Cause

PACE = 300  # reads a second while all is well
BEFORE = 30  # seconds


def healthy(counts, seconds, answered=PACE):
    """Let reads be answered in 1 ms."""
    return {
        **counts,
        "sends": counts["sends"] + answered * seconds,
        "receives": counts["receives"] + answered * seconds,
        "operations": counts["operations"] + answered * seconds,
        "transmissions": counts["transmissions"] + answered * seconds,
        "response_seconds": counts["response_seconds"] + answered * seconds * 0.001,
    }


def judged(film, steps):
    """Causes of ticks given as counters, share of looks with a thread blocked, and use of the GPU."""
    engine = Engine(Thresholds())
    before, causes = None, []
    for second, (counts, blocked, use) in enumerate(steps):
        load = Workload(looks=4, blocked={WaitClass.NFS: round(4 * blocked)}, cpu_seconds=second * 0.3)
        after = film.shot(u=use, load=load, host=Host(nfs={"/data": Nfs(**counts)}))
        if before is not None:
            (gpu,) = engine.judge(before, after).gpus
            causes.append(gpu.cause)
        before = after
    return causes


START = {
    "sends": 5000,
    "receives": 5000,
    "in_flight": 0,
    "operations": 5000,
    "transmissions": 5000,
    "timeouts": 0,
    "response_seconds": 5.0,
}


@pytest.fixture
def well():
    """Half a minute in which the GPU is busy and reads are answered."""
    return [(healthy(START, i), 0.25, 0.95) for i in range(BEFORE)]


def test_v4(film, well):
    """Version 4 sends nothing again: for 54 s only the state of the threads and the missing answers show it.

    Then 16 requests complete at once, with 215.762 s of response and 68 timeouts between them.
    """
    last = healthy(START, BEFORE)
    dead = {**last, "sends": last["sends"] + 16, "in_flight": 16}
    back = {
        **last,
        "sends": dead["sends"],
        "receives": last["receives"] + 16,
        "operations": last["operations"] + 16,
        "transmissions": last["transmissions"] + 16,
        "timeouts": 68,
        "response_seconds": last["response_seconds"] + 215.762,
    }
    after = [(healthy(back, i), 0.25, 0.95) for i in range(1, 20)]
    causes = judged(film, [*well, (last, 0.25, 0.95), *[(dead, 1.0, 0.0)] * 54, (back, 1.0, 0.3), *after])
    assert causes[:BEFORE] == [None] * BEFORE
    assert causes[BEFORE : BEFORE + 55] == [Cause.NFS] * 55
    assert causes[BEFORE + 55 :] == [None] * 19


def test_v3(film, well):
    """Version 3 sends again, 68 times in 26 s, and counts each as a send for which no answer ever comes.

    So 68 requests seem to be in flight for ever after; a slow job on a healthy mount is not NFS's fault.
    """
    last = healthy(START, BEFORE)
    steps = [*well, (last, 0.25, 0.95)]
    for second in range(1, 27):
        sent = last["sends"] + 16 + second * 68 // 26
        steps.append(({**last, "sends": sent, "in_flight": sent - last["receives"]}, 1.0, 0.0))
    back = {
        **last,
        "sends": last["sends"] + 84,
        "receives": last["receives"] + 16,
        "in_flight": 68,
        "operations": last["operations"] + 16,
        "transmissions": last["transmissions"] + 84,
        "timeouts": 32,
        "response_seconds": last["response_seconds"] + 6.457,
    }
    steps.append((back, 1.0, 0.3))
    steps += [(healthy(back, i), 0.5, 0.6) for i in range(1, 20)]
    causes = judged(film, steps)
    assert causes[BEFORE : BEFORE + 27] == [Cause.NFS] * 27
    assert causes[BEFORE + 27 :] == [Cause.UNEXPLAINED] * 19


def test_daemon_started_amid_an_outage(film):
    """Without any history the missing answers and the blocked threads suffice."""
    dead = {**START, "sends": 5016, "in_flight": 16}
    assert judged(film, [(dead, 1.0, 0.0)] * 40) == [Cause.NFS] * 39


def test_mount_that_others_left_broken(film):
    """A request lost long ago on an idle mount does not make NFS the cause of a healthy job's waiting."""
    engine = Engine(Thresholds())
    idle = Nfs(501, 500, 1, 500, 500, 0, 9.0)
    before, causes = None, []
    for second in range(200):
        data = Nfs(**healthy(START, second))
        load = Workload(looks=4, blocked={WaitClass.NFS: 2}, cpu_seconds=second * 0.3)
        use = 0.9 if second < 100 else 0.6
        after = film.shot(u=use, load=load, host=Host(nfs={"/data": data, "/home": idle}))
        if before is not None:
            (gpu,) = engine.judge(before, after).gpus
            causes.append(gpu.cause)
        before = after
    assert set(causes[100:]) == {Cause.UNEXPLAINED}


LOADER = Thread(40.0, 5.0, 1.5, name="pt_data_worker", state="D", wait=WaitClass.NFS)
STUCK = replace(LOADER, wait=WaitClass.PAGE)
OFTEN = {second: replace(LOADER, queue_seconds=1.5 + second * 0.001) for second in range(200)}


def judged_with_threads(film, ticks, other=()):
    """Cause of the last tick; a tick is the counters of /data, its loader, use of the GPU, and the disks.

    other: further mounts, whose servers answer five requests a second.
    """
    engine = Engine(Thresholds())
    before, cause = None, None
    for second, (counts, thread, use, disks) in enumerate(ticks):
        load = Workload(
            threads={41: thread},
            thread_count=1,
            looks=4,
            blocked={thread.wait: 4} if thread.wait else {},
            cpu_seconds=second * 0.3,
        )
        others = {point: Nfs(**healthy(START, second, 5)) for point in other}
        host = Host(nfs={"/data": Nfs(**counts)} | others, disks=disks)
        after = film.shot(u=use, load=load, host=host)
        if before is not None:
            (gpu,) = engine.judge(before, after).gpus
            cause = gpu.cause
        before = after
    return cause


def stopped(thread, pace=PACE, disks=({},) * 10):
    """Half a minute of answers, then ten seconds without any, and without a request that waits for one."""
    well = [(healthy(START, i, pace), OFTEN[i], 0.95, disks[0]) for i in range(BEFORE)]
    last = healthy(START, BEFORE, pace)
    return [*well, *((last, thread(i), 0.05, disks[i]) for i in range(10))]


def test_server_that_shut_down(film):
    """A server that stops in order leaves nothing in flight, and its clients cannot send: all stands still.

    Seen with version 4.2 on Linux 6.1: only the threads that do not run any more show it.
    """
    assert judged_with_threads(film, stopped(lambda _: LOADER)) is Cause.NFS


def test_server_that_shut_down_under_readers_of_pages(film):
    """The same where all threads wait for pages of files on the mount."""
    assert judged_with_threads(film, stopped(lambda _: STUCK)) is Cause.NFS


def retrying(second):
    """A thread that tries to connect every third second, which takes it some tenths of a millisecond."""
    return replace(LOADER, queue_seconds=1.5 + second // 3 * 0.0004)


def test_server_that_refuses_connections(film):
    """With version 3 the waiting threads themselves try to connect: every 3 s they run for a moment."""
    for end in (-2, -1, None):
        assert judged_with_threads(film, stopped(retrying)[:end]) is Cause.NFS


def test_server_that_refuses_connections_beside_one_that_answers(film):
    """Another mount that answers does not hide it."""
    for end in (-2, -1, None):
        assert judged_with_threads(film, stopped(retrying)[:end], ["/home"]) is Cause.NFS


def test_daemon_started_after_the_server_shut_down(film):
    """No mount answers anything, and a thread waits for NFS without a pause: that needs no history."""
    assert judged_with_threads(film, [(START, LOADER, 0.05, {})] * 20) is Cause.NFS


def test_threads_that_run_on(film):
    """Threads that wait for NFS at each look, but ran between, are served by the mount that answers."""
    assert judged_with_threads(film, stopped(lambda i: OFTEN[50 + i]), ["/home"]) is Cause.UNEXPLAINED


def test_page_of_another_file_system(film):
    """A page that does not come is not of a mount that hardly answered before."""
    assert judged_with_threads(film, stopped(lambda _: STUCK, pace=2)) is Cause.UNEXPLAINED


def test_page_of_a_disk_that_hangs(film):
    """While a disk has requests and completes none, the page may be there: NFS is not named."""
    disks = [{"sda": Disk(900, 9.0, 50.0 + i, 80.0 + i, 1)} for i in range(10)]
    assert judged_with_threads(film, stopped(lambda _: STUCK, disks=disks)) is not Cause.NFS


def test_without_schedstat(film):
    """CPU times in hundredths of a second do not tell whether a thread ran: nothing is concluded."""
    thread = replace(LOADER, queue_seconds=None)
    assert judged_with_threads(film, stopped(lambda _: thread)) is Cause.UNEXPLAINED
