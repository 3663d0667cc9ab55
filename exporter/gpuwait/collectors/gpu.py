"""GPUs: their health, their load, and whose they are. Families: `gpuwait.gpu.families`."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.gpu import families as f
from gpuwait.gpu.bus import Bus
from gpuwait.gpu.protocol import GpuReading
from gpuwait.gpu.state import Latest, State
from gpuwait.gpu.totals import Snapshot
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

#: Seconds after the start of the reader for which a scrape waits for its first readings.
FIRST = 1.5

_PLAIN: tuple[tuple[Family, str], ...] = (
    (f.UTILIZATION, "utilization_ratio"),
    (f.BUSY, "busy_seconds"),
    (f.OBSERVED, "observed_seconds"),
    (f.MEMORY_USED, "memory_used_bytes"),
    (f.MEMORY_TOTAL, "memory_total_bytes"),
    (f.POWER, "power_watts"),
    (f.POWER_LIMIT, "power_limit_watts"),
    (f.ENERGY, "energy_joules"),
    (f.TEMPERATURE, "temperature_celsius"),
    (f.LINK_GENERATION, "pcie_generation"),
    (f.LINK_WIDTH, "pcie_width"),
    (f.LINK_MAX_GENERATION, "pcie_max_generation"),
    (f.LINK_MAX_WIDTH, "pcie_max_width"),
    (f.REPLAYS, "pcie_replays"),
    (f.PERSISTENCE, "persistence"),
    (f.MIG_MODE, "mig"),
)
#: Bits of NVML's mask (nvml.h, nvmlClocksEventReason*).
_LIMITS = (
    (0x1, "idle"),
    (0x2, "application_clocks"),
    (0x4, "software_power_cap"),
    (0x8, "hardware_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "software_thermal"),
    (0x40, "hardware_thermal"),
    (0x80, "power_brake"),
    (0x100, "display"),
)
_REASONS = {
    State.STARTING: Reason.STARTING,
    State.NO_LIBRARY: Reason.NO_LIBRARY,
    State.NO_DRIVER: Reason.NO_DRIVER,
    State.STUCK: Reason.READER_STUCK,
    State.RELEASED: Reason.STARTING,
    State.OK: Reason.STARTING,
}


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield what is known of the GPUs; calls no driver. Raises NoData, OSError where the reader fails."""
    bus = sources.kept(Bus)
    bus.look(sources.host, sources.clock())
    if bus.nvidia is not None:
        yield f.PCI_DEVICES, ("nvidia",), bus.nvidia
    if sources.gpu is None:
        raise NoData(Reason.ABSENT, "the GPU reader is off")
    sources.gpu.wait_first(FIRST)
    latest = sources.gpu.latest()
    yield f.READER_UP, (), int(latest.state is State.OK)
    yield f.READER_STUCK, (), latest.stuck_seconds
    yield f.READER_RESTARTS, (), latest.restarts
    if sources.claims is not None and sources.claims.age is not None:
        yield f.ALLOCATION_AGE, (), sources.claims.age
    if latest.snapshot is not None:
        yield from _snapshot(latest.snapshot, sources, bus)
    _explain(latest)


def _explain(latest: Latest) -> None:
    """Raise what the state of the reader means for the collector."""
    if latest.snapshot is not None:  # still true, though its reader may just have ended
        return
    if latest.state is State.RESTARTING:
        raise OSError(errno.EIO, f"GPU reader ended: {latest.detail}")
    raise NoData(_REASONS[latest.state], latest.detail)


def _snapshot(snapshot: Snapshot, sources: Sources, bus: Bus) -> Iterator[Sample]:
    yield f.DEVICES, (), snapshot.count
    for device in snapshot.devices:
        if device.up is not None:
            yield f.UP, (str(device.index), device.uuid), int(device.up)
    for device in snapshot.devices:
        if device.up:
            yield from _values(device, (str(device.index), device.uuid))
            yield from _clocks(device, (str(device.index), device.uuid))
            yield from _slices(device, (str(device.index), device.uuid))
    indexes = {device.uuid: str(device.index) for device in snapshot.devices}
    for (uuid, xid), count in snapshot.xids.items():
        yield f.XID, (indexes.get(uuid, ""), uuid, str(xid)), count
    for (index, uuid, kind), count in snapshot.errors.items():
        yield f.READ_ERRORS, (str(index), uuid, kind), count
    for device in snapshot.devices:
        if device.up:
            labels = (str(device.index), device.uuid)
            node = bus.numa_node(device.pci_address)
            facts = (device.vendor, device.name, snapshot.driver, device.pci_address, node)
            yield f.INFO, labels + facts, 1
            yield from _owners(device, labels, sources)


def _values(device: GpuReading, labels: tuple[str, str]) -> Iterator[Sample]:
    for family, name in _PLAIN:
        value = getattr(device, name)
        if value is not None:
            yield family, labels, int(value) if value is True or value is False else value
    for kind, errors in (("corrected", device.ecc_corrected), ("uncorrected", device.ecc_uncorrected)):
        if errors is not None:
            yield f.ECC, (*labels, kind), errors


def _clocks(device: GpuReading, labels: tuple[str, str]) -> Iterator[Sample]:
    for clock, hertz in device.clocks:
        yield f.CLOCK, (*labels, clock), hertz
    for clock, hertz in device.clocks_max:
        yield f.CLOCK_MAX, (*labels, clock), hertz
    if device.clock_limits is not None:
        for bit, reason in _LIMITS:
            yield f.CLOCKS_LIMITED, (*labels, reason), int(bool(device.clock_limits & bit))


def _slices(device: GpuReading, labels: tuple[str, str]) -> Iterator[Sample]:
    for part in device.slices:
        ids = ["" if i is None else str(i) for i in (part.gpu_instance, part.compute_instance)]
        part_labels = (*labels, part.uuid, *ids)
        if part.memory_used_bytes is not None:
            yield f.MIG_MEMORY_USED, part_labels, part.memory_used_bytes
        if part.memory_total_bytes is not None:
            yield f.MIG_MEMORY_TOTAL, part_labels, part.memory_total_bytes


def _owners(device: GpuReading, labels: tuple[str, str], sources: Sources) -> Iterator[Sample]:
    """Processes of the GPU by workload. A process that ended is only counted."""
    if device.processes is not None:
        yield f.PROCESSES, labels, len(device.processes)
    if sources.workloads is None:
        return
    memory: dict[tuple[str, str, str, str], int | None] = {}
    for process in device.processes or ():
        # 0 is how a driver in another process namespace says that it does not know
        owner = sources.workloads.holder_of_pid(process.pid) if process.pid else None
        if owner is not None:
            before, used = memory.get(owner.labels, 0), process.memory_bytes
            memory[owner.labels] = None if before is None or used is None else before + used
    for workload, used in memory.items():
        yield f.WORKLOAD_INFO, labels + workload, 1
        if used is not None:
            yield f.WORKLOAD_MEMORY, labels + workload, used
    if sources.claims is not None:
        given = sources.claims.of(device, tuple(memory))
        for workload in given.others:
            yield f.WORKLOAD_INFO, labels + workload, 1
        if given.allocated is not None:
            yield f.ALLOCATED, labels, int(given.allocated)


COLLECTOR = Collector(
    name="gpu",
    help="GPUs by the NVIDIA driver: health, load, clocks, errors, and the workloads that hold them.",
    families=f.ALL,
    collect=collect,
)
