"""What the reader's lines say, checked: one JSON object per line, from the reader to its parent.

The line has NVML's own units; here they become base units. A value of a wrong
type means that no reader of ours wrote the line (`BadLine`). A value that no
GPU can have (4294967295 per cent has been seen, go-dcgm#75) is only left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Longest text that is taken from the driver.
TEXT = 128
#: Longest line; 256 GPUs with 1024 processes each stay below.
LONGEST_LINE = 8 * 1024 * 1024
_COUNTER = (1 << 63) - 1
_NO_INSTANCE = 0xFFFFFFFF


class BadLine(ValueError):
    """The line is not what a reader writes."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds a GPU; pid as the host counts, None bytes where the driver does not tell."""

    pid: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A part of a GPU in MIG mode, with memory of its own."""

    uuid: str
    gpu_instance: int | None
    compute_instance: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one moment. None: not offered by this GPU or driver, or not readable now.

    up:               False where it is off the bus; None where it is not ours to judge.
    pci_address:      as sysfs writes it, `0000:18:00.0`.
    utilization_ratio: share (0..1) of the last second with at least one kernel running.
    busy_seconds, observed_seconds: integral of the driver's own samples and the time they cover, since start.
    clocks, clocks_max: (graphics|sm|memory|video, hertz).
    clock_limits:     bit mask of the reasons that hold the clocks down, as NVML counts them.
    ecc_corrected, ecc_uncorrected: errors since the driver was loaded.
    """

    index: int
    up: bool | None = None
    uuid: str = ""
    vendor: str = "nvidia"
    name: str = ""
    minor: int | None = None
    pci_address: str = ""
    utilization_ratio: float | None = None
    busy_seconds: float | None = None
    observed_seconds: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules: float | None = None
    temperature_celsius: int | None = None
    clocks: tuple[tuple[str, int], ...] = ()
    clocks_max: tuple[tuple[str, int], ...] = ()
    clock_limits: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    pcie_replays: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    slices: tuple[MigSlice, ...] = ()
    processes: tuple[Process, ...] | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One line.

    taken_at: CLOCK_MONOTONIC, the same in both processes.
    count:    GPUs that the driver lists, lost ones included.
    xids:     (uuid, XID) of the critical errors since the line before.
    notes:    (GPU index or empty, call, why it gives nothing), each once.
    errors:   (GPU index, kind, failed calls since the line before).
    end:      why the reader ends; then there is nothing else.

    `busy_seconds` and `observed_seconds` of a device are those since the line before.
    """

    taken_at: float = 0.0
    driver: str = ""
    count: int = 0
    devices: tuple[GpuReading, ...] = ()
    xids: tuple[tuple[str, int], ...] = ()
    notes: tuple[tuple[str, str, str], ...] = ()
    errors: tuple[tuple[int, str, int], ...] = ()
    end: str | None = None


#: Key of the line -> (field, largest value that can be true, from the line's unit to the base unit).
_NUMBERS: dict[str, tuple[str, int, Callable[[Any], Any] | None]] = {
    "minor": ("minor", 4096, None),
    "utilization_percent": ("utilization_ratio", 100, lambda percent: percent / 100),
    "busy_seconds": ("busy_seconds", 3600, None),
    "observed_seconds": ("observed_seconds", 3600, None),
    "memory_used_bytes": ("memory_used_bytes", 1 << 50, None),
    "memory_total_bytes": ("memory_total_bytes", 1 << 50, None),
    "power_milliwatts": ("power_watts", 100_000_000, lambda milli: milli / 1000),
    "power_limit_milliwatts": ("power_limit_watts", 100_000_000, lambda milli: milli / 1000),
    "energy_millijoules": ("energy_joules", _COUNTER, lambda milli: milli / 1000),
    "temperature_celsius": ("temperature_celsius", 500, None),
    "clock_limits": ("clock_limits", _COUNTER, None),
    "pcie_generation": ("pcie_generation", 64, None),
    "pcie_width": ("pcie_width", 256, None),
    "pcie_max_generation": ("pcie_max_generation", 64, None),
    "pcie_max_width": ("pcie_max_width", 256, None),
    "pcie_replays": ("pcie_replays", _COUNTER, None),
    "ecc_corrected": ("ecc_corrected", _COUNTER, None),
    "ecc_uncorrected": ("ecc_uncorrected", _COUNTER, None),
    "persistence": ("persistence", 1, bool),
    "mig": ("mig", 1, bool),
}
_MOST_MEGAHERTZ = 100_000


def decode(line: bytes) -> Message:
    """The message of one line; raises BadLine."""
    try:
        found = json.loads(line)
        if "end" in found:
            return Message(end=_text(found["end"]))
        return Message(
            taken_at=float(_number(found["taken"])),
            driver=_text(found["driver"] or ""),
            count=_whole(found["count"]),
            devices=tuple(map(_device, found["devices"])),
            xids=tuple((_text(uuid), _whole(xid)) for uuid, xid in found["xids"]),
            notes=tuple((_text(gpu), _text(call), _text(why)) for gpu, call, why in found["notes"]),
            errors=tuple((_whole(gpu), _text(kind), _whole(n)) for gpu, kind, n in found["errors"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise BadLine(f"{type(error).__name__}: {error}"[:200]) from error


def _device(found: dict[str, Any]) -> GpuReading:
    fields: dict[str, Any] = {"index": _whole(found["index"]), "up": _truth(found["up"])}
    for key, value in found.items():
        rule = _NUMBERS.get(key)
        if rule is not None:
            name, most, convert = rule
            if 0 <= _number(value) <= most:
                fields[name] = value if convert is None else convert(value)
        elif key in {"uuid", "name"}:
            fields[key] = _text(value)
        elif key == "clocks_megahertz":
            fields["clocks"] = _clocks(value)
        elif key == "clocks_max_megahertz":
            fields["clocks_max"] = _clocks(value)
    if "pci" in found:
        domain, bus, slot = map(_whole, found["pci"])
        fields["pci_address"] = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    if "processes" in found:
        fields["processes"] = tuple(Process(_whole(pid), _bytes(used)) for pid, used in found["processes"])
    if "slices" in found:
        fields["slices"] = tuple(_slice(part) for part in found["slices"] if part.get("uuid"))
    return GpuReading(**fields)


def _slice(found: dict[str, Any]) -> MigSlice:
    return MigSlice(
        _text(found.get("uuid", "")),
        _instance(found.get("gpu_instance")),
        _instance(found.get("compute_instance")),
        _bytes(found.get("memory_used_bytes")),
        _bytes(found.get("memory_total_bytes")),
    )


def _clocks(found: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (_text(clock), mega * 1_000_000)
        for clock, mega in found.items()
        if 0 <= _whole(mega, low=-_COUNTER) <= _MOST_MEGAHERTZ
    )


def _bytes(value: Any) -> int | None:
    """2^64-1 stands for "not available"; no GPU has a pebibyte."""
    return value if value is not None and _whole(value) <= 1 << 50 else None


def _instance(value: Any) -> int | None:
    return value if value is not None and _whole(value) < _NO_INSTANCE else None


def _text(value: Any) -> str:
    if type(value) is not str:
        raise BadLine(f"no text: {value!r:.50}")
    return value[:TEXT]


def _truth(value: Any) -> bool | None:
    if value is not None and type(value) is not bool:
        raise BadLine(f"neither true nor false: {value!r:.50}")
    return value


def _number(value: Any) -> int | float:
    if type(value) is not int and (type(value) is not float or value - value != 0):
        raise BadLine(f"no number: {value!r:.50}")
    return value


def _whole(value: Any, low: int = 0) -> int:
    if type(value) is not int or value < low:
        raise BadLine(f"no whole number: {value!r:.50}")
    return value
