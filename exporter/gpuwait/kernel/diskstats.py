"""Counters of block devices: `/proc/diskstats`.

https://docs.kernel.org/admin-guide/iostats.html

     259       0 nvme0n1 47 0 23735 77 15 18 6012 1170 0 1489 9350 6 0 131 14 3 1
       8       0 sda 118 2 5120 33 41 7 3011 10 2 40 14
     253       3 dm-3 14 0 224 2 3 0 6144 9 0 11 11 0 0 0 0

Columns: major, minor, name, then `COLUMNS`. Discards came with 4.18, flushes with 5.5; a partition
has 7 columns before 2.6.25.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import TOO_LARGE, counter

COLUMNS = (
    "reads_completed",
    "reads_merged",
    "sectors_read",
    "read_ms",
    "writes_completed",
    "writes_merged",
    "sectors_written",
    "write_ms",
    "in_flight",
    "io_ms",
    "weighted_io_ms",
    "discards_completed",
    "discards_merged",
    "sectors_discarded",
    "discard_ms",
    "flushes_completed",
    "flush_ms",
)
FEWEST = 14
IN_FLIGHT = COLUMNS.index("in_flight")
#: in_flight is printed as unsigned 32 bits: a race of the per-CPU sums below zero shows as 4294967295.
MOST_IN_FLIGHT = 1 << 31


@dataclass(frozen=True, slots=True)
class DiskRow:
    """One line, numbers not yet read: most rows of a host are partitions that nobody asks about.

    device: `major:minor`.
    words:  of `COLUMNS`, as many as this kernel has.
    """

    device: str
    name: str
    words: tuple[str, ...]

    def values(self) -> list[int | None]:
        """Numbers in the order of `COLUMNS`, shorter on old kernels; None for one that cannot be true.

        Sectors are of 512 bytes whatever the device's are; times are milliseconds.
        """
        words = self.words
        try:
            values: list[int | None] = [int(word) for word in words]
        except ValueError:
            values = [counter(word) for word in words]
        if any(value is None or not 0 <= value < TOO_LARGE for value in values):
            values = [value if value is not None and 0 <= value < TOO_LARGE else None for value in values]
        in_flight = values[IN_FLIGHT]
        if in_flight is not None and in_flight >= MOST_IN_FLIGHT:
            values[IN_FLIGHT] = None
        return values


def parse_diskstats(text: str) -> list[DiskRow]:
    """Rows in the file's order, each name once; a line of another width than known is skipped.

    Source: `/proc/diskstats`. Raises ParseError.
    """
    rows = {}
    recognised = False
    for line in text.split("\n"):
        words = line.split()
        if len(words) < 4 or not (words[0].isdecimal() and words[1].isdecimal()):
            continue
        recognised = True
        name = words[2]
        if len(words) >= FEWEST and name not in rows:
            rows[name] = DiskRow(f"{words[0]}:{words[1]}", name, tuple(words[3 : 3 + len(COLUMNS)]))
    if not recognised and text.strip():
        raise ParseError("diskstats: no line begins with two numbers and a name")
    return list(rows.values())


def disk_of_partition(name: str, names: Container[str]) -> str | None:
    """The disk that a row is a partition of by its name, None for a whole disk.

    For hosts whose sysfs does not say. `sda1` is part of `sda` and `nvme0n1p2` of `nvme0n1` where
    that row exists too; `xvda1` alone is a disk, and so are `md127`, `dm-10` and `mmcblk0boot0`.
    """
    stem = name.rstrip("0123456789")
    if not stem or stem == name:
        return None
    if stem in names:
        return stem
    disk = stem.removesuffix("p")
    return disk if disk != stem and disk[-1:].isdecimal() and disk in names else None
