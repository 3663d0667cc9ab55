"""Facts of the node that belong to a cause and decide nothing: what one would look up next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuwait.explain.model import Fact, Whereabouts
from gpuwait.explain.wording import listed, percent, printable, size
from gpuwait.wait.snapshot import Key, Snapshot, Workload
from gpuwait.wait.verdict import Cause

#: Share of the free memory that is useless for 2 MiB pages from which on they are as good as gone.
GONE = 0.95
#: The same from which on they are scarce.
SCARCE = 0.5

_DIRECT = frozenset({"always", "madvise", "defer+madvise"})
_THP = "/sys/kernel/mm/transparent_hugepage"


@dataclass(frozen=True, slots=True)
class Scene:
    """What facts may be taken from. `home`: NUMA nodes of the GPUs."""

    snapshot: Snapshot
    keys: tuple[Key, ...]
    home: tuple[int, ...]
    threads: Whereabouts | None

    @property
    def loads(self) -> list[Workload]:
        """The workloads of the GPUs."""
        return [self.snapshot.workloads[key] for key in self.keys if key in self.snapshot.workloads]


def _fact(signal: str, text: str, shown: str, source: str, *, value: float | None = None) -> Fact:
    unit = "" if value is None else "ratio"
    return Fact(signal, text, value, unit, shown, None, "", True, source)


def _fragmentation(scene: Scene) -> Iterator[Fact]:
    ratios = sorted(scene.snapshot.host.unusable_ratio.items())
    if not ratios:
        return
    where = {level: [str(n) for n, r in ratios if r >= level] for level in (GONE, SCARCE)}
    worst = max(r for _, r in ratios)
    shown = f"unusable {listed([f'{percent(ratio)} on node {node}' for node, ratio in ratios[:8]])}"
    if where[GONE]:
        state = f"order-9 blocks (2 MiB) are gone on NUMA node{_plural(where[GONE])}"
    elif where[SCARCE]:
        state = f"order-9 blocks (2 MiB) are scarce on NUMA node{_plural(where[SCARCE])}"
    else:
        state = "order-9 blocks (2 MiB) are still there"
    yield _fact(
        "unusable",
        f"free memory in pieces too small for a huge page; {state}",
        shown,
        "/proc/buddyinfo",
        value=worst,
    )


def _plural(nodes: list[str]) -> str:
    return f" {nodes[0]}" if len(nodes) == 1 else f"s {listed(nodes)}"


def _huge_pages(scene: Scene) -> Iterator[Fact]:
    settings = scene.snapshot.host.settings
    enabled, defrag = settings.get("thp_enabled"), settings.get("thp_defrag")
    if enabled is None:
        return
    shown = f"THP {printable(enabled, 20)}"
    if defrag is not None:
        shown += f", defrag {printable(defrag, 20)}"
    if enabled == "madvise" and defrag in _DIRECT:
        text = (
            "programs that ask get huge pages, and NumPy asks (arrays from 4 MiB on): its page faults compact"
        )
    elif enabled == "always" and defrag == "always":
        text = "every large allocation gets huge pages and compacts for them; NumPy asks for them as well"
    elif enabled == "always" and defrag in _DIRECT:
        text = "huge pages for all; programs that ask for them, as NumPy does, compact in their page faults"
    elif enabled == "never":
        text = "huge pages are off: something else asks for large blocks (drivers, network buffers)"
    else:
        text = "page faults do not compact for huge pages with this setting"
    yield _fact("thp", text, shown, _THP)


def _busiest(scene: Scene) -> Iterator[Fact]:
    if scene.threads is not None and scene.threads.busiest:
        top = scene.threads.busiest[0]
        shown = f"{top.name} at {percent(top.user)} user, {percent(top.system)} system"
        yield _fact("busiest", "the busiest thread", shown, "/proc/PID/task/TID/stat")


def _dirty(scene: Scene) -> Iterator[Fact]:
    host = scene.snapshot.host
    if host.dirty_bytes is not None and host.dirty_limit_bytes:
        shown = f"{size(host.dirty_bytes)} of {size(host.dirty_limit_bytes)}"
        yield _fact("dirty_bytes", "dirty and under writeback, of what is allowed", shown, "/proc/meminfo")


def _quota(scene: Scene) -> Iterator[Fact]:
    for load in scene.loads[:1]:
        if load.quota_cores is not None:
            threads = max(load.thread_count, len(load.threads))
            shown = f"{load.quota_cores:g} CPUs for {threads} threads"
            yield _fact("quota", "the limit, and who shares it", shown, "cgroup cpu.max")


def _numa(scene: Scene) -> Iterator[Fact]:
    home = {str(node) for node in scene.home}
    if home:
        nodes = f"NUMA node {listed(sorted(home))}"
        yield _fact("home", "where the GPU is", nodes, "/sys/bus/pci/devices/*/numa_node")
    for load in scene.loads[:1]:
        total = sum(load.memory_by_node.values())
        if total:
            parts = [f"{percent(b / total)} on node {n}" for n, b in sorted(load.memory_by_node.items())]
            yield _fact(
                "memory_by_node", "memory of the workload", listed(parts[:8]), "cgroup memory.numa_stat"
            )


def _cpus(scene: Scene) -> Iterator[Fact]:
    threads = sum(max(load.thread_count, len(load.threads)) for load in scene.loads)
    shown = f"{threads} threads, {scene.snapshot.host.cpus} CPUs"
    yield _fact("cpus", "threads of the workload and CPUs of the node", shown, "/proc/PID/task, /proc/stat")


_CONTEXT: Mapping[Cause, tuple[Callable[[Scene], Iterator[Fact]], ...]] = {
    Cause.COMPACTION: (_fragmentation, _huge_pages, _busiest),
    Cause.RECLAIM: (_busiest, _fragmentation),
    Cause.SWAP: (_busiest,),
    Cause.WRITEBACK: (_dirty,),
    Cause.CPU_THROTTLING: (_quota,),
    Cause.CPU_CONTENTION: (_cpus,),
    Cause.NUMA_REMOTE: (_numa,),
    Cause.HOST_CPU: (_busiest,),
    Cause.HOST_KERNEL: (_busiest,),
}


def facts(cause: Cause, scene: Scene) -> tuple[Fact, ...]:
    """Facts of this node that belong to the cause."""
    return tuple(fact for make in _CONTEXT.get(cause, ()) for fact in make(scene))
