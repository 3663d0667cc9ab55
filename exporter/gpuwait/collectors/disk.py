"""Counters of whole disks, what they are and where they are mounted."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.block import Disks
from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import label, maybe_text
from gpuwait.kernel.diskstats import COLUMNS, DiskRow, parse_diskstats
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

SOURCE = "/proc/diskstats"
DEVICE = ("device",)

READS_COMPLETED = Family(
    "gpuwait_disk_reads_completed_total", "counter", "Reads that the disk completed.", SOURCE, DEVICE
)
READS_MERGED = Family(
    "gpuwait_disk_reads_merged_total",
    "counter",
    "Reads merged with a neighbour before they reached the disk.",
    SOURCE,
    DEVICE,
)
READ_BYTES = Family("gpuwait_disk_read_bytes_total", "counter", "Bytes read from the disk.", SOURCE, DEVICE)
READ_TIME = Family(
    "gpuwait_disk_read_time_seconds_total",
    "counter",
    "Seconds that reads took, summed over all reads.",
    SOURCE,
    DEVICE,
)
WRITES_COMPLETED = Family(
    "gpuwait_disk_writes_completed_total", "counter", "Writes that the disk completed.", SOURCE, DEVICE
)
WRITES_MERGED = Family(
    "gpuwait_disk_writes_merged_total",
    "counter",
    "Writes merged with a neighbour before they reached the disk.",
    SOURCE,
    DEVICE,
)
WRITTEN_BYTES = Family(
    "gpuwait_disk_written_bytes_total", "counter", "Bytes written to the disk.", SOURCE, DEVICE
)
WRITE_TIME = Family(
    "gpuwait_disk_write_time_seconds_total",
    "counter",
    "Seconds that writes took, summed over all writes.",
    SOURCE,
    DEVICE,
)
IO_NOW = Family("gpuwait_disk_io_now", "gauge", "Requests that the disk has in hand.", SOURCE, DEVICE)
IO_TIME = Family(
    "gpuwait_disk_io_time_seconds_total",
    "counter",
    "Seconds in which the disk had any request in hand; a disk that serves many at a time is not full then.",
    SOURCE,
    DEVICE,
)
IO_TIME_WEIGHTED = Family(
    "gpuwait_disk_io_time_weighted_seconds_total",
    "counter",
    "Seconds that requests spent in the disk's queue and in service, summed over all requests.",
    SOURCE,
    DEVICE,
)
DISCARDS_COMPLETED = Family(
    "gpuwait_disk_discards_completed_total",
    "counter",
    "Discards that the disk completed.",
    f"{SOURCE}, Linux 4.18",
    DEVICE,
)
DISCARDS_MERGED = Family(
    "gpuwait_disk_discards_merged_total",
    "counter",
    "Discards merged with a neighbour before they reached the disk.",
    f"{SOURCE}, Linux 4.18",
    DEVICE,
)
DISCARDED_BYTES = Family(
    "gpuwait_disk_discarded_bytes_total",
    "counter",
    "Bytes discarded on the disk.",
    f"{SOURCE}, Linux 4.18",
    DEVICE,
)
DISCARD_TIME = Family(
    "gpuwait_disk_discard_time_seconds_total",
    "counter",
    "Seconds that discards took, summed over all discards.",
    f"{SOURCE}, Linux 4.18",
    DEVICE,
)
FLUSH_REQUESTS = Family(
    "gpuwait_disk_flush_requests_total",
    "counter",
    "Flushes that the disk completed.",
    f"{SOURCE}, Linux 5.5",
    DEVICE,
)
FLUSH_TIME = Family(
    "gpuwait_disk_flush_time_seconds_total",
    "counter",
    "Seconds that flushes took, summed over all flushes.",
    f"{SOURCE}, Linux 5.5",
    DEVICE,
)
INFO = Family(
    "gpuwait_disk_info",
    "gauge",
    "What the disk is; name is that of a device-mapper device; always 1.",
    "udev, else /sys/block",
    ("device", "model", "kind", "rotational", "numa_node", "pci_address", "name"),
)
MOUNT_INFO = Family(
    "gpuwait_disk_mount_info",
    "gauge",
    "File systems mounted from the disk or a partition of it; always 1.",
    "/proc/1/mountinfo",
    ("device", "mountpoint", "filesystem_type"),
)
SCHEDULER = Family(
    "gpuwait_disk_scheduler",
    "gauge",
    "1 for the I/O scheduler in use on the disk, 0 for the others on offer.",
    "/sys/block/*/queue/scheduler",
    ("device", "scheduler"),
)
QUEUE_REQUESTS = Family(
    "gpuwait_disk_queue_requests",
    "gauge",
    "Requests that fit into the disk's queue.",
    "/sys/block/*/queue/nr_requests",
    DEVICE,
)

SECTOR = 512
#: Family, factor and divisor of each column: one of the two is 1, so that values stay exact.
BY_COLUMN: tuple[tuple[Family, int, int], ...] = (
    (READS_COMPLETED, 1, 1),
    (READS_MERGED, 1, 1),
    (READ_BYTES, SECTOR, 1),
    (READ_TIME, 1, 1000),
    (WRITES_COMPLETED, 1, 1),
    (WRITES_MERGED, 1, 1),
    (WRITTEN_BYTES, SECTOR, 1),
    (WRITE_TIME, 1, 1000),
    (IO_NOW, 1, 1),
    (IO_TIME, 1, 1000),
    (IO_TIME_WEIGHTED, 1, 1000),
    (DISCARDS_COMPLETED, 1, 1),
    (DISCARDS_MERGED, 1, 1),
    (DISCARDED_BYTES, SECTOR, 1),
    (DISCARD_TIME, 1, 1000),
    (FLUSH_REQUESTS, 1, 1),
    (FLUSH_TIME, 1, 1000),
)
#: A number that cannot be true: left out, and counted as such.
_LOST = float("nan")
assert len(BY_COLUMN) == len(COLUMNS)


class _State:
    """Disks and the samples made from their facts, which change when a disk comes or goes."""

    def __init__(self) -> None:
        self.disks = Disks()
        self.facts: list[Sample] = []


def collect(sources: Sources) -> Iterator[Sample]:
    """Samples of each whole disk. Raises NoData without diskstats, ParseError for another format."""
    faults = Faults()
    with faults.at(path := f"{sources.host.procfs}/diskstats"):
        text = maybe_text(path)
        if text is None:
            raise NoData(Reason.ABSENT, path)
        yield from _samples(sources, parse_diskstats(text))
    faults.finish()


def _samples(sources: Sources, rows: list[DiskRow]) -> Iterator[Sample]:
    state = sources.kept(_State)
    if state.disks.update(sources.host, rows, sources.options.disk_devices, sources.clock()):
        state.facts = list(_facts(state.disks))
    disks = state.disks.disks
    for row in rows:
        if row.name not in disks:
            continue
        labels = (label(row.name),)
        for (family, factor, divisor), value in zip(BY_COLUMN, row.values(), strict=False):
            if value is None:
                yield family, labels, _LOST
            else:
                yield family, labels, value / divisor if divisor != 1 else value * factor
    yield from state.facts
    for mount in state.disks.mounts(sources.host):
        yield MOUNT_INFO, mount, 1


def _facts(disks: Disks) -> Iterator[Sample]:
    for name, facts in disks.disks.items():
        device = label(name)
        labels = (facts.model, facts.kind, facts.rotational, facts.numa_node, facts.pci_address, facts.name)
        yield INFO, (device, *labels), 1
        for scheduler, in_use in facts.schedulers:
            yield SCHEDULER, (device, scheduler), int(in_use)
        if facts.requests is not None:
            yield QUEUE_REQUESTS, (device,), facts.requests


COLLECTOR = Collector(
    name="disk",
    help="Counters of whole disks, what they are and where they are mounted.",
    families=(*(family for family, _, _ in BY_COLUMN), INFO, MOUNT_INFO, SCHEDULER, QUEUE_REQUESTS),
    collect=collect,
)
