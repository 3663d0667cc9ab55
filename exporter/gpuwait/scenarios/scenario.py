"""What a scenario is: phases of an incident, the snapshots they make, and the verdict that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuwait.scenarios.node import Node
from gpuwait.scenarios.rates import Rates, usual
from gpuwait.wait.snapshot import Snapshot
from gpuwait.wait.verdict import Cause, State

#: Changes one second of the healthy node; the second argument counts from the start of the phase.
Change = Callable[[Rates, int], None]


def healthy(rates: Rates, second: int) -> None:
    """Change nothing."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of a scenario.

    cause: that must have at least 90 % of the waiting seconds in it; None: there must be no waiting.
    """

    name: str
    seconds: int
    change: Change = healthy
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One incident. `story` is what happened, in the words of those who were there.

    expected_cause: of the waiting seconds; None where nothing waits.
    expected_state: that most of the time that is not busy goes to, for the GPUs of the story.
    """

    name: str
    title: str
    story: str
    phases: tuple[Phase, ...]
    expected_cause: Cause | None
    expected_state: State = State.WAITING

    def snapshots(self) -> Iterator[Snapshot]:
        """One a second, the first before the first phase."""
        node = Node()
        second = 0
        for phase in (Phase("before", 1, self.phases[0].change), *self.phases):
            for within in range(phase.seconds):
                rates = usual(second)
                phase.change(rates, within)
                yield node.step(rates)
                second += 1
