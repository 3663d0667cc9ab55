"""Runs the collectors of one scrape so that none of them can hold up the others.

Collectors run one after another on one worker thread, which is the cheapest
way while all is well. When a collector takes longer than the hand-over time,
a second worker goes on with the rest while the first may still finish before
its deadline. A collector that is stuck keeps its one thread; it is reported
as failed, and not called again, until that call has returned. So a dead disk,
NFS server or driver costs one thread, once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from gpuwait.collector import Collector, NoData
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
    seconds: wall time of the call; None where it was not called.
    dropped: samples left out: over the budget, a duplicate, or not a finite number.
    """

    collector: Collector
    groups: Groups = field(default_factory=dict)
    success: bool = True
    reason: str = ""
    detail: str = ""
    seconds: float | None = None
    dropped: int = 0


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


class _Scrape:
    """One scrape under way: what is still to call, and what came back."""

    def __init__(self, collectors: Iterable[Collector]) -> None:
        self.todo = deque(collectors)
        self.started: dict[Collector, float] = {}
        self.outcomes: dict[Collector, Outcome] = {}
        self.workers = 0
        self.last_hand_over = 0.0


class Gatherer:
    """Calls collectors for scrapes, one scrape at a time.

    deadline:  seconds that one collector may take.
    hand_over: seconds after which the rest of the scrape goes on without it.
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
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._busy: dict[Collector, float] = {}
        self._idle = 0
        self._jobs: SimpleQueue[_Scrape | None] = SimpleQueue()
        self._states: dict[str, tuple[bool, str]] = {}

    def gather(self, chosen: Iterable[Collector] | None = None, limit: float = 9.5) -> list[Outcome]:
        """Outcomes of the chosen collectors (default: all) in their order, within `limit` seconds.

        Raises TimeoutError where another scrape takes all of that time.
        """
        end = time.monotonic() + limit
        if not self._turn.acquire(timeout=limit):
            raise TimeoutError("another scrape is still under way")
        try:
            collectors = self.collectors if chosen is None else tuple(chosen)
            scrape = self._run(collectors, end)
        finally:
            self._turn.release()
        outcomes = [scrape.outcomes[c] for c in collectors]
        self._report(outcomes)
        return outcomes

    def _run(self, collectors: tuple[Collector, ...], end: float) -> _Scrape:
        with self._changed:
            now = time.monotonic()
            scrape = _Scrape(c for c in collectors if c not in self._busy)
            stuck = {c: self._busy[c] for c in collectors if c in self._busy}
            for collector, since in stuck.items():
                scrape.outcomes[collector] = _late(collector, f"stuck in a call for {now - since:.0f} s")
            self._start_worker(scrape)
            while scrape.todo or scrape.started:
                now = time.monotonic()
                wait = self._give_up_late(scrape, now, end)
                if wait is None:
                    break
                self._changed.wait(wait)
            # A worker that comes back after this finds nothing to do and no one to tell.
            for collector in [*scrape.todo, *scrape.started]:
                scrape.outcomes.setdefault(collector, _late(collector, "not called: no time left"))
            scrape.todo.clear()
        return scrape

    def _give_up_late(self, scrape: _Scrape, now: float, end: float) -> float | None:
        """Take late collectors out and hand over; seconds until to look again, None to end."""
        for collector, since in list(scrape.started.items()):
            if now - since >= self._deadline or now >= end:
                del scrape.started[collector]
                scrape.outcomes[collector] = _late(collector, f"no answer within {now - since:.1f} s")
        if now >= end or not (scrape.todo or scrape.started):
            return None
        waits = [end - now, *(since + self._deadline - now for since in scrape.started.values())]
        if scrape.todo:
            newest = max(scrape.started.values(), default=scrape.last_hand_over)
            due = max(newest, scrape.last_hand_over) + self._hand_over
            if now >= due:
                self._start_worker(scrape)
                due = now + self._hand_over
            waits.append(due - now)
        return max(min(waits), 0.001)

    def _start_worker(self, scrape: _Scrape) -> None:
        scrape.last_hand_over = time.monotonic()
        if self._idle:
            self._idle -= 1
        else:
            threading.Thread(target=self._work, name="gather", daemon=True).start()
        self._jobs.put(scrape)

    def _work(self) -> None:
        while (scrape := self._jobs.get()) is not None:
            self._work_on(scrape)
            with self._changed:
                if self._idle:  # one spare worker is enough
                    return
                self._idle += 1

    def _work_on(self, scrape: _Scrape) -> None:
        while True:
            with self._changed:
                if not scrape.todo:
                    return
                collector = scrape.todo.popleft()
                scrape.started[collector] = self._busy[collector] = time.monotonic()
            outcome = call(collector, self._sources)
            with self._changed:
                del self._busy[collector]
                if scrape.started.pop(collector, None) is None:
                    return  # given up: a newer worker has the rest
                scrape.outcomes[collector] = outcome
                self.dropped[collector.name] += outcome.dropped
                if not scrape.todo:
                    self._changed.notify_all()

    def _report(self, outcomes: Iterable[Outcome]) -> None:
        """Log a collector once per change of state, what is merely absent in one line."""
        absent = []
        for outcome in outcomes:
            name, state = outcome.collector.name, (outcome.success, outcome.reason)
            before = self._states.get(name, (True, ""))
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


def _late(collector: Collector, detail: str) -> Outcome:
    return Outcome(collector, success=False, detail=detail)
