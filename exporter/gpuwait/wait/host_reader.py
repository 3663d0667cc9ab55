"""Signals of the whole node, once a second: only what the causes need, each file as often as it is worth."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from gpuwait.block import Disks
from gpuwait.host import maybe_text, names
from gpuwait.kernel.buddyinfo import parse_buddyinfo
from gpuwait.kernel.diskstats import parse_diskstats
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.lustre import MICROSECONDS, parse_stats
from gpuwait.kernel.pressure import parse_pressure
from gpuwait.kernel.settings import parse_choice, parse_number
from gpuwait.kernel.task import parse_cpulist
from gpuwait.kernel.vmstat import parse_vmstat
from gpuwait.sources import Sources
from gpuwait.wait.fabric import Fabric
from gpuwait.wait.kept import Kept
from gpuwait.wait.mounts import Mounts
from gpuwait.wait.snapshot import Disk, Host, Pressure
from gpuwait.wait.waiters import Waiters

T = TypeVar("T")

BUDDY_EVERY = 10.0
SLOW_EVERY = 60.0
MICRO, MILLI = 1_000_000, 1000
#: Beginnings of the names in vmstat that a cause or an explanation needs.
_VMSTAT = (
    *("allocstall", "compact_", "thp_fault", "pgscan_direct", "pgscan_kswapd", "pgsteal_direct", "pswp"),
    *("workingset_refault", "numa_hint", "numa_pages_migrated", "pgmajfault", "oom_kill"),
    *("nr_dirty", "nr_writeback", "nr_vmscan"),
)
_RESOURCES = ("cpu", "memory", "io")
#: As in collectors.buddyinfo: order of a huge page by its size.
_ORDERS = {"2097152": 9, "33554432": 11, "536870912": 13}
#: Of 16 MiB, and never what a huge page comes from.
_SMALL_ZONE = "DMA"
_LUSTRE = ("fs/lustre/llite",), ("fs/lustre/llite", "kernel/debug/lustre/llite")


class HostReader:
    """Used by one thread. `reasons` says by source what is not there, for people."""

    def __init__(self, sources: Sources, kept: Kept) -> None:
        self._sources = sources
        self._host = sources.host
        self._kept = kept
        self._mounts = Mounts(sources.host, sources.clock)
        self._fabric = Fabric(sources.host)
        self._disks = Disks()
        self._wanted: dict[str, bool] = {}
        self._slow_at: float | None = None
        self._buddy_at: float | None = None
        self._settings: dict[str, str] = {}
        self._unusable: dict[int, float] = {}
        self._lustre: list[str] = []
        self._cpus = 1
        self._page = resource.getpagesize()
        self.reasons: dict[str, str] = {}
        self._gpfs = False
        mmdiag = sources.options.gpfs_mmdiag
        self._waiters = Waiters(mmdiag, sources.clock) if mmdiag else None

    def read(self) -> Host:
        """Everything of now. A source that is absent or unreadable is left out."""
        now = self._sources.clock()
        if self._slow_at is None or now - self._slow_at >= SLOW_EVERY:
            self._slow_at = now
            self._look()
        if self._buddy_at is None or now - self._buddy_at >= BUDDY_EVERY:
            self._buddy_at = now
            self._unusable = self._try("buddyinfo", self._buddyinfo, {})
        nothing: dict[str, int] = {}
        vmstat = self._try("vmstat", self._vmstat, nothing)
        seconds, operations = self._lustre_sums()
        nfs = self._mounts.read()
        self._say("nfs", self._mounts.reason)
        return Host(
            vmstat=vmstat,
            pressure=self._pressure(),
            dirty_bytes=self._bytes(vmstat, "nr_dirty", "nr_writeback"),
            dirty_limit_bytes=self._bytes(vmstat, "nr_dirty_threshold"),
            unusable_ratio=self._unusable,
            settings=self._settings,
            disks=self._try("diskstats", self._diskstats, {}),
            nfs=nfs,
            fabric=self._fabric.read(now),
            lustre_seconds=seconds,
            lustre_operations=operations,
            gpfs_waiter_seconds=self._gpfs_waiter(),
            cpus=self._cpus,
        )

    def stop(self) -> None:
        """End the threads that read mountstats and ask for waiters."""
        self._mounts.stop()
        if self._waiters is not None:
            self._waiters.stop()

    def _gpfs_waiter(self) -> float | None:
        if self._waiters is None:
            self._say("gpfs", "GPFS's waiters are asked for with --collector.gpfs" if self._gpfs else "")
            return None
        age = self._waiters.age()
        self._say("gpfs", self._waiters.reason)
        return age

    def _try(self, name: str, read: Callable[[], T], absent: T) -> T:
        try:
            value = read()
        except OSError as error:
            self._say(name, f"{error.filename or name}: {error.strerror}")
            return absent
        except ParseError as error:
            self._say(name, str(error))
            return absent
        self._say(name, "")
        return value

    def _say(self, name: str, reason: str) -> None:
        if reason:
            self.reasons[name] = reason
        else:
            self.reasons.pop(name, None)

    def _text(self, file: str) -> str:
        return self._kept.read_all(f"{self._host.procfs}/{file}").decode("utf-8", "backslashreplace")

    def _vmstat(self) -> dict[str, int]:
        values = parse_vmstat(self._text("vmstat"))
        if len(self._wanted) > 4096:
            self._wanted.clear()
        wanted = self._wanted
        for name in values.keys() - wanted.keys():
            wanted[name] = name.startswith(_VMSTAT)
        return {name: value for name, value in values.items() if wanted[name]}

    def _bytes(self, vmstat: Mapping[str, int], *fields: str) -> int | None:
        values = [vmstat.get(field) for field in fields]
        return None if None in values else sum(v for v in values if v is not None) * self._page

    def _pressure(self) -> dict[str, Pressure]:
        found = {}
        for name in _RESOURCES:
            pressure = self._try("pressure", partial(self._read_pressure, name), None)
            if pressure is not None:
                # The node has no meaningful `full` for cpu: undefined before 5.13, 0 later.
                found[name] = Pressure(pressure.some) if name == "cpu" else pressure
        return found

    def _read_pressure(self, name: str) -> Pressure | None:
        return pressure_of(self._kept.text(f"{self._host.procfs}/pressure/{name}"))

    def _diskstats(self) -> dict[str, Disk]:
        rows = parse_diskstats(self._text("diskstats"))
        options = self._sources.options
        self._disks.update(self._host, rows, options.disk_devices, self._sources.clock())
        disks = {}
        for row in rows:
            if row.name in self._disks.disks:
                values = row.values()
                # Reads: operations and milliseconds in columns 0 and 3; writes 4 and 7; then the queue.
                used = [values[column] for column in (0, 4, 3, 7, 9, 10, 8)]
                if None not in used:
                    reads, writes, reading, writing, busy, weighted, flying = (v or 0 for v in used)
                    disks[row.name] = Disk(
                        reads + writes,
                        (reading + writing) / MILLI,
                        busy / MILLI,
                        weighted / MILLI,
                        flying,
                    )
        return disks

    def _buddyinfo(self) -> dict[int, float]:
        size = (self._host.maybe_sys("kernel/mm/transparent_hugepage/hpage_pmd_size") or "").strip()
        order = _ORDERS.get(size, 9)
        worst: dict[int, float] = {}
        for zone in parse_buddyinfo(self._host.maybe_proc("buddyinfo") or ""):
            ratio = zone.unusable_ratio(order)
            if ratio is not None and zone.zone != _SMALL_ZONE:
                node = int(zone.node)
                worst[node] = max(ratio, worst.get(node, 0.0))
        return worst

    def _look(self) -> None:
        """What changes by a person's hand only."""
        self._settings = self._try("settings", self._read_settings, {})
        online = self._try("cpus", lambda: self._host.maybe_sys("devices/system/cpu/online"), None)
        self._cpus = len(parse_cpulist(online or "")) or 1
        self._lustre = self._try("lustre", self._find_lustre, [])
        filesystems = self._try("filesystems", lambda: self._host.maybe_proc("filesystems"), None)
        self._gpfs = "gpfs" in (filesystems or "").split()

    def _read_settings(self) -> dict[str, str]:
        found = {}
        for file in ("enabled", "defrag"):
            text = self._host.maybe_sys(f"kernel/mm/transparent_hugepage/{file}")
            if text is not None:
                found[f"thp_{file}"] = parse_choice(text).chosen
        text = self._host.maybe_proc("sys/kernel/numa_balancing")
        if text is not None:
            found["numa_balancing"] = str(parse_number(text))
        return found

    def _find_lustre(self) -> list[str]:
        host, (below_proc, below_sys) = self._host, _LUSTRE
        bases = [f"{host.procfs}/{path}" for path in below_proc] + [
            f"{host.sysfs}/{path}" for path in below_sys
        ]
        for base in bases:
            found = [f"{base}/{name}/stats" for name in names(base)]
            if found:
                return found
        return []

    def _lustre_sums(self) -> tuple[float | None, int | None]:
        """Seconds and number of the operations that the client times."""
        microseconds = operations = 0
        timed = False
        for path in self._lustre:
            for row in parse_stats(self._try("lustre", partial(maybe_text, path), None) or ""):
                if row.unit in MICROSECONDS and row.total is not None:
                    timed = True
                    microseconds += row.total
                    operations += row.count
        return (microseconds / MICRO, operations) if timed else (None, None)


def pressure_of(text: str) -> Pressure | None:
    """Totals in seconds, None where the text has none. Raises ParseError."""
    totals = parse_pressure(text)
    if totals.some is None:
        return None
    return Pressure(totals.some / MICRO, None if totals.full is None else totals.full / MICRO)
