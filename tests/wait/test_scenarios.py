"""Every incident gives its verdict, its healthy phases give none, and neighbours are left alone."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from gpuwait.scenarios import ALL, replay
from gpuwait.thresholds import DEFAULTS, Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.verdict import Cause, State

STORY_GPUS = {0, 1, 2, 3}


@cache
def snapshots(scenario):
    return tuple(scenario.snapshots())


@cache
def verdicts_of(scenario):
    return replay(scenario)[1]


def split(scenario, verdicts):
    """Phases with the verdicts that belong to them."""
    first = 0
    for phase in scenario.phases:
        yield phase, verdicts[first : first + phase.seconds]
        first += phase.seconds


def waiting(verdicts, gpus):
    """Waiting seconds by cause."""
    causes = defaultdict(float)
    for verdict in verdicts:
        for gpu in verdict.gpus:
            if gpu.index in gpus and gpu.seconds.get(State.WAITING):
                causes[gpu.cause] += gpu.seconds[State.WAITING]
    return causes


def judged(scenario, change, limits=None):
    """Verdicts of a scenario with something taken away from each snapshot."""
    engine = Engine(limits or Thresholds())
    changed = [change(snapshot) for snapshot in snapshots(scenario)]
    return [engine.judge(a, b) for a, b in pairwise(changed)]


def check(scenario, verdicts):
    for phase, part in split(scenario, verdicts):
        causes = waiting(part, STORY_GPUS)
        if phase.cause is None:
            assert not causes, phase.name
        else:
            assert causes[phase.cause] >= 0.9 * sum(causes.values()) > 0, (phase.name, dict(causes))


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_each_phase_has_its_cause(scenario):
    """At least 90 % of the waiting of each phase goes to its cause; healthy phases do not wait at all."""
    check(scenario, verdicts_of(scenario))


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_verdict_of_the_whole(scenario):
    """The dominant cause and the dominant state that is not busy are the expected ones."""
    verdicts = verdicts_of(scenario)
    causes = waiting(verdicts, STORY_GPUS)
    assert max(causes, key=causes.get, default=None) == scenario.expected_cause
    states = defaultdict(float)
    for verdict in verdicts:
        for gpu in verdict.gpus:
            if gpu.index in STORY_GPUS:
                for state, seconds in gpu.seconds.items():
                    states[state] += seconds
    del states[State.BUSY]
    assert max(states, key=states.get) == scenario.expected_state


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_neighbour_never_waits(scenario):
    """GPUs of another workload at 95 % get no waiting and no active cause."""
    for verdict in verdicts_of(scenario):
        for gpu in verdict.gpus:
            if gpu.index not in STORY_GPUS:
                assert gpu.cause is None
                assert set(gpu.seconds) == {State.BUSY, State.GAP}


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_length(scenario):
    """A scenario lasts one to five minutes and has a story to tell."""
    assert 60 <= sum(phase.seconds for phase in scenario.phases) <= 300
    assert scenario.title
    assert len(scenario.story) > 60


def test_names():
    """The scenarios are the incidents of the design, each once."""
    assert [scenario.name for scenario in ALL] == (
        "dataset-init after-checkpoint nfs-small-files every-30-seconds nfs-outage-v3 nfs-outage-v4 "
        "checkpoint-storm throttled-loaders remote-numa busy-python slow-disk swapping lustre-metadata "
        "gpfs-waiters fabric-retransmits held-notebook no-cause quiet"
    ).split()


def without_delays(snapshot):
    loads = {key: replace(load, delays={}, covered=None) for key, load in snapshot.workloads.items()}
    return replace(snapshot, workloads=loads)


def half_covered(snapshot):
    """Delay accounting was switched on after half of the processes had started."""
    loads = {}
    for key, load in snapshot.workloads.items():
        delays = {pid: delays for pid, delays in load.delays.items() if pid % 2}
        loads[key] = replace(load, delays=delays, covered=0.5)
    return replace(snapshot, workloads=loads)


MEMORY = [s for s in ALL if s.name in {"dataset-init", "after-checkpoint", "swapping", "no-cause"}]


@pytest.mark.parametrize("change", [without_delays, half_covered])
@pytest.mark.parametrize("scenario", MEMORY, ids=lambda s: s.name)
def test_without_delay_accounting(scenario, change):
    """No verdict depends on delay accounting, which is off by default and never covers what ran before."""
    check(scenario, judged(scenario, change))


def without_pressure(snapshot):
    loads = {key: replace(load, pressure={}) for key, load in snapshot.workloads.items()}
    return replace(snapshot, workloads=loads)


#: Without a cgroup of its own a workload has threads and delays only.
NEEDS_CGROUP = {"throttled-loaders", "remote-numa", "busy-python"}


@pytest.mark.parametrize("scenario", [s for s in ALL if s.name not in NEEDS_CGROUP], ids=lambda s: s.name)
def test_without_cgroup(scenario):
    """A workload that is a process tree keeps its verdict: the node's pressure stands in."""

    def change(snapshot):
        nothing = {
            "pressure": {},
            "cpu_seconds": None,
            "reclaim_pages": None,
            "refaults": None,
            "memory_by_node": {},
            "periods": None,
            "throttled_periods": None,
            "throttled_seconds": None,
        }
        loads = {key: replace(load, **nothing) for key, load in snapshot.workloads.items()}
        return replace(snapshot, workloads=loads)

    check(scenario, judged(scenario, change))


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_nothing_known_of_the_workload(scenario):
    """Where the workload is not known at all, the verdict is the right one or none: never a wrong cause.

    That holds once the usual pressure of the node is learnt, which takes ten ticks.
    """

    def change(snapshot):
        gpus = tuple(replace(gpu, workloads=()) for gpu in snapshot.gpus)
        return replace(snapshot, gpus=gpus, workloads={})

    verdicts = judged(scenario, change)
    for phase, part in split(scenario, verdicts):
        learnt = [verdict for verdict in part if verdict.at > verdicts[10].at]
        assert set(waiting(learnt, STORY_GPUS)) <= {phase.cause, Cause.UNEXPLAINED}


def test_every_threshold_is_used():
    """No threshold is exported that decides nothing."""
    asked = set()

    class Watched(Thresholds):
        def __call__(self, cause, signal):
            asked.add((str(cause), signal))
            return super().__call__(cause, signal)

    for scenario in ALL:
        judged(scenario, without_pressure if scenario in MEMORY else lambda s: s, Watched())
    assert set(DEFAULTS) - asked == set()


def test_evidence_of_the_data_set():
    """The evidence says how much of the ranks' time compaction took, and where huge pages are gone."""
    scenario = ALL[0]
    verdict = verdicts_of(scenario)[100]
    evidence = verdict.gpus[0].evidence[0]
    assert evidence.cause is Cause.COMPACTION
    assert evidence.share == pytest.approx(0.86)
    assert {signal.name for signal in evidence.signals if signal.fired} == {"delay", "stalls"}
    assert [e.cause for e in verdict.gpus[0].evidence if e.active] == [Cause.COMPACTION]
