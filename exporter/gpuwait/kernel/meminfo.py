"""Memory in use: `/proc/meminfo`, and the same per NUMA node.

https://docs.kernel.org/filesystems/proc.html#meminfo

    MemTotal:       32784212 kB
    HugePages_Total:      64
    Hugepagesize:       2048 kB

`/sys/devices/system/node/node0/meminfo` puts the node before each name:

    Node 0 MemTotal:       16392104 kB
"""

from __future__ import annotations

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import TOO_LARGE, counter


def parse_meminfo(text: str) -> dict[str, int]:
    """Values by the kernel's names; bytes where the line has a unit, else counts. Raises ParseError.

    Sources: `/proc/meminfo`, `/sys/devices/system/node/node*/meminfo`.
    """
    values = {}
    for line in text.split("\n"):
        name, colon, rest = line.partition(":")
        words = rest.split()
        if not colon or not words or (value := counter(words[0])) is None:
            continue
        if len(words) > 1 and words[1] == "kB":
            value *= 1024
        if value < TOO_LARGE:
            values[name.rpartition(" ")[2]] = value
    if not values and text.strip():
        raise ParseError("meminfo: no line is a name with a number")
    return values
