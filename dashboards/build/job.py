"""Workload or job: one Slurm job or set of pods over its nodes."""

from __future__ import annotations

from dashboards.build import panels
from dashboards.build.fleet import STARVED
from dashboards.build.page import TO_NODE, Page, Row, choice, clusters
from dashboards.build.query import CLUSTER, JOB, MEMBERS, Query, rate, ratio, to_cluster, zero

_RULES = "no GPU of it is in use, or the recording rules have run for less than two minutes"
_GPUS = "suffix: GPUs"

_READ = (
    "**The node that waits is the culprit, not the victim.** Collectives (all-reduce and the like) spin "
    "on the GPU: while one node is late, the GPUs of all its peers read *100 % busy*. So the one node "
    "with the **low** use, which is the line at the top of *Who waits*, waits for something on its own "
    "host, and all others wait for it. Where all nodes wait alike, the cause is shared (storage, network) "
    "or is the job itself."
)

_EXCESS = f"node_job:gpuwait_waiting_excess:ratio_rate5m{{{JOB}}}"
_WAITING = f"node_job:gpuwait_waiting:ratio_rate5m{{{JOB}}}"
_LOST = f"sum by (cluster) (workload:gpuwait_waiting:gpus_rate5m{{{MEMBERS}}})"
#: There, and 0, for every GPU that is observed, so it shows where what is absent is 0.
_HELD = _LOST
_HOLDS_NONE = "no GPU that it holds has been observed for two minutes"
#: Clusters may have jobs of one name: one number for each.
_OF = "{{cluster}}"

_NOW = (
    panels.number(
        "Nodes",
        "Nodes on which it uses a GPU now.",
        "short",
        Query(zero(f"count by (cluster) (count by (cluster, node) ({_WAITING}))", _HELD), _OF),
        absent=_HOLDS_NONE,
    ),
    panels.number(
        "GPUs in use",
        "GPUs that it wants at this moment.",
        _GPUS,
        Query(zero(f"sum by (cluster) (workload:gpuwait_in_use:gpus_rate5m{{{MEMBERS}}})", _HELD), _OF),
        absent=_HOLDS_NONE,
    ),
    panels.number(
        "GPUs lost to waiting",
        "Counted on the nodes that wait; what their peers lose by spinning is not in it.",
        _GPUS,
        Query(_LOST, _OF),
        absent=_HOLDS_NONE,
    ),
    panels.number(
        "Worst straggler",
        "By how much the worst node waits more than its peers do on average; an alert fires from the "
        "colour on.",
        "percentunit",
        Query(f"max by (cluster) ({_EXCESS})", _OF),
        absent="it runs on one node, or no GPU of it is in use",
        over=STARVED,
    ),
)

_STRAGGLERS = (
    panels.graph(
        "Who waits: share of time waited, by node",
        "One line high and the others at 0 is a straggler. All lines high is something they share.",
        "percentunit",
        Query(f"max by (cluster, node) ({_WAITING})", "{{node}}"),
        absent=f"{_RULES}; replicas of a Deployment are no set",
        top=1,
    ),
    panels.graph(
        "Who straggles: waiting above that of the peers, by node",
        "Difference to the mean of the other nodes; only what is above 0. Nodes above the line hold all "
        "others up.",
        "percentunit",
        Query(f"max by (cluster, node) ({_EXCESS}) > 0", "{{node}}"),
        absent="it runs on one node, or no node waits more than the others",
        at=STARVED,
        top=1,
    ),
)

_CAUSE_BY_NODE = (
    "sum by (cluster, node, cause) (gpu_cause:gpuwait_waiting:ratio_rate5m"
    " * on (cluster, node, gpu, uuid) group_left ()"
    f" sum by (cluster, node, gpu, uuid) (gpu_workload:gpuwait_share:ratio{{{MEMBERS}}}))"
)
#: Of less than half a GPU a share says nothing, as in the rules.
_USED = f"sum by (cluster, node) (gpu_workload:gpuwait_in_use:gpus_rate5m{{{MEMBERS}}}) > 0.5"

_CAUSES = (
    panels.stack(
        "GPUs lost by cause",
        "What its GPUs wait for, over all its nodes. GPUs that it shares with another workload are left out.",
        _GPUS,
        Query(
            f"sum by (cluster, cause) (workload_cause:gpuwait_waiting:gpus_rate5m{{{MEMBERS}}})", "{{cause}}"
        ),
        absent="no GPU of it waited",
    ),
    panels.matrix(
        "Cause by node",
        "Share of the time of its GPUs in use on the node that each cause takes now, whatever their number. "
        f"Orange from {STARVED:.0%} on. Click a node for the evidence.",
        "percentunit",
        Query(
            to_cluster(f"clamp_max({_CAUSE_BY_NODE} / on (cluster, node) group_left () ({_USED}), 1) > 0.01")
        ),
        absent="no GPU of it waits",
        column="cause",
        over=STARVED,
        least="< 1 %",
        links={"node": ("Node", TO_NODE)},
    ),
)


def _largest(series: str) -> str:
    return f"max by (cluster, node, workload) ({series})"


def _by_node(metric: str) -> str:
    return _largest(rate(metric, MEMBERS))


