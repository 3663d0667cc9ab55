"""The real reader with the real bindings, on a library that answers from a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuwait.gpu.client import GpuClient
from gpuwait.gpu.protocol import GpuReading, Process
from gpuwait.gpu.state import Latest, Limits

pytestmark = pytest.mark.fake_nvml

Start = Callable[..., GpuClient]
Until = Callable[..., Latest]


def gpu(latest: Latest, index: int = 0) -> GpuReading:
    assert latest.snapshot is not None
    return latest.snapshot.devices[index]


def ready(latest: Latest) -> bool:
    return latest.snapshot is not None


def test_values(fake: Any, start: Start, until: Until) -> None:
    """What the library says arrives in base units, in the first snapshot already."""
    calls = {
        "nvmlDeviceGetTotalEnergyConsumption": 901223445566,
        "nvmlDeviceGetEnforcedPowerLimit": 400000,
        "nvmlDeviceGetClockInfo": {"graphics": 1410, "sm": 1400, "mem": 1593, "video": 1275},
        "nvmlDeviceGetMaxClockInfo": {"sm": 1980},
        "nvmlDeviceGetCurrentClocksEventReasons": 0x44,
        "nvmlDeviceGetPciInfo_v3": {"busId": "00000000:B1:00.0", "domain": 0, "bus": 0xB1, "device": 0},
        "nvmlDeviceGetCurrPcieLinkGeneration": 4,
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetPcieReplayCounter": 3,
        "nvmlDeviceGetTotalEccErrors": {"corrected_volatile": 2, "uncorrected_volatile": 1},
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetMigMode": {"current": 0, "pending": 0},
    }
    fake.set(fake.gpu(0, calls))
    client = start()
    client.wait_first(15)
    latest = client.latest()
    assert latest.snapshot is not None
    assert (latest.snapshot.driver, latest.snapshot.count) == ("570.86.15", 1)
    found = gpu(latest)
    assert (found.uuid, found.name, found.minor, found.up) == ("GPU-0", "NVIDIA H100 80GB HBM3", 0, True)
    assert (found.utilization_ratio, found.memory_used_bytes, found.memory_total_bytes) == (0.41, 400, 1000)
    assert (found.power_watts, found.power_limit_watts, found.energy_joules) == (187.3, 400, 901223445.566)
    assert (found.temperature_celsius, found.clock_limits) == (55, 0x44)
    assert dict(found.clocks)["memory"] == 1_593_000_000
    assert found.clocks[1] == ("sm", 1_400_000_000)
    assert ("sm", 1_980_000_000) in found.clocks_max
    assert found.pci_address == "0000:b1:00.0"
    assert (found.pcie_generation, found.pcie_width) == (4, 8)
    assert (found.pcie_max_generation, found.pcie_max_width, found.pcie_replays) == (5, 16, 3)
    assert (found.ecc_corrected, found.ecc_uncorrected) == (2, 1)
    assert (found.persistence, found.mig) == (True, False)


def test_memory_without_what_the_driver_reserves(fake: Any, start: Start, until: Until) -> None:
    """The second version of the call is preferred where there is one."""
    memory = {"total": 1000, "reserved": 100, "used": 300, "free": 600}
    fake.set(fake.gpu(0, {"nvmlDeviceGetMemoryInfo_v2": memory}))
    assert gpu(until(start(), ready)).memory_used_bytes == 300


def test_what_is_not_offered_is_absent(fake: Any, start: Start, until: Until) -> None:
    """NOT_SUPPORTED and NO_PERMISSION cost their value only."""
    refused = {
        "nvmlDeviceGetUtilizationRates": "NVML_ERROR_NOT_SUPPORTED",
        "nvmlDeviceGetPowerUsage": "NVML_ERROR_NO_PERMISSION",
    }
    fake.set(fake.gpu(0, refused))
    found = gpu(until(start(), ready))
    assert found.up is True
    assert found.utilization_ratio is found.power_watts is found.energy_joules is found.processes is None
    assert (found.clocks, found.ecc_corrected, found.busy_seconds) == ((), None, None)
    assert (found.temperature_celsius, found.memory_used_bytes) == (55, 400)


def test_values_follow_the_library(fake: Any, start: Start, until: Until) -> None:
    """A later snapshot has the later value."""
    fake.set(fake.gpu(0))
    client = start()
    until(client, lambda latest: ready(latest) and gpu(latest).temperature_celsius == 55)
    fake.set(fake.gpu(0, {"nvmlDeviceGetTemperature": 70}))
    until(client, lambda latest: gpu(latest).temperature_celsius == 70)


def test_mig(fake: Any, start: Start, until: Until) -> None:
    """A GPU in MIG mode keeps its own memory and power; its slices have their own memory."""
    refused = "NVML_ERROR_NOT_SUPPORTED"
    part = {
        "uuid": "MIG-1",
        "gpu_instance_id": 2,
        "compute_instance_id": 0,
        "calls": {
            "nvmlDeviceGetMemoryInfo": {"total": 500, "used": 100, "free": 400},
            "nvmlDeviceGetComputeRunningProcesses_v3": [{"pid": 77, "usedGpuMemory": 90}],
        },
    }
    calls = {
        "nvmlDeviceGetUtilizationRates": refused,
        "nvmlDeviceGetMigMode": {"current": 1, "pending": 1},
        "nvmlDeviceGetComputeRunningProcesses_v3": "NVML_ERROR_NO_PERMISSION",
    }
    fake.set(fake.gpu(0, calls, mig_devices=[part]))
    found = gpu(until(start(), ready))
    assert (found.utilization_ratio, found.mig) == (None, True)
    assert (found.memory_used_bytes, found.power_watts) == (400, 187.3)
    [found_part] = found.slices
    assert (found_part.uuid, found_part.gpu_instance, found_part.compute_instance) == ("MIG-1", 2, 0)
    assert (found_part.memory_used_bytes, found_part.memory_total_bytes) == (100, 500)
    assert found.processes == (Process(77, 90),)


def test_processes(fake: Any, start: Start, until: Until) -> None:
    """A process in two lists counts once; memory that is not available is None."""
    calls = {
        "nvmlDeviceGetComputeRunningProcesses_v3": [{"pid": 7, "usedGpuMemory": 4096}, {"pid": 8}],
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [{"pid": 7, "usedGpuMemory": 4096}],
    }
    fake.set(fake.gpu(0, calls))
    assert gpu(until(start(), ready)).processes == (Process(7, 4096), Process(8, None))


def test_no_process_is_not_unknown(fake: Any, start: Start, until: Until) -> None:
    """An empty list is no process; a list that is not offered is unknown."""
    fake.set(fake.gpu(0, {"nvmlDeviceGetComputeRunningProcesses_v3": []}), fake.gpu(1))
    latest = until(start(), ready)
    assert gpu(latest, 0).processes == ()
    assert gpu(latest, 1).processes is None


def test_samples_integrate(fake: Any, start: Start, until: Until) -> None:
    """A GPU that is busy half of the time has half of the observed seconds, within 5 per cent."""
    duty = {
        "generate": {
            "period_us": 20000,
            "duty": {"period_s": 0.08, "busy_s": 0.04, "value": 100},
            "keep": 200,
        }
    }
    fake.set(fake.gpu(0, samples=duty))
    client = start()
    found = gpu(until(client, lambda latest: ready(latest) and (gpu(latest).observed_seconds or 0) >= 1.2))
    assert found.busy_seconds is not None
    assert found.observed_seconds is not None
    assert found.busy_seconds / found.observed_seconds == pytest.approx(0.5, rel=0.05)


def test_samples_that_stand_still(fake: Any, start: Start, until: Until) -> None:
    """Where the ring brings nothing newer, the reading of the moment stands in."""
    old = [{"timestamp_us": 1_700_000_000_000_000 + i * 166_667, "value": 90} for i in range(6)]
    fake.set(fake.gpu(0, samples=old))
    client = start()
    assert gpu(until(client, ready)).utilization_ratio == 0.41
    time.sleep(0.5)
    found = gpu(client.latest())
    assert (found.utilization_ratio, found.busy_seconds, found.observed_seconds) == (0.41, 0.0, 0.0)


def test_xid_is_counted_once(fake: Any, start: Start, until: Until) -> None:
    """A critical error counts once, at the GPU it happened on."""
    fake.set(fake.gpu(0), fake.gpu(1))
    client = start()
    until(client, ready)
    fake.set(fake.gpu(0), fake.gpu(1), events=[{"device": 1, "xid": 79, "seq": 1}])
    latest = until(client, lambda latest: latest.snapshot and latest.snapshot.xids)
    time.sleep(0.3)
    latest = client.latest()
    assert latest.snapshot is not None
    assert latest.snapshot.xids == {("GPU-1", 79): 1}


def test_the_driver_is_asked_once_an_interval(fake: Any, start: Start, until: Until, short: Limits) -> None:
    """However often the readings are looked at, they change once an interval."""
    fake.set(fake.gpu(0))
    client = start(replace(short, interval=0.5))
    until(client, ready)
    times = set()
    end = time.monotonic() + 1.6
    while time.monotonic() < end:
        snapshot = client.latest().snapshot
        if snapshot is not None:
            times.add(snapshot.taken_at)
        time.sleep(0.005)
    assert 2 <= len(times) <= 4


def test_the_reader_is_small(fake: Any, start: Start, until: Until) -> None:
    """Eight GPUs take less than 18 MiB of memory."""
    fake.set(*(fake.gpu(i) for i in range(8)))
    client = start()
    until(client, ready)
    status = Path(f"/proc/{client.reader_pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    assert int(line.split()[1]) < 18 * 1024
