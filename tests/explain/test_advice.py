"""Advice on every cause: complete, of commands that a shell can read and of metrics that exist."""

import re
import subprocess  # noqa: TID251 - bash reads the commands, without running them

import pytest

from gpuwait.advice import ADVICE, HIDDEN, IDLE, POD_BY_UID, UNKNOWN, UNOPENED, ledger_query
from gpuwait.collectors import ALL
from gpuwait.collectors.ledger import COLLECTOR as LEDGER
from gpuwait.thresholds import DEFAULTS
from gpuwait.wait.verdict import Cause

STILL = {"idle": IDLE, "hidden": HIDDEN, "unopened": UNOPENED, "unknown": UNKNOWN}
EVERY = [*((str(cause), advice) for cause, advice in ADVICE.items()), *STILL.items()]
NAMES = {family.name for collector in (*ALL, LEDGER) for family in collector.families}
HOLES = {"it": "x", "numa": "0", "tid": "1", "pid": "1", "namespace": "n", "owner": "o", "uid": "u"}


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
    if name not in ("unexplained", *STILL):
        assert advice.runbook == f"GPUWaiting.md#{name}"


@pytest.mark.parametrize(("name", "advice"), EVERY, ids=[name for name, _ in EVERY])
def test_commands_are_shell(name, advice):
    """Bash can parse each command; only holes that are known are left."""
    steps = (*advice.now, *advice.good, POD_BY_UID)
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


def prose(advice):
    steps = (*advice.now, *advice.good)
    return " | ".join([advice.took, advice.means, advice.verify.number, *(step.text for step in steps)])


FACTORS = {
    "%": (0.01, "ratio"),
    "ms": (0.001, "seconds"),
    "s": (1.0, "seconds"),
    "a second": (1.0, "per_second"),
    "/s": (1.0, "per_second"),
    "at a time": (1.0, "ratio"),
    "CPUs": (1.0, "count"),
}
FIGURE = re.compile(r"(\d[\d,]*(?:\.\d+)?) ?(%|ms\b|s\b|a second\b|/s\b|at a time\b|CPUs\b)")
BARE = re.compile(r"(?:below|above|over|under|at) (\d+(?:\.\d+)?)(?! ?(?:%|ms|s\b|a second|/s|\d))")


def figures(words):
    """Numbers in the text with their unit, in base units."""
    for number, unit in FIGURE.findall(words):
        factor, kind = FACTORS[unit]
        yield round(float(number.replace(",", "")) * factor, 9), kind
    for number in BARE.findall(words):
        yield float(number), "count"


def test_figures():
    """The check below finds what it looks for."""
    words = "below 50 ms, 25 % and 0.5 s, 2 a second, 1,000/s, queue below 4, 3 at a time"
    assert set(figures(words)) == {
        (0.05, "seconds"),
        (0.25, "ratio"),
        (0.5, "seconds"),
        (2.0, "per_second"),
        (1000.0, "per_second"),
        (4.0, "count"),
        (3.0, "ratio"),
    }


@pytest.mark.parametrize(("name", "advice"), EVERY, ids=[name for name, _ in EVERY])
def test_no_threshold_is_written_out(name, advice):
    """A figure that decides stands as a hole, so that the one in force is shown."""
    limits = {(t.value, t.unit) for (cause, _), t in DEFAULTS.items() if cause == name}
    assert not limits & set(figures(prose(advice)))


@pytest.mark.parametrize(("name", "advice"), EVERY, ids=[name for name, _ in EVERY])
def test_holes_in_prose_are_thresholds(name, advice):
    """Each is a threshold of this very cause; commands have none."""
    holes = re.findall(r"\{([^}]*)\}", prose(advice))
    assert {tuple(hole.split(".")) for hole in holes} <= {key for key in DEFAULTS if key[0] == name}
    commands = [step.command for step in (*advice.now, *advice.good)] + [advice.verify.command]
    assert not any(re.search(r"\{\w+\.\w+\}", command) for command in commands)


def test_swap_is_never_switched_off_unconditionally():
    """`swapoff` kills programs where the memory does not suffice: its step says when it may be used."""
    advice = ADVICE[Cause.SWAP]
    (step,) = [step for step in (*advice.now, *advice.good) if "swapoff" in step.command]
    assert step.text.startswith("only where `free -h` shows more available memory than swap in use")
    assert any("/etc/fstab" in step.command for step in advice.good)
    assert {"pod", "slurm"} <= {kind for step in advice.good for kind in step.kinds}
