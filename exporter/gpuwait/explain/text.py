"""A report as plain text for a terminal. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from gpuwait.explain.model import Action, Check, Explanation, Fact, Lost, Report, Whereabouts
from gpuwait.explain.wording import CAUSES, VERDICTS, percent, waiting_split

#: Columns of a line at most; a command is never broken, so that it can be copied.
WIDTH = 96
_UNIT = re.compile(r"(\d) (%|(?:µs|ms|s|min|h|B|[KMGT]iB|CPUs)\b)")
_BOLD, _RED, _GREEN, _OFF = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


def wants_color(out: TextIO, env: Mapping[str, str]) -> bool:
    """Tell whether to colour: a terminal, and no NO_COLOR (https://no-color.org)."""
    return not env.get("NO_COLOR") and env.get("TERM") != "dumb" and out.isatty()


def text(report: Report, *, color: bool = False) -> str:
    """The report as text of at most WIDTH columns, commands aside."""
    paint = _Paint(color)
    lines: list[str] = []
    if report.simulated:
        lines += [paint("SIMULATED", _BOLD) + f": the scenario {report.simulated}, not this node", ""]
    rows = report.explanations
    alone = sum(row.verdict not in ("healthy", "free") for row in rows) == 1
    if not alone:  # one that is alone says it all itself
        lines += [*_fill(report.summary, "", paint.bold), ""]
    for row in rows:
        if alone or len(rows) > 1:
            lines += [*_row(row, paint), ""]
    if report.unavailable:
        lines.append(paint("Not available on this node", _BOLD))
        for item in report.unavailable:
            lines += _lost(item)
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


class _Paint:
    def __init__(self, color: bool) -> None:  # noqa: FBT001 - private
        self._color = color

    def __call__(self, words: str, code: str) -> str:
        return f"{code}{words}{_OFF}" if self._color and words else words

    def bold(self, words: str) -> str:
        return self(words, _BOLD)


def _fill(words: str, indent: str, paint: Callable[[str], str] | None = None, hang: str = "") -> list[str]:
    """Wrapped lines; a number stays with its unit."""
    lines = textwrap.wrap(
        _UNIT.sub("\\1\xa0\\2", words),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_on_hyphens=False,
    )
    return [(paint or str)(line.replace("\xa0", " ")) for line in lines]


def _row(row: Explanation, paint: _Paint) -> Iterator[str]:
    good = row.verdict in ("healthy", "free")
    yield from _fill(row.symptom, "", lambda line: paint(line, _BOLD + (_GREEN if good else _RED)))
    if row.workloads:
        yield from _fill(f"held by {', '.join(str(owner) for owner in row.workloads)}", "  ", hang="  ")
    if split := waiting_split(row.waiting_seconds):
        yield from _fill(f"of the waiting: {split}", "  ", hang="  ")
    if good or not row.meaning:
        return
    name = CAUSES.get(row.cause) or VERDICTS.get(row.verdict, "")
    where = f" on {row.detail}" if row.detail else ""
    yield from ("", f"  {paint('Cause', _BOLD)}: {name}{where}")
    yield from _fill(row.meaning, "    ")
    if row.evidence:
        yield from ("", f"  {paint('Evidence', _BOLD)}")
        yield from _evidence(row.evidence)
    if row.threads is not None and (row.cause == "unexplained" or row.cause.startswith("host_")):
        yield from ("", f"  {paint('Where its threads are', _BOLD)}")
        yield from _threads(row.threads)
    yield from _actions(paint("Fix now" if row.cause != "unexplained" else "Look next", _BOLD), row.fix_now)
    yield from _actions(paint("Fix for good", _BOLD), row.fix_for_good)
    if row.verify is not None:
        yield from ("", f"  {paint('Verify', _BOLD)}")
        yield from _verify(row.verify)
    if row.considered or row.ruled_out:
        yield from ("", f"  {paint('Also considered', _BOLD)}")
        yield from _considered(row)


def _evidence(facts: Sequence[Fact]) -> Iterator[str]:
    """Signals as aligned columns, number first; then what has no limit, as sentences."""
    signals = [fact for fact in facts if fact.threshold is not None]
    shown = max((len(fact.shown) for fact in signals), default=0)
    limit = max((len(_limit(fact)) for fact in signals), default=0)
    hang = " " * (shown + limit + 4)
    for fact in signals:
        start = f"{fact.shown.rjust(shown)}  {_limit(fact).ljust(limit)}  "
        lines = _fill(f"{fact.text}  [{fact.source}]", "    " + hang)
        yield f"    {start}{lines[0].lstrip()}"
        yield from lines[1:]
    for fact in facts:
        if fact.threshold is None:
            yield from _fill(f"- {fact.shown}: {fact.text}  [{fact.source}]", "    ", hang="  ")


def _limit(fact: Fact) -> str:
    if fact.threshold is None or fact.value is None:
        return ""
    return f"{'over' if fact.value >= fact.threshold else 'under'} {fact.limit}"


def _actions(title: str, actions: Iterable[Action]) -> Iterator[str]:
    first = True
    for action in actions:
        if first:
            yield from ("", f"  {title}")
            first = False
        yield from _fill(f"- {action.text}", "    ", hang="  ")
        if action.command:
            yield f"        $ {action.command}"


def _verify(check: Check) -> Iterator[str]:
    yield from _fill(check.number, "    ")
    yield f"        $ {check.command}"
    for query in dict.fromkeys((check.query, check.ledger_query)):
        yield f"        PromQL  {query}"


def _considered(row: Explanation) -> Iterator[str]:
    for other in row.considered:
        yield from _fill(f"- {other.text}", "    ", hang="  ")
    if row.ruled_out:
        names = ", ".join(CAUSES.get(cause, cause) for cause in row.ruled_out)
        yield from _fill(f"- ruled out, all signals below their thresholds: {names}", "    ", hang="  ")


def _threads(threads: Whereabouts) -> Iterator[str]:
    count = max((len(where) for where in threads.where), default=0)
    for where, number in threads.where.items():
        yield f"    {where.ljust(count)}  {number:6,} of {threads.total:,}"
    if threads.note:
        yield f"    {threads.note}"
    if threads.busiest:
        width = max(len(one.name) for one in threads.busiest)
        yield "    the busiest:"
        for one in threads.busiest:
            shares = f"{percent(one.user):>6} user  {percent(one.system):>6} system"
            yield f"      {one.name.ljust(width)}  {shares}"


def _lost(item: Lost) -> Iterator[str]:
    yield from _fill(f"- {', '.join(item.signals)}: {item.reason}", "  ", hang="  ")
    yield f"      to have it: {item.enable}"
