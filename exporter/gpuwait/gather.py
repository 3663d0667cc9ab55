"""Runs the collectors of one scrape so that none of them can hold up the others.

The collectors of a scrape run one after another on one worker thread, which is
the cheapest way while all is well. When one takes longer than the hand-over
time, another worker goes on with the rest while the first may still finish
before its deadline. A collector is never called twice at a time: a scrape that
finds a call under way shares its outcome. One that is stuck keeps its one
thread and is reported as failed until that call has returned. So a dead disk,
NFS server or driver costs one thread, once.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.kernel.errors import ParseError
from gpuwait.metrics import Family
from gpuwait.sources import Sources

log = logging.getLogger(__name__)

#: Values of one family by label values.
Groups = dict[Family, dict[tuple[str, ...], int | float]]


@dataclass(slots=True)
class Outcome:
    """What one collector gave in one scrape.

    success: False for a fault, a missed deadline, or an earlier call that is still stuck.
    reason:  why the source is not available, "" where it is; detail says more, for the log.
    seconds: wall time of the call; None where there was no answer.
    hurried: there was no answer because the scraper's own time-out was too short: no fault of the source.
    dropped: samples left out: over the budget, a duplicate, or not a finite number.
    """

    collector: Collector
    groups: Groups = field(default_factory=dict)
    success: bool = True
    reason: str = ""
    detail: str = ""
    seconds: float | None = None
    dropped: int = 0
    hurried: bool = False

    @property
    def series(self) -> int:
        """Number of samples."""
        return sum(map(len, self.groups.values()))

    @property
    def state(self) -> str:
        """One word for people: `ok`, `partly`, `absent` or `fails`."""
        if not self.success:
            return "fails"
        if not self.reason:
            return "ok"
        return "partly" if self.series else "absent"


def call(collector: Collector, sources: Sources) -> Outcome:
    """Run one collector to its end. Raises nothing: every exception becomes an outcome."""
    outcome = Outcome(collector, {family: {} for family in collector.families})
    start = time.perf_counter()
    try:
        _fill(outcome, sources)
    except NoData as absence:
        outcome.reason, outcome.detail = str(absence.reason), absence.detail
    except (OSError, ParseError) as fault:
        outcome.success, outcome.detail = False, str(fault)
    except Exception as fault:  # a defect in one collector must not cost the others
        outcome.success, outcome.detail = False, f"{type(fault).__name__}: {fault}"
        log.debug("collector %s", collector.name, exc_info=True)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _fill(outcome: Outcome, sources: Sources) -> None:
    groups, room = outcome.groups, outcome.collector.budget
    seen = kept = 0
    try:
        for family, labels, value in outcome.collector.collect(sources):
            seen += 1
            # inf - inf and nan - nan are not 0; an int always is
            if seen <= room and value - value == 0:
                groups[family].setdefault(labels, value)
                kept += 1
    finally:
        outcome.dropped = seen - sum(map(len, groups.values()))


@dataclass(slots=True, eq=False)
class _Call:
    """One call of a collector, shared by every scrape that wants its outcome."""

    started: float
    outcome: Outcome | None = None


class _Scrape:
    """One scrape under way: what is still to call, and the calls it waits for."""

    def __init__(self, collectors: Iterable[Collector]) -> None:
        self.todo = deque(collectors)
        self.calls: dict[Collector, _Call] = {}
        self.newest = time.monotonic()


class Gatherer:
    """Calls collectors for scrapes; any number of threads may gather at a time.

    deadline:  seconds that one collector may take.
    hand_over: seconds after which the rest of a scrape goes on without it.
    dropped:   samples left out so far, by collector.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        sources: Sources,
        *,
        deadline: float = 2.0,
        hand_over: float = 0.25,
    ) -> None:
        self.collectors = tuple(collectors)
        self.dropped = dict.fromkeys((c.name for c in collectors), 0)
        self._sources = sources
        self._deadline, self._hand_over = deadline, hand_over
        self._changed = threading.Condition()
        self._flying: dict[Collector, _Call] = {}
        self._waiting = self._idle = 0
        self._jobs: SimpleQueue[_Scrape] = SimpleQueue()
        self._states: dict[str, tuple[bool, str, str]] = {}

    def gather(self, chosen: Iterable[Collector] | None = None, limit: float = 9.5) -> list[Outcome]:
        """Outcomes of the chosen collectors (default: all) in their order, within `limit` seconds."""
        collectors = self.collectors if chosen is None else tuple(chosen)
        scrape, end = _Scrape(collectors), time.monotonic() + limit
        with self._changed:
            self._waiting += 1
            self._start_worker(scrape)
            while (seconds := self._still_to_wait(scrape, collectors, end)) is not None:
                self._changed.wait(seconds)
            self._waiting -= 1
            scrape.todo.clear()  # a worker that comes back after this finds nothing to do
            now = time.monotonic()
            outcomes = [self._outcome(c, scrape.calls.get(c), now) for c in collectors]
            self._report(outcomes)
        return outcomes

    def _still_to_wait(self, scrape: _Scrape, collectors: tuple[Collector, ...], end: float) -> float | None:
        """Seconds until to look again, None where there is nothing left to wait for."""
        now = time.monotonic()
        calls = [scrape.calls.get(c) for c in collectors]
        due = [call.started + self._deadline for call in calls if call and call.outcome is None]
        due = [moment for moment in due if moment > now]
        if now >= end or not (due or scrape.todo):
            return None
        if scrape.todo:
            if now >= scrape.newest + self._hand_over:
                self._start_worker(scrape)
            due.append(scrape.newest + self._hand_over)
        return max(min(end, *due) - now, 0.001)

    def _outcome(self, collector: Collector, call: _Call | None, now: float) -> Outcome:
        if call is not None and call.outcome is not None:
            return call.outcome
        if call is None or now - call.started < self._deadline:
            return Outcome(collector, success=False, detail="no time left in this scrape", hurried=True)
        return Outcome(collector, success=False, detail=f"no answer for {now - call.started:.1f} s")

    def _start_worker(self, scrape: _Scrape) -> None:
        scrape.newest = time.monotonic()
        if self._idle:
            self._idle -= 1
        else:
            threading.Thread(target=self._work, name="gather", daemon=True).start()
        self._jobs.put(scrape)

    def _work(self) -> None:
        while True:
            self._work_on(self._jobs.get())
            with self._changed:
                if self._idle:  # one spare worker is enough
                    return
                self._idle += 1

    def _work_on(self, scrape: _Scrape) -> None:
        while (mine := self._next(scrape)) is not None:
            collector, own = mine
            outcome = call(collector, self._sources)
            with self._changed:
                own.outcome = outcome
                del self._flying[collector]
                self.dropped[collector.name] += outcome.dropped
                if not scrape.todo or self._waiting > 1:
                    self._changed.notify_all()

    def _next(self, scrape: _Scrape) -> tuple[Collector, _Call] | None:
        """Begin the next call of a scrape; calls that are under way already are joined on the way."""
        with self._changed:
            while scrape.todo:
                collector = scrape.todo.popleft()
                flying = self._flying.get(collector)
                if flying is None:
                    scrape.newest = time.monotonic()
                    own = scrape.calls[collector] = self._flying[collector] = _Call(scrape.newest)
                    return collector, own
                scrape.calls[collector] = flying
            self._changed.notify_all()
            return None

    def _report(self, outcomes: Iterable[Outcome]) -> None:
        """Log a collector once per change of state, what is merely absent in one line."""
        absent = []
        for outcome in outcomes:
            if outcome.hurried or outcome.reason == Reason.STARTING:
                continue  # neither says anything of the source
            name, kind = outcome.collector.name, re.sub(r"[0-9.]+", "#", outcome.detail)
            state = (outcome.success, outcome.reason, "" if outcome.success else kind)
            before = self._states.get(name, (True, "", ""))
            self._states[name] = state
            if state == before:
                continue
            if not outcome.success:
                log.warning("collector %s failed: %s", name, outcome.detail)
            elif outcome.reason:
                absent.append(f"{name} ({outcome.reason}: {outcome.detail})")
            else:
                log.info("collector %s works again", name)
        if absent:
            log.info("not available here: %s", ", ".join(absent))
