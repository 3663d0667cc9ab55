"""What causes may know of the past: usual rates, which causes were active, what ports could do."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuwait.wait.verdict import Cause

#: Ticks that a median looks back.
LENGTH = 120

#: Fewer ticks than this are no history: then the floor of the threshold decides alone.
ENOUGH = 10

#: Keys kept; the one that was added first goes first.
KEYS = 512


class Medians:
    """Bounded recent values by key."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}

    def add(self, key: str, value: float) -> None:
        """Take one more value; a key beyond the bound replaces the oldest key."""
        values = self._values.get(key)
        if values is None:
            if len(self._values) >= KEYS:
                del self._values[next(iter(self._values))]
            values = self._values[key] = deque(maxlen=LENGTH)
        values.append(value)

    def __call__(self, key: str) -> float | None:
        """Median of the key; None without enough values."""
        values = self._values.get(key)
        if values is None or len(values) < ENOUGH:
            return None
        return sorted(values)[len(values) // 2]


@dataclass(frozen=True, slots=True)
class History:
    """The past as one workload's causes see it.

    medians: usual rates by counter; not learnt while a GPU waits for the cause they serve,
             so that an incident of an hour does not become the usual.
    active:  causes that were active for this workload at the tick before.
    ports:   best rate of each fabric port that was ever up, bytes per second (0 where unknown).
    """

    medians: Medians = field(default_factory=Medians)
    active: frozenset[Cause] = frozenset()
    ports: Mapping[str, float] = field(default_factory=dict)

    def surges(self, key: str, value: float, factor: float) -> bool:
        """Tell whether the value is that many times its own median, or has none."""
        median = self.medians(key)
        return median is None or value >= factor * median
