"""CPU, throttling, memory and pressure of each workload's cgroup."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
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
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources
from gpuwait.workload.gpu_users import gpu_users
from gpuwait.workload.tree import Group

WORKLOAD = ("workload_kind", "workload_namespace", "workload", "workload_container")

CPU_USAGE = Family(
    "gpuwait_cgroup_cpu_usage_seconds_total",
    "counter",
    "CPU seconds used by the workload.",
    "cgroup v2 cpu.stat usage_usec; v1 cpuacct.usage",
    WORKLOAD,
)
CPU_USER = Family(
    "gpuwait_cgroup_cpu_user_seconds_total",
    "counter",
    "CPU seconds used by the workload in user mode.",
    "cgroup v2 cpu.stat user_usec; v1 cpuacct.stat user",
    WORKLOAD,
)
CPU_SYSTEM = Family(
    "gpuwait_cgroup_cpu_system_seconds_total",
    "counter",
    "CPU seconds used by the workload in the kernel.",
    "cgroup v2 cpu.stat system_usec; v1 cpuacct.stat system",
    WORKLOAD,
)
CPU_PERIODS = Family(
    "gpuwait_cgroup_cpu_periods_total",
    "counter",
    "Enforcement periods of the CPU limit in which the workload wanted to run.",
    "cgroup cpu.stat nr_periods",
    WORKLOAD,
)
CPU_THROTTLED_PERIODS = Family(
    "gpuwait_cgroup_cpu_throttled_periods_total",
    "counter",
    "Enforcement periods of the CPU limit in which the workload was held back.",
    "cgroup cpu.stat nr_throttled",
    WORKLOAD,
)
CPU_THROTTLED = Family(
    "gpuwait_cgroup_cpu_throttled_seconds_total",
    "counter",
    "Seconds that the workload was held back by its CPU limit, summed over CPUs.",
    "cgroup v2 cpu.stat throttled_usec; v1 cpu.stat throttled_time",
    WORKLOAD,
)
CPU_QUOTA = Family(
    "gpuwait_cgroup_cpu_quota_cores",
    "gauge",
    "CPUs that the limit of the workload allows at a time; absent without a limit.",
    "cgroup v2 cpu.max; v1 cpu.cfs_quota_us, cpu.cfs_period_us",
    WORKLOAD,
)
MEMORY_USAGE = Family(
    "gpuwait_cgroup_memory_usage_bytes",
    "gauge",
    "Bytes of memory charged to the workload, page cache included.",
    "cgroup v2 memory.current; v1 memory.usage_in_bytes",
    WORKLOAD,
)
MEMORY_LIMIT = Family(
    "gpuwait_cgroup_memory_limit_bytes",
    "gauge",
    "Bytes of memory that the workload may use; absent without a limit.",
    "cgroup v2 memory.max; v1 memory.limit_in_bytes",
    WORKLOAD,
)
MEMORY_MAX_EVENTS = Family(
    "gpuwait_cgroup_memory_max_events_total",
    "counter",
    "Times that the workload reached its memory limit and had to reclaim.",
    "cgroup v2 memory.events max; v1 memory.failcnt",
    WORKLOAD,
)
MEMORY_OOM_EVENTS = Family(
    "gpuwait_cgroup_memory_oom_events_total",
    "counter",
    "Times that an allocation of the workload was about to fail at its memory limit.",
    "cgroup v2 memory.events oom",
    WORKLOAD,
)
MEMORY_OOM_KILLS = Family(
    "gpuwait_cgroup_memory_oom_kills_total",
    "counter",
    "Processes of the workload killed for lack of memory.",
    "cgroup v2 memory.events oom_kill; v1 memory.oom_control oom_kill",
    WORKLOAD,
)
PRESSURE_SOME = Family(
    "gpuwait_cgroup_pressure_some_seconds_total",
    "counter",
    "Seconds in which at least one task of the workload waited for the resource.",
    "cgroup v2 {cpu,memory,io}.pressure some",
    (*WORKLOAD, "resource"),
)
PRESSURE_FULL = Family(
    "gpuwait_cgroup_pressure_full_seconds_total",
    "counter",
    "Seconds in which all active tasks of the workload waited for the resource; of cpu this is throttling.",
    "cgroup v2 {cpu,memory,io}.pressure full",
    (*WORKLOAD, "resource"),
)
INFO = Family(
    "gpuwait_workload_info",
    "gauge",
    "Ids of the workload for joins, and whether it holds a GPU; always 1.",
    "cgroup directory names; processes that the GPU driver reports",
    (*WORKLOAD, "pod_uid", "container_id", "qos", "gpu_workload"),
)

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


def collect(sources: Sources) -> Iterator[Sample]:
    """Samples of one workload after another, pods and jobs first.

    Raises NoData where the host shows no cgroup hierarchy, or lets nothing be read.
    """
    tree = sources.workloads
    groups = tree.groups(fresh=True) if tree is not None else ()
    if tree is None or not tree.present:
        raise NoData(Reason.ABSENT, f"{sources.host.sysfs}/fs/cgroup has no cgroup hierarchy")
    users = set(gpu_users(sources.gpu, tree))
    users |= {(*labels[:3], "") for labels in users}  # a pod or job holds what its container or step holds
    # Where the budget cuts, it cuts those that hold no GPU.
    for group in sorted(groups, key=lambda g: g.labels not in users):
        samples = _group(group)
        # A group that ended since the walk has nothing, so it gets no info series either.
        if samples:
            yield from samples
            owner = group.owner
            holds = "true" if group.labels in users else "false"
            yield INFO, (*group.labels, owner.pod_uid, owner.container_id, owner.qos, holds), 1


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
    families=(
        CPU_USAGE,
        CPU_USER,
        CPU_SYSTEM,
        CPU_PERIODS,
        CPU_THROTTLED_PERIODS,
        CPU_THROTTLED,
        CPU_QUOTA,
        MEMORY_USAGE,
        MEMORY_LIMIT,
        MEMORY_MAX_EVENTS,
        MEMORY_OOM_EVENTS,
        MEMORY_OOM_KILLS,
        PRESSURE_SOME,
        PRESSURE_FULL,
        INFO,
    ),
    collect=collect,
    budget=6000,
)
