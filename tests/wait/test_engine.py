"""Where the time of a GPU goes."""

from dataclasses import replace

import pytest

from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.snapshot import Delay, Host, Pressure, Thread, Workload
from gpuwait.wait.verdict import Cause, State


@pytest.fixture
def engine():
    return Engine(Thresholds())


def only(verdict):
    (gpu,) = verdict.gpus
    return gpu


def works(second, cores=0.5):
    """A workload that runs and is not blocked."""
    return Workload(threads={1: Thread(0, 0)}, cpu_seconds=second * cores)


def compacts(second, share, stalls=100):
    """A workload that compacts for that share of its time since the start."""
    load = Workload(
        thread_count=1,
        cpu_seconds=float(second),
        delays={1: {Delay.COMPACT: second * share}},
        covered=1.0,
    )
    return {"load": load, "host": Host(vmstat={"compact_stall": int(second * stalls)})}


def run(engine, film, *shots):
    """Verdicts on shots given as keywords."""
    before = film.shot(**shots[0])
    verdicts = []
    for shot in shots[1:]:
        after = film.shot(**shot)
        verdicts.append(engine.judge(before, after))
        before = after
    return verdicts


def test_busy_and_gap(engine, film):
    """At or above 70 % the rest is pipeline slack, measured against the time that really passed."""
    (verdict,) = run(engine, film, {"u": 0.5}, {"u": 0.75, "dt": 1.25})
    gpu = only(verdict)
    assert verdict.dt == 1.25
    assert gpu.seconds == {State.BUSY: pytest.approx(0.9375), State.GAP: pytest.approx(0.3125)}
    assert gpu.cause is None
    assert gpu.state is State.GAP


def test_waiting_without_a_cause(engine, film):
    """Below the line with a workload that runs and nothing wrong: waiting, unexplained."""
    (verdict,) = run(engine, film, {"u": 0.5, "load": works(1)}, {"u": 0.6, "load": works(2)})
    gpu = only(verdict)
    assert gpu.seconds == {State.BUSY: pytest.approx(0.6), State.WAITING: pytest.approx(0.4)}
    assert gpu.cause is Cause.UNEXPLAINED


def test_waiting_with_a_cause(engine, film):
    """The cause of the strongest evidence comes first in the verdict."""
    shots = [{"u": 0.2, **compacts(i, 0.5)} for i in (1, 2)]
    gpu = only(run(engine, film, *shots)[0])
    assert gpu.cause is Cause.COMPACTION
    assert gpu.evidence[0].share == pytest.approx(0.5)
    assert len(gpu.evidence) == len(Cause) - 1


def test_last_reading_without_samples(engine, film):
    """Without the driver's samples the last reading counts."""
    (verdict,) = run(engine, film, {"utilization": 0.2}, {"utilization": 0.9})
    assert only(verdict).seconds[State.BUSY] == pytest.approx(0.9)


def test_samples_that_stand_still(engine, film):
    """Where the samples did not advance the last reading counts."""
    shots = [{"busy_seconds": 5.0, "observed_seconds": 9.0, "utilization": 0.8}] * 2
    assert only(run(engine, film, *shots)[0]).seconds[State.BUSY] == pytest.approx(0.8)


def test_samples_at_rest(engine, film):
    """Samples that advance without busy time are a use of 0, whatever the last reading says."""
    shots = [
        {"busy_seconds": 5.0, "observed_seconds": at, "utilization": 0.8, "load": works(at)}
        for at in (9.0, 10.0)
    ]
    assert only(run(engine, film, *shots)[0]).seconds[State.BUSY] == 0


def test_samples_beyond_the_possible(engine, film):
    """More busy than observed time is 100 %."""
    shots = [{"busy_seconds": 2 * at, "observed_seconds": at} for at in (9.0, 10.0)]
    assert only(run(engine, film, *shots)[0]).seconds[State.BUSY] == 1.0


@pytest.mark.parametrize("fields", [{"up": False, "u": 0.5}, {"up": None, "u": 0.5}, {}])
def test_unknown(engine, film, fields):
    """A lost GPU, a reader that does not answer, and no reading are unknown."""
    (verdict,) = run(engine, film, {"u": 0.5}, fields)
    assert only(verdict).seconds == {State.UNKNOWN: 1.0}


@pytest.mark.parametrize("u", [float("nan"), -1.0])
def test_nonsense_reading(engine, film, u):
    """A reading that is no share is no reading."""
    assert only(run(engine, film, {"utilization": 0.5}, {"utilization": u})[0]).seconds == {
        State.UNKNOWN: 1.0
    }


