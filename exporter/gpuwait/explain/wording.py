"""Words and numbers for people: what a signal is, and how its value is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: (cause, signal) -> what was measured. A signal that is not listed goes by its name.
SIGNALS: Mapping[tuple[str, str], str] = {
    ("compaction", "delay"): "time of a delayed thread spent in direct compaction",
    ("compaction", "pressure"): "time some task waited for memory",
    ("compaction", "stalls"): "direct compactions on the node",
    ("reclaim", "delay"): "time of a delayed thread spent freeing or refaulting pages",
    ("reclaim", "pressure"): "time some task waited for memory",
    ("reclaim", "stalls"): "entries into direct reclaim on the node",
    ("reclaim", "pages"): "pages the workload scanned or refaulted at its own limit",
    ("swap", "delay"): "time of a delayed thread spent on swap-in",
    ("swap", "pages"): "pages read back from swap",
    ("swap", "pressure"): "time some task waited for memory",
    ("writeback", "blocked"): "looks that found a thread held by dirty throttling",
    ("writeback", "dirty"): "dirty and writeback memory against the limit",
    ("writeback", "pressure"): "time some task waited for I/O",
    ("nfs", "blocked"): "looks that found a thread waiting for an NFS reply",
    ("nfs", "response"): "mean response time of the server",
    ("nfs", "busy"): "requests waiting for the server on average",
    ("nfs", "missing"): "replies that are missing while requests or threads wait",
    ("nfs", "lost"): "timeouts and retransmissions",
    ("lustre", "blocked"): "looks that found a thread waiting for Lustre",
    ("lustre", "busy"): "operations in progress on average",
    ("gpfs", "blocked"): "looks that found a thread waiting for GPFS",
    ("gpfs", "waiter"): "age of the oldest waiter",
    ("disk", "busy"): "time the disk was busy",
    ("disk", "latency"): "mean time of an operation",
    ("disk", "queue"): "operations queued on average",
    ("disk", "pressure"): "time some task waited for I/O",
    ("disk", "blocked"): "looks that found a thread waiting for a local disk",
    ("cpu_throttling", "periods"): "periods in which the quota ran out",
    ("cpu_throttling", "time"): "time for which runnable threads were stopped",
    ("cpu_contention", "queue"): "time the worst thread waited for a CPU",
    ("cpu_contention", "pressure"): "time some task of the node waited for a CPU",
    ("numa_remote", "faults"): "sampled memory accesses that were remote",
    ("numa_remote", "threads"): "CPU time spent off the GPU's NUMA node",
    ("numa_remote", "memory"): "memory of the workload off the GPU's NUMA node",
    ("fabric", "errors"): "errors of the port",
    ("fabric", "retransmissions"): "retransmissions of the port",
    ("fabric", "link"): "share of the port's own best rate that is missing",
    ("host_cpu", "thread"): "the busiest thread, share of a core",
    ("host_cpu", "group"): "CPUs used by the whole workload",
    ("host_kernel", "thread"): "the busiest thread, share of a core",
    ("host_kernel", "group"): "CPUs used by the whole workload",
}

#: Signals that are seconds per second of many requests at once: read as how many at a time.
_AT_A_TIME = frozenset({("nfs", "busy"), ("lustre", "busy")})
#: Signals whose ratio counts whole CPUs.
_CPUS = frozenset({("host_cpu", "group"), ("host_kernel", "group")})

#: Causes as a person writes them.
CAUSES: Mapping[str, str] = {
    "compaction": "memory compaction",
    "reclaim": "memory reclaim",
    "swap": "swap",
    "writeback": "writeback",
    "nfs": "NFS",
    "lustre": "Lustre",
    "gpfs": "GPFS",
    "disk": "local disk",
    "cpu_throttling": "CPU throttling",
    "cpu_contention": "CPU contention",
    "numa_remote": "remote NUMA node",
    "fabric": "network fabric",
    "host_cpu": "host code (CPU)",
    "host_kernel": "kernel code (CPU)",
    "unexplained": "unexplained",
}


#: Share of the waiting from which on a second cause is named.
WORTH_A_WORD = 0.10

#: Verdicts that are told at length and have no cause.
VERDICTS: Mapping[str, str] = {"idle": "held, idle", "unknown": "no reading"}


def printable(text: str, most: int = 128) -> str:
    """Text from outside without control characters, cut to a length."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: most + 1])
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def signal_text(cause: str, signal: str) -> str:
    """What a signal measures."""
    return SIGNALS.get((cause, signal)) or printable(signal.replace("_", " "))


def tidy(value: float) -> float:
    """Nine digits: sums of a minute have noise beyond them."""
    return float(f"{value:.9g}")


def percent(value: float) -> str:
    """A share of 1 as a percentage."""
    figure = value * 100
    return f"{figure:,.0f} %" if figure >= 9.95 or figure == 0 else f"{figure:.2g} %"


def waiting_split(seconds: Mapping[str, float]) -> str:
    """Causes by their share of the waiting, largest first; "" where one has it all but for little."""
    total = sum(seconds.values())
    if not total > 0:
        return ""
    shares = sorted(((s / total, cause) for cause, s in seconds.items()), key=lambda pair: -pair[0])
    told = [(share, cause) for share, cause in shares if share >= WORTH_A_WORD - 1e-9]
    if len(told) < 2:
        return ""
    parts = [f"{CAUSES.get(cause, cause)} {percent(share)}" for share, cause in told]
    rest = 1 - sum(share for share, _ in told)
    return ", ".join([*parts, f"others {percent(rest)}"] if rest >= 0.005 else parts)


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")):
        if seconds < limit:
            return f"{_figure(seconds * factor)} {unit}"
    return f"{_figure(seconds / 3600)} h"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.2g}"


def amount(value: float, unit: str, cause: str = "", signal: str = "") -> str:
    """A value in base units, for people."""
    if (cause, signal) in _AT_A_TIME:
        return f"{_figure(value)} at a time"
    if (cause, signal) in _CPUS:
        return f"{value:.1f} CPUs"
    if unit == "ratio":
        return percent(value)
    if unit == "seconds":
        return duration(value)
    if unit == "per_second":
        return f"{_figure(value)}/s"
    return _figure(value)


def size(count: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_figure(count)} {unit}"
        count /= 1024
    return f"{_figure(count)} TiB"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers with runs drawn together: 0-3, 5."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def listed(words: Sequence[str]) -> str:
    """Words with commas and a last `and`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
