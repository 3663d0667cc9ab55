"""Cause in the network between GPUs: InfiniBand and RoCE ports. Pure."""

from __future__ import annotations

from gpuwait.thresholds import Thresholds
from gpuwait.wait.history import History
from gpuwait.wait.host_tick import PortTick
from gpuwait.wait.tick import Tick
from gpuwait.wait.verdict import Cause, Evidence, Signal
from gpuwait.wait.weigh import Scale, weigh


def _near(tick: Tick) -> dict[str, PortTick]:
    """Ports on the nodes of the workload's GPUs, those without a known node; all where none is near."""
    ports = tick.host.ports
    near = {
        name: port for name, port in ports.items() if port.numa_node is None or port.numa_node in tick.home
    }
    return near or ports


def _lost_rate(name: str, port: PortTick, history: History) -> float | None:
    """Share of its own best rate that the port lacks; None for one that was never up (an empty cage)."""
    best = history.ports.get(name)
    if best is None:
        return None
    if not port.up:
        return 1.0
    if not best or port.bytes_per_second is None:
        return 0.0
    return max(0.0, 1 - port.bytes_per_second / best)


def _signals(port: PortTick | None, lost: float | None, scale: Scale) -> tuple[Signal, ...]:
    errors = port.errors if port else None
    again = port.retransmissions if port else None
    source = "/sys/class/infiniband/*/ports/*"
    return (
        scale.signal("errors", errors, f"{source}/counters symbol_error, link_*", "errors"),
        scale.signal("retransmissions", again, f"{source}/hw_counters", "retransmissions"),
        scale.signal("link", lost, f"{source}/{{state,rate}}", "link"),
    )


def fabric(tick: Tick, history: History, limits: Thresholds) -> Evidence:
    """A port makes errors, sends again, or is down or slower than it was."""
    scale = Scale(Cause.FABRIC, history, limits)
    best: tuple[int, float] = (-1, 0.0)
    chosen, worst, loss = "", None, None
    for name, port in _near(tick).items():
        lost = _lost_rate(name, port, history)
        fired = sum(signal.fired for signal in _signals(port, lost, scale))
        rank = (fired, (port.errors or 0.0) + (port.retransmissions or 0.0))
        if rank > best:
            best, chosen, worst, loss = rank, name, port, lost
    share = max(limits("fabric", "loss"), loss or 0.0) if best[0] > 0 else 0.0
    return weigh(Cause.FABRIC, share, _signals(worst, loss, scale), detail=chosen)
