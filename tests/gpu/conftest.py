"""Readers for the tests of this directory: a scripted one, and the real one on a library without a GPU."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwait.gpu.client import GpuClient
from gpuwait.gpu.state import Latest, Limits

LIBRARY = Path(__file__).parents[2] / "build" / "fake-nvml"
#: Short, but not so short that a busy machine looks like a stuck driver.
SHORT = Limits(
    interval=0.05,
    stale=0.8,
    kill_after=30,
    start_limit=30,
    leave=0.3,
    retry=0.2,
    released=0.4,
    first_pause=0.05,
    longest_pause=0.4,
)


class Fake:
    """The state that the library without a GPU answers from."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "nvml.json"

    def set(self, *devices: dict[str, Any], **root: Any) -> None:
        """Replace the state by rename, as its readers expect."""
        state = {"library": "ok", "nvmlInit_v2": "NVML_SUCCESS", "driver_version": "570.86.15"}
        whole = state | {"device_count": len(devices), "devices": list(devices)} | root
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(whole))
        new.replace(self.path)

    @staticmethod
    def gpu(index: int = 0, calls: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """A GPU that offers memory, power and temperature, and what `calls` adds."""
        return {
            "index": index,
            "uuid": f"GPU-{index}",
            "name": "NVIDIA H100 80GB HBM3",
            "minor": index,
            "calls": {
                "nvmlDeviceGetUtilizationRates": {"gpu": 41, "memory": 12},
                "nvmlDeviceGetMemoryInfo": {"total": 1000, "used": 400, "free": 600},
                "nvmlDeviceGetPowerUsage": 187300,
                "nvmlDeviceGetTemperature": 55,
                **(calls or {}),
            },
            **more,
        }


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """State file of the library without a GPU, which the readers of this test load."""
    if not (LIBRARY / "libnvidia-ml.so.1").exists():
        pytest.skip("needs build/fake-nvml: make fake-nvml")
    fake = Fake(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARY))
    monkeypatch.setenv("FAKE_NVML_STATE", str(fake.path))
    return fake


@pytest.fixture
def start() -> Iterator[Callable[..., GpuClient]]:
    """Start clients that end with the test."""
    clients: list[GpuClient] = []

    def begin(limits: Limits = SHORT, script: str | None = None, rootfs: str = "/") -> GpuClient:
        argv = None if script is None else [sys.executable, "-S", "-E", "-c", script]
        client = GpuClient(rootfs, argv=argv, limits=limits)
        clients.append(client)
        client.start()
        return client

    yield begin
    for client in clients:
        pid = client.reader_pid
        client.stop()
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(pid, 9)  # type: ignore[arg-type]


@pytest.fixture
def until() -> Callable[..., Latest]:
    """Wait until something is true of what the client knows, and return that."""

    def wait(client: GpuClient, wanted: Callable[[Latest], object], seconds: float = 15) -> Latest:
        end = time.monotonic() + seconds
        while not wanted(latest := client.latest()):
            assert time.monotonic() < end, latest
            time.sleep(0.01)
        return latest

    return wait


@pytest.fixture
def short() -> Limits:
    """The limits that clients of tests have."""
    return SHORT
