"""Advice on every cause: complete, of commands that a shell can read and of metrics that exist."""

import re
import subprocess  # noqa: TID251 - bash reads the commands, without running them

import pytest

from gpuwait.advice import ADVICE, IDLE, UNKNOWN, ledger_query
from gpuwait.collectors import ALL
from gpuwait.collectors.ledger import COLLECTOR as LEDGER
from gpuwait.wait.verdict import Cause

EVERY = [*((str(cause), advice) for cause, advice in ADVICE.items()), ("idle", IDLE), ("unknown", UNKNOWN)]
NAMES = {family.name for collector in (*ALL, LEDGER) for family in collector.families}
HOLES = {"it": "x", "numa": "0", "tid": "1", "pid": "1", "namespace": "n", "owner": "o"}


def test_every_cause_has_advice():
    """None is left out."""
    assert set(ADVICE) == set(Cause)


@pytest.mark.parametrize(("name", "advice"), EVERY, ids=[name for name, _ in EVERY])
def test_advice_is_complete(name, advice):
    """A meaning, something to do now and for good, a number that must move, a page to read on."""
    assert advice.took
    assert advice.means[0].islower()
    assert not advice.means.endswith(".")
    assert advice.now
    assert advice.good
    assert advice.verify.number
    assert advice.verify.command
    assert advice.runbook.startswith("GPU")
    if name not in ("unexplained", "idle", "unknown"):
        assert advice.runbook == f"GPUWaiting.md#{name}"


@pytest.mark.parametrize(("name", "advice"), EVERY, ids=[name for name, _ in EVERY])
def test_commands_are_shell(name, advice):
    """Bash can parse each command; only holes that are known are left."""
    steps = (*advice.now, *advice.good)
    commands = [step.command for step in steps if step.command and step.command[0] != "#"]
    for command in [*commands, advice.verify.command]:
        filled = re.sub(r"\{(\w+)\}", lambda hole: HOLES[hole[1]], command)
        subprocess.run(["bash", "-n", "-c", filled], check=True)


@pytest.mark.parametrize(("name", "advice"), EVERY, ids=[name for name, _ in EVERY])
def test_queries_use_metrics_that_exist(name, advice):
    """Each query names at least one metric of the reference, and no other."""
    used = set(re.findall(r"gpuwait_\w+", advice.verify.query))
    assert used
    assert used <= NAMES


def test_the_ledger_confirms_each_cause():
    """The query of the ledger names the cause."""
    expected = 'rate(gpuwait_gpu_waiting_seconds_total{cause="numa_remote"}[5m])'
    assert ledger_query(Cause.NUMA_REMOTE) == expected
