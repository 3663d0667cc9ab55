"""Running collectors: outcomes, deadlines, budgets."""

import logging
import threading
import time

import pytest

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.gather import Gatherer, call
from gpuwait.host import Host
from gpuwait.kernel.errors import ParseError
from gpuwait.metrics import Family
from gpuwait.sources import Sources

VALUE = Family("gpuwait_test_value", "gauge", "A value.", "the test", ("which",))


def collector(name, collect, budget=100):
    return Collector(name, "A test.", (VALUE,), collect, budget=budget)


def yields(*samples):
    def collect(_):
        yield from samples

    return collect


@pytest.fixture
def sources():
    return Sources(host=Host())


def test_samples_are_kept_by_family_and_labels(sources):
    """What a collector yields stands in its outcome."""
    outcome = call(collector("a", yields((VALUE, ("x",), 1), (VALUE, ("y",), 2.5))), sources)
    assert outcome.success
    assert outcome.reason == ""
    assert outcome.groups == {VALUE: {("x",): 1, ("y",): 2.5}}


def test_absence_after_samples_keeps_them(sources):
    """NoData raised last says what is missing and costs nothing that was yielded."""

    def collect(_):
        yield VALUE, ("x",), 1
        raise NoData(Reason.UNSUPPORTED, "proc/nothing")

    outcome = call(collector("a", collect), sources)
    assert (outcome.success, outcome.reason, outcome.detail) == (True, "unsupported", "proc/nothing")
    assert outcome.groups[VALUE] == {("x",): 1}


@pytest.mark.parametrize(
    "fault", [ParseError("proc/x: line 3"), PermissionError(13, "no", "/proc/x"), KeyError("k")]
)
def test_a_fault_is_an_outcome(sources, fault):
    """No exception leaves a collector; each becomes success 0 with a detail."""

    def collect(_):
        yield VALUE, ("x",), 1
        raise fault

    outcome = call(collector("a", collect), sources)
    assert not outcome.success
    assert outcome.detail


def test_repeated_labels_and_infinite_values_are_dropped_and_counted(sources):
    """The first of two equal label sets stands; NaN and infinity never do."""
    outcome = call(
        collector(
            "a",
            yields(
                (VALUE, ("x",), 1),
                (VALUE, ("x",), 2),
                (VALUE, ("n",), float("nan")),
                (VALUE, ("i",), float("inf")),
                (VALUE, ("big",), 2**64),
            ),
        ),
        sources,
    )
    assert outcome.groups[VALUE] == {("x",): 1, ("big",): 2**64}
    assert outcome.dropped == 3


def test_what_goes_beyond_the_budget_is_dropped_and_counted(sources):
    """The head of the samples stays, the tail is counted, scrape after scrape."""
    many = collector("a", yields(*((VALUE, (str(i),), i) for i in range(10))), budget=4)
    gatherer = Gatherer([many], sources)
    outcome = gatherer.gather()[0]
    assert list(outcome.groups[VALUE]) == [("0",), ("1",), ("2",), ("3",)]
    gatherer.gather()
    assert gatherer.dropped == {"a": 12}


def test_a_hanging_collector_delays_nobody_and_is_called_once(sources):
    """While a call hangs the others answer, its own next calls are refused, and it comes back."""
    release, calls = threading.Event(), []

    def hang(_):
        calls.append(1)
        release.wait(20)
        yield VALUE, ("h",), 1

    good = collector("good", yields((VALUE, ("g",), 1)))
    bad = collector("bad", hang)
    gatherer = Gatherer([bad, good], sources, deadline=0.2, hand_over=0.02)
    threads = threading.active_count()
    for _ in range(3):
        begin = time.monotonic()
        first, second = gatherer.gather()
        assert time.monotonic() - begin < 1
        assert (first.success, second.success) == (False, True)
        assert second.groups[VALUE] == {("g",): 1}
    assert len(calls) == 1
    assert threading.active_count() <= threads + 3
    release.set()
    end = time.monotonic() + 5
    while not gatherer.gather()[0].success and time.monotonic() < end:
        time.sleep(0.01)
    assert [o.success for o in gatherer.gather()] == [True, True]


