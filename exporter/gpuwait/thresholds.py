"""Every deciding number: its value, unit, allowed range, and why it is what it is.

The engine reads these through `Thresholds`; the configuration file overrides
them by `cause.signal`; `gpuwait_cause_threshold` exports them; alert rules and
dashboards are generated from the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number. `unit` is `ratio`, `seconds`, `per_second` or `count`; it must lie in [low, high]."""

    value: float
    unit: str
    low: float
    high: float
    why: str


#: (cause or part, signal) -> threshold.
DEFAULTS: Mapping[tuple[str, str], Threshold] = {
    ("gpu", "utilization"): Threshold(
        0.70, "ratio", 0.05, 0.99, "below this operators call a GPU starved; above it gaps are pipeline slack"
    ),
    ("gpu", "idle_after"): Threshold(
        15, "seconds", 1, 3600, "longer than a checkpoint or lease pause in which a workload sleeps"
    ),
    ("gpu", "idle_cpu"): Threshold(
        0.02, "ratio", 0, 1, "an interpreter that polls uses 1 % of a core; one that works uses more"
    ),
    ("gpu", "idle_pressure"): Threshold(
        0.02, "ratio", 0.001, 1, "a workload that waits 2 % of its time for memory or I/O is not asleep"
    ),
    ("gpu", "max_gap"): Threshold(
        3, "seconds", 1.5, 60, "two missed ticks: what happened in between was not observed"
    ),
    ("gpu", "forget_after"): Threshold(
        600, "seconds", 1, 86400, "a driver that is reloaded or upgraded lists its GPUs again within minutes"
    ),
    ("any", "hysteresis"): Threshold(0.5, "ratio", 0.1, 1, "a cause clears at half of what started it"),
    ("any", "surge"): Threshold(
        3, "ratio", 1, 100, "a counter counts as rising at this multiple of its own median"
    ),
    ("any", "coverage"): Threshold(
        0.90, "ratio", 0.1, 1, "from here on a delay of 0 is a fact; below it pressure speaks for the rest"
    ),
    ("any", "node"): Threshold(
        2, "ratio", 1, 10, "times a pressure threshold where only the node's is known: it is everybody's"
    ),
    ("compaction", "delay"): Threshold(
        0.05, "ratio", 0.001, 1, "share of a process' time in direct compaction"
    ),
    ("compaction", "pressure"): Threshold(
        0.10, "ratio", 0.001, 1, "PSI is diluted by busy CPUs: a gate, not a measure"
    ),
    ("compaction", "stalls"): Threshold(2, "per_second", 0.1, 1e6, "a healthy node has none for minutes"),
    ("reclaim", "delay"): Threshold(
        0.05, "ratio", 0.001, 1, "share of a process' time in direct reclaim or thrashing"
    ),
    ("reclaim", "pressure"): Threshold(0.10, "ratio", 0.001, 1, "as for compaction"),
    ("reclaim", "stalls"): Threshold(2, "per_second", 0.1, 1e6, "entries into direct reclaim, node-wide"),
    ("reclaim", "pages"): Threshold(
        100,
        "per_second",
        1,
        1e9,
        "scanned or refaulted by the workload; v1 counts failed charges of 32 pages",
    ),
    ("swap", "delay"): Threshold(0.05, "ratio", 0.001, 1, "share of a process' time in swap-in"),
    ("swap", "pages"): Threshold(100, "per_second", 1, 1e9, "pages read back from swap"),
    ("swap", "pressure"): Threshold(0.05, "ratio", 0.001, 1, "swap-in is counted whole by PSI memory"),
    ("writeback", "blocked"): Threshold(
        0.10, "ratio", 0.01, 1, "looks that found a thread held by dirty throttling"
    ),
    ("writeback", "dirty"): Threshold(
        0.80, "ratio", 0.1, 1, "writers are slowed from half-way to the limit on"
    ),
    ("writeback", "pressure"): Threshold(0.10, "ratio", 0.001, 1, "PSI io of the workload, else of the node"),
    ("nfs", "blocked"): Threshold(
        0.10, "ratio", 0.01, 1, "looks that found a thread waiting for an NFS reply"
    ),
    ("nfs", "missing"): Threshold(
        0.25, "ratio", 0.05, 1, "share of the mount's usual answers that did not come; 1 where none came"
    ),
    ("nfs", "lost"): Threshold(
        0.5, "per_second", 0.01, 1e6, "timeouts and retransmissions; a healthy mount has none for days"
    ),
    ("nfs", "response"): Threshold(
        0.05, "seconds", 0.0001, 600, "mean response; a good server answers in 1 ms"
    ),
    ("nfs", "busy"): Threshold(
        0.25, "ratio", 0.01, 1000, "seconds of response per second: requests that queue up"
    ),
    ("lustre", "blocked"): Threshold(0.10, "ratio", 0.01, 1, "looks that found a thread waiting for Lustre"),
    ("lustre", "busy"): Threshold(0.25, "ratio", 0.01, 1e6, "seconds of operations per second"),
    ("gpfs", "blocked"): Threshold(0.10, "ratio", 0.01, 1, "looks that found a thread waiting for GPFS"),
    ("gpfs", "waiter"): Threshold(
        0.5, "seconds", 0.01, 3600, "age of the oldest waiter; healthy ones end in ms"
    ),
    ("disk", "busy"): Threshold(
        0.15, "ratio", 0.01, 1, "the share of disk time that operators already alert on"
    ),
    ("disk", "latency"): Threshold(
        0.002, "seconds", 0.0001, 60, "mean of an operation; flash answers in 0.1 ms"
    ),
    ("disk", "queue"): Threshold(4, "count", 0.5, 1e5, "operations waiting on average"),
    ("disk", "pressure"): Threshold(0.10, "ratio", 0.001, 1, "PSI io of the workload, else of the node"),
    ("disk", "blocked"): Threshold(
        0.10, "ratio", 0.01, 1, "looks that found a thread waiting for a local disk"
    ),
    ("disk", "operations"): Threshold(
        10, "per_second", 0.1, 1e6, "the mean of fewer operations says nothing"
    ),
    ("cpu_throttling", "periods"): Threshold(
        0.25, "ratio", 0.01, 1, "throttled share of periods, as cAdvisor's alert"
    ),
    ("cpu_throttling", "time"): Threshold(
        0.05, "ratio", 0.001, 1, "throttled seconds per second and thread that ran"
    ),
    ("cpu_contention", "queue"): Threshold(
        0.10, "ratio", 0.001, 1, "share of time that threads waited for a CPU"
    ),
    ("cpu_contention", "pressure"): Threshold(
        0.20, "ratio", 0.001, 1, "PSI cpu of the node; a quota does not show there"
    ),
    ("numa_remote", "faults"): Threshold(0.50, "ratio", 0.05, 1, "remote share of sampled accesses"),
    ("numa_remote", "samples"): Threshold(
        50, "per_second", 1, 1e9, "hint faults; the share of fewer is chance"
    ),
    ("numa_remote", "threads"): Threshold(
        0.70, "ratio", 0.05, 1, "CPU time off the GPU's node; without any placement it is half on two nodes"
    ),
    ("numa_remote", "memory"): Threshold(
        0.70, "ratio", 0.05, 1, "bytes off the GPU's node; memory interleaved over two nodes is half off"
    ),
    ("numa_remote", "cost"): Threshold(
        0.30, "ratio", 0.01, 1, "what a remote access loses against a local one"
    ),
    ("fabric", "errors"): Threshold(1, "per_second", 0.01, 1e9, "a good link has one symbol error in hours"),
    ("fabric", "retransmissions"): Threshold(
        1, "per_second", 0.01, 1e9, "a lossless fabric sends nothing twice"
    ),
    ("fabric", "link"): Threshold(
        0.25, "ratio", 0.01, 1, "share of its own best rate that a port lacks; 1 where it is down"
    ),
    ("fabric", "loss"): Threshold(
        0.30, "ratio", 0.01, 1, "share of time that go-back-N retransmission costs"
    ),
    ("host_cpu", "thread"): Threshold(0.90, "ratio", 0.1, 1, "one thread at a full core"),
    ("host_cpu", "group"): Threshold(
        0.90, "count", 0.1, 1e4, "cores of the whole workload, which the thread is part of"
    ),
    ("host_kernel", "thread"): Threshold(0.90, "ratio", 0.1, 1, "one thread at a full core in the kernel"),
    ("host_kernel", "group"): Threshold(
        0.90, "count", 0.1, 1e4, "cores of the whole workload, which the thread is part of"
    ),
}


class Thresholds:
    """The numbers of this run. Raises KeyError for a pair that is not in DEFAULTS."""

    def __init__(self, overrides: Mapping[tuple[str, str], float] | None = None) -> None:
        self._values = {key: threshold.value for key, threshold in DEFAULTS.items()}
        for key, value in (overrides or {}).items():
            if key not in DEFAULTS:
                raise KeyError(key)
            self._values[key] = value

    def __call__(self, cause: str, signal: str) -> float:
        """Value of one threshold."""
        return self._values[cause, signal]

    def items(self) -> list[tuple[tuple[str, str], float]]:
        """All pairs and their values."""
        return list(self._values.items())