@pytest.mark.parametrize("allocated", [False, None])
def test_free(engine, film, allocated):
    """Without a process and not given to anybody, or nobody knows: free."""
    fields = {"u": 0.0, "in_use": False, "allocated": allocated, "workloads": ()}
    assert only(run(engine, film, fields, fields)[0]).seconds == {State.BUSY: 0, State.FREE: 1.0}


def test_given_but_not_held(engine, film):
    """Given to a pod that has not opened it: idle."""
    fields = {"u": 0.0, "in_use": False, "allocated": True}
    assert only(run(engine, film, fields, fields)[0]).state is State.IDLE


def asleep(second, **fields):
    return Workload(**({"cpu_seconds": second * 0.005, "looks": 1} | fields))


def test_notebook_is_idle_from_its_first_tick(engine, film):
    """A GPU that never was busy, with a workload that sleeps, is idle at once."""
    shots = [{"u": 0.0, "load": asleep(i)} for i in range(3)]
    assert [only(v).state for v in run(engine, film, *shots)] == [State.IDLE, State.IDLE]


def test_pause_becomes_idle(engine, film):
    """A GPU that was busy waits for 15 s with its workload asleep, then it is idle."""
    shots = [{"u": 0.9, "load": asleep(0)}] * 2 + [{"u": 0.0, "load": asleep(i)} for i in range(20)]
    states = [only(v).state for v in run(engine, film, *shots)]
    assert states[1:15] == [State.WAITING] * 14
    assert states[15:] == [State.IDLE] * 6


@pytest.mark.parametrize(
    "alive",
    [
        lambda i: {"cpu_seconds": i * 0.021},
        lambda i: {"blocked": {"nfs": 1}},
        lambda i: {"pressure": {"io": Pressure(i * 0.021)}},
    ],
    ids=["runs", "blocked", "pressure"],
)
def test_workload_that_runs_or_blocks_is_not_idle(engine, film, alive):
    """A workload that runs, is blocked or is under pressure is not asleep, however long the GPU rests."""
    shots = [{"u": 0.0, "load": asleep(i, **alive(i))} for i in range(40)]
    assert {only(v).state for v in run(engine, film, *shots)} == {State.WAITING}


@pytest.mark.parametrize("u", [0.02, 0.3, 0.69])
def test_used_a_little_by_a_sleeper_is_idle(engine, film, u):
    """A workload never seen awake is idle at any use below the line; what is busy counts as busy."""
    shots = [{"u": u, "load": asleep(i)} for i in range(4)]
    for verdict in run(engine, film, *shots):
        assert only(verdict).seconds == {State.BUSY: pytest.approx(u), State.IDLE: pytest.approx(1 - u)}
        assert only(verdict).cause is None


def test_sleeper_that_worked_before_waits_first(engine, film):
    """After work, a workload that sleeps while its GPU shows some use waits for 15 s, then it is idle."""
    shots = [{"u": 0.9, "load": asleep(0)}] * 2 + [{"u": 0.3, "load": asleep(i)} for i in range(20)]
    states = [only(v).state for v in run(engine, film, *shots)]
    assert states[1:15] == [State.WAITING] * 14
    assert states[15:] == [State.IDLE] * 6


def test_a_burst_wakes_a_sleeper_whose_gpu_is_used(engine, film):
    """CPU time in one tick starts the 15 s anew, and the verdict is waiting until they are over."""
    cpu, shots = 0.0, []
    for i in range(40):
        cpu += 0.5 if i == 10 else 0.005
        shots.append({"u": 0.3, "load": asleep(0, cpu_seconds=cpu)})
    states = [only(v).state for v in run(engine, film, *shots)]
    assert states[:9] == [State.IDLE] * 9
    assert states[9:24] == [State.WAITING] * 15
    assert set(states[24:]) == {State.IDLE}


def test_a_burst_of_a_notebook_costs_one_tick(engine, film):
    """A GPU that is not used at all is idle again as soon as its workload sleeps again."""
    cpu, shots = 0.0, []
    for i in range(20):
        cpu += 0.5 if i == 10 else 0.005
        shots.append({"u": 0.0, "load": asleep(0, cpu_seconds=cpu)})
    states = [only(v).state for v in run(engine, film, *shots)]
    assert [i for i, state in enumerate(states) if state is State.WAITING] == [9]


@pytest.mark.parametrize(
    "alive",
    [
        lambda i: {"cpu_seconds": i * 0.021},
        lambda i: {"blocked": {"nfs": 1}},
        lambda i: {"pressure": {"memory": Pressure(i * 0.021)}},
    ],
    ids=["runs", "blocked", "pressure"],
)
def test_some_use_with_a_workload_that_tries(engine, film, alive):
    """A workload that runs, is blocked or is under pressure waits, however long its GPU is used little."""
    shots = [{"u": 0.3, "load": asleep(i, **alive(i))} for i in range(40)]
    assert {only(v).state for v in run(engine, film, *shots)} == {State.WAITING}


