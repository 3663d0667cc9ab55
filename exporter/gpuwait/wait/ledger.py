"""The seconds of each GPU by state, and of its waiting by cause: sums that never fall.

A wait begins and ends within a tick. Such a tick may still be above the line,
so its rest looks like pipeline slack, and dips of 2.5 s would lose up to a
fifth of their length. So the slack of the ticks just before and just after a
wait belongs to the wait; that of the last tick is held back until the next one
has told which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from gpuwait.wait.verdict import Cause, GpuVerdict, State, Verdict

#: Index and uuid of a GPU.
GpuKey = tuple[int, str]

#: GPUs that are listed no more and whose series stay, so that their counters do not vanish within a query.
GONE = 64


@dataclass(slots=True)
class Account:
    """One GPU: seconds by state, and waiting seconds by cause; every state and cause from the start."""

    states: dict[State, float] = field(default_factory=lambda: dict.fromkeys(State, 0.0))
    causes: dict[Cause, float] = field(default_factory=lambda: dict.fromkeys(Cause, 0.0))

    def wait(self, cause: Cause, seconds: float) -> None:
        """Add waiting seconds."""
        self.states[State.WAITING] += seconds
        self.causes[cause] += seconds


@dataclass(frozen=True, slots=True)
class Sums:
    """A copy of the ledger at one moment, in seconds; the slack of the last tick may still be to come."""

    gpus: Mapping[GpuKey, Account]
    active: Mapping[Cause, float]


class Ledger:
    """Adds up verdicts. Written by the sampler, read by scrapes; safe for both at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._gpus: dict[GpuKey, Account] = {}
        self._active = dict.fromkeys(Cause, 0.0)
        self._held: dict[GpuKey, float] = {}
        self._waited: dict[GpuKey, Cause] = {}

    def see(self, *keys: GpuKey) -> None:
        """Open accounts at zero, so that a rate over the first minutes of a GPU is right."""
        with self._lock:
            for key in keys:
                self._account(key)

    def add(self, verdict: Verdict) -> None:
        """Add one tick."""
        active: set[Cause] = set()
        with self._lock:
            for gpu in verdict.gpus:
                account = self._account((gpu.index, gpu.uuid))
                self._add_gpu(account, gpu)
                if self._waits(gpu):
                    active.update(e.cause for e in gpu.evidence if e.active)
                    active.update((gpu.cause,) if gpu.cause else ())
            for cause in active:
                self._active[cause] += verdict.dt
            self._forget({(gpu.index, gpu.uuid) for gpu in verdict.gpus})

    @staticmethod
    def _waits(gpu: GpuVerdict) -> bool:
        return gpu.cause is not None and gpu.seconds.get(State.WAITING, 0.0) > 0

    def _add_gpu(self, account: Account, gpu: GpuVerdict) -> None:
        key, gap = (gpu.index, gpu.uuid), gpu.seconds.get(State.GAP, 0.0)
        held, before = self._held.pop(key, 0.0), self._waited.pop(key, None)
        for state, seconds in gpu.seconds.items():
            if state not in (State.GAP, State.WAITING):
                account.states[state] += seconds
        if gpu.cause is not None and self._waits(gpu):
            account.wait(gpu.cause, held + gpu.seconds[State.WAITING])
            account.states[State.GAP] += gap
            self._waited[key] = gpu.cause
            return
        account.states[State.GAP] += held
        if before is not None:
            account.wait(before, gap)
        elif gap:
            self._held[key] = gap

    def settle(self) -> None:
        """Count what is held back as slack: there is no next tick."""
        with self._lock:
            for key, gap in self._held.items():
                self._gpus[key].states[State.GAP] += gap
            self._held.clear()

    def sums(self) -> Sums:
        """What was added so far."""
        with self._lock:
            gpus = {key: Account(dict(a.states), dict(a.causes)) for key, a in self._gpus.items()}
            return Sums(gpus, dict(self._active))

    def _account(self, key: GpuKey) -> Account:
        account = self._gpus.get(key)
        if account is None:
            account = self._gpus[key] = Account()
        return account

    def _forget(self, present: set[GpuKey]) -> None:
        """Keep a bound on GPUs that went away: the one that came first goes first."""
        gone = [key for key in self._gpus if key not in present]
        for key in gone:
            self._waited.pop(key, None)
            self._gpus[key].states[State.GAP] += self._held.pop(key, 0.0)
        for key in gone[: max(0, len(gone) - GONE)]:
            del self._gpus[key]
