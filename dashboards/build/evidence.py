"""The evidence of every cause: what the daemon compares with a threshold, as far as it is a metric.

Delays and blocked looks of single threads are seen by the daemon only; `gpuwait explain` shows them.
"""

from __future__ import annotations

from dashboards.build.evidence_storage import LOCAL, SHARED
from dashboards.build.page import Row
from dashboards.build.panels import Panel, graph
from dashboards.build.query import NODE, Query, rate, ratio
from dashboards.build.signals import NO_PRESSURE, WHO, largest, own, pressure, top

from gpuwait.thresholds import DEFAULTS

_THIRD = 8
_OLD = "this kernel or node does not offer it"

#: Below this rate the remote share of sampled accesses says nothing.
_SAMPLES = f"{DEFAULTS['numa_remote', 'samples'].value:g}"
#: Times the line from which on the whole node's pressure counts.
_NODE_TIMES = f"{DEFAULTS['any', 'node'].value:g}"


_MEMORY = (
    graph(
        "Compaction: direct compactions",
        "Allocations for which a thread had to move memory about itself. A healthy node has none for "
        "minutes; with memory pressure they stall page faults.",
        "ops",
        Query(top("gpuwait_vmstat_compact_stall_total", "node"), "entered"),
        Query(top("gpuwait_vmstat_compact_fail_total", "node"), "in vain"),
        absent=_OLD,
        line=("compaction", "stalls"),
    ),
    graph(
        "Compaction: free memory that no huge page can use",
        "1 means that all free memory of the NUMA node is in blocks too small: each huge page has to be "
        "made first.",
        "percentunit",
        Query(
            f"max by (cluster, numa_node, zone) (gpuwait_fragmentation_unusable_ratio{{{NODE}}})",
            "NUMA {{numa_node}} {{zone}}",
        ),
        absent=_OLD,
        top=1,
    ),
    graph(
        "Compaction, reclaim: memory pressure",
        "Share of time in which some task waited for memory. The line is for workloads; the whole node "
        f"counts from {_NODE_TIMES} times the line on, and only where a workload has no figure of its own.",
        "percentunit",
        *pressure("memory"),
        absent=NO_PRESSURE,
        line=("reclaim", "pressure"),
    ),
    graph(
        "Reclaim: direct reclaims",
        "Allocations for which a thread had to free memory itself, because kswapd did not keep up.",
        "ops",
        Query(top("gpuwait_vmstat_allocstall_total", "node"), "entered"),
        absent=_OLD,
        line=("reclaim", "stalls"),
    ),
    graph(
        "Swap: pages read back",
        "A loader that touches swapped memory stops until the page is back.",
        "ops",
        Query(top("gpuwait_vmstat_pswpin_total", "node"), "pages"),
        absent="the node has no swap",
        line=("swap", "pages"),
    ),
    graph(
        "Writeback: dirty memory against its limit",
        "At 100 % whoever writes is stopped until pages are on disk; from half-way on writers are "
        "slowed. Checkpoints show as ramps.",
        "percentunit",
        Query(
            f"max by (cluster) ((gpuwait_memory_dirty_bytes{{{NODE}}}"
            f" + gpuwait_memory_writeback_bytes{{{NODE}}})"
            f" / (gpuwait_memory_dirty_threshold_bytes{{{NODE}}} > 0))",
            "dirty and being written",
        ),
        absent=_OLD,
        line=("writeback", "dirty"),
    ),
)

