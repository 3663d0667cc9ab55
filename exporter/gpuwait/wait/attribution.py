"""Which causes hold for a workload in one tick, with the memory that hysteresis and surges need. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuwait.thresholds import Thresholds
from gpuwait.wait.causes import CAUSES, LAST_RESORT, LEARNT
from gpuwait.wait.history import History, Medians
from gpuwait.wait.host_tick import HostTick
from gpuwait.wait.snapshot import Delay, Gpu, Key, Snapshot
from gpuwait.wait.tick import LoadTick, Tick
from gpuwait.wait.verdict import Cause, Evidence

#: A workload, or None for a GPU whose workload is not known, with the NUMA nodes of its GPUs.
Scope = tuple[Key | None, frozenset[int]]

#: Shares closer than this are equal, and the declared order decides.
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """Evidence for one GPU, strongest first, and the cause that its waiting goes to."""

    evidence: tuple[Evidence, ...]
    cause: Cause


def _homes(gpus: Iterable[Gpu]) -> dict[Key, frozenset[int]]:
    """NUMA nodes of each workload's GPUs: one that spans two nodes is at home on both."""
    found: dict[Key, set[int]] = {}
    for gpu in gpus:
        for key in gpu.workloads:
            nodes = found.setdefault(key, set())
            if gpu.numa_node is not None and gpu.numa_node >= 0:
                nodes.add(gpu.numa_node)
    return {key: frozenset(nodes) for key, nodes in found.items()}


def _stronger(one: Evidence, other: Evidence) -> bool:
    """Tell whether the first beats the second: active before inactive, then by share."""
    if one.active is not other.active:
        return one.active
    return one.share > other.share + TIE


def rank(evidence: Iterable[Evidence]) -> Finding:
    """Order evidence given in the declared order, and name the cause.

    The host code is to blame only where nothing else is.
    """
    found = list(evidence)
    if any(e.active and e.cause not in LAST_RESORT for e in found):
        found = [replace(e, active=False) if e.active and e.cause in LAST_RESORT else e for e in found]
    best: Evidence | None = None
    for e in found:
        if e.active and (best is None or _stronger(e, best)):
            best = e
    # A stable sort: the declared order stays among equals.
    rest = sorted((e for e in found if e is not best), key=lambda e: (not e.active, -e.share))
    return Finding((best, *rest), best.cause) if best else Finding(tuple(rest), Cause.UNEXPLAINED)


class Attribution:
    """Remembers between ticks; `start` begins one, `find` judges a GPU in it, `finish` learns from it.

    dropped: delay samples beyond the possible so far, by class.
    """

    def __init__(self, limits: Thresholds) -> None:
        self.limits = limits
        self.dropped: Counter[Delay] = Counter()
        self._medians = Medians()
        self._ports: dict[str, float] = {}
        self._active: dict[Scope, frozenset[Cause]] = {}

    def reset(self) -> None:
        """Forget which causes were active: nobody looked for a while."""
        self._active = {}

    def start(self, before: Snapshot, after: Snapshot, dt: float) -> None:
        """Begin a tick."""
        self._before, self._after, self._dt = before, after, dt
        self._host = HostTick(before.host, after.host, dt)
        self._homes = _homes(after.gpus)
        self._found: dict[Scope, tuple[Evidence, ...]] = {}
        self._starved: set[Scope] = set()
        self._loads: dict[Key, LoadTick | None] = {}
        for name, port in before.host.fabric.items():
            if port.up:
                self._ports[name] = max(self._ports.get(name, 0.0), port.bytes_per_second or 0.0)

    def _scopes(self, gpu: Gpu) -> list[Scope]:
        if not gpu.workloads:
            node = gpu.numa_node
            return [(None, frozenset() if node is None or node < 0 else frozenset({node}))]
        return [(key, self._homes[key]) for key in gpu.workloads]

    def was_active(self, gpu: Gpu) -> bool:
        """Tell whether a cause was active for this GPU at the tick before."""
        return any(self._active.get(scope) for scope in self._scopes(gpu))

    def load(self, key: Key) -> LoadTick | None:
        """Differences of a workload; None where it came or went within the tick."""
        if key not in self._loads:
            before, after = self._before.workloads.get(key), self._after.workloads.get(key)
            cpus = self._after.host.cpus
            self._loads[key] = LoadTick(before, after, self._dt, cpus) if before and after else None
        return self._loads[key]

    def _judge(self, scope: Scope) -> tuple[Evidence, ...]:
        """Evidence of every cause for one workload; the GPUs that share it share this."""
        found = self._found.get(scope)
        if found is None:
            key, home = scope
            tick = Tick(self._host, self.load(key) if key else None, home)
            history = History(self._medians, self._active.get(scope, frozenset()), self._ports)
            found = tuple(judge(tick, history, self.limits) for judge in CAUSES.values())
            self._found[scope] = found
            if tick.load:
                self.dropped.update(tick.load.dropped)
        return found

    def find(self, gpu: Gpu, *, starved: bool) -> Finding:
        """Judge one GPU: of each cause the workload that suffers most. `starved`: it is below the line."""
        scopes = self._scopes(gpu)
        if starved:
            self._starved.update(scopes)
        per_load = [self._judge(scope) for scope in scopes]
        merged = []
        for same in zip(*per_load, strict=True):
            best = same[0]
            for e in same[1:]:
                best = e if _stronger(e, best) else best
            merged.append(best)
        return rank(merged)

    def finish(self) -> None:
        """End the tick: remember what was active, learn the usual rates but for what a GPU waits for."""
        self._active = {
            scope: causes
            for scope, found in self._found.items()
            if (causes := frozenset(e.cause for e in found if e.active))
        }
        active = frozenset().union(*(self._active.get(scope, ()) for scope in self._starved))
        for name, causes in LEARNT.items():
            what, _, resource = name.partition(" ")
            rate = self._host.pressure(resource) if resource else self._host.rate(what)
            # Pressure that was there from the start is the node's usual one until more is known of it.
            early = bool(resource) and self._medians(name) is None
            if rate is not None and (early or not causes & active):
                self._medians.add(name, rate)
        if Cause.NFS not in active:
            for mount, nfs in self._host.nfs.items():
                self._medians.add(f"nfs {mount}", nfs.receives)
                self._medians.add(f"nfs in flight {mount}", nfs.in_flight)
        self._ports = {name: best for name, best in self._ports.items() if name in self._after.host.fabric}
