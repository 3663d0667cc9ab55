"""Differences of counters, with the same care everywhere: a fall is a reset, the impossible is no reading."""

from __future__ import annotations

#: Readings of one snapshot are milliseconds apart, and PSI settles late: up to twice the time is clamped.
SLACK = 2.0


def rise(before: float | None, after: float | None) -> float | None:
    """How much a counter grew; None where a reading is missing or it fell (a reset)."""
    if before is None or after is None or not after >= before:
        return None
    return after - before


def rate(before: float | None, after: float | None, dt: float) -> float | None:
    """Growth per second."""
    grown = rise(before, after)
    return None if grown is None else grown / dt


def share(before: float | None, after: float | None, dt: float) -> float | None:
    """Seconds per second of what cannot happen twice at a time, 0 to 1; None beyond the possible."""
    value = rate(before, after, dt)
    if value is None or value > SLACK:
        return None
    return min(1.0, value)


def ratio(part: float | None, whole: float | None) -> float | None:
    """Part of a whole, 0 to 1; None where either is missing or the whole is nothing."""
    if part is None or whole is None or whole <= 0:
        return None
    return min(1.0, part / whole)
