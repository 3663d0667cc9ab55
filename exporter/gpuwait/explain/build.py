"""Verdicts of the last seconds -> what to say of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuwait import advice
from gpuwait.explain import fill, still
from gpuwait.explain.context import Scene, facts
from gpuwait.explain.lost import lost
from gpuwait.explain.model import Action, Check, Explanation, Fact, Other, Owner, Report
from gpuwait.explain.sentences import summary, symptom
from gpuwait.explain.whereabouts import whereabouts
from gpuwait.explain.window import EvidenceWindow, GpuWindow, evidence, windows
from gpuwait.explain.wording import CAUSES, amount, percent, printable, signal_text, tidy
from gpuwait.wait.snapshot import Key, Snapshot
from gpuwait.wait.verdict import Cause, GpuVerdict, State, Verdict
from gpuwait.workload.identity import POD_LENGTH

#: Waiting below this share of the window is not worth a verdict: 2.5 s every 30 s are 8 %.
WORTH_SAYING = 0.05
#: The state that had this much of the window is the verdict where the GPU does not wait.
MOSTLY = 0.5
#: Difference of the waiting shares up to which GPUs without known workloads fare alike.
ALIKE = 0.10
#: Workloads named in one row.
_OWNERS = 16

_OTHERS: tuple[tuple[State, str], ...] = (
    (State.UNKNOWN, "unknown"),
    (State.FREE, "free"),
    (State.IDLE, "idle"),
)

_LAST_RESORT = frozenset({Cause.HOST_CPU, Cause.HOST_KERNEL})

#: Verdicts in the order in which they are told.
_ORDER = {"waiting": 0, "unknown": 1, "idle": 2, "healthy": 3, "free": 4}

#: What a row of GPUs has in common.
_Same = tuple[str, Cause | None, tuple[Key, ...]]


def build(
    verdicts: Sequence[Verdict],
    latest: Snapshot | None,
    earlier: Snapshot | None = None,
    *,
    full: Sequence[Verdict] = (),
    reasons: Mapping[str, str] | None = None,
    sleeping: Mapping[int, str] | None = None,
    simulated: str = "",
) -> Report:
    """One explanation for GPUs that fare alike, those that wait first.

    verdicts: of the window, oldest first; evidence of the cause found is enough.
    latest:   the last snapshot; `earlier` one some seconds before it, for shares of CPU by thread.
    full:     some of the verdicts with the evidence of every cause, to tell what else was considered.
    reasons:  why sources are not there, by source, from the sampler.
    sleeping: what sleeping threads sleep in, by thread id (`whereabouts.sleeps`).
    """
    wider = {(gpu.index, gpu.uuid): gpu.ticks for gpu in windows(full)}
    explanations = []
    for same, gpus in _rows(windows(verdicts)):
        keys = tuple(dict.fromkeys(key for gpu in gpus for key in gpu.workloads))
        row = _plain(same, gpus, keys)
        if row.verdict == "idle":
            row = _idle(row, keys, gpus, latest, earlier)
        elif row.verdict == "unknown":
            row = _with_advice(row, advice.UNKNOWN, "", {})
        elif row.verdict == "waiting" and same[1] is not None and latest is not None:
            threads = whereabouts(earlier, latest, keys, sleeping)
            row = _waiting(row, same[1], gpus, Scene(latest, keys, _home(gpus, latest), threads), wider)
        explanations.append(row)
    explanations.sort(key=lambda e: (_ORDER[e.verdict], -e.seconds.get(State.WAITING, 0.0), e.gpus))
    seconds = tidy(sum(verdict.dt for verdict in verdicts))
    missing = lost(latest, reasons or {}) if latest is not None else ()
    return Report(seconds, summary(explanations, seconds), tuple(explanations), missing, simulated)


def _rows(gpus: Iterable[GpuWindow]) -> list[tuple[_Same, list[GpuWindow]]]:
    """GPUs that fare alike, together. Those whose workload is not known must have waited about as long."""
    rows: list[tuple[_Same, list[GpuWindow]]] = []
    for gpu in gpus:
        same = _same(gpu)
        for key, row in rows:
            if key == same and (gpu.workloads or same[0] != "waiting" or _close(gpu, row)):
                row.append(gpu)
                break
        else:
            rows.append((same, [gpu]))
    return rows


def _close(gpu: GpuWindow, row: Iterable[GpuWindow]) -> bool:
    share = gpu.share(State.WAITING)
    return all(abs(share - other.share(State.WAITING)) <= ALIKE for other in row)


def _same(gpu: GpuWindow) -> _Same:
    if gpu.share(State.WAITING) >= WORTH_SAYING:
        return "waiting", gpu.cause, gpu.workloads
    for state, name in _OTHERS:
        if gpu.share(state) >= MOSTLY:
            return name, None, gpu.workloads if state is State.IDLE else ()
    return "healthy", None, ()


def _mean(gpus: Sequence[GpuWindow]) -> tuple[dict[str, float], dict[str, float], float | None, float]:
    """Seconds by state and by cause, utilisation, seconds observed: means over these GPUs."""
    count = len(gpus)
    seconds = {str(s): sum(g.seconds.get(s, 0.0) for g in gpus) / count for s in State}
    causes = {str(c): sum(g.causes.get(c, 0.0) for g in gpus) / count for c in Cause}
    known = [u for g in gpus if (u := g.utilization) is not None]
    return (
        {k: tidy(s) for k, s in seconds.items() if s > 0},
        {k: tidy(s) for k, s in causes.items() if s > 0},
        tidy(sum(known) / len(known)) if known else None,
        tidy(sum(g.observed for g in gpus) / count),
    )


def _plain(same: _Same, gpus: list[GpuWindow], keys: tuple[Key, ...]) -> Explanation:
    verdict, cause, _ = same
    seconds, causes, utilization, observed = _mean(gpus)
    return Explanation(
        gpus=tuple(gpu.index for gpu in gpus),
        uuids=tuple(printable(gpu.uuid) for gpu in gpus),
        workloads=tuple(Owner(*(printable(part, POD_LENGTH) for part in key)) for key in keys[:_OWNERS]),
        verdict=verdict,
        cause=str(cause or ""),
        detail="",
        symptom=symptom(verdict, gpus, seconds, utilization, observed),
        meaning="",
        observed_seconds=observed,
        seconds=seconds,
        waiting_seconds=causes,
        utilization=utilization,
    )


def _home(gpus: Sequence[GpuWindow], latest: Snapshot) -> tuple[int, ...]:
    chosen = {gpu.index for gpu in gpus}
    nodes = {g.numa_node for g in latest.gpus if g.index in chosen and g.numa_node is not None}
    return tuple(sorted(n for n in nodes if n >= 0))


def _idle(
    base: Explanation,
    keys: tuple[Key, ...],
    gpus: Sequence[GpuWindow],
    latest: Snapshot | None,
    earlier: Snapshot | None,
) -> Explanation:
    """Fill in who holds the GPUs, how that shows, and the one thing to do that fits them."""
    row = _with_advice(base, still.suits(keys, gpus, latest), "", {})
    if keys:
        told = still.steps(keys, latest)
        row = replace(row, fix_now=tuple(Action(s.text, fill.fill(s.command, words)) for s, words in told))
    return replace(row, evidence=tuple(still.facts(keys, gpus, latest, earlier)))


def _waiting(
    base: Explanation,
    cause: Cause,
    gpus: Sequence[GpuWindow],
    scene: Scene,
    wider: Mapping[tuple[int, str], list[tuple[float, GpuVerdict]]],
) -> Explanation:
    """Fill in the cause: its evidence, what else was looked at, and what to do."""
    threads = scene.threads
    worst = max(gpus, key=lambda g: g.causes.get(cause, 0.0))
    own = evidence(worst.ticks, cause).get(cause)
    found = evidence(wider.get((worst.index, worst.uuid)) or worst.ticks, cause)
    found.pop(cause, None)
    share = own.share if own is not None and cause is not Cause.UNEXPLAINED else None
    lines = (*(_facts(own) if own is not None else ()), *facts(cause, scene))
    # A full core is how compaction and the like look from outside: no cause of its own beside them.
    skipped = _LAST_RESORT if cause is not Cause.UNEXPLAINED else frozenset()
    others = [w for w in found.values() if w.cause not in skipped and (w.share >= 0.02 or w.active)]
    words = fill.words(scene, own.detail if own is not None else "")
    filled = _with_advice(base, advice.ADVICE[cause], cause, words, own)
    return replace(
        filled,
        detail=printable(own.detail) if own is not None else "",
        meaning=filled.meaning if share is None else _meaning(advice.ADVICE[cause], share, len(gpus), own),
        share=share,
        evidence=lines,
        considered=tuple(_other(w) for w in others[:2]),
        ruled_out=tuple(str(c) for c, w in found.items() if w.ruled_out and w not in others[:2]),
        threads=threads,
    )


def _facts(own: EvidenceWindow) -> Iterable[Fact]:
    """Signals that spoke for the cause first, then those that did not; the missing are told elsewhere."""
    known = [s for s in own.signals.values() if s.value is not None]
    for window in sorted(known, key=lambda s: not s.spoke):
        last, value = window.last, window.value or 0.0
        limit = ""
        if last.threshold is not None:
            limit = amount(last.threshold, last.unit, own.cause, last.name)
        yield Fact(
            last.name,
            signal_text(own.cause, last.name),
            value,
            last.unit,
            amount(value, last.unit, own.cause, last.name),
            last.threshold,
            limit,
            window.spoke,
            printable(last.source),
        )


def _other(window: EvidenceWindow) -> Other:
    name = CAUSES.get(window.cause, str(window.cause))
    where = f" on {printable(window.detail)}" if window.detail else ""
    spoke = [s for s in window.signals.values() if s.spoke and s.value is not None]
    told = ", ".join(
        f"{signal_text(window.cause, s.last.name)} "
        + amount(s.value or 0, s.last.unit, window.cause, s.last.name)
        for s in spoke
    )
    why = "weaker" if window.active else ("only one kind of signal" if spoke else "below its thresholds")
    return Other(str(window.cause), window.share, f"{name}{where}: {told or percent(window.share)}; {why}")


def _meaning(what: advice.Advice, share: float, gpus: int, own: EvidenceWindow | None) -> str:
    whose = "the ranks' time" if gpus > 1 else "the workload's time"
    about = "an estimated " if what.estimated else ""
    waited = f"while the GPU{'s' if gpus > 1 else ''} waited"
    means = fill.prose(what.means, own)
    return _sentence(f"{what.took} took {about}{percent(share)} of {whose} {waited}: {means}")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _with_advice(
    base: Explanation,
    what: advice.Advice,
    cause: Cause | str,
    words: Mapping[str, str],
    own: EvidenceWindow | None = None,
) -> Explanation:
    kinds = {owner.kind for owner in base.workloads}

    def actions(steps: Iterable[advice.Step]) -> tuple[Action, ...]:
        chosen = (s for s in steps if not s.kinds or not kinds or kinds & set(s.kinds))
        return tuple(Action(fill.prose(s.text, own), fill.fill(s.command, words)) for s in chosen)

    verify = what.verify
    ledger = advice.ledger_query(cause) if isinstance(cause, Cause) else verify.query
    return replace(
        base,
        meaning=_sentence(fill.prose(what.means, own)),
        fix_now=actions(what.now),
        fix_for_good=actions(what.good),
        verify=Check(fill.prose(verify.number, own), fill.fill(verify.command, words), verify.query, ledger),
        runbook=what.runbook,
    )
