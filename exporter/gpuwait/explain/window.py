"""Figures of the last seconds: verdicts of single ticks summed up. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpuwait.explain.wording import tidy
from gpuwait.wait.snapshot import Key
from gpuwait.wait.verdict import Cause, Evidence, GpuVerdict, Signal, State, Verdict


@dataclass(slots=True)
class GpuWindow:
    """One GPU: seconds by state and cause, the mean utilisation, and its verdicts with their lengths."""

    index: int
    uuid: str
    seconds: dict[State, float] = field(default_factory=dict)
    causes: dict[Cause, float] = field(default_factory=dict)
    ticks: list[tuple[float, GpuVerdict]] = field(default_factory=list)
    workloads: tuple[Key, ...] = ()

    @property
    def observed(self) -> float:
        """Seconds looked at."""
        return sum(self.seconds.values())

    def share(self, state: State) -> float:
        """Part of the observed time in a state."""
        return self.seconds.get(state, 0.0) / self.observed if self.observed > 0 else 0.0

    @property
    def utilization(self) -> float | None:
        """Mean over the ticks with a reading."""
        known = [(dt, v.utilization) for dt, v in self.ticks if v.utilization is not None]
        total = sum(dt for dt, _ in known)
        return tidy(sum(dt * u for dt, u in known) / total) if total > 0 else None

    @property
    def cause(self) -> Cause | None:
        """The cause with most of the waiting; ties go by the declared order."""
        order = {cause: place for place, cause in enumerate(Cause)}
        return max(self.causes, key=lambda c: (self.causes[c], -order[c]), default=None)


def windows(verdicts: Iterable[Verdict]) -> list[GpuWindow]:
    """Sums for each GPU that the last verdict knows, by index."""
    found: dict[tuple[int, str], GpuWindow] = {}
    last: Verdict | None = None
    for last in verdicts:
        for gpu in last.gpus:
            window = found.setdefault((gpu.index, gpu.uuid), GpuWindow(gpu.index, gpu.uuid))
            waiting = 0.0
            for state, seconds in gpu.seconds.items():
                if seconds:
                    window.seconds[state] = window.seconds.get(state, 0.0) + seconds
                    if state is State.WAITING:
                        waiting = seconds
            if waiting and gpu.cause is not None:
                window.causes[gpu.cause] = window.causes.get(gpu.cause, 0.0) + waiting
            window.ticks.append((last.dt, gpu))
            window.workloads = gpu.workloads or window.workloads
    present = {(gpu.index, gpu.uuid) for gpu in last.gpus} if last is not None else set()
    return sorted((w for key, w in found.items() if key in present), key=lambda w: (w.index, w.uuid))


@dataclass(slots=True)
class SignalWindow:
    """One signal over several ticks: the mean of its known values; fired in at least half of them."""

    last: Signal
    total: float = 0.0
    time: float = 0.0
    fired: int = 0
    seen: int = 0

    @property
    def value(self) -> float | None:
        """Mean, None where the source is not there."""
        return tidy(self.total / self.time) if self.time > 0 else None

    @property
    def spoke(self) -> bool:
        """It fired in at least half of the ticks."""
        return self.fired * 2 >= self.seen > 0


@dataclass(slots=True)
class EvidenceWindow:
    """What spoke for one cause over several ticks."""

    cause: Cause
    total: float = 0.0
    time: float = 0.0
    active: int = 0
    details: Counter[str] = field(default_factory=Counter)
    signals: dict[str, SignalWindow] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Mean share of the time that the workload lost to it."""
        return tidy(self.total / self.time) if self.time > 0 else 0.0

    @property
    def detail(self) -> str:
        """What it concerned most often."""
        return self.details.most_common(1)[0][0] if self.details else ""

    @property
    def ruled_out(self) -> bool:
        """Every one of its signals was there, and none fired at any time."""
        return bool(self.signals) and all(s.value is not None and not s.fired for s in self.signals.values())

    def add(self, dt: float, evidence: Evidence) -> None:
        """Take in one tick."""
        self.total += evidence.share * dt
        self.time += dt
        self.active += evidence.active
        if evidence.detail and (evidence.active or not self.active):
            self.details[evidence.detail] += 1
        for signal in evidence.signals:
            window = self.signals.get(signal.name)
            if window is None:
                window = self.signals[signal.name] = SignalWindow(signal)
            window.last = signal
            window.seen += 1
            window.fired += signal.fired
            if signal.value is not None:
                window.total += signal.value * dt
                window.time += dt


def evidence(ticks: Sequence[tuple[float, GpuVerdict]], cause: Cause | None) -> dict[Cause, EvidenceWindow]:
    """Evidence by cause, over the ticks in which the GPU waited for `cause`, strongest first.

    Only these: an incident of 2 s every 30 s would else drown in the quiet between.
    """
    found: dict[Cause, EvidenceWindow] = {}
    for dt, verdict in ticks:
        if verdict.cause is not cause or not verdict.seconds.get(State.WAITING):
            continue
        for item in verdict.evidence:
            window = found.get(item.cause)
            if window is None:
                window = found[item.cause] = EvidenceWindow(item.cause)
            window.add(dt, item)
    return dict(sorted(found.items(), key=lambda pair: (-bool(pair[1].active), -pair[1].share)))
