"""Allocations of a NUMA node, and its CPUs: `/sys/devices/system/node/node*/{numastat,cpulist}`.

https://docs.kernel.org/admin-guide/numastat.html

    numa_hit 31500112
    numa_miss 0
    other_node 17129

Events, not bytes: a huge page counts 1. They tell where an allocation landed,
never which node later used it.
"""

from __future__ import annotations

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter, named_counters

#: No machine has more: a higher number is corrupt text.
_CPU_LIMIT = 1 << 20


def parse_numastat(text: str) -> dict[str, int]:
    """Allocations by the kernel's names. Raises ParseError.

    Source: `/sys/devices/system/node/node*/numastat`.
    """
    return named_counters(text, "numastat")


def count_cpus(text: str) -> int:
    """Number of CPUs in a list such as `0-15,32-47`; 0 for the empty list of a memory-only node.

    Raises ParseError. Source: `/sys/devices/system/node/node*/cpulist`.
    """
    total = 0
    for part in text.strip().split(","):
        if not part:
            continue
        first, hyphen, last = part.partition("-")
        low, high = counter(first), counter(last if hyphen else first)
        if low is None or high is None or not low <= high < _CPU_LIMIT:
            raise ParseError(f"cpulist: {part[:32]!r} is no range of CPUs")
        total += high - low + 1
    return total
