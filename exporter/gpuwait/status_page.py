"""The page at `/`: what the GPUs wait for, seen at a glance. Plain HTML; nothing is loaded, nothing runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape as quote

from gpuwait import __version__
from gpuwait.explain.model import Action, Explanation, Fact, Report, Whereabouts
from gpuwait.explain.recent import Column, Strip
from gpuwait.explain.wording import CAUSES, VERDICTS, percent
from gpuwait.status_style import COLORS, STYLE

#: Whatever a name from outside might smuggle in: no script, no other host.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: Seconds after which a browser asks again.
REFRESH = 5

#: From the bottom of a bar to its top.
_ORDER = ("busy", "gap", *CAUSES, "waiting", "idle", "free", "unknown")
_RANK = {name: place for place, name in enumerate(_ORDER)}
_NAMES: Mapping[str, str] = {
    "busy": "busy",
    "gap": "short gaps",
    "waiting": "waiting",
    "idle": "held, idle",
    "free": "free",
    "unknown": "no reading",
    **CAUSES,
}
_HIGH = 100


@dataclass(frozen=True, slots=True)
class Source:
    """A collector as the page shows it. `state`: ok, partly, absent or fails."""

    name: str
    state: str
    series: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What the page is made of. `refresh`: False for a page that stands still."""

    report: Report
    strips: Sequence[Strip] = ()
    sources: Sequence[Source] = ()
    metrics_path: str = "/metrics"
    refresh: bool = True


#: A number stays on one line with its unit.
_UNIT = re.compile(r"(\d) (%|(?:µs|ms|s|min|h|B|[KMGT]iB|CPUs)\b)")


def escape(words: str) -> str:
    """Text for HTML."""
    return _UNIT.sub("\\1&nbsp;\\2", quote(words))


def render(page: Page) -> str:
    """The page as HTML."""
    return "".join(_parts(page))


def _parts(page: Page) -> Iterator[str]:
    report = page.report
    again = f'<meta http-equiv="refresh" content="{REFRESH}">' if page.refresh else ""
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">{again}'
        '<meta name="color-scheme" content="light dark"><title>gpuwait</title>'
        f"<style>{STYLE}</style></head><body>"
    )
    yield from _head(page)
    yield "<main>"
    if report.simulated:
        yield f'<p class="sim"><b>Simulated.</b> Scenario “{escape(report.simulated)}”, not this node.</p>'
    mood = _mood(report)
    yield f'<p class="sum {mood}">{escape(report.summary)}</p>'
    if not report.explanations and page.sources:
        yield "<p>The signals of the host are collected all the same: see below.</p>"
    if page.strips:
        yield from _bars(page.strips)
    for row in report.explanations:
        if row.verdict in ("waiting", "idle", "unknown"):
            yield from _verdict(row)
    yield from _unavailable(page)
    yield "</main></body></html>\n"


def _head(page: Page) -> Iterator[str]:
    still = (
        '<a href="/?refresh=off">stop refreshing</a>' if page.refresh else '<a href="/">refresh every 5 s</a>'
    )
    yield (
        f"<header><h1>gpuwait <small>{escape(__version__)}</small></h1><nav>"
        f'<a href="{quote(page.metrics_path)}">metrics</a><a href="/api/v1/verdict">verdict as JSON</a>'
        f'<a href="/-/healthy">healthy</a><a href="/-/ready">ready</a>{still}</nav></header>'
    )


def _mood(report: Report) -> str:
    verdicts = {row.verdict for row in report.explanations}
    if verdicts & {"waiting", "unknown"}:
        return "bad"
    if "idle" in verdicts:
        return "so"
    return "good" if verdicts else "none"


def _bars(strips: Sequence[Strip]) -> Iterator[str]:
    total: dict[str, float] = {}
    yield '<section><h2>The last five minutes</h2><div class="bars">'
    for strip in strips:
        sums = _sum(strip.columns)
        for name, seconds in sums.items():
            total[name] = total.get(name, 0.0) + seconds
        yield from _bar(strip, sums)
    yield '<div class="axis"><span>5 min ago</span><span>now</span></div></div><ul class="legend">'
    observed = sum(total.values())
    for name in _ORDER:
        if name in total:
            share = percent(total[name] / observed)
            yield f'<li><i class="b-{name}"></i>{escape(_NAMES[name])} <b>{share}</b></li>'
    yield "</ul></section>"


