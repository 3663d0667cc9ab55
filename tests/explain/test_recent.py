"""What is remembered between ticks."""

from gpuwait.explain import Recent
from gpuwait.wait.snapshot import Host, Snapshot
from gpuwait.wait.verdict import Cause, GpuVerdict, State, Verdict


def tick(at, seconds, cause=None):
    return Verdict(at, 1.0, (GpuVerdict(0, "u", seconds, cause, None),))


def test_columns_of_five_seconds():
    """Seconds of one column add up by state, those of waiting by cause; the newest column is the last."""
    recent = Recent()
    for at in (3.0, 4.0):
        recent.add(tick(at, {State.BUSY: 0.5, State.WAITING: 0.5}, Cause.NFS), Snapshot(at, Host()))
    recent.add(tick(10.5, {State.BUSY: 1.0}), Snapshot(10.5, Host()))
    (strip,) = recent.strips()
    assert (strip.index, strip.uuid, len(strip.columns)) == (0, "u", 60)
    assert strip.columns[-3:] == ({"busy": 1.0, "nfs": 1.0}, None, {"busy": 1.0})
    assert set(strip.columns[:-3]) == {None}


def test_five_minutes_are_kept():
    """Older columns go, so that memory stays flat."""
    recent = Recent()
    for at in range(2000):
        recent.add(tick(float(at), {State.BUSY: 1.0}), Snapshot(float(at), Host()))
    (strip,) = recent.strips()
    assert set(map(str, strip.columns)) == {"{'busy': 5.0}"}
    assert len(recent._columns) == 60


def test_the_node_is_shown_as_it_was_while_a_gpu_waited():
    """A report just after an incident tells the settings of the incident, one long after those of now."""
    recent, history = Recent(), []
    for at in range(1, 100):
        waits = at == 30
        now = tick(
            float(at), {State.WAITING if waits else State.BUSY: 1.0}, Cause.COMPACTION if waits else None
        )
        history.append(now)
        recent.add(now, Snapshot(float(at), Host(unusable_ratio={0: 0.99 if waits else 0.1})))
        if at == 32:
            # 1 s of 32 is below what is worth saying: judge the incident alone
            row = recent.report(history[25:]).explanations[0]
            assert row.evidence[0].value == 0.99
    assert recent.report(history[95:]).explanations[0].verdict == "healthy"


def test_only_the_last_minute_counts():
    """Verdicts older than a minute are left out, whatever is given."""
    recent = Recent()
    history = [tick(float(at), {State.BUSY: 1.0}) for at in range(1, 301)]
    recent.add(history[-1], Snapshot(300.0, Host()))
    assert recent.report(history).window_seconds == 60.0


def test_sleeps_are_asked_for_only_where_they_are_shown():
    """Wait channels of sleeping threads are read for an unexplained wait alone."""
    asked = []

    def sleeps(tids):
        asked.append(tids)
        return {}

    recent = Recent()
    for cause, count in ((Cause.NFS, 0), (Cause.UNEXPLAINED, 1)):
        now = tick(1.0, {State.WAITING: 1.0}, cause)
        recent.add(now, Snapshot(1.0, Host()))
        recent.report([now], sleeps=sleeps)
        assert len(asked) == count


def test_nothing_yet():
    """Before the first snapshot there is one line."""
    assert Recent().report([]).summary == "No readings yet."
    assert Recent().strips() == []