def _pressure(resource: str) -> str:
    chosen = f'{MEMBERS}, resource="{resource}"'
    return f"max by (cluster, node, workload) ({rate('gpuwait_cgroup_pressure_some_seconds_total', chosen)})"


_WHO = "{{node}} {{workload}}"
_NO_PRESSURE = "pressure stall information is off, or the nodes use cgroup v1"
_LIMITS = (
    panels.graph(
        "CPU throttling: periods",
        "Share of the periods in which its CPU limit stopped it; of the container that is stopped most.",
        "percentunit",
        Query(
            # of each container: one that is stopped all the time does not vanish behind a larger one
            _largest(
                ratio(
                    rate("gpuwait_cgroup_cpu_throttled_periods_total", MEMBERS),
                    rate("gpuwait_cgroup_cpu_periods_total", MEMBERS),
                )
            ),
            _WHO,
        ),
        absent="it has no CPU limit",
        line=("cpu_throttling", "periods"),
        top=1,
    ),
    panels.graph(
        "CPUs used",
        "By node. A node that uses far fewer than its peers waits; one that is at its limit is throttled.",
        "short",
        Query(_by_node("gpuwait_cgroup_cpu_usage_seconds_total"), _WHO),
        absent="no cgroup of it is visible",
    ),
    panels.graph(
        "Memory against its limit",
        "Page cache included, which the kernel takes back: at 100 % it reclaims, and kills when that is "
        "not enough.",
        "percentunit",
        Query(
            f"max by (cluster, node, workload) (gpuwait_cgroup_memory_usage_bytes{{{MEMBERS}}}"
            f" / (gpuwait_cgroup_memory_limit_bytes{{{MEMBERS}}} > 0))",
            _WHO,
        ),
        absent="it has no memory limit",
        top=1,
    ),
    panels.graph(
        "Killed for lack of memory",
        "Processes of it killed in the hour before. A loader that was killed leaves a job that hangs.",
        "short",
        Query(
            "sum by (cluster, node, workload) "
            f"(increase(gpuwait_cgroup_memory_oom_kills_total{{{MEMBERS}}}[1h])) > 0",
            _WHO,
        ),
        absent="none was killed",
    ),
    panels.graph(
        "Memory pressure",
        "Share of time in which some of its tasks waited for memory.",
        "percentunit",
        Query(_pressure("memory"), _WHO),
        absent=_NO_PRESSURE,
        line=("reclaim", "pressure"),
    ),
    panels.graph(
        "I/O pressure",
        "Share of time in which some of its tasks waited for I/O.",
        "percentunit",
        Query(_pressure("io"), _WHO),
        absent=_NO_PRESSURE,
        line=("disk", "pressure"),
    ),
    panels.graph(
        "Blocked threads",
        "Its threads in uninterruptible sleep at the last look: they wait for storage.",
        "short",
        Query(f"max by (cluster, node, workload) (gpuwait_workload_blocked_threads{{{MEMBERS}}})", _WHO),
        absent="no GPU of it is in use, or the daemon may not see its threads",
    ),
    panels.graph(
        "Open files against the limit",
        "Of its process that is nearest to its limit; beyond 100 % loaders fail with EMFILE.",
        "percentunit",
        Query(
            f"max by (cluster, node, workload) (gpuwait_workload_open_files{{{MEMBERS}}}"
            f" / (gpuwait_workload_open_files_limit{{{MEMBERS}}} > 0))",
            _WHO,
        ),
        absent="the exporter may not see its processes",
        top=1,
    ),
    panels.graph(
        "GPU memory",
        "Of its processes, by node.",
        "bytes",
        Query(f"sum by (cluster, node, workload) (gpuwait_gpu_workload_memory_bytes{{{MEMBERS}}})", _WHO),
        absent="the driver does not tell it by process",
    ),
)

_SERIES = f"node_job:gpuwait_waiting:ratio_rate5m{{{CLUSTER}"
_NAMED = f'{_SERIES}, job_set="$workload"'

PAGE = Page(
    uid="gpuwait-job",
    title="gpuwait: Workload or job",
    about="One Slurm job or set of pods over its nodes: who waits, who straggles, and for what.",
    variables=(
        clusters(),
        choice("workload", "Job or pod set", f"label_values({_SERIES}}}, job_set)", every=False),
        # no "all": jobs of one name, but of two kinds or namespaces, are two. After the job, so that a link
        # which names only the job finds its kind and namespace.
        choice("kind", "Kind", f"label_values({_NAMED}}}, workload_kind)", every=False),
        choice(
            "namespace",
            "Namespace",
            f'label_values({_NAMED}, workload_kind=~"$kind"}}, workload_namespace)',
            every=False,
        ),
    ),
    rows=(
        Row("How to read it", 4, [(panels.words("Who holds the job up", _READ), 8), *((p, 4) for p in _NOW)]),
        Row("Nodes", 9, [(panel, 12) for panel in _STRAGGLERS]),
        Row("Causes", 9, [(panel, 12) for panel in _CAUSES]),
        Row("Limits and pressure", 7, [(panel, 8) for panel in _LIMITS]),
    ),
    alerts=JOB,
    span="3h",
)
