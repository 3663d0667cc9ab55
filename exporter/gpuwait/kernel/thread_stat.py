"""Name, parent, start and CPU time of a thread: `/proc/PID/stat` and `/proc/PID/schedstat`.

https://docs.kernel.org/filesystems/proc.html#process-specific-subdirectories
https://docs.kernel.org/scheduler/sched-stats.html

    61 (kswapd0) S 2 0 0 0 -1 10754112 0 0 0 0 0 1204 0 0 20 0 1 0 112 0 0 ...      (stat)
    12040771231 90211 3120                                                        (schedstat)
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter

#: The unit of times in /proc is 1/100 s on every kernel, whatever its own tick.
_NANOSECONDS_PER_TICK = 10_000_000


@dataclass(frozen=True, slots=True)
class ThreadStat:
    """What tells a thread from another that got its pid later, and its CPU time.

    start:     ticks of 1/100 s after boot.
    cpu_nanoseconds: user and system time, in steps of 10 ms.
    """

    name: str
    parent: int
    start: int
    cpu_nanoseconds: int


def parse_thread_stat(text: str) -> ThreadStat:
    """Read one thread. Raises ParseError. Source: `/proc/PID/stat`."""
    # The name may hold spaces and parentheses: it ends at the last one.
    head, _, tail = text.rpartition(")")
    _, parenthesis, name = head.partition("(")
    words = tail.split()
    if not parenthesis or len(words) < 20:
        raise ParseError("stat: no name in parentheses or too few columns")
    parent, user, system, start = (counter(words[column]) for column in (1, 11, 12, 19))
    if parent is None or user is None or system is None or start is None:
        raise ParseError("stat: not a number where one must stand")
    return ThreadStat(name, parent, start, (user + system) * _NANOSECONDS_PER_TICK)


def parse_schedstat(text: str) -> int:
    """CPU time of a thread in nanoseconds. Raises ParseError. Source: `/proc/PID/schedstat`."""
    value = counter(text.partition(" ")[0])
    if value is None:
        raise ParseError("schedstat: does not begin with a number")
    return value
