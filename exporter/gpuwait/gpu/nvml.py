"""The one gate to the NVIDIA library: loads it, calls it, and gives every error one meaning.

Only this file imports pynvml, and only the reader process imports this file.

A failed call costs its value and nothing else, but for two errors that say more:
`DeviceLost` (this GPU is off the bus) and `DriverGone` (this process can read no GPU any more).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from gpuwait.gpu import wire

LIBRARY = "libnvidia-ml.so.1"
#: Where the library is, below a root, when the loader does not find it: driver containers, GKE, plain hosts.
DIRECTORIES = (
    "run/nvidia/driver/usr/lib",
    "home/kubernetes/bin/nvidia/lib64",
    "usr/local/nvidia/lib64",
    "usr/lib64",
    "usr/lib",
)
#: Seconds after which a call that this GPU or driver does not offer is tried again.
ASK_AGAIN = 600.0
#: Longest pause, in seconds, between tries of a call that fails; they begin at 1 s and double.
LONGEST_PAUSE = 60.0

# Return values of NVML (nvml.h, nvmlReturn_t).
_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH = 1, 9, 18
_NO_PERMISSION, _INSUFFICIENT_SIZE, _TIMEOUT, _FUNCTION_NOT_FOUND = 4, 7, 10, 13
# INVALID_ARGUMENT: our arguments are constants, so it is the device (a MIG slice) that does not take them.
_UNSUPPORTED = frozenset({2, 3, _FUNCTION_NOT_FOUND, 22, 24, 25, 26})
_NOTHING_NEW = frozenset({6, 21})
_LOST = frozenset({15, 16, 28})
_GONE = frozenset({_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH})
_FAULTS = {10: "timeout", 11: "irq_issue", 14: "corrupted_inforom", 17: "operating_system", 999: "unknown"}

_XID_EVENT = 0x8
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class DeviceLost(Exception):
    """The GPU is off the bus or has to be reset."""


class DriverGone(Exception):
    """The process can read nothing any more; `status` is the exit status that says so."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Unit:
    """What calls are made on, a GPU or the whole system, and what it is known not to offer.

    name:   index of the GPU, empty for the system.
    handle: NVML's handle, None until there is one.
    faults: failed calls since they were last reported, by kind of error.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.handle: Any = None
        self.faults: dict[str, int] = {}
        self.paused: dict[object, float] = {}
        self.failures: dict[object, int] = {}
        self.told: set[tuple[str, str]] = set()
        self.marks: dict[str, bytes] = {}


class Nvml:
    """The library, opened. `notes` collects (GPU, call, why it gives nothing), each once."""

    def __init__(self, rootfs: str, clock: Callable[[], float], page: Any) -> None:
        self._rootfs, self._clock, self._page = rootfs, clock, page
        self._module: ModuleType | None = None
        self._error: type[Exception] = Exception
        self._functions: dict[str, Callable[..., Any]] = {}
        self.notes: list[tuple[str, str, str]] = []
        self.system = Unit()

    def open(self) -> None:
        """Load the library and initialise it; raises DriverGone."""
        self._page[:] = wire.mark("dlopen")
        _load(self._rootfs)
        try:
            import pynvml  # noqa: PLC0415 - 5 MiB that a node without the library need not spend
        except ImportError as error:
            raise DriverGone(wire.NO_LIBRARY, f"nvidia-ml-py: {error}") from error
        self._module, self._error = pynvml, pynvml.NVMLError
        self._functions = {
            # "used" of the first version contains what the driver reserves for itself
            "nvmlDeviceGetMemoryInfo_v2": lambda handle: pynvml.nvmlDeviceGetMemoryInfo(
                handle, version=pynvml.nvmlMemory_v2
            ),
        }
        self._page[:] = wire.mark("nvmlInit")
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            status = {
                _DRIVER_NOT_LOADED: wire.NO_DRIVER,
                12: wire.NO_LIBRARY,
                _VERSION_MISMATCH: wire.DRIVER_CHANGED,
            }.get(error.value, wire.FAULT)
            raise DriverGone(status, f"nvmlInit: {error}") from error
        self._page[:] = wire.IDLE

    def close(self) -> None:
        """Let go of the devices; says nothing where that fails, for the process ends anyway."""
        if self._module is not None:
            self._page[:] = wire.mark("nvmlShutdown")
            with contextlib.suppress(self._error):
                self._module.nvmlShutdown()

    def idle(self) -> None:
        """Say that no call is under way."""
        self._page[:] = wire.IDLE

    def call(self, unit: Unit, name: str, *args: Any) -> Any:
        """Value of one call, None where it gives none. Raises DeviceLost, DriverGone.

        What is not offered is remembered for the unit, the call and its first argument.
        """
        key: object = (name, args[0]) if args else name
        if unit.paused and self._clock() < unit.paused.get(key, 0.0):
            return None
        self._page[:] = unit.marks.get(name) or unit.marks.setdefault(name, wire.mark(name, unit.name))
        function = self._functions.get(name) or self._find(name)
        arguments = args if unit.handle is None else (unit.handle, *args)
        for again in (True, False):
            try:
                value = function(*arguments)
            except self._error as error:
                code = getattr(error, "value", 999)
                if code == _INSUFFICIENT_SIZE and again:
                    continue  # grew between the question for its size and the question for the data
                return self._no_value(unit, name, key, code, str(error))
            except (UnicodeError, ctypes.ArgumentError, TypeError) as error:
                return self._no_value(unit, name, key, 3, f"{type(error).__name__} in the bindings")
            if unit.paused:
                unit.paused.pop(key, None)
                unit.failures.pop(key, None)
            return value
        return None

    @staticmethod
    def refused(unit: Unit, name: str, *args: object) -> bool:
        """Tell whether the driver does not offer this call, as against having nothing or failing."""
        key: object = (name, args[0]) if args else name
        return key in unit.paused and key not in unit.failures

    def _find(self, name: str) -> Callable[..., Any]:
        """The bindings' function; one that raises what a missing symbol raises, where they are too old."""

        def missing(*_: Any) -> Any:
            raise self._error(_FUNCTION_NOT_FOUND)

        function: Callable[..., Any] = getattr(self._module, name, missing)
        self._functions[name] = function
        return function

    def _no_value(self, unit: Unit, name: str, key: object, code: int, text: str) -> None:
        if code in _GONE:
            raise DriverGone(wire.DRIVER_CHANGED, f"{name}: {text}")
        if code in _LOST:
            raise DeviceLost(f"{name}: {text}")
        if code in _NOTHING_NEW or (code == _TIMEOUT and name.startswith("nvmlEventSetWait")):
            return
        if code in _UNSUPPORTED or code == _NO_PERMISSION:
            unit.paused[key] = self._clock() + ASK_AGAIN
        else:
            kind = _FAULTS.get(code, "other")
            unit.faults[kind] = unit.faults.get(kind, 0) + 1
            count = unit.failures[key] = unit.failures.get(key, 0) + 1
            unit.paused[key] = self._clock() + min(2.0 ** min(count - 1, 10), LONGEST_PAUSE)
        if (name, text) not in unit.told and len(unit.told) < 256:
            unit.told.add((name, text))
            self.notes.append((unit.name, name, text))

    def samples(self, unit: Unit, since: int) -> list[tuple[int, int]] | None:
        """Utilisation readings newer than `since`: (microseconds of the wall clock, per cent).

        None where the ring is not offered or holds nothing newer.
        """
        found = self.call(unit, "nvmlDeviceGetSamples", 1, since)
        if found is None:
            return None
        kind, readings = found
        if not 0 <= kind < len(_VALUE_FIELDS):
            return None
        value = _VALUE_FIELDS[kind]
        return [(r.timeStamp, getattr(r.sampleValue, value)) for r in readings]

    def watch(self, unit: Unit, events: Unit) -> None:
        """Have this GPU's critical errors (XID) put into the set of events."""
        if events.handle is None:
            events.handle = self.call(self.system, "nvmlEventSetCreate")
        if events.handle is not None:
            self.call(unit, "nvmlDeviceRegisterEvents", _XID_EVENT, events.handle)

    def xids(self, events: Unit, limit: int = 64) -> Iterator[tuple[int, int]]:
        """What has happened since the last time: (address of the GPU's handle, XID). Never waits."""
        for _ in range(limit if events.handle is not None else 0):
            try:
                event = self.call(events, "nvmlEventSetWait_v2", 0)
            except DeviceLost:
                return
            if event is None:
                return
            if event.eventType & _XID_EVENT:
                yield address(event.device), event.eventData


def address(handle: Any) -> int:
    """Number by which two handles of the same GPU are equal."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _load(rootfs: str) -> None:
    """Load the library, so that the bindings' own loading by name finds it loaded; raises DriverGone."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        trouble = error
    else:
        return
    for root in dict.fromkeys((rootfs.rstrip("/"), "")):
        for path in _candidates(root):
            try:
                # The loader knows a library by the name inside it: from here on LIBRARY is this file.
                ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
                ctypes.CDLL(LIBRARY)
            except OSError as error:
                trouble = error
            else:
                return
    raise DriverGone(wire.NO_LIBRARY, str(trouble))


def _candidates(root: str) -> Iterator[str]:
    for directory in DIRECTORIES:
        base = f"{root}/{directory}"
        try:
            names = sorted(os.listdir(base))
        except OSError:
            continue
        if LIBRARY in names:
            yield f"{base}/{LIBRARY}"
        for name in names:
            if name.endswith("-linux-gnu"):
                path = f"{base}/{name}/{LIBRARY}"
                if os.path.lexists(path):
                    yield path
