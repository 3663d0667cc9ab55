"""Integration of the driver's utilisation samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.gpu.samples import Ring

T0 = 1_700_000_000_000_000
SIXTH = 166_667


def test_first_look_counts_nothing_and_tells_the_last_second() -> None:
    """What happened before the start is not counted; the share is that of the newest second."""
    ring = Ring()
    readings = [
        (T0, 0),
        (T0 + 500_000, 100),
        (T0 + 1_000_000, 100),
        (T0 + 1_500_000, 50),
        (T0 + 2_000_000, 0),
    ]
    assert ring.add(readings) == (0.0, 0.0, 0.25)
    assert ring.since == T0 + 2_000_000


def test_busy_half_of_the_time() -> None:
    """A GPU that is busy every other sample has half of the observed time."""
    ring = Ring()
    ring.add([(T0, 0)])
    busy, observed, share = ring.add([(T0 + SIXTH * i, 100 * (i % 2)) for i in range(1, 13)])
    assert observed == pytest.approx(2.0, rel=1e-5)
    assert busy == pytest.approx(1.0, rel=1e-5)
    assert share == pytest.approx(0.5)


def test_looks_add_up() -> None:
    """Two looks see what one look would have seen."""
    ring = Ring()
    ring.add([(T0, 0)])
    first = ring.add([(T0 + 200_000, 100), (T0 + 400_000, 20)])
    second = ring.add([(T0 + 600_000, 40)])
    assert first[0] + second[0] == pytest.approx(0.2 + 0.04 + 0.08)
    assert first[1] + second[1] == pytest.approx(0.6)


def test_readings_seen_before_are_ignored() -> None:
    """A driver that returns the whole ring again does not double the time."""
    ring = Ring()
    ring.add([(T0, 0)])
    ring.add([(T0 + 200_000, 100)])
    assert ring.add([(T0, 100), (T0 + 200_000, 100)]) == (0.0, 0.0, None)


def test_impossible_values_are_dropped() -> None:
    """4294967295 per cent is no reading; its time belongs to the next good one."""
    ring = Ring()
    ring.add([(T0, 0)])
    assert ring.add([(T0 + 200_000, 4294967295), (T0 + 400_000, 50)]) == (0.2, 0.4, 0.5)


def test_unsorted_readings() -> None:
    """The order of the readings does not matter."""
    ring = Ring()
    ring.add([(T0, 0)])
    assert ring.add([(T0 + 400_000, 0), (T0 + 200_000, 100)]) == (0.2, 0.4, 0.5)


def test_a_gap_is_not_observed() -> None:
    """After a jump of the clock by an hour neither sum gets that hour."""
    ring = Ring()
    ring.add([(T0, 100)])
    hour = 3_600_000_000
    assert ring.add([(T0 + hour, 100), (T0 + hour + 500_000, 100)]) == (0.5, 0.5, 1.0)


def test_a_clock_set_back_does_not_silence_the_ring_for_good() -> None:
    """After ten silent looks the whole ring is asked for, and the sums go on from its end."""
    ring = Ring()
    ring.add([(T0, 0)])
    back = T0 - 3_600_000_000
    for _ in range(10):
        assert ring.add([]) == (0.0, 0.0, None)
    assert ring.since == 0
    assert ring.add([(back, 100)]) == (0.0, 0.0, None)
    assert ring.since == back
    assert ring.add([(back + 500_000, 100)]) == (0.5, 0.5, 1.0)


def test_a_long_silence_does_not_lose_the_place() -> None:
    """Where the ring just stood still, looking at all of it finds the old end again."""
    ring = Ring()
    ring.add([(T0, 0)])
    for _ in range(10):
        ring.add([])
    assert ring.add([(T0 - 500_000, 100), (T0, 0)]) == (0.0, 0.0, None)
    assert ring.since == T0
    assert ring.add([(T0 + 500_000, 100)]) == (0.5, 0.5, 1.0)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(-1, 2**32)))))
def test_sums_are_never_negative_and_never_more_than_observed(looks: list[list[tuple[int, int]]]) -> None:
    """Whatever the driver says: 0 <= busy <= observed, and the share is in 0..1."""
    ring = Ring()
    for readings in looks:
        busy, observed, share = ring.add(readings)
        assert 0 <= busy <= observed
        assert share is None or 0 <= share <= 1
