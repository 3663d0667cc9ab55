"""Wiring: the only place that builds everything."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time

from gpuwait import __version__
from gpuwait.collectors import ALL
from gpuwait.config import Config, ConfigError
from gpuwait.exposition import Exposition
from gpuwait.gather import Gatherer, Outcome
from gpuwait.gpu.client import GpuClient
from gpuwait.listen import format_address, open_sockets
from gpuwait.sources import Sources
from gpuwait.web import Application, Server
from gpuwait.workload.tree import WorkloadTree

log = logging.getLogger(__name__)

#: Seconds to let the GPU reader bring its first readings before the first scrape is answered.
FIRST_READING = 3.0


def build(config: Config) -> tuple[Sources, Gatherer]:
    """Sources and gatherer of this run; raises ConfigError."""
    host = config.host()
    options = config.collector_options()
    sources = Sources(
        host=host, options=options, workloads=WorkloadTree(host, time.monotonic, options.cgroups)
    )
    if any(c.name == "gpu" for c in config.collectors):
        sources.gpu = GpuClient(rootfs=host.rootfs)
    return sources, Gatherer(config.collectors, sources, deadline=config.collector_timeout)


def serve(config: Config) -> int:
    """Run the daemon until SIGTERM or SIGINT; the exit status. Raises ConfigError."""
    sources, gatherer = build(config)
    try:
        sockets = open_sockets(list(config.web_listen_address))
    except OSError as error:
        raise ConfigError(f"--web.listen-address: {error.strerror}") from error
    app = Application(
        gatherer,
        (c.name for c in ALL),
        path=config.web_telemetry_path,
        max_requests=config.web_max_requests,
    )
    server = Server(app, sockets, config.web_max_requests)
    if sources.gpu is not None:
        reader = sources.gpu
        reader.start()
        signal.signal(signal.SIGUSR1, lambda *_: reader.release())
    threading.Thread(target=_first, args=(sources, gatherer, app), name="first", daemon=True).start()
    addresses = " ".join(format_address(s.getsockname()) for s in sockets)
    log.info("gpuwait %s listens on %s", __version__, addresses)
    try:
        server.run()
    finally:
        if sources.gpu is not None:
            sources.gpu.stop()
    log.info("stopped")
    logging.shutdown()
    # A thread stuck in a dead driver or disk would hold up a regular exit for ever.
    sys.stderr.flush()
    os._exit(0)


def _first(sources: Sources, gatherer: Gatherer, app: Application) -> None:
    """Gather once before the first scrape, so that it finds caches warm; then be ready."""
    if sources.gpu is not None:
        sources.gpu.wait_first(FIRST_READING)
    gatherer.gather()
    app.ready.set()


def gather_once(config: Config) -> tuple[list[Outcome], dict[str, int]]:
    """Outcomes of one scrape, and what was dropped by collector; raises ConfigError."""
    sources, gatherer = build(config)
    if sources.gpu is not None:
        sources.gpu.start()
        sources.gpu.wait_first(FIRST_READING)
    try:
        return gatherer.gather(), gatherer.dropped
    finally:
        if sources.gpu is not None:
            sources.gpu.stop()


def once(config: Config) -> bytes:
    """One scrape in text format; raises ConfigError."""
    return Exposition().text(*gather_once(config))
