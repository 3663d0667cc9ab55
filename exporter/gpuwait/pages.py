"""What the web server answers to people and to `gpuwait explain`: `/` and `/api/v1/verdict`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from gpuwait.explain import Recent, Report, as_json, markdown, text
from gpuwait.explain.recent import Sleeps
from gpuwait.explain.wording import printable
from gpuwait.gather import Outcome
from gpuwait.status_page import Page, Source, render
from gpuwait.wait.verdict import Verdict

Environ = dict[str, Any]
#: Status, content type and body.
Answer = tuple[str, str, bytes]

#: Seconds for which what the node offers is not asked for again: it costs as much as a scrape.
KEEP = 15.0


@dataclass(slots=True)
class Pages:
    """Makes the answers. All callables may be called from any thread.

    history:  verdicts of the last minutes, oldest first.
    gather:   one gathering; may raise TimeoutError.
    reasons:  why sources of the sampler are not there.
    """

    recent: Recent
    history: Callable[[], Sequence[Verdict]]
    gather: Callable[[], Sequence[Outcome]]
    reasons: Callable[[], Mapping[str, str]] = dict
    sleeps: Sleeps | None = None
    metrics_path: str = "/metrics"
    simulated: str = ""
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sources: tuple[Source, ...] = ()
    _sources_at: float | None = None
    _report: tuple[float, int, Report] | None = None

    def routes(self) -> dict[str, Callable[[Environ], Answer]]:
        """Path -> handler, for the web application."""
        return {"/": self.page, "/api/v1/verdict": self.verdict}

    def page(self, environ: Environ) -> Answer:
        """The status page; `?refresh=off` for one that stands still."""
        still = parse_qs(environ.get("QUERY_STRING", ""), max_num_fields=None).get("refresh") == ["off"]
        page = Page(self.report(), self.recent.strips(), self._offers(), self.metrics_path, refresh=not still)
        return "200 OK", "text/html; charset=utf-8", render(page).encode()

    def verdict(self, environ: Environ) -> Answer:
        """The report as JSON, or as `?format=text` or `markdown`."""
        wanted = parse_qs(environ.get("QUERY_STRING", "")).get("format", ["json"])[-1]
        report = self.report()
        if wanted == "text":
            return "200 OK", "text/plain; charset=utf-8", text(report).encode()
        if wanted == "markdown":
            return "200 OK", "text/markdown; charset=utf-8", markdown(report).encode()
        return "200 OK", "application/json", as_json(report).encode()

    def report(self) -> Report:
        """The report on the last minute; made once for each tick, however many ask."""
        history = self.history()
        key = (history[-1].at if history else 0.0, len(history))
        kept = self._report
        if kept is not None and kept[:2] == key:
            return kept[2]
        report = self.recent.report(
            history, reasons=self.reasons(), sleeps=self.sleeps, simulated=self.simulated
        )
        self._report = (*key, report)
        return report

    def _offers(self) -> tuple[Source, ...]:
        """What the collectors give, as of some seconds ago; one visitor at a time asks them."""
        now = self.clock()
        fresh = self._sources_at is not None and now - self._sources_at < KEEP
        if fresh or not self._lock.acquire(blocking=False):
            return self._sources
        try:
            self._sources = tuple(map(_source, self.gather()))
            self._sources_at = now
        except TimeoutError:  # a scrape is under way: what was known will do
            pass
        finally:
            self._lock.release()
        return self._sources


def _source(outcome: Outcome) -> Source:
    detail = printable(outcome.detail, 300)  # may repeat a line of a file
    return Source(outcome.collector.name, outcome.state, outcome.series, detail)
