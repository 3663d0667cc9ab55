"""Lustre client: operations, their time, and bytes, by file system.

The files moved from procfs (2.7) to sysfs and debugfs (2.12): all places are
tried, and the first that lists file systems is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.host import maybe_text, names
from gpuwait.kernel.lustre import MICROSECONDS, Operation, filesystem_of, parse_stats
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

SOURCE = "llite/*/stats of the Lustre client"
BY_OPERATION = ("filesystem", "operation")
OPERATIONS = Family(
    "gpuwait_lustre_operations_total", "counter", "Operations of the Lustre client.", SOURCE, BY_OPERATION
)
TIME = Family(
    "gpuwait_lustre_operation_time_seconds_total",
    "counter",
    "Seconds that operations of the Lustre client took, where the client measures them.",
    SOURCE,
    BY_OPERATION,
)
READ = Family(
    "gpuwait_lustre_read_bytes_total",
    "counter",
    "Bytes read through the Lustre client.",
    SOURCE,
    ("filesystem",),
)
READS = Family(
    "gpuwait_lustre_read_samples_total",
    "counter",
    "Reads that gpuwait_lustre_read_bytes_total sums up.",
    SOURCE,
    ("filesystem",),
)
WRITTEN = Family(
    "gpuwait_lustre_written_bytes_total",
    "counter",
    "Bytes written through the Lustre client.",
    SOURCE,
    ("filesystem",),
)
WRITES = Family(
    "gpuwait_lustre_write_samples_total",
    "counter",
    "Writes that gpuwait_lustre_written_bytes_total sums up.",
    SOURCE,
    ("filesystem",),
)

BYTES = {"read_bytes": (READ, READS), "write_bytes": (WRITTEN, WRITES)}


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the sums over the mounts of each file system."""
    sums: dict[tuple[Family, tuple[str, ...]], int] = {}
    for directory, text in _files(sources):
        filesystem = filesystem_of(directory)[:128]
        for row in parse_stats(text):
            for family, labels, value in _row(filesystem, row):
                sums[family, labels] = sums.get((family, labels), 0) + value
    for (family, labels), value in sums.items():
        yield family, labels, value / 1e6 if family is TIME else value


def _row(filesystem: str, row: Operation) -> Iterator[tuple[Family, tuple[str, ...], int]]:
    if row.name in BYTES:
        amount, count = BYTES[row.name]
        yield count, (filesystem,), row.count
        if row.total is not None:
            yield amount, (filesystem,), row.total
        return
    yield OPERATIONS, (filesystem, row.name), row.count
    if row.unit in MICROSECONDS and row.total is not None:
        yield TIME, (filesystem, row.name), row.total


def _files(sources: Sources) -> list[tuple[str, str]]:
    """(directory, text) of every llite instance; raises NoData where there is none."""
    host, refused = sources.host, ""
    for base in (
        f"{host.procfs}/fs/lustre/llite",
        f"{host.sysfs}/fs/lustre/llite",
        f"{host.sysfs}/kernel/debug/lustre/llite",
    ):
        try:
            found = [(name, maybe_text(f"{base}/{name}/stats")) for name in names(base)]
        except PermissionError:
            refused = base
            continue
        texts = [(name, text) for name, text in found if text is not None]
        if texts:
            return texts
    # debugfs is closed to everyone but root, whether or not Lustre is there
    if refused and host.maybe_proc("fs/lustre/version") is not None:
        raise NoData(Reason.NO_PERMISSION, f"{refused} needs root")
    raise NoData(Reason.ABSENT, "no Lustre client")


COLLECTOR = Collector(
    name="lustre",
    help="Lustre client operations, time and bytes",
    families=(OPERATIONS, TIME, READ, READS, WRITTEN, WRITES),
    collect=collect,
)
