"""Signals weighed into evidence: what fired, whether two independent ones did, and the hysteresis."""

from __future__ import annotations

from gpuwait.thresholds import DEFAULTS, Thresholds
from gpuwait.wait.history import History
from gpuwait.wait.tick import Tick
from gpuwait.wait.verdict import Cause, Evidence, Signal


class Scale:
    """Makes the signals of one cause; while it is active, against `any.hysteresis` of the thresholds."""

    __slots__ = ("_cause", "_factor", "_history", "_limits")

    def __init__(self, cause: Cause, history: History, limits: Thresholds) -> None:
        self._cause = cause
        self._limits = limits
        self._history = history
        self._factor = limits("any", "hysteresis") if cause in history.active else 1.0

    def __call__(self, name: str) -> float:
        """The threshold as it counts now."""
        return self._limits(self._cause, name) * self._factor

    @property
    def surge(self) -> float:
        """How many times its median a counter must be, as it counts now; never less than its median."""
        return max(1.0, self._limits("any", "surge") * self._factor)

    def signal(
        self, name: str, value: float | None, source: str, group: str, *, counts: bool = True
    ) -> Signal:
        """One signal against its threshold. `counts` False: shown, but it does not fire."""
        fired = counts and value is not None and value >= self(name)
        unit = DEFAULTS[self._cause, name].unit
        return Signal(name, value, self._limits(self._cause, name), unit, source, fired, group)

    def pressure(self, tick: Tick, resource: str, *, counts: bool = True) -> Signal:
        """Pressure of the workload; where that is not known, of the node, as far as it is above its usual.

        The node's is everybody's: it must be `any.node` times as strong.
        """
        own = tick.load.pressure(resource) if tick.load else None
        if own is not None:
            source = f"cgroup {resource}.pressure"
            return self.signal("pressure", own, source, "pressure", counts=counts)
        value = tick.host.pressure(resource)
        if value is not None:
            value = max(0.0, value - (self._history.medians(f"pressure {resource}") or 0.0))
        limit = self._limits(self._cause, "pressure") * self._limits("any", "node")
        fired = counts and value is not None and value >= limit * self._factor
        source = f"/proc/pressure/{resource}, above its usual"
        return Signal("pressure", value, limit, "ratio", source, fired, "pressure")


def weigh(
    cause: Cause, share: float | None, signals: tuple[Signal, ...], *needs: frozenset[str], detail: str = ""
) -> Evidence:
    """Evidence of a cause: active where two groups fired, and of each set in `needs` at least one."""
    groups = {signal.group for signal in signals if signal.fired}
    active = len(groups) >= 2 and all(groups & need for need in needs)
    return Evidence(cause, min(1.0, max(0.0, share or 0.0)), active, signals, detail)
