"""GPFS (Storage Scale): bytes and operations by file system, asked of `mmpmon`.

Off by default, since it runs a program. The program is killed when it does not
answer in time, and never started while an earlier one is still there.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector
from gpuwait.host import label
from gpuwait.kernel.mmpmon import parse_fs_io
from gpuwait.metrics import Family, Sample
from gpuwait.programs import Running, ask
from gpuwait.sources import Sources

#: Seconds for one answer; below the deadline of a collector, so that the kill is ours.
TIMEOUT = 1.5
SOURCE = "mmpmon -p, fs_io_s"
LABELS = ("gpfs_cluster", "filesystem")
FAMILIES = {
    "read_bytes": Family(
        "gpuwait_gpfs_read_bytes_total", "counter", "Bytes read by applications.", SOURCE, LABELS
    ),
    "written_bytes": Family(
        "gpuwait_gpfs_written_bytes_total", "counter", "Bytes written by applications.", SOURCE, LABELS
    ),
    "opens": Family("gpuwait_gpfs_opens_total", "counter", "Files opened.", SOURCE, LABELS),
    "closes": Family("gpuwait_gpfs_closes_total", "counter", "Files closed.", SOURCE, LABELS),
    "reads": Family("gpuwait_gpfs_reads_total", "counter", "Reads by applications.", SOURCE, LABELS),
    "writes": Family("gpuwait_gpfs_writes_total", "counter", "Writes by applications.", SOURCE, LABELS),
    "readdirs": Family("gpuwait_gpfs_readdirs_total", "counter", "Directories read.", SOURCE, LABELS),
    "inode_updates": Family(
        "gpuwait_gpfs_inode_updates_total", "counter", "Inode updates to disk.", SOURCE, LABELS
    ),
}


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the counters of every file system that mmpmon reports."""
    command = [sources.options.gpfs_mmpmon, "-s", "-p"]
    text = ask(command, b"fs_io_s\n", sources.kept(Running), TIMEOUT)
    for filesystem in parse_fs_io(text):
        labels = (label(filesystem.cluster), label(filesystem.name))
        for name, value in filesystem.counters.items():
            yield FAMILIES[name], labels, value


COLLECTOR = Collector(
    name="gpfs",
    help="GPFS bytes and operations, by running mmpmon",
    families=tuple(FAMILIES.values()),
    collect=collect,
    enabled=False,
)
