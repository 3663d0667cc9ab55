"""The driver's ring of utilisation samples, integrated into busy seconds.

The driver keeps some 16 s of readings, several a second, each the share of its
period in which a kernel ran. A reading at time t covers the time since the
reading before it, so the integral over all of them misses nothing between two
looks at the ring, which a single reading of "utilisation now" does.
"""

from __future__ import annotations

from collections.abc import Sequence

SECOND = 1_000_000
#: Readings come at 1/6 s to 1 s by product; a longer gap (clock set, suspended) belongs to neither sum.
LONGEST = 3 * SECOND
#: Looks in a row without a new reading after which the wall clock may have been set back.
QUIET = 10


class Ring:
    """Where the last look at one GPU's ring ended.

    since: time of the newest reading seen, microseconds of the wall clock as the driver gives it; 0 = all.
    """

    __slots__ = ("_last", "_quiet", "since")

    def __init__(self) -> None:
        self.since = 0
        self._last = 0
        self._quiet = 0

    def add(self, readings: Sequence[tuple[int, int]]) -> tuple[float, float, float | None]:
        """Busy seconds and observed seconds since the last look, and the mean share (0..1) over them.

        readings: (time in microseconds, per cent), in any order. A value over 100
        (4294967295 has been seen, go-dcgm#75) is dropped, and so is its time.
        The first look only finds where the ring ends: what happened before is not
        ours to count. Its share is that of the last second.
        """
        good = sorted((t, v) for t, v in readings if t > self._last and 0 <= v <= 100)
        if not good:
            self._rewind(readings)
            return 0.0, 0.0, None
        self._quiet = 0
        newest = good[-1][0]
        first = self._last == 0
        busy = observed = 0
        before = self._last
        for time, value in good:
            step = time - before
            if (not first and step <= LONGEST) or (first and before and time > newest - SECOND):
                busy += step * value
                observed += step
            before = time
        self._last = self.since = newest
        if first:
            return 0.0, 0.0, busy / observed / 100 if observed else good[-1][1] / 100
        return busy / 100 / SECOND, observed / SECOND, busy / observed / 100 if observed else None

    def _rewind(self, readings: Sequence[tuple[int, int]]) -> None:
        """After a long silence ask for the whole ring; start anew where it ends before the last look."""
        self._quiet += 1
        if self._quiet < QUIET:
            return
        if self.since:
            self.since = 0
            return
        newest = max((t for t, v in readings if 0 <= v <= 100), default=0)
        self._quiet, self.since = 0, self._last
        if newest < self._last:
            self._last = self.since = newest
