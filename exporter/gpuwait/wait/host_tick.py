"""What happened on the node between two snapshots: rates, shares and means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpuwait.wait.delta import rate, ratio, rise, share
from gpuwait.wait.snapshot import Disk, FabricPort, Host, Nfs

#: allocstall_<zone> is one counter, split by zone.
_ALLOCSTALL = "allocstall"


@dataclass(frozen=True, slots=True)
class DiskTick:
    """One disk: share of the tick it was busy, operations per second, their mean seconds, mean queue."""

    busy: float
    operations: float
    latency: float | None
    queue: float


@dataclass(frozen=True, slots=True)
class NfsTick:
    """One NFS mount.

    sends, receives: requests and answers per second.
    silent:    requests were in flight at the end and no answer came during the tick.
    in_flight: at the end. Its level drifts (a retransmission counts as a send).
    grown:     more in flight than at the start, or as many.
    response:  mean seconds of the operations that completed; None where none did.
    busy:      response seconds per second.
    lost:      timeouts and retransmissions per second.
    """

    sends: float
    receives: float
    silent: bool
    in_flight: int
    grown: bool
    response: float | None
    busy: float
    lost: float


@dataclass(frozen=True, slots=True)
class PortTick:
    """One fabric port at the end of the tick, and errors and retransmissions per second."""

    up: bool
    bytes_per_second: float | None
    errors: float | None
    retransmissions: float | None
    numa_node: int | None


def _disk(before: Disk, after: Disk, dt: float) -> DiskTick | None:
    """Differences of one disk; None after a reset."""
    busy = share(before.busy_seconds, after.busy_seconds, dt)
    queue = rate(before.weighted_seconds, after.weighted_seconds, dt)
    operations = rise(before.operations, after.operations)
    seconds = rise(before.operation_seconds, after.operation_seconds)
    if busy is None or queue is None or operations is None or seconds is None:
        return None
    return DiskTick(busy, operations / dt, seconds / operations if operations else None, queue)


def _nfs(before: Nfs, after: Nfs, dt: float) -> NfsTick | None:
    """Differences of one mount; None after a remount."""
    sends = rise(before.sends, after.sends)
    receives = rise(before.receives, after.receives)
    operations = rise(before.operations, after.operations)
    seconds = rise(before.response_seconds, after.response_seconds)
    if sends is None or receives is None or operations is None or seconds is None:
        return None
    again = (rise(before.transmissions, after.transmissions) or 0.0) - operations
    timeouts = rise(before.timeouts, after.timeouts) or 0.0
    return NfsTick(
        sends=sends / dt,
        receives=receives / dt,
        silent=receives == 0 and after.in_flight > 0,
        in_flight=after.in_flight,
        grown=after.in_flight >= before.in_flight,
        response=seconds / operations if operations else None,
        busy=seconds / dt,
        lost=(max(0.0, again) + timeouts) / dt,
    )


def _port(before: FabricPort, after: FabricPort, dt: float) -> PortTick:
    return PortTick(
        after.up,
        after.bytes_per_second,
        rate(before.errors, after.errors, dt),
        rate(before.retransmissions, after.retransmissions, dt),
        after.numa_node,
    )


class HostTick:
    """Differences of one node over `dt` seconds; each is worked out when it is first asked for."""

    def __init__(self, before: Host, after: Host, dt: float) -> None:
        self.before = before
        self.after = after
        self.dt = dt

    def rate(self, counter: str) -> float | None:
        """Growth per second of a vmstat counter, or of `allocstall` summed over zones."""
        if counter == _ALLOCSTALL:
            return self._allocstall
        return rate(self.before.vmstat.get(counter), self.after.vmstat.get(counter), self.dt)

    @cached_property
    def _allocstall(self) -> float | None:
        zones = [name for name in self.after.vmstat if name.startswith("allocstall_")]
        grown = [rise(self.before.vmstat.get(name), self.after.vmstat[name]) for name in zones]
        if not grown:
            plain = _ALLOCSTALL  # one counter before 4.10
            return rate(self.before.vmstat.get(plain), self.after.vmstat.get(plain), self.dt)
        known = [value for value in grown if value is not None]
        return sum(known) / self.dt if len(known) == len(grown) else None

    def pressure(self, resource: str) -> float | None:
        """Share of the tick in which some task of the node waited."""
        before, after = self.before.pressure.get(resource), self.after.pressure.get(resource)
        return share(before.some, after.some, self.dt) if before and after else None

    @cached_property
    def dirty(self) -> float | None:
        """Dirty pages and those under writeback against the limit, at the end."""
        return ratio(self.after.dirty_bytes, self.after.dirty_limit_bytes)

    @cached_property
    def remote_hints(self) -> tuple[float, float] | None:
        """Sampled accesses per second and the share of them that was remote; None with balancing off."""
        if self.after.settings.get("numa_balancing", "0") in {"0", ""}:
            return None
        faults, local = self.rate("numa_hint_faults"), self.rate("numa_hint_faults_local")
        if faults is None or local is None:
            return None
        return faults, max(0.0, 1 - local / faults) if faults > 0 else 0.0

    @cached_property
    def disks(self) -> dict[str, DiskTick]:
        """By device; one that came, went or was reset is left out."""
        return {
            name: tick
            for name, after in self.after.disks.items()
            if (before := self.before.disks.get(name)) and (tick := _disk(before, after, self.dt))
        }

    @cached_property
    def nfs(self) -> dict[str, NfsTick]:
        """By mount point; one that came, went or was mounted again is left out."""
        return {
            mount: tick
            for mount, after in self.after.nfs.items()
            if (before := self.before.nfs.get(mount)) and (tick := _nfs(before, after, self.dt))
        }

    @cached_property
    def ports(self) -> dict[str, PortTick]:
        """By port name; one that came or went is left out."""
        return {
            name: _port(self.before.fabric[name], after, self.dt)
            for name, after in self.after.fabric.items()
            if name in self.before.fabric
        }

    @cached_property
    def lustre(self) -> float | None:
        """Seconds of operations per second, all file systems together."""
        return rate(self.before.lustre_seconds, self.after.lustre_seconds, self.dt)
