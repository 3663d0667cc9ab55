"""A scenario through the engine and into a ledger."""

from __future__ import annotations

from gpuwait.scenarios.scenario import Scenario
from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.verdict import Verdict


def replay(scenario: Scenario, limits: Thresholds | None = None) -> tuple[Ledger, list[Verdict]]:
    """Judge every tick of a scenario. Returns the ledger and the verdicts, one for each second."""
    engine, ledger = Engine(limits or Thresholds()), Ledger()
    verdicts = []
    snapshots = scenario.snapshots()
    before = next(snapshots)
    ledger.see(*((gpu.index, gpu.uuid) for gpu in before.gpus))
    for after in snapshots:
        verdict = engine.judge(before, after)
        ledger.add(verdict)
        verdicts.append(verdict)
        before = after
    ledger.settle()
    return ledger, verdicts
