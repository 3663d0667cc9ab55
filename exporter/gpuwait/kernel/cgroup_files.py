"""Files of one cgroup: CPU time and throttling, memory and its limits, of both versions.

https://docs.kernel.org/admin-guide/cgroup-v2.html
https://docs.kernel.org/admin-guide/cgroup-v1/index.html

    usage_usec 73901442118          cpu.stat of v2; microseconds
    nr_throttled 2011               cpu.stat; only where the group has the cpu controller
    throttled_time 1279188770012    cpu.stat of v1; nanoseconds

Besides such flat keyed files there are single numbers (`memory.current`, `cpuacct.usage` in
nanoseconds), where `max` stands for "no limit", and `cpu.max` with quota and period.
"""

from __future__ import annotations

from contextlib import suppress

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import TOO_LARGE, counter

#: v1 writes "no limit" as the largest number of whole pages below 2^63: 0x7ffffffffffff000 with
#: pages of 4 KiB, less with larger ones. No limit that somebody set comes near 4 EiB.
UNLIMITED = 1 << 62


def parse_flat_keyed(text: str, name: str) -> dict[str, int]:
    """Numbers by key; an odd line, a negative number and one of 2^63 or more are left out.

    Keys come and go with kernels (6.1 has nr_bursts, 6.18 also nice_usec): ask for those that you know.
    Sources: `cpu.stat`, `cpuacct.stat`, `memory.events`, `memory.oom_control`. Raises ParseError.
    """
    words = text.split()
    if words and len(words) == 2 * text.count("\n"):
        # Twice as fast for the regular text, of which a large node has thousands.
        with suppress(ValueError):
            values = list(map(int, words[1::2]))
            if min(values) >= 0 and max(values) < TOO_LARGE:
                return dict(zip(words[::2], values, strict=True))
    fields = {}
    keyed = False
    for line in text.split("\n"):
        key, space, word = line.partition(" ")
        if space and key:
            keyed = True
            value = counter(word)
            if value is not None:
                fields[key] = value
    if not keyed and text.strip():
        raise ParseError(f"{name}: no line has a key and a number")
    return fields


def parse_number(text: str, name: str) -> int | None:
    """The one number of a file, None where the file is empty or the number cannot be true.

    Sources: `memory.current`, `memory.usage_in_bytes`, `memory.failcnt`, `cpuacct.usage`.
    Raises ParseError.
    """
    word = text.strip()
    if not word:
        return None
    value = counter(word)
    if value is None and not word.lstrip("-").isdecimal():
        raise ParseError(f"{name}: no number")
    return value


def parse_limit(text: str, name: str) -> int | None:
    """A limit in bytes, None for none.

    Sources: `memory.max`, `memory.limit_in_bytes`. Raises ParseError.
    """
    if text.startswith("max"):
        return None
    value = parse_number(text, name)
    return None if value is None or value >= UNLIMITED else value


def parse_cpu_max(text: str) -> float | None:
    """CPUs that a group may use at a time, None for no limit.

    Source: `cpu.max`, quota and period in microseconds. Raises ParseError.
    """
    quota, _, period = text.strip().partition(" ")
    if not quota or quota == "max":
        return None
    return _cores(parse_number(quota, "cpu.max"), parse_number(period, "cpu.max"))


def parse_cfs_quota(quota: str, period: str) -> float | None:
    """CPUs that a group may use at a time, None for no limit (a quota of -1).

    Sources: `cpu.cfs_quota_us` and `cpu.cfs_period_us` of v1. Raises ParseError.
    """
    return _cores(parse_number(quota, "cpu.cfs_quota_us"), parse_number(period, "cpu.cfs_period_us"))


def _cores(quota: int | None, period: int | None) -> float | None:
    return None if quota is None or not period else quota / period
