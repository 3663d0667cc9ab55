"""What the sampler fills and the rest of the program reads; see `state.WaitState`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gpuwait.thresholds import Thresholds
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.snapshot import Delay, Snapshot
from gpuwait.wait.verdict import Verdict

#: Ticks that are remembered.
RECENT = 300


@dataclass(slots=True, eq=False)
class Live:
    """Written by the sampler only; each attribute is replaced as a whole: readers need no lock.

    recent:    verdicts of the last five minutes with the evidence of the cause found and no other: all of it
               would be 20 MiB for eight GPUs. From another thread use `history()`.
    reasons:   by source, why it is not there, for people.
    heartbeat: monotonic seconds of the last sign of life.
    overdue:   seconds by which a tick is overdue now; `watch` says where the sampler hangs. Both are its own.
    """

    ledger: Ledger
    limits: Thresholds
    prices: Mapping[tuple[int, str], float] = field(default_factory=dict)
    verdict: Verdict | None = None
    snapshot: Snapshot | None = None
    ticks: int = 0
    last_lag: float = 0.0
    cpu_seconds: float = 0.0
    threads_skipped: int = 0
    dropped: Mapping[Delay, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    heartbeat: float | None = None
    recent: deque[Verdict] = field(default_factory=lambda: deque(maxlen=RECENT))
    overdue: Callable[[], float] = float
    watch: Callable[[], str] = str

    @property
    def lag_seconds(self) -> float:
        """Seconds by which the last tick came late, or by which the next one is overdue."""
        return max(self.last_lag, self.overdue())

    @property
    def stuck(self) -> str:
        """Where the sampler hangs, empty while it lives."""
        return self.watch()

    def add(self, verdict: Verdict) -> None:
        """Take in the verdict of a tick."""
        self.verdict = verdict
        gpus = tuple(
            replace(gpu, evidence=tuple(e for e in gpu.evidence if e.cause is gpu.cause))
            for gpu in verdict.gpus
        )
        self.recent.append(replace(verdict, gpus=gpus))

    def history(self) -> list[Verdict]:
        """The recent verdicts, oldest first; from any thread."""
        while True:
            try:
                return list(self.recent)
            except RuntimeError:  # changed meanwhile
                continue
