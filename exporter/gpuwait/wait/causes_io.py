"""Causes in storage: writeback, NFS, Lustre, GPFS, local disk. Pure."""

from __future__ import annotations

from gpuwait.thresholds import Thresholds
from gpuwait.wait.causes_memory import swap
from gpuwait.wait.history import History
from gpuwait.wait.host_tick import DiskTick, NfsTick
from gpuwait.wait.snapshot import WaitClass
from gpuwait.wait.tick import Tick
from gpuwait.wait.verdict import Cause, Evidence, Signal
from gpuwait.wait.weigh import Scale, weigh

_THREADS = frozenset({"threads"})
_COUNTER = frozenset({"counter"})
_STATES = "/proc/PID/task/TID/{stat,wchan}"

#: Waits that a local disk can cause. OTHER: the wait channel may be unreadable.
_LOCAL = (WaitClass.LOCAL_IO, WaitClass.PAGE, WaitClass.DIRTY, WaitClass.OTHER)

#: Times its usual level that the number of requests in flight has when a server stops answering.
_PILE = 4

#: Looks are few: the share that they give is this coarse.
_COARSE = 0.1

#: Answers per second of a mount that is read from in earnest: then a page that does not come is likely its.
_READ_FROM = 10

#: Share of a tick that a thread runs at most while it only tries to reach the server, every 3 s.
_RETRIES = 0.02

#: Seconds per request at which a local disk can be what a thread waits for all the tick.
_HANGS = 0.5


def _io_share(tick: Tick, pressure: Signal, blocked: float | None) -> float | None:
    """Pressure of the workload, else the looks that found a thread blocked, else the node's pressure."""
    own = tick.load.pressure("io") if tick.load else None
    if own is not None:
        return own
    return blocked if blocked is not None else pressure.value