_NO_LIMIT = "no workload has a CPU limit"
_CPU = (
    graph(
        "CPU throttling: periods",
        "Share of the 100 ms periods in which the CPU limit stopped the workload. Only together with "
        "lost time it is a cause: a period counts that was cut by a millisecond.",
        "percentunit",
        Query(
            largest(
                ratio(
                    rate("gpuwait_cgroup_cpu_throttled_periods_total", NODE),
                    rate("gpuwait_cgroup_cpu_periods_total", NODE),
                )
            ),
            WHO,
        ),
        absent=_NO_LIMIT,
        line=("cpu_throttling", "periods"),
        top=1,
    ),
    graph(
        "CPU throttling: time lost",
        "Seconds a second over all its CPUs for which the workload was stopped: 10 is ten CPUs that "
        "stood still. The daemon divides it by the threads that ran.",
        "short",
        Query(own("gpuwait_cgroup_cpu_throttled_seconds_total"), WHO),
        absent=_NO_LIMIT,
    ),
    graph(
        "CPU contention: CPU pressure",
        "Share of time in which some task of the node was ready to run and had no CPU. A quota does not "
        "show for the node, but for its workload.",
        "percentunit",
        *pressure("cpu"),
        absent=NO_PRESSURE,
        line=("cpu_contention", "pressure"),
    ),
    graph(
        "Remote NUMA: accesses to another node",
        "Share of the sampled memory accesses that crossed to another NUMA node.",
        "percentunit",
        Query(
            f"max by (cluster) (1 - {rate('gpuwait_vmstat_numa_hint_faults_local_total', NODE)}"
            f" / ({rate('gpuwait_vmstat_numa_hint_faults_total', NODE)} >= {_SAMPLES}))",
            "remote",
        ),
        absent=f"NUMA balancing is off, or there are fewer than {_SAMPLES} samples a second",
        line=("numa_remote", "faults"),
        top=1,
    ),
    graph(
        "Host code: CPUs used",
        "CPUs that each workload uses, in all and in the kernel. About one, while the GPU waits and no "
        "other cause holds, is a single thread that does all the work (a lock, a tokeniser).",
        "short",
        Query(own("gpuwait_cgroup_cpu_usage_seconds_total"), WHO),
        Query(own("gpuwait_cgroup_cpu_system_seconds_total"), f"{WHO} in the kernel"),
        absent="no cgroup of a workload is visible",
        line=("host_cpu", "group"),
    ),
)

_PORT = "device, port"
_ERRORS = "symbol_errors link_error_recoveries link_downed receive_errors".split()
_AGAIN = "packet_sequence_errors out_of_sequence ack_timeouts receiver_not_ready".split()


def _port(kinds: list[str]) -> tuple[Query, ...]:
    return tuple(
        Query(
            top(f"gpuwait_infiniband_{kind}_total", _PORT) + " > 0",
            f"{{{{device}}}}/{{{{port}}}} {kind.replace('_', ' ')}",
        )
        for kind in kinds
    )


_NO_FABRIC = "no InfiniBand or RoCE port on this node"
_FABRIC = (
    graph(
        "Fabric: errors of ports",
        "A good link has one symbol error in hours. Only kinds that occur are drawn.",
        "ops",
        *_port(_ERRORS),
        absent=f"{_NO_FABRIC}, or no error",
        line=("fabric", "errors"),
    ),
    graph(
        "Fabric: packets sent again",
        "A lossless fabric sends nothing twice. Only kinds that occur are drawn.",
        "ops",
        *_port(_AGAIN),
        absent=f"{_NO_FABRIC}, or nothing was sent again",
        line=("fabric", "retransmissions"),
    ),
    graph(
        "Fabric: rate that ports lack",
        "Share of its own best rate of the last day that a port lacks: 100 % is a port that is down.",
        "percentunit",
        Query(
            f"1 - max by (cluster, {_PORT}) (gpuwait_infiniband_rate_bytes_per_second{{{NODE}}}) * max by "
            f"(cluster, {_PORT}) (gpuwait_infiniband_port_up{{{NODE}}}) / max by (cluster, {_PORT}) "
            f"(max_over_time(gpuwait_infiniband_rate_bytes_per_second{{{NODE}}}[1d]) > 0)",
            "{{device}}/{{port}}",
        ),
        absent=_NO_FABRIC,
        line=("fabric", "link"),
        top=1,
    ),
)


def _row(title: str, panels: tuple[Panel, ...]) -> Row:
    return Row(title, 7, [(panel, _THIRD) for panel in panels])


ROWS = (
    _row("Evidence: memory (compaction, reclaim, swap, writeback)", _MEMORY),
    _row("Evidence: shared storage (nfs, lustre, gpfs)", SHARED),
    _row("Evidence: local disk (disk, writeback)", LOCAL),
    _row("Evidence: processors (cpu_throttling, cpu_contention, numa_remote, host_cpu, host_kernel)", _CPU),
    _row("Evidence: network (fabric)", _FABRIC),
)
