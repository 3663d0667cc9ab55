"""What crosses the pipe, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.gpu import wire
from gpuwait.gpu.protocol import BadLine, MigSlice, Process, decode

LINE: dict[str, Any] = {
    "taken": 12.5,
    "driver": "570.86.15",
    "count": 1,
    "devices": [{"index": 0, "up": True, "uuid": "GPU-a"}],
    "xids": [["GPU-a", 79]],
    "notes": [["0", "nvmlDeviceGetFanSpeed", "Not Supported"]],
    "errors": [[0, "timeout", 2]],
}


def line(**device: Any) -> bytes:
    """A line with one GPU."""
    found = {"index": 0, "up": True, "uuid": "GPU-a", **device}
    return json.dumps({**LINE, "devices": [found]}).encode()


def test_message() -> None:
    """The parts of a line."""
    message = decode(line())
    assert (message.taken_at, message.driver, message.count) == (12.5, "570.86.15", 1)
    assert message.xids == (("GPU-a", 79),)
    assert message.notes == (("0", "nvmlDeviceGetFanSpeed", "Not Supported"),)
    assert message.errors == ((0, "timeout", 2),)
    assert message.end is None
    assert (message.devices[0].index, message.devices[0].up, message.devices[0].uuid) == (0, True, "GPU-a")


def test_absent_values_are_none() -> None:
    """A value that the line does not have is None, not 0."""
    gpu = decode(line()).devices[0]
    assert gpu.utilization_ratio is gpu.power_watts is gpu.processes is gpu.mig is gpu.minor is None
    assert (gpu.clocks, gpu.slices, gpu.pci_address, gpu.name) == ((), (), "", "")


def test_units() -> None:
    """Milliwatts, millijoules, megahertz and per cent become base units."""
    gpu = decode(
        line(
            power_milliwatts=187300,
            power_limit_milliwatts=400000,
            energy_millijoules=901223445566,
            utilization_percent=41,
            clocks_megahertz={"sm": 1410, "memory": 1593},
            clocks_max_megahertz={"sm": 1980},
            persistence=1,
            mig=0,
        )
    ).devices[0]
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.energy_joules) == (187.3, 400.0, 901223445.566)
    assert gpu.utilization_ratio == 0.41
    assert gpu.clocks == (("sm", 1_410_000_000), ("memory", 1_593_000_000))
    assert gpu.clocks_max == (("sm", 1_980_000_000),)
    assert gpu.persistence is True
    assert gpu.mig is False


def test_pci_address_is_that_of_sysfs() -> None:
    """Lower case, four digits of domain, function 0."""
    assert decode(line(pci=[0, 0xB1, 0])).devices[0].pci_address == "0000:b1:00.0"
    assert decode(line(pci=[0x10001, 1, 2])).devices[0].pci_address == "10001:01:02.0"


def test_processes_and_slices() -> None:
    """Memory that is not available (null or 2^64-1) is None; so is a slice's missing number."""
    gpu = decode(
        line(
            processes=[[7, 4096], [8, None], [9, 2**64 - 1]],
            slices=[{"uuid": "MIG-1", "gpu_instance": 1, "memory_used_bytes": 5}, {"gpu_instance": 2}],
        )
    ).devices[0]
    assert gpu.processes == (Process(7, 4096), Process(8, None), Process(9, None))
    assert gpu.slices == (MigSlice("MIG-1", 1, None, 5, None),)


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("utilization_percent", 4294967295, "utilization_ratio"),
        ("power_milliwatts", 4294967295, "power_watts"),
        ("energy_millijoules", 2**64 - 1, "energy_joules"),
        ("temperature_celsius", -40, "temperature_celsius"),
        ("memory_used_bytes", 2**64 - 1, "memory_used_bytes"),
        ("ecc_corrected", 2**63, "ecc_corrected"),
        ("pcie_replays", -1, "pcie_replays"),
    ],
)
def test_impossible_values_are_left_out(key: str, value: int, field: str) -> None:
    """What no GPU can say is absent; the rest of the line stays."""
    gpu = decode(line(**{key: value, "pcie_width": 16})).devices[0]
    assert getattr(gpu, field) is None
    assert gpu.pcie_width == 16


def test_texts_are_bounded() -> None:
    """A name of the driver takes 128 characters at most."""
    assert decode(line(name="x" * 500)).devices[0].name == "x" * 128


def test_unknown_keys_are_ignored() -> None:
    """A newer reader may say more."""
    assert decode(line(fan=30)).devices[0].index == 0


def test_last_words() -> None:
    """A line that says why the reader ends has nothing else."""
    assert decode(b'{"end": "nvmlInit: Driver Not Loaded"}').end == "nvmlInit: Driver Not Loaded"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"NVRM: hello",
        b"[]",
        b"{}",
        b"7",
        b'"end"',
        b'{"end": 7}',
        line(index=-1),
        line(index="0"),
        line(up=1),
        line(uuid=7),
        line(power_milliwatts="187300"),
        line(power_milliwatts=True),
        line(power_milliwatts=float("nan")),
        line(processes=[[1]]),
        line(processes=[["1", 2]]),
        line(pci=[1, 2]),
        line(clocks_megahertz=[1]),
        line(slices=["x"]),
        json.dumps({**LINE, "taken": 10**400}).encode(),
        json.dumps({**LINE, "taken": "now"}).encode(),
        json.dumps({**LINE, "xids": [["GPU-a"]]}).encode(),
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_bad_lines(bad: bytes) -> None:
    """What no reader of ours writes is refused."""
    with pytest.raises(BadLine):
        decode(bad)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything(data: bytes) -> None:
    """Arbitrary bytes and arbitrary JSON give a message or BadLine, nothing else."""
    with contextlib.suppress(BadLine):
        decode(data)


@given(st.sampled_from(sorted(LINE)), JSON)
def test_one_part_replaced(key: str, value: Any) -> None:
    """A line with one part of any other content gives a message or BadLine."""
    with contextlib.suppress(BadLine):
        decode(json.dumps({**LINE, key: value}).encode())


def test_marks() -> None:
    """The page names the call and the GPU, within its size; between calls it is empty."""
    assert wire.unmark(wire.mark("nvmlDeviceGetPowerUsage", "3")) == ("nvmlDeviceGetPowerUsage", "3")
    assert len(wire.mark("n" * 100, "3")) == wire.PAGE
    assert wire.unmark(wire.IDLE) == ("", "")