def _sum(columns: Iterable[Column | None]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for column in columns:
        for name, seconds in (column or {}).items():
            sums[name] = sums.get(name, 0.0) + seconds
    return sums


def _bar(strip: Strip, sums: Mapping[str, float]) -> Iterator[str]:
    observed = sum(sums.values()) or 1.0
    parts = sorted(sums, key=lambda name: -sums[name])
    told = ", ".join(f"{_NAMES.get(name, name)} {percent(sums[name] / observed)}" for name in parts[:2])
    title = escape(f"GPU {strip.index}: {told}")
    yield f'<div class="gpu"><b>GPU {strip.index}</b><span>{escape(told)}</span>'
    yield f'<svg viewBox="0 0 {len(strip.columns)} {_HIGH}" preserveAspectRatio="none" role="img">'
    yield f"<title>{title}</title>"
    for name, path in _paths(strip.columns).items():
        yield f'<path class="c-{name}" d="{path}"/>'
    yield "</svg></div>"


def _paths(columns: Sequence[Column | None]) -> dict[str, str]:
    """Outlines of the rectangles of each colour. A column is filled whole, however little was observed."""
    pieces: dict[str, list[str]] = {}
    for x, column in enumerate(columns):
        if not column:
            continue
        scale = _HIGH / sum(column.values())
        top = float(_HIGH)
        for name in sorted(column, key=_RANK.__getitem__):
            high = column[name] * scale
            top -= high
            pieces.setdefault(name, []).append(f"M{x} {top:.1f}h1v{high:.1f}h-1z")
    return {name: "".join(found) for name, found in pieces.items()}


def _verdict(row: Explanation) -> Iterator[str]:
    name = CAUSES.get(row.cause) or VERDICTS.get(row.verdict, "")
    yield f'<section class="card"><h2>{escape(row.symptom)}</h2>'
    if row.workloads:
        owners = ", ".join(str(owner) for owner in row.workloads)
        yield f'<p class="dim">held by {escape(owners)}</p>'
    if name:
        where = f" on <code>{escape(row.detail)}</code>" if row.detail else ""
        dot = f'<i class="b-{row.cause or row.verdict}"></i>'
        yield f'<p class="cause">{dot}<b>{escape(name)}</b>{where}</p>'
    if row.meaning:
        yield f"<p>{escape(row.meaning)}</p>"
    if row.evidence:
        yield from _evidence(row.evidence)
    if row.threads is not None and row.cause in ("unexplained", "host_cpu", "host_kernel"):
        yield from _threads(row.threads)
    yield from _actions("Look next" if row.cause == "unexplained" else "Fix now", row.fix_now)
    yield from _actions("Fix for good", row.fix_for_good)
    if row.verify is not None:
        yield f"<h3>Verify</h3><p>{escape(row.verify.number)}</p><pre>$ {quote(row.verify.command)}</pre>"
        for query in dict.fromkeys((row.verify.query, row.verify.ledger_query)):
            yield f"<pre>{quote(query)}</pre>"
    yield from _considered(row)
    yield "</section>"


def _evidence(facts: Sequence[Fact]) -> Iterator[str]:
    yield '<h3>Evidence</h3><table class="ev"><tbody>'
    for fact in facts:
        if fact.threshold is not None and fact.value is not None:
            side = "over" if fact.value >= fact.threshold else "under"
            shown = f"<b>{escape(fact.shown)}</b><small>{side} {escape(fact.limit)}</small>"
        else:
            shown = f"<b>{escape(fact.shown)}</b>"
        kind = "seen" if fact.threshold is None else "fired" if fact.fired else "quiet"
        yield (
            f'<tr class="{kind}"><td>{shown}</td><td>{escape(fact.text)}'
            f"<small>{escape(fact.source)}</small></td></tr>"
        )
    yield "</tbody></table>"


def _threads(threads: Whereabouts) -> Iterator[str]:
    yield f'<h3>Where its {threads.total} threads are</h3><table class="ev"><tbody>'
    for where, count in threads.where.items():
        yield f"<tr><td><b>{count}</b></td><td>{escape(where)}</td></tr>"
    if threads.busiest:
        yield '<tr><th colspan="2">the busiest, of one core each</th></tr>'
    for one in threads.busiest:
        shares = f"{percent(one.user)} user, {percent(one.system)} system"
        yield f"<tr><td>{escape(shares)}</td><td><code>{escape(one.name)}</code></td></tr>"
    yield "</tbody></table>"


def _actions(title: str, actions: Sequence[Action]) -> Iterator[str]:
    if not actions:
        return
    yield f"<h3>{title}</h3><ul>"
    for action in actions:
        command = f"<pre>$ {quote(action.command)}</pre>" if action.command else ""
        yield f"<li>{escape(action.text)}{command}</li>"
    yield "</ul>"


def _considered(row: Explanation) -> Iterator[str]:
    if not row.considered and not row.ruled_out:
        return
    yield "<h3>Also considered</h3><ul>"
    for other in row.considered:
        yield f"<li>{escape(other.text)}</li>"
    if row.ruled_out:
        names = ", ".join(CAUSES.get(cause, cause) for cause in row.ruled_out)
        yield f"<li>ruled out, all signals below their thresholds: {escape(names)}</li>"
    yield "</ul>"


def _unavailable(page: Page) -> Iterator[str]:
    if page.report.unavailable:
        yield "<section><h2>Not available on this node</h2><ul>"
        for item in page.report.unavailable:
            yield f"<li><b>{escape(', '.join(item.signals))}</b>: {escape(item.reason)}"
            yield f'<br><span class="dim">To have it: {escape(item.enable)}</span></li>'
        yield "</ul></section>"
    if not page.sources:
        return
    series = sum(source.series for source in page.sources)
    yield f'<section><h2>What this node offers <small>{series} series</small></h2><table class="src"><tbody>'
    for source in page.sources:
        path = f"{quote(page.metrics_path)}?collect[]={quote(source.name)}"
        detail = f"<small>{escape(source.detail)}</small>" if source.detail else ""
        yield (
            f'<tr><td><a href="{path}">{escape(source.name)}</a></td>'
            f'<td class="s-{escape(source.state)}">{escape(source.state)}</td>'
            f"<td>{source.series}</td><td>{detail}</td></tr>"
        )
    yield "</tbody></table></section>"


__all__ = ["COLORS", "CONTENT_SECURITY_POLICY", "Page", "Source", "render"]
