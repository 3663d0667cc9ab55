"""Wiring: the only place that builds everything."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwait import __version__
from gpuwait.check import Inspection
from gpuwait.collectors import ALL
from gpuwait.config import Config, ConfigError
from gpuwait.explain import Recent, Report, sleeps
from gpuwait.explain.lost import lost
from gpuwait.exposition import Exposition
from gpuwait.gather import Gatherer, Outcome
from gpuwait.gpu.client import GpuClient
from gpuwait.listen import format_address, open_sockets
from gpuwait.pages import Pages
from gpuwait.settings import Settings
from gpuwait.sources import Sources
from gpuwait.strict_yaml import FileError
from gpuwait.thresholds import Thresholds
from gpuwait.wait import delays
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.live import Live
from gpuwait.wait.sampler import Sampler
from gpuwait.wait.snapshot import Snapshot
from gpuwait.wait.verdict import Verdict
from gpuwait.web import Application, Server
from gpuwait.workload import readiness
from gpuwait.workload.gpu_users import gpu_users
from gpuwait.workload.owners import Owners
from gpuwait.workload.tree import WorkloadTree

if TYPE_CHECKING:
    from gpuwait.web_door import Door

log = logging.getLogger(__name__)

#: Seconds to let the GPU reader bring its first readings before the first scrape is answered.
FIRST_READING = 3.0


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that lives as long as the program."""

    sources: Sources
    gatherer: Gatherer
    live: Live
    recent: Recent
    sampler: Sampler
    owners: Owners

    def read_gpus(self) -> None:
        """Start the readers and wait for their first readings, for commands that run once."""
        self.owners.start()
        if self.sources.gpu is not None:
            self.sources.gpu.start()
        if self.sources.gpu is not None:
            self.sources.gpu.wait_first(FIRST_READING)
            gpu_users(self.sources.gpu, self.sources.workloads)  # whose names are looked for before others
        self.owners.wait_first()

    def start(self) -> None:
        """Start the readers and the sampler, where there is one."""
        self.owners.start()
        if self.sources.gpu is not None:
            self.sources.gpu.start()
        self.sampler.start()

    def stop(self) -> None:
        """End both; takes a second at most each."""
        self.sampler.stop()
        self.owners.stop()
        if self.sources.gpu is not None:
            self.sources.gpu.stop()


def build(config: Config) -> Parts:
    """All parts of this run, not started; raises ConfigError."""
    host, options, settings = config.host(), config.collector_options(), config.settings()
    sources = Sources(host=host, options=options)
    owners = config.owners()
    sources.workloads, sources.claims = owners.tree, owners.claims
    if any(c.name == "gpu" for c in config.collectors):
        sources.gpu = GpuClient(rootfs=host.rootfs)
    limits = Thresholds(settings.thresholds)
    live, recent = Live(ledger=Ledger(), limits=limits), Recent()
    sources.wait = live if sources.gpu is not None else None

    def after(verdict: Verdict | None, snapshot: Snapshot) -> None:
        recent.add(verdict, snapshot)
        live.prices = prices(settings, snapshot)

    sampler = Sampler(sources, Engine(limits), live.ledger, live, after=after)
    gatherer = Gatherer(config.collectors, sources, deadline=config.collector_timeout)
    return Parts(sources, gatherer, live, recent, sampler, owners)


def prices(settings: Settings, snapshot: Snapshot) -> dict[tuple[int, str], float]:
    """Price per hour of each GPU that has one."""
    found = {(gpu.index, gpu.uuid): settings.price_of(gpu.model) for gpu in snapshot.gpus}
    return {key: price for key, price in found.items() if price is not None}


def serve(config: Config) -> int:
    """Run the daemon until SIGTERM or SIGINT; the exit status. Raises ConfigError."""
    parts = build(config)
    door = open_door(config.web_config_file)
    _more_files()
    try:
        sockets = open_sockets(list(config.web_listen_address))
    except OSError as error:
        raise ConfigError(f"--web.listen-address: {error.strerror}") from error
    if config.enable_delayacct:
        delays.enable(parts.sources.host)
    app = Application(
        parts.gatherer,
        (c.name for c in ALL),
        path=config.web_telemetry_path,
        max_requests=config.web_max_requests,
        pages=pages(parts, config).routes(),
        trouble=lambda: parts.sampler.stuck,
        web_config=lambda: None if door is None else door.good,
    )
    server = Server(app, sockets, config.web_max_requests, door)
    reader = parts.sources.gpu
    if reader is not None:
        signal.signal(signal.SIGUSR1, lambda *_: reader.release())
    parts.start()
    threading.Thread(target=_first, args=(parts, app), name="first", daemon=True).start()
    addresses = " ".join(format_address(s.getsockname()) for s in sockets)
    log.info("gpuwait %s listens on %s", __version__, addresses)
    try:
        server.run()
    finally:
        parts.stop()
    log.info("stopped")
    logging.shutdown()
    # A thread stuck in a dead driver or disk would hold up a regular exit for ever.
    sys.stderr.flush()
    os._exit(0)