def test_some_use_without_a_known_workload_is_no_sleep(engine, film):
    """Where nothing is known of the workload, a GPU that is used a little waits."""
    shots = [{"u": 0.3, "workloads": ()}] * 30
    assert {only(v).state for v in run(engine, film, *shots)} == {State.WAITING}


def test_poller_on_a_loaded_node_is_idle(engine, film):
    """A sleeper that polls waits for a CPU at each wake-up; that is no work."""
    shots = [{"u": 0.0, "load": asleep(i, pressure={"cpu": Pressure(i * 0.1)})} for i in range(3)]
    assert {only(v).state for v in run(engine, film, *shots)} == {State.IDLE}


def test_unknown_workload_is_idle(engine, film):
    """A GPU at rest about whose workload nothing is known is idle, unless the node has a reason to wait."""
    shots = [{"u": 0.0, "workloads": ()}] * 3
    assert {only(v).state for v in run(engine, film, *shots)} == {State.IDLE}


def test_missed_ticks_are_unknown(engine, film):
    """A machine that was suspended did not observe: all of it is unknown, for every GPU."""
    verdicts = run(engine, film, {"u": 0.9}, {"u": 0.9}, {"u": 0.9, "dt": 3600.0}, {"u": 0.9, "dt": 3.0})
    assert only(verdicts[1]).seconds == {State.UNKNOWN: 3600.0}
    assert only(verdicts[2]).seconds == {State.BUSY: pytest.approx(2.7), State.GAP: pytest.approx(0.3)}


@pytest.mark.parametrize("dt", [0.0, -5.0, float("nan")])
def test_clock_that_stands_still(engine, film, dt):
    """Nothing is added where no time passed."""
    before = film.shot(u=0.9)
    after = replace(film.shot(u=0.9), at=before.at + dt)
    verdict = engine.judge(before, after)
    assert (verdict.dt, verdict.gpus) == (0.0, ())


def test_gpu_that_appears(engine, film):
    """A GPU counts from when it is first seen."""
    after = film.shot(u=0.9)
    empty = replace(after, at=after.at - 1, gpus=())
    assert engine.judge(empty, after).gpus == ()
    assert only(engine.judge(after, film.shot(u=0.9))).state is State.GAP


def test_gpu_that_vanishes_and_returns(engine, film):
    """While a GPU is not listed its time is unknown, and the tick of its return as well."""
    first, second = film.shot(u=0.9), film.shot(u=0.9)
    engine.judge(first, second)
    gone = replace(film.shot(u=0.9), gpus=())
    still = replace(film.shot(u=0.9), gpus=())
    back = film.shot(u=0.9)
    for before, after in ((second, gone), (gone, still), (still, back)):
        assert only(engine.judge(before, after)).seconds == {State.UNKNOWN: 1.0}
    assert only(engine.judge(back, film.shot(u=0.9))).state is State.GAP


def test_gpu_that_is_gone_for_good(film):
    """After the time to forget, a GPU that is not listed has no more time."""
    engine = Engine(Thresholds({("gpu", "forget_after"): 5}))
    before = film.shot(u=0.9)
    counted = 0
    for _ in range(20):
        after = replace(film.shot(u=0.9), gpus=())
        counted += len(engine.judge(before, after).gpus)
        before = after
    assert counted == 5


def test_hysteresis(engine, film):
    """A cause that is active stays so down to half of its thresholds."""
    seconds, lost, shots = 0.0, 0.0, []
    for share in (0.0, 0.0, 0.04, 0.06, 0.04, 0.026, 0.024, 0.04):
        seconds, lost = seconds + 1, lost + share
        shot = compacts(seconds, 0)
        shot["load"] = replace(shot["load"], delays={1: {Delay.COMPACT: lost}}, cpu_seconds=seconds * 0.5)
        shots.append({"u": 0.3, **shot})
    causes = [only(v).cause for v in run(engine, film, *shots)]
    unexplained, compaction = Cause.UNEXPLAINED, Cause.COMPACTION
    assert causes == [
        unexplained,
        unexplained,
        compaction,
        compaction,
        compaction,
        unexplained,
        unexplained,
    ]


