"""Everything adds up, and nothing ever falls."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import GONE, Ledger
from gpuwait.wait.snapshot import (
    Delay,
    Disk,
    FabricPort,
    Gpu,
    Host,
    Nfs,
    Pressure,
    Snapshot,
    Thread,
    WaitClass,
    Workload,
)
from gpuwait.wait.verdict import Cause, GpuVerdict, State, Verdict

KEY = ("pod", "research", "train-0", "main")
ONE = (0, "GPU-a")


def verdict(*gpus, dt=1.0):
    return Verdict(10.0, dt, gpus)


def waiting(index, uuid, seconds, cause):
    return GpuVerdict(index, uuid, {State.BUSY: 1 - seconds, State.WAITING: seconds}, cause, 1 - seconds)


def test_every_state_and_cause_is_there_from_the_start():
    """An account starts with all of its series at zero."""
    ledger = Ledger()
    ledger.see(ONE)
    account = ledger.sums().gpus[ONE]
    assert account.states == dict.fromkeys(State, 0.0)
    assert account.causes == dict.fromkeys(Cause, 0.0)


def test_seconds_add_up():
    """Seconds of ticks are summed by state and cause."""
    ledger = Ledger()
    ledger.add(verdict(waiting(*ONE, 0.25, Cause.NFS)))
    ledger.add(verdict(waiting(*ONE, 0.5, Cause.NFS)))
    ledger.add(verdict(waiting(*ONE, 0.5, Cause.DISK)))
    account = ledger.sums().gpus[ONE]
    assert (account.states[State.WAITING], account.states[State.BUSY]) == (1.25, 1.75)
    assert (account.causes[Cause.NFS], account.causes[Cause.DISK]) == (0.75, 0.5)


def test_active_seconds_count_once_for_all_gpus():
    """A cause that holds for two waiting GPUs was active for the time of the tick, not twice."""
    ledger = Ledger()
    ledger.add(verdict(waiting(0, "a", 0.5, Cause.NFS), waiting(1, "b", 0.5, Cause.NFS), dt=1.25))
    assert ledger.sums().active[Cause.NFS] == 1.25
    assert ledger.sums().active[Cause.DISK] == 0


def test_sums_are_a_copy():
    """What a scrape holds does not change under it."""
    ledger = Ledger()
    ledger.add(verdict(waiting(*ONE, 0.5, Cause.NFS)))
    held = ledger.sums()
    ledger.add(verdict(waiting(*ONE, 0.5, Cause.NFS)))
    assert held.gpus[ONE].causes[Cause.NFS] == 0.5


def test_gpus_that_went_away_stay_up_to_a_bound():
    """The series of a GPU that is gone stay; of very many the first ones go."""
    ledger = Ledger()
    for i in range(GONE + 10):
        ledger.add(verdict(waiting(i, f"GPU-{i}", 0.5, Cause.NFS)))
    kept = ledger.sums().gpus
    assert len(kept) == GONE + 1
    assert (GONE + 9, f"GPU-{GONE + 9}") in kept
    assert (0, "GPU-0") not in kept


number = st.one_of(st.none(), st.just(float("nan")), st.floats(-1, 50))
count = st.integers(0, 60)
gpus = st.builds(
    Gpu,
    index=st.integers(0, 1),
    uuid=st.sampled_from(["a", "b"]),
    up=st.sampled_from([True, True, True, False, None]),
    busy_seconds=number,
    observed_seconds=number,
    utilization=number,
    in_use=st.sampled_from([True, True, False, None]),
    allocated=st.sampled_from([True, False, None]),
    numa_node=st.sampled_from([None, -1, 0, 1]),
    workloads=st.sampled_from([(), (KEY,), (KEY, ("slurm", "", "7", "0"))]),
)
seconds = st.floats(0, 400)
pressures = st.dictionaries(st.sampled_from(["cpu", "io", "memory"]), st.builds(Pressure, seconds))
hosts = st.builds(
    Host,
    vmstat=st.dictionaries(
        st.sampled_from(
            ["compact_stall", "allocstall_normal", "pswpin", "numa_hint_faults", "numa_hint_faults_local"]
        ),
        st.integers(0, 5000),
    ),
    pressure=pressures,
    dirty_bytes=st.one_of(st.none(), count),
    dirty_limit_bytes=st.one_of(st.none(), count),
    disks=st.dictionaries(st.just("sda"), st.builds(Disk, count, seconds, seconds, seconds, count)),
    nfs=st.dictionaries(st.just("/data"), st.builds(Nfs, count, count, count, count, count, count, seconds)),
    fabric=st.dictionaries(
        st.just("p/1"), st.builds(FabricPort, st.booleans(), st.one_of(st.none(), seconds), count, count)
    ),
    lustre_seconds=st.one_of(st.none(), seconds),
    gpfs_waiter_seconds=st.one_of(st.none(), seconds),
    settings=st.dictionaries(st.just("numa_balancing"), st.sampled_from(["0", "1", ""])),
)
loads = st.builds(
    Workload,
    threads=st.dictionaries(
        st.integers(1, 3),
        st.builds(Thread, seconds, seconds, st.one_of(st.none(), seconds), st.integers(0, 1)),
    ),
    thread_count=count,
    looks=st.integers(0, 6),
    blocked=st.dictionaries(st.sampled_from(list(WaitClass)), st.integers(0, 8)),
    delays=st.dictionaries(
        st.integers(1, 3), st.dictionaries(st.sampled_from(list(Delay)), st.floats(0, 900))
    ),
    covered=st.sampled_from([None, 0.0, 0.5, 1.0]),
    pressure=pressures,
    cpu_seconds=st.one_of(st.none(), seconds),
    periods=st.one_of(st.none(), count),
    throttled_periods=st.one_of(st.none(), count),
    throttled_seconds=st.one_of(st.none(), seconds),
    quota_cores=st.sampled_from([None, 0.5, 8.0]),
    reclaim_pages=st.one_of(st.none(), count),
    refaults=st.one_of(st.none(), count),
    memory_by_node=st.dictionaries(st.integers(0, 1), count),
)
steps = st.tuples(
    st.sampled_from([0.0, 0.2, 0.9, 1.0, 1.0, 1.0, 1.1, 2.9, 3.1, 700.0, -1.0]),
    hosts,
    st.lists(gpus, max_size=3, unique_by=lambda gpu: (gpu.index, gpu.uuid)),
    st.dictionaries(st.just(KEY), loads),
)


def film(sequence):
    at = 50.0
    for dt, host, listed, workloads in sequence:
        at += dt
        yield Snapshot(at, host, tuple(listed), workloads)


def test_the_edges_of_a_wait_belong_to_it():
    """Slack just before and just after a wait is waiting; other slack stays slack."""

    def slack(seconds):
        return GpuVerdict(*ONE, {State.BUSY: 1 - seconds, State.GAP: seconds}, None, 1 - seconds)

    ledger = Ledger()
    for gpu in (slack(0.1), slack(0.25), waiting(*ONE, 0.5, Cause.NFS), slack(0.2), slack(0.05)):
        ledger.add(verdict(gpu))
    account = ledger.sums().gpus[ONE]
    assert account.states[State.WAITING] == pytest.approx(0.25 + 0.5 + 0.2)
    assert account.causes[Cause.NFS] == pytest.approx(0.95)
    assert account.states[State.GAP] == pytest.approx(0.1)
    ledger.settle()
    assert ledger.sums().gpus[ONE].states[State.GAP] == pytest.approx(0.15)
    ledger.add(verdict(slack(0.3)))
    ledger.add(verdict())
    assert ledger.sums().gpus[ONE].states[State.GAP] == pytest.approx(0.45)


def totals(sums):
    """All counters of the ledger, flat."""
    flat = dict(sums.active)
    for key, account in sums.gpus.items():
        flat |= {(key, state): s for state, s in account.states.items()}
        flat |= {(key, "cause", cause): s for cause, s in account.causes.items()}
    return flat


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, min_size=2, max_size=8))
def test_everything_adds_up(sequence):
    """States add up to observed time and causes to waiting, whatever comes; nothing falls or is no number."""
    engine, ledger = Engine(Thresholds()), Ledger()
    observed = {}
    before, earlier = None, {}
    for after in film(sequence):
        if before is not None:
            judged = engine.judge(before, after)
            ledger.add(judged)
            assert len({(gpu.index, gpu.uuid) for gpu in judged.gpus}) == len(judged.gpus)
            for gpu in judged.gpus:
                assert sum(gpu.seconds.values()) == pytest.approx(judged.dt, rel=1e-9)
                assert all(s >= 0 for s in gpu.seconds.values())
                assert all(0 <= e.share <= 1 for e in gpu.evidence)
                key = (gpu.index, gpu.uuid)
                observed[key] = observed.get(key, 0.0) + judged.dt
            now = totals(ledger.sums())
            assert all(now[key] >= value for key, value in earlier.items())
            earlier = now
        before = after
    ledger.settle()
    for key, account in ledger.sums().gpus.items():
        assert sum(account.states.values()) == pytest.approx(observed[key], rel=1e-9)
        assert sum(account.causes.values()) == pytest.approx(
            account.states[State.WAITING], rel=1e-9, abs=1e-12
        )


@settings(max_examples=50, deadline=None)
@given(st.lists(steps, min_size=2, max_size=8))
def test_a_known_gpu_is_counted_at_every_tick(sequence):
    """From its second snapshot on each GPU gets the whole of every tick, listed or not."""
    limits = Thresholds({("gpu", "forget_after"): 86400})
    engine = Engine(limits)
    seen = set()
    before = None
    for after in film(sequence):
        if before is not None:
            judged = engine.judge(before, after)
            if judged.dt > 0:
                seen |= {(gpu.index, gpu.uuid) for gpu in before.gpus}
                assert {(gpu.index, gpu.uuid) for gpu in judged.gpus} == seen
                seen |= {(gpu.index, gpu.uuid) for gpu in after.gpus}
        before = after


def test_judging_is_repeatable():
    """The same snapshots give the same verdicts."""
    host = Host(vmstat={"compact_stall": 5}, pressure={"memory": Pressure(1.0)})
    first = Snapshot(1.0, host, (Gpu(0, "a", utilization=0.2, in_use=True),))
    second = replace(first, at=2.0)
    one, other = (Engine(Thresholds()).judge(first, second) for _ in range(2))
    assert one == other
