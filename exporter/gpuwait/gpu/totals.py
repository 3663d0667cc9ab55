"""What outlives a reader: counters that a fresh process would begin again at 0, and the GPUs seen so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuwait.gpu.protocol import GpuReading, Message

K = TypeVar("K")

#: GPUs and kinds of error that are kept at most; a driver that makes up names must not grow us.
MOST = 1024


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All GPUs at one moment.

    taken_at: seconds on the monotonic clock.
    count:    GPUs that the driver lists, lost ones included.
    devices:  also those seen earlier and listed no more, with `up` False.
    xids:     critical errors since the start of this program by (uuid, XID).
    errors:   failed calls since the start of this program by (GPU index, uuid, kind).
    """

    taken_at: float
    driver: str
    count: int
    devices: tuple[GpuReading, ...]
    xids: Mapping[tuple[str, int], int]
    errors: Mapping[tuple[int, str, str], int]


class Totals:
    """Adds up the messages of all readers, one after the other. Used by one thread."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._busy: dict[tuple[int, str], tuple[float, float]] = {}
        self._xids: dict[tuple[str, int], int] = {}
        self._errors: dict[tuple[int, str, str], int] = {}

    def add(self, message: Message) -> Snapshot:
        """The snapshot that the message makes."""
        devices = self._named(message.devices)
        uuids = {device.index: device.uuid for device in devices}
        # Readers in other threads hold the old mappings: they are replaced, never changed.
        for uuid, xid in message.xids:
            self._xids = _plus(self._xids, (uuid, xid), 1)
        for index, kind, count in message.errors:
            self._errors = _plus(self._errors, (index, uuids.get(index, ""), kind), count)
        return Snapshot(
            message.taken_at,
            message.driver,
            message.count,
            tuple(map(self._integrated, devices)) + self._missing(devices),
            self._xids,
            self._errors,
        )

    def forget(self) -> None:
        """Forget which GPUs there were: somebody is about to change them."""
        self._known = {}

    def _named(self, devices: tuple[GpuReading, ...]) -> list[GpuReading]:
        """The devices; a lost one that cannot say who it is has the name of the one that was there."""
        present = {device.uuid for device in devices}
        before = {index: uuid for uuid, index in self._known.items() if uuid not in present}
        named = []
        for device in devices:
            if device.up is False and not device.uuid and device.index in before:
                named.append(replace(device, uuid=before[device.index]))
            else:
                named.append(device)
            uuid = named[-1].uuid
            if uuid and len(self._known) < MOST:
                self._known[uuid] = device.index
        return named

    def _missing(self, devices: list[GpuReading]) -> tuple[GpuReading, ...]:
        present = {device.uuid for device in devices}
        return tuple(
            GpuReading(index=index, uuid=uuid, up=False)
            for uuid, index in self._known.items()
            if uuid not in present
        )

    def _integrated(self, device: GpuReading) -> GpuReading:
        if device.busy_seconds is None or device.observed_seconds is None:
            return device
        key = (device.index, device.uuid)
        busy, observed = self._busy.get(key, (0.0, 0.0))
        total = busy + device.busy_seconds, observed + device.observed_seconds
        if key in self._busy or len(self._busy) < MOST:
            self._busy[key] = total
        return replace(device, busy_seconds=total[0], observed_seconds=total[1])


def _plus(totals: dict[K, int], key: K, count: int) -> dict[K, int]:
    if key not in totals and len(totals) >= MOST:
        return totals
    return {**totals, key: totals.get(key, 0) + count}
