"""`gpuwait demo`: replays an incident through the engine, without a GPU, and says what was found."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from gpuwait.explain import Recent, Report, text
from gpuwait.explain.text import WIDTH
from gpuwait.explain.wording import CAUSES, percent
from gpuwait.scenarios import ALL, Phase, Scenario
from gpuwait.scenarios.rates import STORY
from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.verdict import Cause, State, Verdict


class UnknownScenarioError(Exception):
    """No scenario has this name. The message is one line that names those there are."""


@dataclass(slots=True)
class Totals:
    """Seconds of the GPUs of a story, by state and by cause of the waiting."""

    states: dict[State, float]
    causes: dict[Cause, float]

    @property
    def cause(self) -> Cause | None:
        """The cause with most of the waiting."""
        return max(self.causes, key=lambda cause: self.causes[cause], default=None)

    @property
    def state(self) -> State:
        """The state that has most of the time that is not busy."""
        rest = {s: t for s, t in self.states.items() if s is not State.BUSY}
        return max(rest, key=lambda s: rest[s], default=State.BUSY)


@dataclass(frozen=True, slots=True)
class Played:
    """One phase as it was judged, with the report at its end."""

    phase: Phase
    start: int
    totals: Totals
    report: Report


def find(name: str) -> Scenario:
    """The scenario of this name. Raises UnknownScenarioError."""
    for scenario in ALL:
        if scenario.name == name:
            return scenario
    raise UnknownScenarioError(f"no scenario {name[:60]!r}; there are {', '.join(s.name for s in ALL)}")


def list_scenarios(out: TextIO) -> None:
    """Print the scenarios: name, title, story."""
    for scenario in ALL:
        out.write(f"{scenario.name}: {scenario.title}\n{_wrap(scenario.story, '    ')}\n")
    out.write("\ngpuwait demo NAME replays one, --all judges all, NAME --serve serves it as live metrics\n")


def run(name: str, out: TextIO, *, color: bool = False) -> int:
    """Replay a scenario; print its time line and the explanation. 0 where the verdict is the right one.

    Raises UnknownScenarioError.
    """
    scenario = find(name)
    played = list(play(scenario))
    out.write(f"{scenario.name}: {scenario.title}\n{_wrap(scenario.story, '  ')}\n\nTime line\n")
    width = max(len(one.phase.name) for one in played)
    for one in played:
        span = f"{one.start:4} s to {one.start + one.phase.seconds:4} s"
        out.write(f"  {span}  {one.phase.name.ljust(width)}  {told(one.totals)}\n")
    shown = [one for one in played if scenario.expected_cause and one.phase.cause is scenario.expected_cause]
    last = (shown or played)[-1]
    out.write(f"\nWhat `gpuwait explain` says after {last.start + last.phase.seconds} s\n\n")
    out.write(text(last.report, color=color))
    whole = add(one.totals for one in played)
    right = _right(scenario, whole)
    out.write(f"\nExpected {_expected(scenario)}; found {_found(whole)}{'' if right else '  WRONG'}\n")
    return 0 if right else 1


def run_all(out: TextIO) -> int:
    """Judge every scenario; print expected against found. 0 where all are right."""
    wrong = 0
    width = max(len(scenario.name) for scenario in ALL)
    out.write(f"{'scenario'.ljust(width)}  {'expected':16}  {'found':16}  waited  right\n")
    for scenario in ALL:
        whole = add(one.totals for one in play(scenario))
        right = _right(scenario, whole)
        wrong += not right
        share = whole.states.get(State.WAITING, 0.0) / max(1e-9, sum(whole.states.values()))
        out.write(
            f"{scenario.name.ljust(width)}  {_expected(scenario):16}  {_found(whole):16}  "
            f"{percent(share):>6}  {'yes' if right else 'NO'}\n"
        )
    out.write(f"{len(ALL) - wrong} of {len(ALL)} right\n")
    return 1 if wrong else 0


def play(scenario: Scenario) -> Iterator[Played]:
    """Judge a scenario, phase by phase."""
    engine, recent = Engine(Thresholds()), Recent()
    history: list[Verdict] = []
    snapshots = scenario.snapshots()
    before = next(snapshots)
    recent.add(None, before)
    start = 0
    for phase in scenario.phases:
        for _ in range(phase.seconds):
            after = next(snapshots)
            verdict = engine.judge(before, after)
            recent.add(verdict, after)
            history.append(verdict)
            before = after
        totals = add(total(verdict) for verdict in history[start:])
        yield Played(phase, start, totals, recent.report(history[-300:], simulated=scenario.name))
        start += phase.seconds


def total(verdict: Verdict) -> Totals:
    """Seconds of the story's GPUs in one tick."""
    found = Totals({}, {})
    for gpu in verdict.gpus:
        if STORY not in gpu.workloads:
            continue
        for state, seconds in gpu.seconds.items():
            found.states[state] = found.states.get(state, 0.0) + seconds
        waiting = gpu.seconds.get(State.WAITING, 0.0)
        if gpu.cause is not None and waiting > 0:
            found.causes[gpu.cause] = found.causes.get(gpu.cause, 0.0) + waiting
    return found


def add(parts: Iterable[Totals]) -> Totals:
    """The sum of totals."""
    found = Totals({}, {})
    for part in parts:
        for state, seconds in part.states.items():
            found.states[state] = found.states.get(state, 0.0) + seconds
        for cause, seconds in part.causes.items():
            found.causes[cause] = found.causes.get(cause, 0.0) + seconds
    return found


def told(totals: Totals) -> str:
    """One phase in words."""
    observed = sum(totals.states.values()) or 1.0
    words = [f"busy {percent(totals.states.get(State.BUSY, 0.0) / observed)}"]
    words += [
        f"{state} {percent(totals.states[state] / observed)}"
        for state in (State.IDLE, State.FREE, State.UNKNOWN)
        if totals.states.get(state, 0.0) / observed >= 0.01
    ]
    for cause in sorted(totals.causes, key=lambda c: -totals.causes[c])[:3]:
        share = percent(totals.causes[cause] / observed)
        words.append(f"waited {share}: {CAUSES.get(cause, cause)}")
    return ", ".join(words)


def _right(scenario: Scenario, whole: Totals) -> bool:
    return whole.cause == scenario.expected_cause and whole.state == scenario.expected_state


def _expected(scenario: Scenario) -> str:
    return str(scenario.expected_cause or scenario.expected_state)


def _found(whole: Totals) -> str:
    return str(whole.cause or whole.state)


def _wrap(words: str, indent: str) -> str:
    return textwrap.fill(words, WIDTH, initial_indent=indent, subsequent_indent=indent)
