"""Causes in memory management: compaction, reclaim, swap. Pure."""

from __future__ import annotations

from gpuwait.thresholds import Thresholds
from gpuwait.wait.history import History
from gpuwait.wait.snapshot import Delay
from gpuwait.wait.tick import Tick
from gpuwait.wait.verdict import Cause, Evidence, Signal
from gpuwait.wait.weigh import Scale, weigh

_TIME = frozenset({"delay", "pressure"})
_COUNT = frozenset({"counter", "cgroup"})

_TASKSTATS = "taskstats"

#: Counter of the node that belongs to each cause.
_COUNTER = {Cause.COMPACTION: "compact_stall", Cause.RECLAIM: "allocstall", Cause.SWAP: "pswpin"}
_FLOOR = {Cause.COMPACTION: "stalls", Cause.RECLAIM: "stalls", Cause.SWAP: "pages"}


def _covered(tick: Tick, limits: Thresholds) -> bool:
    """Tell whether delay accounting sees the whole workload, so that a delay of 0 is a fact."""
    covered = tick.load.after.covered if tick.load else None
    return covered is not None and covered >= limits("any", "coverage")


def _delay(tick: Tick, *kinds: Delay) -> float | None:
    """The sum of these delays; None without delay accounting."""
    known = [value for kind in kinds if tick.load and (value := tick.load.delay(kind)) is not None]
    return sum(known) if known else None


def _refaults(tick: Tick) -> float | None:
    """Thrashing beyond swap-in: a swapped page that comes back is counted in both classes."""
    thrashing, swapin = _delay(tick, Delay.THRASHING), _delay(tick, Delay.SWAPIN)
    return None if thrashing is None else max(0.0, thrashing - (swapin or 0.0))


def _weight(tick: Tick, cause: Cause, history: History, limits: Thresholds) -> float:
    """A counter's rate in units of what is usual, at least of its threshold."""
    counter = _COUNTER[cause]
    usual = max(limits(cause, _FLOOR[cause]), history.medians(counter) or 0.0)
    weight = (tick.host.rate(counter) or 0.0) / usual
    if cause is Cause.RECLAIM and tick.load and tick.load.reclaimed:
        weight = max(weight, tick.load.reclaimed / limits(cause, "pages"))
    return weight


def _split(
    tick: Tick, cause: Cause, pressure: float | None, history: History, limits: Thresholds
) -> float | None:
    """Part of the memory pressure that goes to this cause: pressure does not say what it is made of.

    Split by how far each counter is above what is usual.
    """
    if pressure is None:
        return None
    weights = {other: _weight(tick, other, history, limits) for other in _COUNTER}
    total = sum(weights.values())
    return pressure * weights[cause] / total if total > 0 else 0.0


def _stalls(tick: Tick, cause: Cause, scale: Scale, history: History, *, proven: bool) -> Signal:
    """The node's counter. Without a delay of the workload it must surge: neighbours have stalls too."""
    counter = _COUNTER[cause]
    rate = tick.host.rate(counter)
    surges = rate is not None and (proven or history.surges(counter, rate, scale.surge))
    return scale.signal(_FLOOR[cause], rate, f"/proc/vmstat {counter}", "counter", counts=surges)


def compaction(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Direct compaction: the workload made huge pages out of fragmented memory, at 100 % system CPU."""
    scale = Scale(Cause.COMPACTION, history, limits)
    covered = _covered(tick, limits)
    delay = scale.signal("delay", _delay(tick, Delay.COMPACT), f"{_TASKSTATS} compact_delay", "delay")
    pressure = scale.pressure(tick, "memory", counts=not covered)
    signals = (
        delay,
        pressure,
        _stalls(tick, Cause.COMPACTION, scale, history, proven=delay.fired),
    )
    known = covered or delay.fired
    share = delay.value if known else _split(tick, Cause.COMPACTION, pressure.value, history, limits)
    return weigh(Cause.COMPACTION, share, signals, _TIME, _COUNT)


def reclaim(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Direct reclaim and refaults of the node, or of the workload at its limit (not in the node's vmstat)."""
    scale = Scale(Cause.RECLAIM, history, limits)
    covered = _covered(tick, limits)
    freeing, refaults = _delay(tick, Delay.RECLAIM), _refaults(tick)
    lost = None if freeing is None and refaults is None else (freeing or 0.0) + (refaults or 0.0)
    delay = scale.signal("delay", lost, f"{_TASKSTATS} freepages_delay, thrashing_delay", "delay")
    pages = tick.load.reclaimed if tick.load else None
    pressure = scale.pressure(tick, "memory", counts=not covered)
    signals = (
        delay,
        pressure,
        _stalls(tick, Cause.RECLAIM, scale, history, proven=delay.fired),
        scale.signal("pages", pages, "cgroup memory.stat pgscan_direct, workingset_refault", "cgroup"),
    )
    known = covered or delay.fired
    share = delay.value if known else _split(tick, Cause.RECLAIM, pressure.value, history, limits)
    return weigh(Cause.RECLAIM, share, signals, _TIME, _COUNT)


def swap(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Pages of the workload come back from swap."""
    scale = Scale(Cause.SWAP, history, limits)
    covered = _covered(tick, limits)
    delay = scale.signal("delay", _delay(tick, Delay.SWAPIN), f"{_TASKSTATS} swapin_delay", "delay")
    pressure = scale.pressure(tick, "memory")
    signals = (
        delay,
        pressure,
        _stalls(tick, Cause.SWAP, scale, history, proven=True),
    )
    # Where every process is covered, swap-in without a swap-in delay is a neighbour's.
    needs = (frozenset({"delay"}),) if covered else (_TIME,)
    known = covered or delay.fired
    share = delay.value if known else _split(tick, Cause.SWAP, pressure.value, history, limits)
    if delay.fired and delay.value is not None:
        # To bring a page in another must go out: on fast swap that reclaim is most of what swapping costs.
        share = delay.value + (_delay(tick, Delay.RECLAIM) or 0.0)
    return weigh(Cause.SWAP, share, signals, *needs)
