"""CPU time of the kernel threads that free, compact and collapse memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.host import Host, is_absent
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.thread_stat import ThreadStat, parse_schedstat, parse_thread_stat
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

CPU_SECONDS = Family(
    "gpuwait_kernel_thread_cpu_seconds_total",
    "counter",
    "CPU seconds of the kernel threads of a kind, over all NUMA nodes.",
    "/proc/PID/schedstat of kswapd*, kcompactd*, khugepaged",
    ("thread",),
)

_KINDS = ("kcompactd", "kswapd", "khugepaged")
#: Parent of every kernel thread.
_KTHREADD = 2
#: Threads come and go with memory that is plugged in and out, and with the setting of huge pages.
_RESCAN_SECONDS = 60


@dataclass(slots=True)
class _Threads:
    """Threads found, by pid, and their CPU time.

    others: pids that are none of them, so that a scan reads new processes only.
    nanoseconds: CPU time by kind and thread. One that ended keeps its last value,
    else the sum would fall and look like a counter that began anew.
    """

    scanned_at: float | None = None
    found: dict[str, tuple[str, int]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    nanoseconds: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)


def _kind(stat: ThreadStat) -> str | None:
    kind = stat.name.rstrip("0123456789")
    return kind if stat.parent == _KTHREADD and kind in _KINDS else None


def _scan(host: Host, threads: _Threads) -> None:
    """Look for the threads among all processes."""
    pids = {name for name in host.list_proc() if name.isdecimal()}
    threads.others &= pids
    threads.found = {}
    for pid in pids - threads.others:
        # A process that ended meanwhile, or that may not be seen (hidepid), is none of ours.
        try:
            stat = parse_thread_stat(host.proc(f"{pid}/stat"))
        except (OSError, ParseError):
            continue
        kind = _kind(stat)
        if kind is None:
            threads.others.add(pid)
        else:
            threads.found[pid] = (kind, stat.start)


def _cpu_time(host: Host, pid: str, start: int) -> int | None:
    """CPU time in nanoseconds, None where this thread is gone or cannot be read."""
    try:
        stat = parse_thread_stat(host.proc(f"{pid}/stat"))
        if stat.start != start:
            return None
        # Absent without CONFIG_SCHED_INFO; it is exact, while stat has steps of 10 ms.
        text = host.maybe_proc(f"{pid}/schedstat")
        return stat.cpu_nanoseconds if text is None else parse_schedstat(text)
    except (OSError, ParseError):
        return None


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield CPU seconds by kind of thread. Raises NoData, OSError."""
    threads = sources.kept(_Threads)
    now = sources.clock()
    if threads.scanned_at is None or now - threads.scanned_at >= _RESCAN_SECONDS:
        try:
            _scan(sources.host, threads)
        except OSError as error:
            if is_absent(error):
                raise NoData(Reason.ABSENT, "no proc file system") from error
            raise
        threads.scanned_at = now
    incomplete = set()
    for pid, (kind, start) in threads.found.items():
        value = _cpu_time(sources.host, pid, start)
        if value is None:
            # A sum without it would fall: no sample this time, and look again next time.
            incomplete.add(kind)
            threads.scanned_at = None
            continue
        times = threads.nanoseconds.setdefault(kind, {})
        times[pid, start] = max(value, times.get((pid, start), 0))
    present = {kind for kind, _ in threads.found.values()}
    for kind in _KINDS:
        if kind in present and kind not in incomplete:
            yield CPU_SECONDS, (kind,), sum(threads.nanoseconds[kind].values()) / 1_000_000_000
    if not present:
        raise NoData(Reason.ABSENT, "no kernel threads are seen: this needs the host's process ids")


COLLECTOR = Collector(
    name="kernel_threads",
    help="CPU time of kswapd, kcompactd and khugepaged.",
    families=(CPU_SECONDS,),
    collect=collect,
)
