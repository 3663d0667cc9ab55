"""The check for machines with a GPU, run without one: skipped, or on the fake library."""

import json
import os
import subprocess  # noqa: TID251 - the check is a program
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / "real_gpu" / "check.py"
STATES = Path(__file__).parent / "nvml" / "states"

#: A nvidia-smi that knows the two questions of the check and asks the same library.
NVIDIA_SMI = """#!{python}
import sys, time
from pynvml import *
nvmlInit()
handles = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]
def gpu(h):
    memory = nvmlDeviceGetMemoryInfo(h, version=nvmlMemory_v2)
    return [nvmlDeviceGetUUID(h), nvmlDeviceGetUtilizationRates(h).gpu, memory.used >> 20, memory.total >> 20,
            nvmlDeviceGetPowerUsage(h) / 1000, nvmlDeviceGetTemperature(h, 0),
            nvmlDeviceGetCurrPcieLinkGeneration(h), nvmlDeviceGetCurrPcieLinkWidth(h),
            nvmlDeviceGetMaxPcieLinkGeneration(h), nvmlDeviceGetMaxPcieLinkWidth(h),
            nvmlDeviceGetClockInfo(h, 1), nvmlDeviceGetEnforcedPowerLimit(h) / 1000]
while "--query-gpu" in sys.argv[1]:
    for h in handles:
        print(*gpu(h), sep=", ", flush=True)
    time.sleep(0.2)
for h in handles:
    for process in nvmlDeviceGetComputeRunningProcesses(h):
        print(nvmlDeviceGetUUID(h), process.pid, process.usedGpuMemory >> 20, sep=", ")
"""


def run(tmp_path: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The check with its output under tmp_path and only our nvidia-smi."""
    whole = {**os.environ, "OUT": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", **env}
    command = [sys.executable, str(CHECK), *arguments]
    return subprocess.run(command, env=whole, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def half_busy(tmp_path: Path) -> Path:
    """A state of one GPU at a steady 50 %, held by this process."""
    state = json.loads((STATES / "eight-h100.json").read_text())
    duty = {"period_s": 1, "busy_s": 1, "value": 50}
    gpu = state["devices"][0]
    gpu["calls"]["nvmlDeviceGetComputeRunningProcesses_v3"][0]["pid"] = os.getpid()
    gpu["samples"]["generate"]["duty"] = gpu["calls"]["nvmlDeviceGetUtilizationRates"]["duty"] = duty
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**state, "device_count": 1, "devices": [gpu]}))
    return path


def stub(tmp_path: Path, text: str) -> None:
    """Put an nvidia-smi into the folder."""
    path = tmp_path / "nvidia-smi"
    path.write_text(text.replace("{python}", sys.executable))
    path.chmod(0o755)


def test_without_a_gpu_it_is_skipped(tmp_path):
    """No library: one clear line and status 77."""
    done = run(tmp_path)
    if "SKIP" not in done.stdout:
        pytest.skip("this machine has a GPU")
    assert (done.returncode, done.stderr) == (77, "")
    assert done.stdout.startswith("SKIP: no GPU here: ")
    assert done.stdout.count("\n") == 1


@pytest.mark.fake_nvml
def test_both_opinions_agree_on_the_fake_library(tmp_path, library, half_busy):
    """All lines are OK, and the state written is one that the fake library can be run with again."""
    stub(tmp_path, NVIDIA_SMI)
    fake = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(half_busy)}
    done = run(tmp_path, "--no-load", "--seconds=3", **fake)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFF " not in done.stdout
    assert "gpu 0: 100 samples over 16.53 s, period median 167.0 ms" in done.stdout
    kept = json.loads((tmp_path / "real-gpu.json").read_text())
    gpu = kept["devices"][0]
    assert (kept["driver_version"], gpu["uuid"]) == ("570.133.20", "GPU-00000000-0000-4000-8000-000000000000")
    assert gpu["calls"]["nvmlDeviceGetPowerUsage"] == 612300
    assert gpu["calls"]["nvmlDeviceGetFanSpeed"] == "NVML_ERROR_NOT_SUPPORTED"
    assert gpu["calls"]["nvmlDeviceGetTotalEccErrors"]["corrected_aggregate"] == 2
    assert gpu["calls"]["nvmlDeviceGetComputeRunningProcesses_v3"][0]["pid"] == os.getpid()


@pytest.mark.fake_nvml
def test_another_opinion_is_a_difference(tmp_path, library, half_busy):
    """A nvidia-smi that says something else gives a DIFF line and status 1."""
    stub(tmp_path, NVIDIA_SMI.replace("nvmlDeviceGetTemperature(h, 0)", "20"))
    fake = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(half_busy)}
    done = run(tmp_path, "--no-load", "--seconds=2", **fake)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("DIFF")] == [
        ["DIFF", "0", "temperature,", "C", "61", "20", "2", "C"]
    ]
