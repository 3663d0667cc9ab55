"""Commands as users run them, on the fake GPUs."""

import json
import os
import subprocess  # noqa: TID251 - the commands are tested as users run them
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "build" / "fake-nvml"
STATES = ROOT / "tests" / "fakes" / "nvml" / "states"
HGX = ROOT / "tests" / "hosts" / "hgx-kubernetes"

pytestmark = pytest.mark.fake_nvml


def run(*arguments):
    if not (FAKE / "libnvidia-ml.so.1").exists():
        pytest.skip("needs the fake NVML: make fake-nvml")
    env = dict(os.environ, LD_LIBRARY_PATH=str(FAKE), FAKE_NVML_STATE=str(STATES / "eight-h100.json"))
    return subprocess.run(
        [sys.executable, "-m", "gpuwait", *arguments],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )


def test_explain_without_a_daemon_sees_the_gpus():
    """With nothing listening, explain looks by itself, for as long as it was told."""
    done = run("explain", "--for", "2s", "--format", "json")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    report = json.loads(done.stdout)
    assert sum(len(row["gpus"]) for row in report["explanations"]) == 8
    assert report["window_seconds"] >= 1.5


def test_explain_of_an_address_without_a_daemon():
    """An address that was given and does not answer is one line and status 2."""
    done = run("explain", "--url", "http://127.0.0.1:1/")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_whois_says_which_gpus_a_process_holds():
    """The driver's process list, by uuid; a process that holds none has an empty list."""
    done = run("whois", "--json", f"--path.procfs={HGX}/proc", f"--path.sysfs={HGX}/sys", "41001")
    assert done.returncode == 0
    assert json.loads(done.stdout)["gpus"] == ["GPU-6f1d2c00-4b7a-5e10-9c3d-0a1b2c3d4e50"]


def test_check_lists_every_collector():
    """One line a collector and a source of names, what is lost, what is risky, and the sums."""
    done = run("check")
    assert done.returncode in (0, 1)
    assert "  gpu             ok " in done.stdout
    assert "  ledger          ok " in done.stdout
    assert "\nNames and owners\n  kubelet logs    " in done.stdout
    assert "\n  slurm prolog    " in done.stdout
    assert done.stdout.splitlines()[-1].endswith(" risky")


@pytest.mark.parametrize("name", ["dataset-init", "held-notebook", "quiet"])
def test_demo_finds_what_it_expects(name):
    """A replay ends with what was expected and what was found, and status 0."""
    done = run("demo", name)
    assert done.returncode == 0
    assert "SIMULATED" in done.stdout
    last = done.stdout.splitlines()[-1]
    expected, found = last.removeprefix("Expected ").split("; found ")
    assert expected == found
