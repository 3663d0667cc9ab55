"""What the sampler shows to collectors, pages and `explain`; the sampler fills it, once a tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gpuwait.thresholds import Thresholds
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.snapshot import Delay, Key, Snapshot
from gpuwait.wait.verdict import Verdict

#: Labels of what no pod, job, container or service owns.
OTHER: Key = ("other", "", "", "")


class WaitState(Protocol):
    """Read-only view of the sampler. Each property may be read from any thread without a lock.

    limits:          the thresholds in force.
    verdict:         of the last tick; None before the second snapshot.
    snapshot:        the last one; None before the first.
    ticks:           ticks that ended so far.
    lag_seconds:     by which the last tick came late, or by which the next one is overdue.
    stuck:           where the sampler hangs, empty while it lives.
    cpu_seconds:     used by the sampler's thread so far.
    threads_skipped: threads left out so far because a workload has more than the sampler may look at.
    dropped:         impossible delay samples by class, from `Engine.dropped`.
    prices:          price of an hour by GPU (index, uuid), for those where one is configured.
    """

    @property
    def ledger(self) -> Ledger: ...  # noqa: D102
    @property
    def limits(self) -> Thresholds: ...  # noqa: D102
    @property
    def verdict(self) -> Verdict | None: ...  # noqa: D102
    @property
    def snapshot(self) -> Snapshot | None: ...  # noqa: D102
    @property
    def ticks(self) -> int: ...  # noqa: D102
    @property
    def lag_seconds(self) -> float: ...  # noqa: D102
    @property
    def stuck(self) -> str: ...  # noqa: D102
    @property
    def cpu_seconds(self) -> float: ...  # noqa: D102
    @property
    def threads_skipped(self) -> int: ...  # noqa: D102
    @property
    def dropped(self) -> Mapping[Delay, int]: ...  # noqa: D102
    @property
    def prices(self) -> Mapping[tuple[int, str], float]: ...  # noqa: D102


def coverage(state: WaitState) -> dict[Key, float]:
    """Share of each workload's processes whose delays are accounted; those without taskstats left out.

    Processes without a cgroup of their own are one workload here, and the worst of them speaks for all:
    their keys name a pid, which must never become a label.
    """
    found: dict[Key, float] = {}
    for key, load in state.snapshot.workloads.items() if state.snapshot else ():
        if load.covered is not None:
            shown = OTHER if key[0] == OTHER[0] else key
            found[shown] = min(load.covered, found.get(shown, 1.0))
    return found
