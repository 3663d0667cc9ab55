"""`gpuwait demo NAME --serve`: an incident over and over as live metrics, for dashboards and alerts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpuwait.collector import Collector
from gpuwait.collectors import ALL
from gpuwait.collectors.ledger import COLLECTOR as LEDGER
from gpuwait.demo import find
from gpuwait.explain import Recent
from gpuwait.gather import Gatherer
from gpuwait.host import Host
from gpuwait.listen import format_address, open_sockets
from gpuwait.metrics import Family, Sample
from gpuwait.pages import Pages
from gpuwait.scenarios import Scenario
from gpuwait.sources import Sources
from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.live import Live
from gpuwait.wait.snapshot import Gpu, Snapshot
from gpuwait.web import Application, Server

log = logging.getLogger(__name__)

#: Address unless told otherwise: nobody but this machine sees simulated metrics.
ADDRESS = "127.0.0.1:9410"
#: Times as fast as life at most: a scenario of 5 minutes in 3 s.
FASTEST = 100.0

DEMO = Family(
    "gpuwait_demo",
    "gauge",
    "Always 1: every other series of this target is simulated and says nothing of a real node.",
    "the program",
    ("scenario",),
)
_KNOWN = {family.name: family for collector in ALL for family in collector.families}
_GPU = "gpuwait_gpu_"


class Player:
    """Plays a scenario in a loop; time and ledger go on, the kernel's counters start anew each time."""

    def __init__(self, scenario: Scenario, speed: float, pause: Callable[[float], bool]) -> None:
        self.scenario = scenario
        self.live = Live(ledger=Ledger(), limits=Thresholds())
        self.recent = Recent()
        self._engine = Engine(self.live.limits)
        self._speed, self._pause = speed, pause

    def run(self) -> None:
        """Play until `pause` says to stop."""
        due = time.monotonic()
        for snapshot in self._endless():
            self.step(snapshot)
            due = max(due + 1 / self._speed, time.monotonic() - 1)
            if self._pause(max(0.0, due - time.monotonic())):
                return

    def step(self, after: Snapshot) -> None:
        """Take one snapshot as the sampler would."""
        live, before = self.live, self.live.snapshot
        verdict = None
        if before is None:
            live.ledger.see(*((gpu.index, gpu.uuid) for gpu in after.gpus))
        else:
            verdict = self._engine.judge(before, after)
            live.ledger.add(verdict)
            live.add(verdict)
        self.recent.add(verdict, after)
        live.snapshot = after
        live.ticks += 1

    def _endless(self) -> Iterator[Snapshot]:
        at = 0.0
        while True:
            for snapshot in self.scenario.snapshots():
                at += 1.0
                yield replace(snapshot, at=at)


def collector(player: Player) -> Collector:
    """Series of the replayed node: the label of the demonstration, its GPUs, and the signals it has."""
    names = {"gpuwait_gpu_devices", *_NAMES, *_HOST, *(n for n in _KNOWN if n.startswith("gpuwait_vmstat_"))}
    families = (DEMO, *(family for name, family in _KNOWN.items() if name in names))

    def collect(_: Sources) -> Iterable[Sample]:
        yield DEMO, (player.scenario.name,), 1
        snapshot = player.live.snapshot
        if snapshot is not None:
            yield from _gpus(snapshot)
            yield from _host(snapshot)

    return Collector("demo", "Series of a replayed incident.", families, collect)


_NAMES = tuple(
    f"{_GPU}{name}"
    for name in (
        "info",
        "up",
        "processes",
        "utilization_ratio",
        "busy_seconds_total",
        "observed_seconds_total",
    )
)
_HOST = (
    "gpuwait_pressure_some_seconds_total",
    "gpuwait_pressure_full_seconds_total",
    "gpuwait_fragmentation_unusable_ratio",
    "gpuwait_memory_dirty_bytes",
    "gpuwait_memory_dirty_threshold_bytes",
)


def _gpus(snapshot: Snapshot) -> Iterator[Sample]:
    yield _KNOWN["gpuwait_gpu_devices"], (), len(snapshot.gpus)
    for gpu in snapshot.gpus:
        key = (str(gpu.index), gpu.uuid)
        node = "" if gpu.numa_node is None else str(gpu.numa_node)
        yield _KNOWN[f"{_GPU}info"], (*key, "simulated", gpu.model, "", "", node), 1
        for name, value in _readings(gpu).items():
            if value is not None:
                yield _KNOWN[f"{_GPU}{name}"], key, value


def _readings(gpu: Gpu) -> dict[str, float | None]:
    return {
        "up": None if gpu.up is None else int(gpu.up),
        "processes": None if gpu.in_use is None else int(gpu.in_use),
        "utilization_ratio": gpu.utilization,
        "busy_seconds_total": gpu.busy_seconds,
        "observed_seconds_total": gpu.observed_seconds,
    }


def _host(snapshot: Snapshot) -> Iterator[Sample]:
    host = snapshot.host
    for name, count in host.vmstat.items():
        family = _KNOWN.get(f"gpuwait_vmstat_{name}_total")
        if family is not None:
            yield family, (), count
    some, full, unusable, dirty, limit = (_KNOWN[name] for name in _HOST)
    for resource, pressure in host.pressure.items():
        yield some, (resource,), pressure.some
        if pressure.full is not None and resource != "cpu":
            yield full, (resource,), pressure.full
    for node, ratio in host.unusable_ratio.items():
        yield unusable, (str(node), "Normal", "9"), ratio
    if host.dirty_bytes is not None:
        yield dirty, (), host.dirty_bytes
    if host.dirty_limit_bytes is not None:
        yield limit, (), host.dirty_limit_bytes


def serve(name: str, address: str = ADDRESS, speed: float = 1.0) -> int:
    """Serve a scenario until SIGTERM or SIGINT; 0.

    Raises UnknownScenarioError; ValueError for an address that is none or cannot be had, or for a speed out
    of range.
    """
    if not 0 < speed <= FASTEST:
        raise ValueError(f"a speed must be above 0 and at most {FASTEST:.0f}")
    scenario = find(name)
    try:
        sockets = open_sockets([address])
    except OSError as error:
        raise ValueError(f"--web.listen-address: {error.strerror}") from error
    stop = threading.Event()
    player = Player(scenario, speed, stop.wait)
    collectors = (collector(player), LEDGER)
    sources = Sources(host=Host(), wait=player.live)
    gatherer = Gatherer(collectors, sources)
    pages = Pages(player.recent, player.live.history, gatherer.gather, simulated=scenario.name)
    app = Application(gatherer, (c.name for c in collectors), pages=pages.routes())
    app.ready.set()
    threading.Thread(target=player.run, name="player", daemon=True).start()
    where = " ".join(format_address(s.getsockname()) for s in sockets)
    log.info("simulated: %s, %g times as fast as life, on http://%s/", scenario.name, speed, where)
    try:
        Server(app, sockets, 16).run()
    finally:
        stop.set()
    return 0
