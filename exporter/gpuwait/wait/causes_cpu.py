"""Causes in CPU time and placement: throttling, contention, remote memory, the host code itself. Pure."""

from __future__ import annotations

from gpuwait.thresholds import Thresholds
from gpuwait.wait.history import History
from gpuwait.wait.tick import ThreadTick, Tick
from gpuwait.wait.verdict import Cause, Evidence, Signal
from gpuwait.wait.weigh import Scale, weigh

_STAT = "/proc/PID/task/TID/stat"


def _quota(tick: Tick, scale: Scale) -> tuple[Signal, Signal]:
    periods = tick.load.throttled_periods if tick.load else None
    time = tick.load.throttled_time if tick.load else None
    return (
        scale.signal("periods", periods, "cgroup cpu.stat nr_throttled", "periods"),
        scale.signal("time", time, "cgroup cpu.stat throttled_usec", "time"),
    )


def cpu_throttling(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """The CPU limit of the workload holds it back."""
    signals = _quota(tick, Scale(Cause.CPU_THROTTLING, history, limits))
    return weigh(Cause.CPU_THROTTLING, signals[1].value, signals)


def cpu_contention(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Threads wait in the run queue because the node has too few CPUs, not because of a limit."""
    scale = Scale(Cause.CPU_CONTENTION, history, limits)
    # A throttled thread waits in the run queue as well.
    quota = all(signal.fired for signal in _quota(tick, Scale(Cause.CPU_THROTTLING, history, limits)))
    queue = tick.load.queue if tick.load else None
    pressure = tick.host.pressure("cpu")
    signals = (
        scale.signal("queue", queue, "/proc/PID/task/TID/schedstat", "threads", counts=not quota),
        scale.signal("pressure", pressure, "/proc/pressure/cpu", "pressure"),
    )
    return weigh(Cause.CPU_CONTENTION, queue, signals)


def numa_remote(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Threads and memory of the workload are on another NUMA node than its GPU."""
    scale = Scale(Cause.NUMA_REMOTE, history, limits)
    load = tick.load if tick.home else None
    memory = load.far_memory(tick.home) if load else None
    threads = load.far_cpu(tick.home) if load else None
    rate, remote = tick.host.remote_hints or (0.0, None)
    sampled = rate >= limits("numa_remote", "samples")
    # A workload that hardly runs loses nothing by where it runs.
    runs = load is not None and (load.cpu_known or 0.0) >= limits("gpu", "idle_cpu")
    signals = (
        scale.signal("faults", remote, "/proc/vmstat numa_hint_faults", "faults", counts=sampled),
        scale.signal("threads", threads, f"{_STAT} processor", "threads", counts=runs),
        scale.signal("memory", memory, "cgroup memory.numa_stat", "memory", counts=runs),
    )
    # Distance costs only while code runs: a thread that waits for a disk loses nothing to it.
    running = max((t.user + t.system for t in load.threads), default=0.0) if load else 0.0
    share = limits("numa_remote", "cost") * (memory or 0.0) * min(1.0, running)
    return weigh(Cause.NUMA_REMOTE, share, signals, frozenset({"memory"}))


def _busiest(tick: Tick, *, system: bool) -> ThreadTick | None:
    """The thread with most CPU time among those that spend most of it in this mode."""
    threads = tick.load.threads if tick.load else ()
    chosen = [thread for thread in threads if (thread.system > thread.user) is system]
    return max(chosen, key=lambda thread: thread.user + thread.system, default=None)


def _full_core(tick: Tick, cause: Cause, history: History, limits: Thresholds) -> Evidence:
    """One thread has a whole CPU; the cgroup's own counter must agree, where the workload has a cgroup."""
    scale = Scale(cause, history, limits)
    thread = _busiest(tick, system=cause is Cause.HOST_KERNEL)
    known = tick.load is not None and bool(tick.load.after.threads)
    value = min(1.0, thread.user + thread.system) if thread else (0.0 if known else None)
    own = tick.load is not None and tick.load.cpu is not None
    source = "cgroup cpu.stat usage_usec" if own else f"{_STAT}, summed over the process tree"
    signals = (
        scale.signal("thread", value, f"{_STAT} utime, stime", "threads"),
        scale.signal("group", tick.load.cpu_known if tick.load else None, source, "counter"),
    )
    return weigh(cause, value, signals, detail=thread.name if thread else "")


def host_cpu(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """One thread of the workload computes at a full core (a GIL, a tokeniser) and the GPU waits for it."""
    return _full_core(tick, Cause.HOST_CPU, history, limits)


def host_kernel(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """One thread of the workload is at a full core inside the kernel, for none of the known reasons."""
    return _full_core(tick, Cause.HOST_KERNEL, history, limits)
