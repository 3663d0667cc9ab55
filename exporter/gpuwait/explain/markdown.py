"""A report as Markdown, for a ticket. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuwait.explain.model import Action, Explanation, Report
from gpuwait.explain.wording import CAUSES, VERDICTS, percent, waiting_split

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def escape(words: str) -> str:
    """Text whose characters mean nothing to Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", words.replace("&", "&amp;"))


def markdown(report: Report) -> str:
    """The report as Markdown."""
    lines = [f"# {escape(report.summary)}", ""]
    if report.simulated:
        lines += [f"**Simulated**: the scenario {escape(report.simulated)}, not this node.", ""]
    for row in report.explanations:
        lines += _row(row)
    if report.unavailable:
        lines += ["## Not available on this node", ""]
        lines += [
            f"- {escape(', '.join(item.signals))}: {escape(item.reason)}. To have it: {escape(item.enable)}"
            for item in report.unavailable
        ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(row: Explanation) -> Iterator[str]:
    yield from (f"## {escape(row.symptom)}", "")
    if row.workloads:
        yield from (f"Held by {escape(', '.join(str(owner) for owner in row.workloads))}.", "")
    if split := waiting_split(row.waiting_seconds):
        yield from (f"Of the waiting: {escape(split)}.", "")
    if row.verdict in ("healthy", "free") or not row.meaning:
        return
    where = f" on {escape(row.detail)}" if row.detail else ""
    name = CAUSES.get(row.cause) or VERDICTS.get(row.verdict, "")
    yield from (f"**Cause: {escape(name)}**{where}. {escape(row.meaning)}", "")
    if row.evidence:
        yield from ("| evidence | measured | limit | source |", "|---|---:|---:|---|")
        for fact in row.evidence:
            cells = (fact.text, fact.shown, fact.limit, fact.source)
            yield f"| {' | '.join(map(escape, cells))} |"
        yield ""
    if row.threads is not None and row.cause in ("unexplained", "host_cpu", "host_kernel"):
        yield from _threads(row)
    yield from _actions("Fix now" if row.cause != "unexplained" else "Look next", row.fix_now)
    yield from _actions("Fix for good", row.fix_for_good)
    if row.verify is not None:
        yield from ("### Verify", "", f"{escape(row.verify.number)}.", "")
        yield from ("```sh", row.verify.command, "```", "")
        queries = dict.fromkeys((row.verify.query, row.verify.ledger_query))
        yield from ("```promql", *queries, "```", "")
    if row.considered or row.ruled_out:
        yield from ("### Also considered", "")
        yield from (f"- {escape(other.text)}" for other in row.considered)
        if row.ruled_out:
            names = ", ".join(CAUSES.get(cause, cause) for cause in row.ruled_out)
            yield f"- ruled out, all signals below their thresholds: {escape(names)}"
        yield ""


def _threads(row: Explanation) -> Iterator[str]:
    threads = row.threads
    if threads is None:
        return
    yield from ("### Where its threads are", "")
    yield from (
        f"- {escape(where)}: {count:,} of {threads.total:,}" for where, count in threads.where.items()
    )
    if threads.note:
        yield f"- {escape(threads.note)}"
    if threads.busiest:
        yield from ("", "| busiest thread | user | system |", "|---|---:|---:|")
        yield from (
            f"| {escape(b.name)} | {percent(b.user)} | {percent(b.system)} |" for b in threads.busiest
        )
    yield ""


def _actions(title: str, actions: Iterable[Action]) -> Iterator[str]:
    chosen = list(actions)
    if not chosen:
        return
    yield from (f"### {title}", "")
    for action in chosen:
        yield f"- {escape(action.text)}"
        if action.command:
            yield from ("", "  ```sh", f"  {action.command}", "  ```", "")
    yield ""
