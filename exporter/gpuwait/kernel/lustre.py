"""Parser of a Lustre client's `llite/<filesystem>-<address>/stats`.

A line is name, count, the word `samples`, a unit, and where the unit has an
amount its minimum, maximum, sum and, on newer versions, sum of squares.

    snapshot_time             1700000000.123456789 secs.nsecs
    read_bytes                120 samples [bytes] 4096 1048576 62914560
    getattr                   7 samples [reqs]
"""

from __future__ import annotations

from dataclasses import dataclass

MAXIMUM = 2**63
MICROSECONDS = ("[usec]", "[usecs]")


@dataclass(frozen=True, slots=True)
class Operation:
    """One row: how often, the unit in brackets, and the sum where the unit has one."""

    name: str
    count: int
    unit: str
    total: int | None


def parse_stats(text: str) -> list[Operation]:
    """Rows in the order of the file; a line that is no such row is skipped."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[2] != "samples" or not _number(words[1]):
            continue
        total = int(words[6]) if len(words) > 6 and _number(words[6]) else None
        rows.append(Operation(words[0], int(words[1]), words[3], total))
    return rows


def _number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 20 and int(word) < MAXIMUM


def filesystem_of(directory: str) -> str:
    """File system of an llite directory: what stands before the last `-`."""
    return directory.rpartition("-")[0] or directory
