"""Series of each workload's cgroup."""

from __future__ import annotations

from gpuwait.metrics import Family

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
WITHOUT_ID = Family(
    "gpuwait_cgroup_slurm_jobs_without_id",
    "gauge",
    "Slurm jobs whose cgroup tells a SLUID and not the id of the job; absent without Slurm.",
    "cgroup directory names",
)
INFO = Family(
    "gpuwait_workload_info",
    "gauge",
    "Ids of the workload for joins, and whether it holds a GPU; always 1.",
    "cgroup directory names; processes that the GPU driver reports",
    (*WORKLOAD, "pod_uid", "container_id", "qos", "gpu_workload"),
)

FAMILIES = (
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
    WITHOUT_ID,
)