def open_door(name: str) -> Door | None:
    """The door that the file `name` asks for, watched from now on; None for no name. Raises ConfigError."""
    if not name:
        return None
    from gpuwait.web_door import Door  # noqa: PLC0415 - only those pay who have such a file

    try:
        door = Door(name)
    except FileError as error:
        raise ConfigError(f"--web.config.file: {error}") from error
    door.start()
    return door


def _more_files() -> None:
    """Raise the soft limit of open files: the sampler keeps descriptors of the threads that it watches."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 16_384) if hard != resource.RLIM_INFINITY else 16_384
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def pages(parts: Parts, config: Config) -> Pages:
    """The pages for people."""
    return Pages(
        parts.recent,
        parts.live.history,
        lambda: parts.gatherer.gather(None, 1.0),
        reasons=lambda: {**parts.live.reasons, **({"sampler": s} if (s := parts.sampler.stuck) else {})},
        sleeps=lambda tids: sleeps(parts.sources.host, tids),
        metrics_path=config.web_telemetry_path,
    )


def _first(parts: Parts, app: Application) -> None:
    """Gather once before the first scrape, so that it finds caches warm; then be ready."""
    if parts.sources.gpu is not None:
        parts.sources.gpu.wait_first(FIRST_READING)
        gpu_users(parts.sources.gpu, parts.sources.workloads)  # whose names are looked for before others
    parts.owners.wait_first()
    parts.gatherer.gather()
    app.ready.set()


def gather_once(config: Config) -> tuple[list[Outcome], dict[str, int]]:
    """Outcomes of one scrape, and what was dropped by collector; raises ConfigError."""
    parts = build(config)
    parts.read_gpus()
    try:
        return parts.gatherer.gather(), parts.gatherer.dropped
    finally:
        parts.stop()


def inspect(config: Config) -> Inspection:
    """Outcomes of one scrape, and what this node does not give.

    Raises ConfigError.
    """
    parts = build(config)
    parts.read_gpus()
    try:
        parts.sampler.tick()
        time.sleep(0.5)
        parts.sampler.tick()
        snapshot = parts.live.snapshot
        signals = () if snapshot is None else lost(snapshot, parts.live.reasons)
        outcomes, owners = parts.gatherer.gather(), parts.owners
        told, untold = tuple(readiness.sources(owners)), tuple(readiness.missing(owners))
        return Inspection(outcomes, signals, told, untold)
    finally:
        parts.stop()


def holders(config: Config) -> Callable[[int], Sequence[str]] | None:
    """Tells the uuids of the GPUs that a process holds; None where no driver answers. Raises ConfigError."""
    reader = GpuClient(rootfs=config.host().rootfs)
    reader.start()
    try:
        reader.wait_first(FIRST_READING)
        snapshot = reader.latest().snapshot
    finally:
        reader.stop()
    if snapshot is None:
        return None
    found: dict[int, list[str]] = {}
    for device in snapshot.devices:
        for process in device.processes or ():
            found.setdefault(process.pid, []).append(device.uuid)
    return lambda pid: found.get(pid, [])


@contextlib.contextmanager
def names(config: Config, pids: Sequence[int]) -> Iterator[WorkloadTree]:
    """A tree that knows the names of these processes' owners. Raises ConfigError."""
    owners = config.owners()
    for pid in pids:
        owners.tree.owner_of_pid(pid)
    owners.lookout.start()
    try:
        owners.wait_names()
        yield owners.tree
    finally:
        owners.stop()


def once(config: Config) -> bytes:
    """One scrape in text format; raises ConfigError."""
    return Exposition().text(*gather_once(config))


def observe(config: Config, seconds: float) -> Report:
    """The report of an own sampler after so many seconds; raises ConfigError."""
    parts = build(config)
    parts.read_gpus()  # what is judged begins with the first reading, not with the start of the reader
    parts.sampler.start()
    try:
        time.sleep(seconds + 0.5)
        return pages(parts, config).report()
    finally:
        parts.stop()
