"""State, CPU times and last CPU of one thread: `/proc/PID/task/TID/stat`, and its `schedstat`.

https://docs.kernel.org/filesystems/proc.html#process-specific-subdirectories
https://docs.kernel.org/scheduler/sched-stats.html

    4242 (pt_data_worker) D 4240 4240 4240 0 -1 4194368 921 0 12 0 1204 388 0 0 20 0 41 0 91820 ...   (stat)
    15920771231 90211704 31204                                                                   (schedstat)
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import TOO_LARGE, counter

#: Column of the last CPU, counted from the state.
_LAST_CPU = 36
_MOST_CPUS = 65536
#: The kernel's own limit is 16, and 64 for worker threads.
_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Task:
    """One thread.

    state:         one letter: R running or ready, S asleep, D blocked.
    parent:        pid of the process that is the parent.
    user, system:  ticks of 1/100 s.
    start:         ticks of 1/100 s after boot.
    cpu:           the one it last ran on, None where the line ends before.
    """

    name: str
    state: str
    parent: int
    user: int
    system: int
    start: int
    cpu: int | None


def parse_task(text: bytes) -> Task:
    """Read one thread. Raises ParseError. Sources: `/proc/PID/stat`, `/proc/PID/task/TID/stat`."""
    # The name may hold spaces and parentheses: it ends at the last one.
    head, _, tail = text.rpartition(b")")
    _, parenthesis, name = head.partition(b"(")
    words = tail.split(None, _LAST_CPU + 1)
    try:
        parent, user, system, start = int(words[1]), int(words[11]), int(words[12]), int(words[19])
        cpu = int(words[_LAST_CPU]) if len(words) > _LAST_CPU else -1
        state = words[0].decode("ascii")
    except (ValueError, IndexError):
        raise ParseError("stat: too few columns, or not a number where one must stand") from None
    if not parenthesis or not 0 <= user < TOO_LARGE or not 0 <= system < TOO_LARGE or parent < 0 or start < 0:
        raise ParseError("stat: no name in parentheses, or a number that cannot be true")
    comm = name[:_NAME_LENGTH].decode("utf-8", "backslashreplace")
    return Task(comm, state, parent, user, system, start, cpu if 0 <= cpu < _MOST_CPUS else None)


def parse_queue(text: bytes) -> int | None:
    """Nanoseconds in the run queue, None for another format. Source: `/proc/PID/task/TID/schedstat`."""
    words = text.split(None, 2)
    return counter(words[1].decode("ascii", "replace")) if len(words) > 1 else None


def parse_cpulist(text: str) -> list[int]:
    """CPUs of a list such as `0-3,8`; a part that is none is skipped.

    Source: `/sys/devices/system/node/node*/cpulist`.
    """
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        low, high = counter(first), counter(last if dash else first)
        if low is not None and high is not None and high < _MOST_CPUS:
            cpus += range(low, high + 1)
    return cpus
