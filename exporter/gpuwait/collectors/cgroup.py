"""CPU, throttling, memory and pressure of each workload's cgroup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import is_absent, read_text
from gpuwait.kernel.cgroup_files import (
    parse_cfs_quota,
    parse_cpu_max,
    parse_flat_keyed,
    parse_limit,
    parse_number,
)
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.pressure import parse_pressure
from gpuwait.metrics import Sample
from gpuwait.sources import Sources
from gpuwait.workload.cgroup_families import (
    CPU_PERIODS,
    CPU_QUOTA,
    CPU_SYSTEM,
    CPU_THROTTLED,
    CPU_THROTTLED_PERIODS,
    CPU_USAGE,
    CPU_USER,
    FAMILIES,
    INFO,
    MEMORY_LIMIT,
    MEMORY_MAX_EVENTS,
    MEMORY_OOM_EVENTS,
    MEMORY_OOM_KILLS,
    MEMORY_USAGE,
    PRESSURE_FULL,
    PRESSURE_SOME,
    WITHOUT_ID,
)
from gpuwait.workload.gpu_users import gpu_users
from gpuwait.workload.split_jobs import SplitJobs
from gpuwait.workload.tree import Group

#: Divisors: v2 counts microseconds, v1 nanoseconds and ticks of USER_HZ, 1/100 s on every architecture
#: that has GPUs.
MICRO, NANO, TICKS = 1_000_000, 1_000_000_000, 100

V2_CPU_STAT = (("usage_usec", CPU_USAGE), ("user_usec", CPU_USER), ("system_usec", CPU_SYSTEM))
V1_CPUACCT_STAT = (("user", CPU_USER), ("system", CPU_SYSTEM))
PERIODS = (("nr_periods", CPU_PERIODS), ("nr_throttled", CPU_THROTTLED_PERIODS))
V2_MEMORY_EVENTS = (
    ("max", MEMORY_MAX_EVENTS),
    ("oom", MEMORY_OOM_EVENTS),
    ("oom_kill", MEMORY_OOM_KILLS),
)


#: Samples of a scrape. A large node has 500 groups; each gives about 15.
BUDGET = 6000
#: A group beyond the budget: not read, and counted as one sample that was dropped.
_LOST = float("nan")


def collect(sources: Sources) -> Iterator[Sample]:
    """Samples of one workload after another, pods and jobs first.

    Beyond the budget the files of a group are not even read: a whole group counts then as
    one dropped sample.
    Raises NoData where the host shows no cgroup hierarchy, or lets nothing be read.
    """
    tree, faults = sources.workloads, Faults()
    groups: Sequence[Group] = ()
    with faults.at(f"{sources.host.sysfs}/fs/cgroup"):
        groups = tree.groups(fresh=True) if tree is not None else ()
    faults.finish()
    if tree is None or not tree.present:
        raise NoData(Reason.ABSENT, f"{sources.host.sysfs}/fs/cgroup has no cgroup hierarchy")
    users = set(gpu_users(sources.gpu, tree))
    users |= {(*labels[:3], "") for labels in users}  # a pod or job holds what its container or step holds
    split = sources.kept(SplitJobs)
    split.forget(groups)
    room = BUDGET
    # Where the budget cuts, it cuts those that hold no GPU.
    for group in sorted(groups, key=lambda g: g.labels not in users):
        if room <= 0:
            yield CPU_USAGE, group.labels, _LOST
            continue
        samples = split.samples(group, _group)
        # A group that ended since the walk has nothing, so it gets no info series either.
        if samples:
            room -= len(samples) + 1
            yield from samples
            owner = group.owner
            holds = "true" if group.labels in users else "false"
            yield INFO, (*group.labels, owner.pod_uid, owner.container_id, owner.qos, holds), 1
    if tree.uses_slurm:
        yield WITHOUT_ID, (), len({g.owner.workload for g in groups if _without_id(g)})


def _without_id(group: Group) -> bool:
    return group.owner.kind == "slurm" and not group.owner.slurm_job_id


def _group(group: Group) -> list[Sample]:
    samples: list[Sample] = []
    for part in (_cpu_time, _cpu_limit, _memory, _pressure):
        try:
            part(group, samples)
        except ParseError:
            # One odd file costs its part of this workload; the other workloads have their own files.
            continue
    return samples


def _read(group: Group, path: str) -> str:
    """Text of a file of the group, empty where it cannot be read; absent files are remembered."""
    if path in group.missing:
        return ""
    try:
        return read_text(path)
    except OSError as error:
        # The group ended, or a security module hides it: neither is a fault of the other groups.
        if is_absent(error):
            group.missing.add(path)
        return ""


def _cpu_time(group: Group, samples: list[Sample]) -> None:
    labels = group.labels
    if group.cpuacct:
        usage = parse_number(_read(group, f"{group.cpuacct}/cpuacct.usage"), "cpuacct.usage")
        if usage is not None:
            samples.append((CPU_USAGE, labels, usage / NANO))
        fields = parse_flat_keyed(_read(group, f"{group.cpuacct}/cpuacct.stat"), "cpuacct.stat")
        for key, family in V1_CPUACCT_STAT:
            if key in fields:
                samples.append((family, labels, fields[key] / TICKS))
    elif group.unified:
        # Also on hybrid hosts: the v2 tree counts CPU time without a controller.
        fields = parse_flat_keyed(_read(group, f"{group.unified}/cpu.stat"), "cpu.stat")
        for key, family in V2_CPU_STAT:
            if key in fields:
                samples.append((family, labels, fields[key] / MICRO))
        if not group.cpu:
            _throttling(group, samples, fields, "throttled_usec", MICRO)


def _throttling(
    group: Group, samples: list[Sample], fields: dict[str, int], time_key: str, divisor: int
) -> None:
    for key, family in PERIODS:
        if key in fields:
            samples.append((family, group.labels, fields[key]))
    if time_key in fields:
        samples.append((CPU_THROTTLED, group.labels, fields[time_key] / divisor))


def _cpu_limit(group: Group, samples: list[Sample]) -> None:
    if group.cpu:
        fields = parse_flat_keyed(_read(group, f"{group.cpu}/cpu.stat"), "cpu.stat")
        _throttling(group, samples, fields, "throttled_time", NANO)
        quota = parse_cfs_quota(
            _read(group, f"{group.cpu}/cpu.cfs_quota_us"), _read(group, f"{group.cpu}/cpu.cfs_period_us")
        )
    elif group.unified:
        quota = parse_cpu_max(_read(group, f"{group.unified}/cpu.max"))
    else:
        return
    if quota is not None:
        samples.append((CPU_QUOTA, group.labels, quota))


def _memory(group: Group, samples: list[Sample]) -> None:
    labels = group.labels
    if group.memory:
        directory = group.memory
        usage = parse_number(_read(group, f"{directory}/memory.usage_in_bytes"), "memory.usage_in_bytes")
        limit = parse_limit(_read(group, f"{directory}/memory.limit_in_bytes"), "memory.limit_in_bytes")
        hits = parse_number(_read(group, f"{directory}/memory.failcnt"), "memory.failcnt")
        events = {} if hits is None else {"max": hits}
        # The line came with 4.13; older files have only oom_kill_disable and under_oom.
        control = parse_flat_keyed(_read(group, f"{directory}/memory.oom_control"), "memory.oom_control")
        if "oom_kill" in control:
            events["oom_kill"] = control["oom_kill"]
    elif group.unified:
        directory = group.unified
        usage = parse_number(_read(group, f"{directory}/memory.current"), "memory.current")
        limit = parse_limit(_read(group, f"{directory}/memory.max"), "memory.max")
        events = parse_flat_keyed(_read(group, f"{directory}/memory.events"), "memory.events")
    else:
        return
    if usage is not None:
        samples.append((MEMORY_USAGE, labels, usage))
    if limit is not None:
        samples.append((MEMORY_LIMIT, labels, limit))
    for key, family in V2_MEMORY_EVENTS:
        if key in events:
            samples.append((family, labels, events[key]))


def _pressure(group: Group, samples: list[Sample]) -> None:
    if not group.unified:
        return
    for resource in ("cpu", "memory", "io"):
        pressure = parse_pressure(_read(group, f"{group.unified}/{resource}.pressure"))
        labels = (*group.labels, resource)
        if pressure.some is not None:
            samples.append((PRESSURE_SOME, labels, pressure.some / MICRO))
        if pressure.full is not None:
            samples.append((PRESSURE_FULL, labels, pressure.full / MICRO))


COLLECTOR = Collector(
    name="cgroup",
    help="CPU, throttling, memory and pressure of each pod, container, Slurm job and service.",
    families=FAMILIES,
    collect=collect,
    budget=BUDGET,
)