def test_one_good_tick_does_not_clear_a_cause(engine, film):
    """A tick above the line amid the trouble leaves the cause active: it clears by its own signals."""
    seconds, lost, shots = 0.0, 0.0, []
    for u, share in ((0.3, 0), (0.3, 0.06), (0.8, 0.04), (0.3, 0.04)):
        seconds, lost = seconds + 1, lost + share
        shot = compacts(seconds, 0)
        shots.append({"u": u, **shot, "load": replace(shot["load"], delays={1: {Delay.COMPACT: lost}})})
    first, good, last = (only(v) for v in run(engine, film, *shots))
    assert first.cause is Cause.COMPACTION
    assert (good.state, good.cause) == (State.GAP, None)
    assert good.evidence[0].active
    assert last.cause is Cause.COMPACTION


def test_gap_forgets_active_causes(engine, film):
    """After missed ticks a cause has to reach its thresholds again."""
    seconds, lost, shots = 0.0, 0.0, []
    for dt, share in ((1, 0), (1, 0.06), (10, 0), (1, 0.04)):
        seconds, lost = seconds + dt, lost + share
        shot = compacts(seconds, 0)
        load = replace(shot["load"], delays={1: {Delay.COMPACT: lost}}, cpu_seconds=seconds * 0.5)
        shots.append({"u": 0.3, "dt": dt, **shot, "load": load})
    causes = [only(v).cause for v in run(engine, film, *shots)]
    assert causes == [Cause.COMPACTION, None, Cause.UNEXPLAINED]


def test_long_incident_stays_an_incident(engine, film):
    """Ten minutes of compaction do not become the usual, with pressure as the only other signal."""
    shots = []
    for i in range(700):
        trouble = max(0, i - 50)
        load = Workload(cpu_seconds=i * 0.5, pressure={"memory": Pressure(trouble * 0.6)})
        shots.append({"u": 0.3, "load": load, "host": Host(vmstat={"compact_stall": trouble * 500})})
    causes = [only(v).cause for v in run(engine, film, *shots)]
    assert set(causes[:50]) == {Cause.UNEXPLAINED}
    assert set(causes[50:]) == {Cause.COMPACTION}


def test_host_code_is_the_last_resort(engine, film):
    """A thread at a full core is the cause only where no other is active."""
    shots = []
    for i in (1, 2):
        shot = compacts(i, 0.3)
        load = replace(shot["load"], threads={1: Thread(0.01 * i, 0.99 * i)})
        shots.append({"u": 0.3, **shot, "load": load})
    gpu = only(run(engine, film, *shots)[0])
    assert [e.cause for e in gpu.evidence if e.active] == [Cause.COMPACTION]
    calm = [{**shot, "host": Host()} for shot in shots]
    assert only(run(Engine(Thresholds()), film, *calm)[0]).cause is Cause.HOST_KERNEL


def test_equal_shares_go_by_the_declared_order(engine, film):
    """Compaction comes before reclaim where both have the same share."""
    shots = []
    for i in (1, 2):
        load = Workload(
            thread_count=1,
            cpu_seconds=float(i),
            covered=1.0,
            delays={1: {Delay.RECLAIM: i * 0.3, Delay.COMPACT: i * 0.3}},
        )
        host = Host(vmstat={"compact_stall": i * 50, "allocstall_normal": i * 50})
        shots.append({"u": 0.3, "load": load, "host": host})
    gpu = only(run(engine, film, *shots)[0])
    assert [e.cause for e in gpu.evidence if e.active] == [Cause.COMPACTION, Cause.RECLAIM]


def test_strongest_workload_counts(engine, film):
    """A GPU that two workloads share waits for the reason of the one that suffers."""
    other = ("pod", "research", "eval-0", "main")
    shots = [{"u": 0.2, **compacts(i, 0.5), "workloads": (other, film.key)} for i in (1, 2)]
    before, after = film.shot(**shots[0]), film.shot(**shots[1])
    before = replace(before, workloads={**before.workloads, other: works(1)})
    after = replace(after, workloads={**after.workloads, other: works(2)})
    assert only(engine.judge(before, after)).cause is Cause.COMPACTION


def test_dropped_delays_are_counted(engine, film):
    """A delay equal to the uptime becomes no evidence and is counted."""
    first = Workload(thread_count=1, cpu_seconds=1.0, covered=1.0, delays={1: {Delay.BLKIO: 0.0}})
    later = replace(first, delays={1: {Delay.BLKIO: 652.196}}, cpu_seconds=2.0)
    run(engine, film, {"u": 0.1, "load": first}, {"u": 0.1, "load": later})
    assert engine.dropped == {Delay.BLKIO: 1}


def test_full_use_leaves_no_cause(engine, film):
    """A GPU at exactly 100 % has no rest and no cause."""
    gpu = only(run(engine, film, {"u": 1.0}, {"u": 1.0})[0])
    assert gpu.seconds == {State.BUSY: 1.0, State.GAP: 0.0}
    assert gpu.state is State.BUSY
