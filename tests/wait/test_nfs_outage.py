"""Outages of an NFS server as a kernel showed them: what moves, when, and what stays wrong afterwards."""

import pytest

from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.snapshot import Host, Nfs, WaitClass, Workload
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