def test_a_slow_collector_may_finish_after_the_hand_over(sources):
    """Slow is not stuck: within its deadline a slow collector still gives its samples."""

    def slow(_):
        time.sleep(0.1)
        yield VALUE, ("s",), 1

    outcomes = Gatherer(
        [collector("slow", slow), collector("good", yields((VALUE, ("g",), 1)))],
        sources,
        deadline=5,
        hand_over=0.01,
    ).gather()
    assert [o.success for o in outcomes] == [True, True]


def test_the_limit_of_the_scrape_ends_it(sources):
    """A scraper's short time-out is kept even where collectors could take longer."""
    release = threading.Event()

    def hang(_):
        release.wait(20)
        yield VALUE, ("h",), 1

    gatherer = Gatherer([collector(str(i), hang) for i in range(5)], sources, deadline=10, hand_over=5)
    begin = time.monotonic()
    outcomes = gatherer.gather(limit=0.2)
    assert time.monotonic() - begin < 1
    assert not any(o.success for o in outcomes)
    assert all(o.hurried for o in outcomes)
    release.set()


def test_a_scraper_in_a_hurry_is_no_fault_of_a_collector(sources, caplog):
    """Nothing is logged where only the scraper's own time-out was missed."""

    def slow(_):
        time.sleep(0.1)
        yield VALUE, ("s",), 1

    gatherer = Gatherer([collector("slow", slow)], sources)
    for limit in (0.01, 5, 0.01, 5):
        gatherer.gather(limit=limit)
        time.sleep(0.15)
    assert caplog.records == []


def test_scrapes_at_a_time_share_a_slow_call(sources):
    """Five scrapers of a slow source wait once, together; one that does not want it does not wait."""
    calls = []

    def slow(_):
        calls.append(1)
        time.sleep(0.4)
        yield VALUE, ("s",), 1

    bad, good = collector("slow", slow), collector("good", yields((VALUE, ("g",), 1)))
    gatherer = Gatherer([bad, good], sources, hand_over=0.02)
    begin = time.monotonic()
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(gatherer.gather())) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    middle = time.monotonic()
    assert gatherer.gather([good])[0].success
    assert time.monotonic() - middle < 0.2
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin < 0.9
    assert [[o.success for o in found] for found in outcomes] == [[True, True]] * 5
    assert len(calls) == 1


def test_another_fault_is_another_line(sources, caplog):
    """A fault that changes kind is logged again, one that only changes its numbers is not."""
    faults = ["a: line 3", "a: line 4", "b"]

    def collect(_):
        raise ParseError(faults.pop(0))
        yield

    gatherer = Gatherer([collector("a", collect)], sources)
    for _ in range(3):
        gatherer.gather()
    assert [r.getMessage() for r in caplog.records] == [
        "collector a failed: a: line 3",
        "collector a failed: b",
    ]


def test_state_changes_are_logged_once(sources, caplog):
    """A failing collector logs when it begins to fail and when it works again, not in between."""
    faults = [OSError(5, "sick", "/proc/x"), OSError(5, "sick", "/proc/x"), None]

    def collect(_):
        fault = faults.pop(0)
        if fault:
            raise fault
        yield VALUE, ("x",), 1

    gatherer = Gatherer([collector("a", collect)], sources)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            gatherer.gather()
    assert [r.getMessage() for r in caplog.records] == [
        "collector a failed: [Errno 5] sick: '/proc/x'",
        "collector a works again",
    ]


def test_only_the_chosen_are_called(sources):
    """A selection gives outcomes of these collectors alone."""
    a, b = collector("a", yields((VALUE, ("x",), 1))), collector("b", yields())
    assert [o.collector.name for o in Gatherer([a, b], sources).gather([b])] == ["b"]
