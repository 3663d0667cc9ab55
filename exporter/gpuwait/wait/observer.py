"""Snapshots of the host: puts together what the readers found. One that fails costs its part of the tick."""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import TypeVar

from gpuwait.sources import Sources
from gpuwait.wait.delays import Coverage, DelayClient, Delays
from gpuwait.wait.discovery import Discovery, Watched
from gpuwait.wait.gpu_view import GpuView, Readings
from gpuwait.wait.host_reader import HostReader
from gpuwait.wait.kept import Kept
from gpuwait.wait.snapshot import Gpu, Host, Key, Snapshot, Workload
from gpuwait.wait.threads import ThreadReader
from gpuwait.wait.workload_reader import Counters, WorkloadReader

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Processes asked for their delays in a tick: each costs 3 to 13 us.
MOST_GROUPS = 1024
COVERAGE_EVERY = 10.0
#: A quarter of the open files that this process may have, of these a quarter for other files than threads'.
_SHARE, _OTHERS = 4, 4


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Observer:
    """Owns the readers. Used by one thread, but for `at`.

    reasons: by source, why it is not there.
    skipped: threads left out at the last pass.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        delays: DelayClient | None = None,
        boot_seconds: Callable[[], float] = _boot_seconds,
    ) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE
        self._files = Kept(files // _OTHERS)
        self._clock = sources.clock
        self._host = HostReader(sources, self._files)
        self._view = GpuView(sources.gpu, sources.host, sources.clock, sources.claims)
        self._discovery = Discovery(sources.host, sources.workloads, sources.clock)
        self._threads = ThreadReader(sources.host, files - files // _OTHERS, sources.clock)
        self._counters = WorkloadReader(self._files, sources.clock)
        self._client = delays or DelayClient(sources.host, sources.clock)
        self._coverage = Coverage(sources.host, boot_seconds)
        self._covered_at: float | None = None
        self._delays: dict[int, Delays] = {}
        self._turn = 0
        self._faults: dict[str, str] = {}
        self._failed: dict[str, str] = {}

        self._in_threads = False

    @property
    def at(self) -> str:
        """The file that is being read, or was read last; from any thread."""
        return self._threads.at if self._in_threads else self._files.at

    @property
    def skipped(self) -> int:
        """Threads left out at the last pass."""
        return self._threads.skipped

    @property
    def reasons(self) -> dict[str, str]:
        """By source, why it is not there or failed."""
        found = dict(self._host.reasons)
        if self._client.reason:
            found["taskstats"] = self._client.reason
        elif not self._coverage.on:
            found["taskstats"] = "kernel.task_delayacct is 0: delays are not counted"
        if self._threads.hidden:
            found["wchan"] = self._threads.hidden
        return {**found, **self._faults}

    def starved(self, line: float) -> set[Key]:
        """Workloads of the GPUs whose last reading, newer than the last verdict, is below the line."""
        found: set[Key] = set()
        for device in self._view.readings().devices:
            if device.utilization_ratio is not None and device.utilization_ratio < line:
                keys = (self._discovery.key_of(process.pid) for process in device.processes or ())
                found.update(key for key in keys if key is not None)
        return found

    def look(self, urgent: set[Key]) -> None:
        """Look at the states of the threads of these workloads."""
        self._part("threads", lambda: self._pass(urgent, whole=False), None)

    def snapshot(self, urgent: Container[Key] = ()) -> Snapshot:
        """Everything of now; urgent: workloads whose GPUs wait."""
        host = self._part("host", self._host.read, Host())
        readings = self._part("gpus", self._view.readings, Readings((), fresh=False))
        self._part("processes", lambda: self._discover(readings), None)
        self._part("threads", lambda: self._pass(urgent, whole=True), None)
        watched = self._discovery.workloads
        self._part("taskstats", self._ask, None)
        workloads = {
            key: self._part("workloads", partial(self._workload, found), Workload())
            for key, found in watched.items()
        }
        nothing: tuple[Gpu, ...] = ()
        gpus = self._part("gpus", lambda: self._view.gpus(readings, self._discovery.key_of), nothing)
        self._settle()
        return Snapshot(self._clock(), host, gpus, workloads)

    def stop(self) -> None:
        """Close what is open."""
        self._host.stop()
        self._client.close()
        self._files.close_all()
        self._threads.close()

    def _part(self, name: str, read: Callable[[], T], absent: T) -> T:
        try:
            return read()
        except Exception as error:  # a fault in one reader must not end the ledger
            text = f"{type(error).__name__}: {error}"[:200]
            if name not in self._failed and self._faults.get(name) != text:
                log.debug("sampler: %s", name, exc_info=True)
            self._failed.setdefault(name, text)
            return absent

    def _settle(self) -> None:
        """Log which parts failed or work again since the snapshot before."""
        failed, self._failed = self._failed, {}
        for name, text in failed.items():
            if self._faults.get(name) != text:
                log.warning("sampler: %s cannot be read: %s", name, text)
        for name in self._faults.keys() - failed.keys():
            log.info("sampler: %s can be read again", name)
        self._faults = failed

    def _discover(self, readings: Readings) -> None:
        if self._discovery.update(readings.holders):
            found = self._discovery.workloads.values()
            self._threads.choose(found)
            self._counters.choose(found)
            present = {pid for watched in found for pid in watched.pids}
            self._delays = {pid: delays for pid, delays in self._delays.items() if pid in present}
            self._coverage.keep(present)

    def _pass(self, urgent: Container[Key], *, whole: bool) -> None:
        self._in_threads = True
        try:
            if self._threads.read(urgent, whole=whole):
                self._discovery.vanished()
        finally:
            self._in_threads = False

    def _ask(self) -> None:
        """Delays of the processes that ran: the others' are what they were."""
        now = self._clock()
        if self._covered_at is None or now - self._covered_at >= COVERAGE_EVERY:
            self._covered_at = now
            self._coverage.look()
            if not self._coverage.on or not self._discovery.workloads:
                self._client.read([os.getpid()])  # so that `check` can say whether it would work
        if not self._coverage.on:
            self._delays = {}
            return
        wanted: list[int] = []
        for key, watched in self._discovery.workloads.items():
            ran = self._threads.ran(key)
            wanted += [pid for pid in watched.pids if pid in ran or pid not in self._delays]
        if len(wanted) > MOST_GROUPS:
            self._turn = (self._turn + MOST_GROUPS) % len(wanted)
            wanted = (wanted[self._turn :] + wanted[: self._turn])[:MOST_GROUPS]
        if not wanted:
            return
        found = self._client.read(wanted)
        if not self._client.available:
            self._delays = {}
            return
        self._coverage.add(found)
        self._delays.update(found)

    def _workload(self, watched: Watched) -> Workload:
        key = watched.key
        threads, count, looks, blocked = self._threads.take(key)
        counters = self._part("cgroup", lambda: self._counters.read(watched), Counters())
        starts = dict(self._threads.processes(key))
        covered = self._coverage.covered(starts.items())
        known = self._delays
        # One that is not accounted shows 0 for ever: no reading, not a good one.
        delays: Mapping[int, Delays] = {pid: known[pid] for pid in sorted(covered) if pid in known}
        share = len(covered) / len(starts) if starts and self._client.available else None
        return Workload(
            threads=threads,
            thread_count=count,
            looks=looks,
            blocked=blocked,
            delays=delays,
            covered=share,
            pressure=counters.pressure,
            cpu_seconds=counters.cpu_seconds,
            periods=counters.periods,
            throttled_periods=counters.throttled_periods,
            throttled_seconds=counters.throttled_seconds,
            quota_cores=counters.quota_cores,
            reclaim_pages=counters.reclaim_pages,
            refaults=counters.refaults,
            memory_by_node=counters.memory_by_node,
        )
