"""Series of a replayed node, under the names and labels that a real one has.

A value that a snapshot does not hold has no series. A label that it does not hold reads `simulated`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collectors import ALL
from gpuwait.collectors.ledger import COLLECTOR as LEDGER
from gpuwait.collectors.workload import COLLECTOR as WORKLOAD
from gpuwait.metrics import Sample
from gpuwait.wait.snapshot import Gpu, Host, Key, Pressure, Snapshot, Workload

#: One value under the name of its family.
Named = tuple[str, tuple[str, ...], int | float | None]

#: What stands where a snapshot knows no name.
UNNAMED = "simulated"
#: Of the machines that are replayed.
PAGE = 4096

#: Families that this module may fill; those of REAL fill themselves from the replayed state.
REAL = (LEDGER, WORKLOAD)
FAMILIES = tuple(family for one in ALL if one is not LEDGER for family in one.families)
_KNOWN = {family.name: family for family in FAMILIES}


def series(snapshot: Snapshot) -> Iterator[Sample]:
    """Everything that the snapshot holds of its GPUs, host and workloads."""
    for name, labels, value in (*_gpus(snapshot), *_host(snapshot.host), *_workloads(snapshot)):
        if value is not None and name in _KNOWN:
            yield _KNOWN[name], labels, value


def _gpus(snapshot: Snapshot) -> Iterator[Named]:
    yield "gpuwait_gpu_reader_up", (), int(any(gpu.up is not None for gpu in snapshot.gpus))
    yield "gpuwait_gpu_devices", (), len(snapshot.gpus)
    for gpu in snapshot.gpus:
        key = (str(gpu.index), gpu.uuid)
        node = "" if gpu.numa_node is None else str(gpu.numa_node)
        yield "gpuwait_gpu_info", (*key, UNNAMED, gpu.model, "", "", node), 1
        yield from _readings(gpu, key)
        for owner in gpu.workloads if gpu.in_use else ():
            yield "gpuwait_gpu_workload_info", (*key, *owner), 1


def _readings(gpu: Gpu, key: tuple[str, str]) -> Iterator[Named]:
    yield "gpuwait_gpu_up", key, None if gpu.up is None else int(gpu.up)
    yield "gpuwait_gpu_allocated", key, None if gpu.allocated is None else int(gpu.allocated)
    yield "gpuwait_gpu_processes", key, None if gpu.in_use is None else int(gpu.in_use)
    yield "gpuwait_gpu_utilization_ratio", key, gpu.utilization
    yield "gpuwait_gpu_busy_seconds_total", key, gpu.busy_seconds
    yield "gpuwait_gpu_observed_seconds_total", key, gpu.observed_seconds


def _host(host: Host) -> Iterator[Named]:
    yield from _memory(host)
    for resource, pressure in host.pressure.items():
        yield "gpuwait_pressure_some_seconds_total", (resource,), pressure.some
        if resource != "cpu":
            yield "gpuwait_pressure_full_seconds_total", (resource,), pressure.full
    for file, value in host.settings.items():
        yield "gpuwait_thp_setting", (file.removeprefix("thp_"), value), 1
    yield from _disks(host)
    yield from _mounts(host)
    yield from _ports(host)
    names = (UNNAMED, UNNAMED)
    yield "gpuwait_lustre_operation_time_seconds_total", names, host.lustre_seconds
    yield "gpuwait_lustre_operations_total", names, host.lustre_operations


def _memory(host: Host) -> Iterator[Named]:
    for name, count in host.vmstat.items():
        yield f"gpuwait_vmstat_{name}_total", (), count
    zones = [count for name, count in host.vmstat.items() if name.startswith("allocstall_")]
    yield "gpuwait_vmstat_allocstall_total", (), sum(zones) if zones else None
    for node, ratio in host.unusable_ratio.items():
        yield "gpuwait_fragmentation_unusable_ratio", (str(node), "Normal", "9"), ratio
    for name, pages in (("dirty", "nr_dirty"), ("writeback", "nr_writeback")):
        if pages in host.vmstat:
            yield f"gpuwait_memory_{name}_bytes", (), host.vmstat[pages] * PAGE
    yield "gpuwait_memory_dirty_threshold_bytes", (), host.dirty_limit_bytes


def _disks(host: Host) -> Iterator[Named]:
    for device, disk in host.disks.items():
        key = (device,)
        yield "gpuwait_disk_io_time_seconds_total", key, disk.busy_seconds
        yield "gpuwait_disk_io_time_weighted_seconds_total", key, disk.weighted_seconds
        yield "gpuwait_disk_io_now", key, disk.in_flight
        if disk.reads is not None and disk.read_seconds is not None:
            yield "gpuwait_disk_reads_completed_total", key, disk.reads
            yield "gpuwait_disk_writes_completed_total", key, disk.operations - disk.reads
            yield "gpuwait_disk_read_time_seconds_total", key, disk.read_seconds
            yield "gpuwait_disk_write_time_seconds_total", key, disk.operation_seconds - disk.read_seconds


def _mounts(host: Host) -> Iterator[Named]:
    for mountpoint, nfs in host.nfs.items():
        mount = (UNNAMED, mountpoint, "")
        yield "gpuwait_nfs_mount_in_flight", mount, nfs.in_flight
        yield "gpuwait_nfs_mount_transport_sends_total", mount, nfs.sends
        yield "gpuwait_nfs_mount_transport_receives_total", mount, nfs.receives
        key = (*mount, UNNAMED)  # the sums over all operations
        yield "gpuwait_nfs_mount_operations_total", key, nfs.operations
        yield "gpuwait_nfs_mount_transmissions_total", key, nfs.transmissions
        yield "gpuwait_nfs_mount_major_timeouts_total", key, nfs.timeouts
        yield "gpuwait_nfs_mount_response_time_seconds_total", key, nfs.response_seconds


def _ports(host: Host) -> Iterator[Named]:
    for name, port in host.fabric.items():
        device, _, number = name.partition("/")
        key = (device, number)
        yield "gpuwait_infiniband_port_up", key, int(port.up)
        yield "gpuwait_infiniband_rate_bytes_per_second", key, port.bytes_per_second
        # Sums of several counters; the incidents have these two.
        yield "gpuwait_infiniband_symbol_errors_total", key, port.errors
        yield "gpuwait_infiniband_packet_sequence_errors_total", key, port.retransmissions


def _workloads(snapshot: Snapshot) -> Iterator[Named]:
    holders = {owner for gpu in snapshot.gpus if gpu.in_use for owner in gpu.workloads}
    for key, load in snapshot.workloads.items():
        yield "gpuwait_workload_info", (*key, "", "", "", "true" if key in holders else "false"), 1
        yield "gpuwait_workload_threads", key, load.thread_count or None
        yield from _limits(key, load)
        for resource, pressure in load.pressure.items():
            yield from _pressure((*key, resource), pressure)


def _limits(key: Key, load: Workload) -> Iterator[Named]:
    yield "gpuwait_cgroup_cpu_usage_seconds_total", key, load.cpu_seconds
    yield "gpuwait_cgroup_cpu_quota_cores", key, load.quota_cores
    yield "gpuwait_cgroup_cpu_periods_total", key, load.periods
    yield "gpuwait_cgroup_cpu_throttled_periods_total", key, load.throttled_periods
    yield "gpuwait_cgroup_cpu_throttled_seconds_total", key, load.throttled_seconds


def _pressure(key: tuple[str, ...], pressure: Pressure) -> Iterator[Named]:
    yield "gpuwait_cgroup_pressure_some_seconds_total", key, pressure.some
    yield "gpuwait_cgroup_pressure_full_seconds_total", key, pressure.full
