"""Counters and page counts of the memory management: `/proc/vmstat`.

https://docs.kernel.org/filesystems/proc.html, names in mm/vmstat.c

    nr_free_pages 351700
    compact_stall 6560112
    thp_fault_alloc 88121
"""

from __future__ import annotations

from gpuwait.kernel.numbers import named_counters


def parse_vmstat(text: str) -> dict[str, int]:
    """Values by the kernel's names, in pages or events. Raises ParseError.

    An absent name is one that this kernel lacks, or whose number cannot be true.
    Source: `/proc/vmstat`.
    """
    return named_counters(text, "vmstat")
