"""The collectors, in the order in which a scrape calls them and shows their families."""

from gpuwait.collectors import (
    buddyinfo,
    cgroup,
    cpufreq,
    disk,
    gpfs,
    gpu,
    infiniband,
    kernel_threads,
    lustre,
    memory,
    nfs,
    numa,
    pressure,
    thp,
    vmstat,
    workload,
)

ALL = (
    gpu.COLLECTOR,
    pressure.COLLECTOR,
    vmstat.COLLECTOR,
    memory.COLLECTOR,
    thp.COLLECTOR,
    buddyinfo.COLLECTOR,
    kernel_threads.COLLECTOR,
    cpufreq.COLLECTOR,
    numa.COLLECTOR,
    disk.COLLECTOR,
    nfs.COLLECTOR,
    lustre.COLLECTOR,
    gpfs.COLLECTOR,
    infiniband.COLLECTOR,
    cgroup.COLLECTOR,
    workload.COLLECTOR,
)
