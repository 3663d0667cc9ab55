"""NUMA nodes: where allocations land, what memory is free, and how many accesses are remote."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import maybe_text
from gpuwait.kernel.meminfo import parse_meminfo
from gpuwait.kernel.numastat import count_cpus, parse_numastat
from gpuwait.kernel.settings import parse_number
from gpuwait.kernel.vmstat import parse_vmstat
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

_NODE = ("numa_node",)

HIT = Family(
    "gpuwait_numa_hit_total",
    "counter",
    "Allocations that got memory of this node as wanted; a huge page counts 1.",
    "/sys/devices/system/node/node*/numastat numa_hit",
    _NODE,
)
MISS = Family(
    "gpuwait_numa_miss_total",
    "counter",
    "Allocations that got memory of this node though another was wanted; not a count of remote accesses.",
    "/sys/devices/system/node/node*/numastat numa_miss",
    _NODE,
)
FOREIGN = Family(
    "gpuwait_numa_foreign_total",
    "counter",
    "Allocations that wanted memory of this node and got that of another.",
    "/sys/devices/system/node/node*/numastat numa_foreign",
    _NODE,
)
INTERLEAVE_HIT = Family(
    "gpuwait_numa_interleave_hit_total",
    "counter",
    "Interleaved allocations that got memory of this node as wanted.",
    "/sys/devices/system/node/node*/numastat interleave_hit",
    _NODE,
)
LOCAL_NODE = Family(
    "gpuwait_numa_local_node_total",
    "counter",
    "Allocations from this node by a CPU of this node.",
    "/sys/devices/system/node/node*/numastat local_node",
    _NODE,
)
OTHER_NODE = Family(
    "gpuwait_numa_other_node_total",
    "counter",
    "Allocations from this node by a CPU of another node.",
    "/sys/devices/system/node/node*/numastat other_node",
    _NODE,
)
MEMORY_TOTAL = Family(
    "gpuwait_numa_memory_total_bytes",
    "gauge",
    "Memory of the node.",
    "/sys/devices/system/node/node*/meminfo MemTotal",
    _NODE,
)
MEMORY_FREE = Family(
    "gpuwait_numa_memory_free_bytes",
    "gauge",
    "Free memory of the node.",
    "/sys/devices/system/node/node*/meminfo MemFree",
    _NODE,
)
CPUS = Family(
    "gpuwait_numa_node_cpus",
    "gauge",
    "CPUs of the node; 0 for a node that is memory only.",
    "/sys/devices/system/node/node*/cpulist",
    _NODE,
)
REMOTE_HINT_RATIO = Family(
    "gpuwait_numa_remote_hint_ratio",
    "gauge",
    "Share of sampled memory accesses in about the last minute that went to another node, 0 to 1.",
    "/proc/vmstat numa_hint_faults, numa_hint_faults_local",
)

_COUNTERS = (
    ("numa_hit", HIT),
    ("numa_miss", MISS),
    ("numa_foreign", FOREIGN),
    ("interleave_hit", INTERLEAVE_HIT),
    ("local_node", LOCAL_NODE),
    ("other_node", OTHER_NODE),
)
_MEMORY = (("MemTotal", MEMORY_TOTAL), ("MemFree", MEMORY_FREE))

_DIRECTORY = "devices/system/node"
#: `possible`, `has_cpu`, `power` and others lie beside the nodes.
_NODE_DIRECTORY = re.compile(r"node([0-9]{1,6})")

#: The balancing of the kernel also has a mode (2) that only moves pages between fast and slow memory.
_BALANCING_NORMAL = 1
_WINDOW_SECONDS = 60
#: The first pass over a task's memory is biased by the moves it causes, and a quiet node
#: takes a few faults a second: below this the share says nothing.
MIN_HINT_FAULTS = 1000


@dataclass(slots=True)
class _HintWindow:
    """Readings of the last minute: time, faults, local faults."""

    readings: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=1000))

    def add(self, now: float, faults: int, local: int) -> None:
        """Take a reading; counters that fell begin anew."""
        if self.readings and (faults < self.readings[-1][1] or local < self.readings[-1][2]):
            self.readings.clear()
        self.readings.append((now, faults, local))
        while len(self.readings) > 2 and now - self.readings[1][0] >= _WINDOW_SECONDS:
            self.readings.popleft()

    def remote_ratio(self) -> float | None:
        """Share of remote faults in the window, None where there are too few."""
        if not self.readings:
            return None
        faults = self.readings[-1][1] - self.readings[0][1]
        local = self.readings[-1][2] - self.readings[0][2]
        # The two are not read at one moment, so a share may come out slightly below 0.
        return max(0.0, (faults - local) / faults) if faults >= MIN_HINT_FAULTS else None


def _read_node(sources: Sources, node: str, faults: Faults) -> Iterator[Sample]:
    """Samples of one node. A file that is gone with its node gives none; a bad one costs what it holds."""
    host, labels = sources.host, (node,)
    directory = f"{host.sysfs}/{_DIRECTORY}/node{node}"
    with faults.at(path := f"{directory}/numastat"):
        values = parse_numastat(maybe_text(path) or "")
        yield from [(family, labels, values[name]) for name, family in _COUNTERS if name in values]
    with faults.at(path := f"{directory}/meminfo"):
        values = parse_meminfo(maybe_text(path) or "")
        yield from [(family, labels, values[name]) for name, family in _MEMORY if name in values]
    with faults.at(path := f"{directory}/cpulist"):
        cpulist = maybe_text(path)
        if cpulist is not None:
            yield CPUS, labels, count_cpus(cpulist)


def _remote_hints(sources: Sources, faults: Faults) -> Iterator[Sample]:
    """Share of remote accesses. Raises NoData where NUMA balancing is off."""
    window, procfs = sources.kept(_HintWindow), sources.host.procfs
    mode = 0
    with faults.at(path := f"{procfs}/sys/kernel/numa_balancing"):
        text = maybe_text(path)
        mode = 0 if text is None else parse_number(text)
    if not mode & _BALANCING_NORMAL:
        window.readings.clear()
        faults.finish()
        raise NoData(Reason.BALANCING_OFF, "kernel.numa_balancing does not sample accesses")
    with faults.at(path := f"{procfs}/vmstat"):
        values = parse_vmstat(maybe_text(path) or "")
        sampled, local = values.get("numa_hint_faults"), values.get("numa_hint_faults_local")
        if sampled is None or local is None:
            return
        window.add(sources.clock(), sampled, local)
        ratio = window.remote_ratio()
        if ratio is not None:
            yield REMOTE_HINT_RATIO, (), ratio


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield what each node reports. Raises NoData, OSError, ParseError."""
    faults = Faults()
    found = False
    names = []
    with faults.at(f"{sources.host.sysfs}/{_DIRECTORY}"):
        names = sources.host.list_sys(_DIRECTORY)
    for name in names:
        match = _NODE_DIRECTORY.fullmatch(name)
        if match is not None:
            found = True
            yield from _read_node(sources, match[1], faults)
    if found:
        yield from _remote_hints(sources, faults)
    faults.finish()
    if not found:
        raise NoData(Reason.ABSENT, "no NUMA node in the sys file system")


COLLECTOR = Collector(
    name="numa",
    help="Allocations, memory and CPUs of NUMA nodes, and the share of remote accesses.",
    families=(REMOTE_HINT_RATIO, *(f for _, f in _COUNTERS), *(f for _, f in _MEMORY), CPUS),
    collect=collect,
)