def writeback(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Writers are held back, or reads queue behind them, because dirty pages are at their limit."""
    scale = Scale(Cause.WRITEBACK, history, limits)
    pressure = scale.pressure(tick, "io")
    local = tick.looked(*_LOCAL) is not False
    signals = (
        scale.signal("blocked", tick.blocked(WaitClass.DIRTY), _STATES, "threads"),
        scale.signal("dirty", tick.host.dirty, "/proc/meminfo Dirty, Writeback", "counter", counts=local),
        pressure,
    )
    share = _io_share(tick, pressure, tick.blocked(WaitClass.DIRTY, WaitClass.LOCAL_IO, WaitClass.PAGE))
    return weigh(Cause.WRITEBACK, share, signals, frozenset({"threads", "counter"}))


def _shut_down(tick: Tick, mount: str, history: History) -> bool:
    """Tell whether the server of a mount that does not answer seems to have gone in order.

    It answered what it had been asked and refuses connections, so that nothing is in flight and nothing is
    sent (seen with 3 and 4.2 on 6.1). Then a thread that waits all the tick must speak for the mount. That
    must usually answer, unless no mount answers anything.
    """
    stuck = tick.load.stuck if tick.load else {}
    usual = history.medians(f"nfs {mount}") or 0.0
    quiet = not any(other.receives for other in tick.host.nfs.values())
    most = _RETRIES if quiet or Cause.NFS in history.active else 0.0
    if stuck.get(WaitClass.NFS, 1.0) <= most:
        return quiet or usual > 0
    if stuck.get(WaitClass.PAGE, 1.0) > 0 or usual < _READ_FROM:
        return False
    # A page may also be on a local disk that hangs.
    disks = tick.host.disks.values()
    return not any(one.queue > 0 and (one.latency is None or one.latency >= _HANGS) for one in disks)


def _missing(tick: Tick, mount: str, nfs: NfsTick, blocked: float, history: History) -> float:
    """Share of the usual answers that did not come.

    A request lost for ever leaves the level of those in flight too high, so an idle mount is silent without
    trouble: it must be sent to, or usually answer, or have more in flight than usual.
    """
    usual = history.medians(f"nfs {mount}")
    level = history.medians(f"nfs in flight {mount}") or 0.0
    if nfs.silent and (usual is None or usual > 0 or nfs.sends > 0 or nfs.in_flight > level):
        return 1.0
    if not nfs.receives:
        return 1.0 if _shut_down(tick, mount, history) else 0.0
    # The first part of an outage: answers came, then no more; requests pile up, and threads wait as long as
    # answers miss. Without these two it is a workload that asks for less.
    if not usual or not nfs.grown or nfs.in_flight <= _PILE * max(1.0, level):
        return 0.0
    missing = max(0.0, 1 - nfs.receives / usual)
    return missing if blocked + _COARSE >= missing else 0.0


def _nfs_signals(
    tick: Tick, mount: str, blocked: float, scale: Scale, history: History
) -> tuple[Signal, ...]:
    """What one mount shows. `blocked`: looks that found a thread waiting for NFS."""
    nfs = tick.host.nfs[mount]
    missing = _missing(tick, mount, nfs, blocked, history)
    slow = nfs.response is not None and nfs.response >= scale("response")
    source = "/proc/1/mountstats"
    return (
        scale.signal("missing", missing, f"{source} xprt sends, recvs", "network"),
        scale.signal("response", nfs.response, f"{source} rtt", "counter", counts=nfs.busy >= scale("busy")),
        scale.signal("busy", nfs.busy, f"{source} rtt", "counter", counts=slow),
        scale.signal("lost", nfs.lost, f"{source} timeouts, transmissions", "counter"),
    )


def nfs(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Threads wait for an NFS server. In a total outage only their state and the missing answers show it."""
    scale = Scale(Cause.NFS, history, limits)
    plain = tick.blocked(WaitClass.NFS)
    either = tick.blocked(WaitClass.NFS, WaitClass.PAGE)
    best: tuple[tuple[int, float], str, tuple[Signal, ...]] = ((-1, 0.0), "", ())
    for mount, data in tick.host.nfs.items():
        signals = _nfs_signals(tick, mount, either or 0.0, scale, history)
        groups = {signal.group for signal in signals if signal.fired}
        rank = (len(groups), data.busy + data.silent)
        if rank > best[0]:
            best = rank, mount, signals
    (fired, _), mount, signals = best
    # A page being read says NFS or disk: it speaks for NFS only while a mount is in trouble.
    blocked = either if fired > 0 else plain
    threads = scale.signal("blocked", blocked, _STATES, "threads")
    needs = frozenset({"network", "counter"})
    # Whose threads are known and do not wait for NFS does not suffer from it, whatever the mounts say.
    known = (_THREADS, needs) if blocked is not None else (needs,)
    share = blocked if blocked is not None else tick.host.pressure("io")
    return weigh(Cause.NFS, share, (threads, *signals), *known, detail=mount)


def lustre(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Threads wait in the Lustre client, whose operations take long."""
    scale = Scale(Cause.LUSTRE, history, limits)
    blocked = tick.blocked(WaitClass.LUSTRE)
    signals = (
        scale.signal("blocked", blocked, _STATES, "threads"),
        scale.signal("busy", tick.host.lustre, "lustre llite, mdc, osc stats", "counter"),
    )
    return weigh(Cause.LUSTRE, blocked, signals)


def gpfs(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """Threads wait in the GPFS client, which itself waits for a server."""
    scale = Scale(Cause.GPFS, history, limits)
    blocked = tick.blocked(WaitClass.GPFS)
    signals = (
        scale.signal("blocked", blocked, _STATES, "threads"),
        scale.signal("waiter", tick.host.after.gpfs_waiter_seconds, "GPFS waiters", "counter"),
    )
    return weigh(Cause.GPFS, blocked, signals)


def _disk_signals(disk: DiskTick | None, scale: Scale, limits: Thresholds) -> tuple[Signal, ...]:
    """What one disk shows. Busy is no trouble by itself: flash at 100 % may answer in 0.1 ms."""
    real = disk is not None and disk.operations >= limits("disk", "operations")
    latency = disk.latency if disk else None
    queue = disk.queue if disk else None
    busy = disk.busy if disk else None
    loaded = busy is not None and busy >= scale("busy")
    slow = latency is not None and real and latency >= scale("latency")
    queued = queue is not None and queue >= scale("queue")
    source = "/proc/diskstats"
    return (
        scale.signal("busy", busy, f"{source} io_ticks", "counter", counts=slow or queued),
        scale.signal("latency", latency, f"{source} ticks / operations", "counter", counts=loaded and real),
        scale.signal("queue", queue, f"{source} time_in_queue", "counter", counts=loaded),
    )


def disk(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """A local disk is slow or has a queue, and the workload waits for I/O."""
    scale = Scale(Cause.DISK, history, limits)
    device, worst, rank = "", None, (False, -1.0)
    for name, data in tick.host.disks.items():
        fired = any(signal.fired for signal in _disk_signals(data, scale, limits))
        if (fired, data.queue) > rank:
            device, worst, rank = name, data, (fired, data.queue)
    # PSI counts buffered NFS reads too: no thread in a local wait means that it is not the disk.
    local = tick.looked(*_LOCAL) is not False
    signals = (
        *_disk_signals(worst, scale, limits),
        scale.pressure(tick, "io", counts=local),
        scale.signal("blocked", tick.blocked(WaitClass.LOCAL_IO, WaitClass.PAGE), _STATES, "threads"),
    )
    share = _io_share(tick, signals[-2], signals[-1].value)
    # Waits for swap are I/O pressure too, and the disk is busy with them.
    swapped = swap(tick, history, limits)
    if share is not None and swapped.active:
        share -= swapped.share
    return weigh(Cause.DISK, share, signals, _COUNTER, detail=device)
