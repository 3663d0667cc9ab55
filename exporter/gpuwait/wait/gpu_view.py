"""GPUs as the engine sees them: of the reader's last snapshot, else those that were known before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuwait.gpu.bus import Bus
from gpuwait.gpu.protocol import GpuReading
from gpuwait.host import Host
from gpuwait.wait.snapshot import Gpu, Key
from gpuwait.workload.claims import Given

if TYPE_CHECKING:
    from gpuwait.gpu.client import GpuClient
    from gpuwait.workload.claims import Claims

#: GPUs that are remembered.
MOST = 256


@dataclass(frozen=True, slots=True)
class Readings:
    """What the reader knows now; `fresh` is False where it does not answer."""

    devices: tuple[GpuReading, ...]
    fresh: bool

    @property
    def holders(self) -> set[int]:
        """Processes that hold a GPU; 0 stands for one of another namespace."""
        return {process.pid for device in self.devices for process in device.processes or () if process.pid}


class GpuView:
    """Remembers GPUs, so that they are unknown, not absent, while the reader is stuck. Used by one thread."""

    def __init__(
        self,
        client: GpuClient | None,
        host: Host,
        clock: Callable[[], float],
        claims: Claims | None = None,
    ) -> None:
        self._client = client
        self._claims = claims
        self._host = host
        self._clock = clock
        self._bus = Bus()
        self._known: dict[tuple[int, str], Gpu] = {}
        self._last: tuple[GpuReading, ...] = ()

    def readings(self) -> Readings:
        """Never waits. While the reader is silent, processes are those of before."""
        snapshot = self._client.latest().snapshot if self._client is not None else None
        if snapshot is None:
            return Readings(self._last, fresh=False)
        self._last = snapshot.devices
        return Readings(snapshot.devices, fresh=True)

    def gpus(self, readings: Readings, key_of: Callable[[int], Key | None]) -> tuple[Gpu, ...]:
        """All GPUs that the driver lists or listed."""
        if not readings.fresh:
            return tuple(self._known.values())
        self._bus.look(self._host, self._clock())
        gpus = {}
        for device in readings.devices:
            gpu = self._gpu(device, key_of)
            gpus[gpu.index, gpu.uuid] = gpu
        # A silent reader says nothing of a GPU but that it was there.
        self._known = {
            key: replace(gpu, up=None, busy_seconds=None, observed_seconds=None, utilization=None)
            for key, gpu in list(gpus.items())[:MOST]
        }
        return tuple(gpus.values())

    def _gpu(self, device: GpuReading, key_of: Callable[[int], Key | None]) -> Gpu:
        node = self._bus.numa_node(device.pci_address)
        processes = device.processes
        keys = tuple(dict.fromkeys(key for p in processes or () if (key := key_of(p.pid)) is not None))
        given = self._claims.of(device, keys) if self._claims is not None else Given()
        return Gpu(
            index=device.index,
            uuid=device.uuid,
            up=device.up,
            busy_seconds=device.busy_seconds,
            observed_seconds=device.observed_seconds,
            utilization=device.utilization_ratio,
            in_use=None if processes is None else bool(processes),
            allocated=given.allocated,
            numa_node=int(node) if node else None,
            model=device.name,
            # Who only was given the GPU has no part in what it waits for.
            workloads=given.others if processes == () else keys,
        )
