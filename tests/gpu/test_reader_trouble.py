"""The real reader when GPUs, driver or library fail, hang, go away and come back."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess  # noqa: TID251 - the test is about processes
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuwait.gpu.client import GpuClient
from gpuwait.gpu.protocol import GpuReading
from gpuwait.gpu.state import Latest, Limits, State

pytestmark = pytest.mark.fake_nvml

Start = Callable[..., GpuClient]
Until = Callable[..., Latest]


def gpu(latest: Latest, index: int = 0) -> GpuReading:
    assert latest.snapshot is not None
    return latest.snapshot.devices[index]


def ready(latest: Latest) -> bool:
    return latest.snapshot is not None


def test_a_fault_is_counted_and_costs_its_value_only(fake: Any, start: Start, until: Until) -> None:
    """TIMEOUT and UNKNOWN are counted by kind; the call is tried again after a pause."""
    fake.set(fake.gpu(0, {"nvmlDeviceGetPowerUsage": "NVML_ERROR_UNKNOWN"}))
    client = start()
    latest = until(client, ready)
    assert gpu(latest).power_watts is None
    assert gpu(latest).temperature_celsius == 55
    assert latest.snapshot is not None
    assert latest.snapshot.errors == {(0, "GPU-0", "unknown"): 1}
    time.sleep(0.3)
    assert client.latest().snapshot.errors == {(0, "GPU-0", "unknown"): 1}  # type: ignore[union-attr]
    fake.set(fake.gpu(0))
    until(client, lambda latest: gpu(latest).power_watts == 187.3)


@pytest.mark.parametrize("how", ["handle", "call", "never known"])
def test_a_lost_gpu_and_its_return(fake: Any, start: Start, until: Until, how: str) -> None:
    """The other GPUs go on; the lost one is down under its name, and up again once it answers."""
    lost = fake.gpu(1, lost=True)
    if how == "call":
        lost = fake.gpu(1, {"nvmlDeviceGetTemperature": "NVML_ERROR_GPU_IS_LOST"})
    client = None
    if how != "never known":
        fake.set(fake.gpu(0), fake.gpu(1))
        client = start()
        until(client, lambda latest: ready(latest) and gpu(latest, 1).up)
    fake.set(fake.gpu(0), lost)
    client = client or start()
    latest = until(client, lambda latest: ready(latest) and gpu(latest, 1).up is False)
    assert latest.state is State.OK
    assert latest.snapshot is not None
    assert latest.snapshot.count == 2
    assert (gpu(latest, 0).up, gpu(latest, 0).temperature_celsius) == (True, 55)
    assert gpu(latest, 1).uuid == ("" if how == "never known" else "GPU-1")
    assert gpu(latest, 1).temperature_celsius is None
    fake.set(fake.gpu(0), fake.gpu(1))
    latest = until(client, lambda latest: gpu(latest, 1).up)
    assert gpu(latest, 1).uuid == "GPU-1"


def test_a_gpu_that_is_not_ours(fake: Any, start: Start, until: Until) -> None:
    """A GPU of another container is neither up nor down."""
    other = fake.gpu(1, nvmlDeviceGetHandleByIndex_v2="NVML_ERROR_NO_PERMISSION")
    fake.set(fake.gpu(0), other)
    latest = until(start(), ready)
    assert latest.snapshot is not None
    assert latest.snapshot.count == 2
    assert [device.up for device in latest.snapshot.devices] == [True, None]


def test_a_hanging_call(fake: Any, start: Start, until: Until, short: Limits) -> None:
    """While a call hangs nothing is shown and nobody waits; the same reader goes on afterwards."""
    fake.set(fake.gpu(0), fake.gpu(1))
    client = start(replace(short, stale=0.3))
    until(client, ready)
    pid = client.reader_pid
    fake.set(fake.gpu(0), fake.gpu(1, hang={"nvmlDeviceGetPowerUsage": 60}))
    latest = until(client, lambda latest: latest.state is State.STUCK)
    assert latest.snapshot is None
    assert latest.stuck_call == "nvmlDeviceGetPowerUsage of GPU 1"
    begin = time.monotonic()
    client.latest()
    assert time.monotonic() - begin < 0.05
    fake.set(fake.gpu(0), fake.gpu(1))
    latest = until(client, ready)
    assert (latest.state, client.reader_pid, latest.restarts) == (State.OK, pid, 0)


def test_a_hang_at_the_start(fake: Any, start: Start, until: Until, short: Limits) -> None:
    """A driver that blocks the first call of all is seen as well."""
    fake.set(fake.gpu(0), hang={"nvmlInit_v2": 60, "nvmlInitWithFlags": 60})
    client = start(replace(short, stale=0.3))
    assert until(client, lambda latest: latest.state is State.STUCK).stuck_call == "nvmlInit"
    fake.set(fake.gpu(0))
    until(client, ready)


@pytest.mark.parametrize("error", ["LIB_RM_VERSION_MISMATCH", "UNINITIALIZED", "DRIVER_NOT_LOADED"])
def test_a_new_driver_gets_a_fresh_process(fake: Any, start: Start, until: Until, error: str) -> None:
    """The old process keeps the old library: after an upgrade another one reads."""
    fake.set(fake.gpu(0))
    client = start()
    until(client, ready)
    pid = client.reader_pid
    fake.set(fake.gpu(0), calls={"*": f"NVML_ERROR_{error}"}, nvmlInit_v2=f"NVML_ERROR_{error}")
    latest = until(client, lambda latest: latest.state is not State.OK)
    assert error == "UNINITIALIZED" or latest.state is State.NO_DRIVER
    fake.set(fake.gpu(0), driver_version="580.1")
    latest = until(client, lambda latest: ready(latest) and latest.snapshot.driver == "580.1")  # type: ignore[union-attr]
    assert latest.state is State.OK
    assert client.reader_pid != pid


@pytest.mark.parametrize("init", ["DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH"])
def test_no_driver(fake: Any, start: Start, until: Until, init: str) -> None:
    """A library without its driver is a state; the driver is found when it comes."""
    fake.set(fake.gpu(0), nvmlInit_v2=f"NVML_ERROR_{init}")
    client = start()
    client.wait_first(15)
    assert client.latest().state is State.NO_DRIVER
    fake.set(fake.gpu(0))
    until(client, ready)


def test_no_library(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a library there is a state, quickly, and the loader's own words."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    client = start(rootfs=str(tmp_path))
    client.wait_first(15)
    latest = client.latest()
    if latest.state is State.OK:
        pytest.skip("this machine has an NVIDIA driver")
    assert latest.state is State.NO_LIBRARY
    assert "libnvidia-ml.so.1" in latest.detail


@pytest.mark.parametrize("place", ["usr/lib64", "run/nvidia/driver/usr/lib/x86_64-linux-gnu"])
def test_a_library_in_an_unusual_place(
    fake: Any, start: Start, until: Until, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """The library is found below the root of the host where the loader does not find it."""
    source = Path(os.environ["LD_LIBRARY_PATH"]) / "libnvidia-ml.so.1"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    directory = tmp_path / "root" / place
    directory.mkdir(parents=True)
    shutil.copy(source, directory)
    fake.set(fake.gpu(0))
    assert gpu(until(start(rootfs=str(tmp_path / "root")), ready)).uuid == "GPU-0"


def test_interrupt_does_not_end_the_reader(fake: Any, start: Start, until: Until) -> None:
    """Ctrl-C reaches the whole group; the reader leaves when its parent does."""
    fake.set(fake.gpu(0))
    client = start()
    until(client, ready)
    pid = client.reader_pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    time.sleep(0.3)
    assert (client.reader_pid, client.latest().restarts) == (pid, 0)


def test_release_closes_the_library(fake: Any, start: Start, until: Until) -> None:
    """On request the reader process is gone, and later another one reads."""
    fake.set(fake.gpu(0))
    client = start()
    until(client, ready)
    pid = client.reader_pid
    client.release()
    until(client, lambda latest: latest.state is State.RELEASED)
    assert not Path(f"/proc/{pid}").exists()
    until(client, ready)
    assert client.reader_pid != pid


def test_a_hanging_reader_dies_with_its_parent(fake: Any) -> None:
    """A reader that is in a call when its parent is killed does not stay behind."""
    fake.set(fake.gpu(0))
    code = (
        "import time\nfrom gpuwait.gpu.client import GpuClient\n"
        "c = GpuClient(); c.start(); c.wait_first(15); print(c.reader_pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        stat = Path(f"/proc/{int(parent.stdout.readline())}/stat")
        fake.set(fake.gpu(0, hang={"*": 600}))
        time.sleep(1.2)
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 5
    with contextlib.suppress(OSError):  # gone, as it should be
        while stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            assert time.monotonic() < end
            time.sleep(0.01)
