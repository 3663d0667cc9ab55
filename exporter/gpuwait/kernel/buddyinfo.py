"""Free blocks of each size: `/proc/buddyinfo`.

https://docs.kernel.org/filesystems/proc.html#proc-buddyinfo

    Node 0, zone      DMA      1      1      0      1      2      1      1      0      1      1      3
    Node 0, zone   Normal 426300   1168      0      0      0      0      0      0      0      0      0

Column k, from 0, is the number of free blocks of 2^k pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter

_ZONE_NAME_LIMIT = 32


@dataclass(frozen=True, slots=True)
class FreeBlocks:
    """Free memory of one zone of one NUMA node.

    blocks: number of free blocks by order; None for a number that cannot be true.
    """

    node: str
    zone: str
    blocks: tuple[int | None, ...]

    def unusable_ratio(self, order: int) -> float | None:
        """Share of the free pages that lie in blocks smaller than 2^order pages.

        None where nothing is free, a count is missing, or blocks of that order do not exist.
        """
        if len(self.blocks) <= order:
            return None
        free = usable = 0
        for size, blocks in enumerate(self.blocks):
            if blocks is None:
                return None
            free += blocks << size
            if size >= order:
                usable += blocks << size
        return (free - usable) / free if free else None


def parse_buddyinfo(text: str) -> list[FreeBlocks]:
    """Zones in the file's order, each once. Raises ParseError.

    Source: `/proc/buddyinfo`.
    """
    zones = {}
    for line in text.split("\n"):
        words = line.split()
        if len(words) < 5 or words[0] != "Node" or words[2] != "zone":
            continue
        node = words[1].removesuffix(",")
        if counter(node) is None or len(words[3]) > _ZONE_NAME_LIMIT:
            continue
        blocks = tuple(counter(word) for word in words[4:])
        if any(count is not None for count in blocks):
            zones[node, words[3]] = FreeBlocks(node, words[3], blocks)
    if not zones and text.strip():
        raise ParseError("buddyinfo: no line is a zone")
    return list(zones.values())
