"""`gpuwait demo NAME --serve`: an incident over and over as live metrics, for dashboards and alerts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpuwait.collector import Collector
from gpuwait.demo import find
from gpuwait.demo_series import FAMILIES, REAL, series
from gpuwait.explain import Recent
from gpuwait.gather import Gatherer
from gpuwait.host import Host, label
from gpuwait.listen import format_address, open_sockets
from gpuwait.metrics import Family, Sample
from gpuwait.pages import Pages
from gpuwait.scenarios import Scenario
from gpuwait.scenarios.rates import STORY
from gpuwait.settings import DEAREST
from gpuwait.sources import Sources
from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.live import Live
from gpuwait.wait.snapshot import Key, Snapshot
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


class Player:
    """Plays a scenario in a loop; time and ledger go on, the kernel's counters start anew each time."""

    def __init__(
        self,
        scenario: Scenario,
        speed: float,
        pause: Callable[[float], bool],
        workload: Key = STORY,
        price: float | None = None,
    ) -> None:
        self.scenario = scenario
        self.live = Live(ledger=Ledger(), limits=Thresholds())
        self.recent = Recent()
        self._engine = Engine(self.live.limits)
        self._speed, self._pause = speed, pause
        self._workload, self._price = workload, price

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
            keys = [(gpu.index, gpu.uuid) for gpu in after.gpus]
            live.ledger.see(*keys)
            live.prices = {} if self._price is None else dict.fromkeys(keys, self._price)
        else:
            verdict = self._engine.judge(before, after)
            live.ledger.add(verdict)
            live.add(verdict)
        self.recent.add(verdict, after)
        live.snapshot = after
        live.cpu_seconds = time.thread_time()
        live.ticks += 1

    def _endless(self) -> Iterator[Snapshot]:
        at = 0.0
        while True:
            for snapshot in self.scenario.snapshots():
                at += 1.0
                yield replace(self._owned(snapshot), at=at)

    def _owned(self, snapshot: Snapshot) -> Snapshot:
        """The same, with the workload of the command line in the place of the story's."""
        names = {STORY: self._workload}
        gpus = (
            replace(gpu, workloads=tuple(names.get(key, key) for key in gpu.workloads))
            for gpu in snapshot.gpus
        )
        loads = {names.get(key, key): load for key, load in snapshot.workloads.items()}
        return replace(snapshot, gpus=tuple(gpus), workloads=loads)


def collector(player: Player) -> Collector:
    """Series of the replayed node: the label of the demonstration, its GPUs, and the signals it has."""

    def collect(_: Sources) -> Iterable[Sample]:
        yield DEMO, (player.scenario.name,), 1
        snapshot = player.live.snapshot
        if snapshot is not None:
            yield from series(snapshot)

    return Collector("demo", "Series of a replayed incident.", (DEMO, *FAMILIES), collect)


def owner(text: str) -> Key:
    """A workload as it is written on the command line: slurm/JOB or pod/NAMESPACE/POD. Raises ValueError."""
    match text.split("/"):
        case ["slurm", job] if job.isascii() and job.isdigit():
            return "slurm", "", label(job), ""
        case ["pod", namespace, pod] if namespace and pod:
            return "pod", label(namespace), label(pod), STORY[3]
    raise ValueError(f"--workload: {text[:60]!r} is neither slurm/JOB nor pod/NAMESPACE/POD")


def serve(
    name: str,
    address: str = ADDRESS,
    speed: float = 1.0,
    workload: str | None = None,
    price: float | None = None,
) -> int:
    """Serve a scenario until SIGTERM or SIGINT; 0.

    workload: who holds the story's GPUs, so that several demonstrations are nodes of one job; see `owner`.
    price:    of a GPU and hour; None: no series about money.
    Raises UnknownScenarioError; ValueError for an address that is none or cannot be had, for a speed or a
    price out of range, or for what is no workload.
    """
    if not 0 < speed <= FASTEST:
        raise ValueError(f"a speed must be above 0 and at most {FASTEST:.0f}")
    if price is not None and not 0 <= price <= DEAREST:
        raise ValueError(f"--price: must be a number from 0 to {DEAREST:g}")
    scenario = find(name)
    try:
        sockets = open_sockets([address])
    except OSError as error:
        raise ValueError(f"--web.listen-address: {error.strerror}") from error
    stop = threading.Event()
    player = Player(scenario, speed, stop.wait, owner(workload) if workload else STORY, price)
    collectors = (collector(player), *REAL)
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
