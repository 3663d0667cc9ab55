"""The only process that touches the NVIDIA library: one line of JSON a second on standard output.

It may be blocked in the driver for minutes, unkillably, which is why it is a
process of its own. It ends when its standard input ends; that is how the
parent asks it to let go of the GPUs, and how it notices that the parent is gone.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import signal
import sys
import time
from typing import Any

from gpuwait.gpu import wire
from gpuwait.gpu.device import Device
from gpuwait.gpu.nvml import DeviceLost, DriverGone, Nvml, Unit
from gpuwait.gpu.privileges import give_up

#: Ticks between two looks for GPUs that came, went, or came back.
LOOK_ROUND = 5
#: GPUs of one node; NVML on the largest machines knows fewer.
MOST_GPUS = 256
_PR_SET_PDEATHSIG = 1


class Reader:
    """All GPUs of the node, read once a tick."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._devices: list[Device] = []
        self._events = Unit()
        self._tick = 0
        self._driver: str | None = None

    def tick(self) -> dict[str, Any]:
        """One snapshot, as the line says it; raises DriverGone."""
        nvml = self._nvml
        if self._tick % LOOK_ROUND == 0:
            self._look_round()
        self._tick += 1
        for device in self._devices:
            device.read(nvml)
        xids = self._xids()
        nvml.idle()
        notes, nvml.notes = nvml.notes, []
        return {
            "taken": time.monotonic(),
            "driver": self._driver,
            "count": len(self._devices),
            "devices": [device.line for device in self._devices],
            "xids": xids,
            "notes": notes,
            "errors": self._errors(),
        }

    def _look_round(self) -> None:
        nvml = self._nvml
        if self._driver is None:
            self._driver = self._system("nvmlSystemGetDriverVersion")
        count = self._system("nvmlDeviceGetCount")
        if count is not None:
            count = min(count, MOST_GPUS)
            self._devices = self._devices[:count] + [Device(i) for i in range(len(self._devices), count)]
        for device in self._devices:
            if not device.up:
                device.open(nvml, self._events)

    def _system(self, name: str) -> Any:
        try:
            return self._nvml.call(self._nvml.system, name)
        except DeviceLost:
            return None

    def _xids(self) -> list[tuple[str, int]]:
        uuids = {d.address: d.uuid for d in self._devices if d.address}
        found = self._nvml.xids(self._events)
        return [(uuids[address], xid) for address, xid in found if address in uuids]

    def _errors(self) -> list[tuple[int, str, int]]:
        """(index, kind, count) of the calls that failed since the last tick."""
        errors = []
        for device in self._devices:
            if device.unit.faults:
                errors += [(device.index, kind, n) for kind, n in device.unit.faults.items()]
                device.unit.faults = {}
        return errors


def main(arguments: list[str]) -> int:
    """Read until told to end; the exit status.

    arguments: rootfs, interval in seconds, descriptor of the shared page.
    """
    rootfs, interval, page = arguments[0], float(arguments[1]), int(arguments[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # where the parent dies without closing the pipe, as when another child of it inherited the other end
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    give_up()
    # what the library prints must not get between our lines
    output = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    nvml = Nvml(rootfs, time.monotonic, mmap.mmap(page, wire.PAGE) if page >= 0 else bytearray(wire.PAGE))
    try:
        nvml.open()
        status = _loop(Reader(nvml), output, interval)
    except DriverGone as end:
        _send(output, {"end": str(end)})
        status = end.status
    except BrokenPipeError:
        status = wire.ASKED
    except Exception as error:  # noqa: BLE001 - the parent starts a fresh process and needs to know why
        _send(output, {"end": f"{type(error).__name__}: {error}"})
        status = wire.FAULT
    nvml.close()
    return status


def _loop(reader: Reader, output: int, interval: float) -> int:
    due = time.monotonic()
    while True:
        _send(output, reader.tick())
        # after a slow tick go on at once, but never catch up: the driver is asked once an interval
        now = time.monotonic()
        due = max(due + interval, now)
        readable, _, _ = select.select([0], [], [], due - now)
        if readable and not os.read(0, 64):
            return wire.ASKED


def _send(output: int, line: dict[str, Any]) -> None:
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[os.write(output, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
