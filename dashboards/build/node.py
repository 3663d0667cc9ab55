"""Node: each GPU's time by cause, beneath it the evidence of every cause, its workloads, its GPUs' health."""

from __future__ import annotations

from dashboards.build import evidence, health, panels
from dashboards.build.fleet import STARVED
from dashboards.build.page import TO_JOB, Page, Row, choice, clusters
from dashboards.build.query import CLUSTER, GPU, NODE, OWNER, Query, named, rate, to_job

_RULES = "the recording rules have run for less than two minutes, or the exporter sees no GPU"

_GPU_TIME = (
    panels.stack(
        "GPU $gpu",
        "Share of the GPU's time. Blue is work (`gap`: short pauses between kernels), grey is unused, "
        "every other colour is a cause that it waited for. Find the colour's evidence below, at the same "
        "time.",
        "percentunit",
        Query(
            f'max by (cluster, state) (gpu_state:gpuwait_time:ratio_rate5m{{{GPU}, state!="waiting"}})',
            "{{state}}",
        ),
        Query(f"max by (cluster, cause) (gpu_cause:gpuwait_waiting:ratio_rate5m{{{GPU}}})", "{{cause}}"),
        absent=_RULES,
    )
    .repeat("gpu")
    .repeat_direction("h")
    .max_per_row(4)
)

_VERDICT = (
    panels.graph(
        "Lost by cause, worst GPU",
        "Share of its time in use that the GPU which loses most to each cause gives to it. The alerts of "
        f"this node fire above the line, {STARVED:.0%}, for ten minutes, or from half of it on over an hour.",
        "percentunit",
        Query(
            f"max by (cluster, cause) (node_cause:gpuwait_waiting_worst:ratio_rate5m{{{NODE}}})",
            "{{cause}}",
        ),
        absent="no GPU waited",
        at=STARVED,
        top=1,
        coloured=True,
    ),
    panels.stack(
        "GPU time of the node",
        "All its GPUs by state: as on the fleet's page.",
        "suffix: GPUs",
        Query(f"sum by (cluster, state) (node_state:gpuwait_time:gpus_rate5m{{{NODE}}})", "{{state}}"),
        absent=_RULES,
    ),
    panels.firing(
        "Firing alerts of this node",
        "Everything from these rules that names the node.",
        f'{NODE}, component=~"gpu.*"',
        f"cluster, alertname, gpu, cause, collector, job_set, {OWNER.removeprefix('cluster, ')}",
        {"job_set": ("Workload or job", TO_JOB)},
    ),
)


#: There are series of all cgroups: those of a shell or a system service are not about GPUs.
_HOLDS = f"and on ({OWNER}) gpuwait_gpu_workload_info{{{NODE}}}"


def _sum(metric: str) -> str:
    return to_job(f"sum by ({OWNER}) ({metric}{{{NODE}}}) {_HOLDS}")


def _whole(series: str) -> str:
    """Of the pod or job itself: its containers and steps have series of their own, and a part of it each."""
    return to_job(f"max by ({OWNER}) ({series}) {_HOLDS}")


_WORKLOADS = panels.rows(
    "Workloads",
    "Who holds GPUs on this node, and what the kernel lets them have. A GPU that several share is "
    "divided evenly. Click a job for all its nodes.",
    "none",
    Query(
        f"count by ({OWNER}, job_set, to_cluster, to_namespace) ("
        + to_job(named(f"max by (gpu, uuid, {OWNER}) (gpuwait_gpu_workload_info{{{NODE}}})"))
        + ")",
        heading="GPUs",
    ),
    Query(_sum("gpu_workload:gpuwait_waiting:gpus_rate5m"), heading="lost to waiting"),
    Query(_whole(rate("gpuwait_cgroup_cpu_usage_seconds_total", NODE)), heading="CPUs used"),
    Query(_whole(f"gpuwait_cgroup_cpu_quota_cores{{{NODE}}}"), heading="CPU limit"),
    Query(_whole(f"gpuwait_cgroup_memory_usage_bytes{{{NODE}}}"), heading="memory"),
    Query(_whole(f"gpuwait_cgroup_memory_limit_bytes{{{NODE}}}"), heading="memory limit"),
    Query(_sum("gpuwait_workload_threads"), heading="threads"),
    absent="no workload holds a GPU, or its processes are out of the exporter's sight",
    units={
        "lost to waiting": "suffix: GPUs",
        "memory": "bytes",
        "memory limit": "bytes",
    },
    links={"job_set": ("Workload or job", TO_JOB)},
    empty={
        "lost to waiting": "not observed",
        "CPUs used": "not visible",
        "CPU limit": "none",
        "memory": "not visible",
        "memory limit": "none",
        "threads": "not visible",
    },
    sort="lost to waiting",
)

_SETTINGS = panels.rows(
    "Settings in force",
    "Huge pages `always`, direct defragmentation and NUMA balancing are behind many stalls on GPU nodes; "
    "the runbooks say when to change them.",
    "none",
    Query(f"max by (cluster, file, value) (gpuwait_thp_setting{{{NODE}}} == 1)", heading="in force"),
    absent="the kernel has no such settings",
    hidden=("Value",),
)

PAGE = Page(
    uid="gpuwait-node",
    title="gpuwait: Node",
    about="What the GPUs of one node wait for, the evidence, and who is concerned, on one time axis.",
    variables=(
        clusters(),
        choice("node", "Node", f"label_values(gpuwait_build_info{{{CLUSTER}}}, node)", every=False),
        choice("gpu", "GPU", f"label_values(gpuwait_gpu_info{{{NODE}}}, gpu)", multi=True),
    ),
    rows=(
        Row("Verdict", 8, [(panel, 8) for panel in _VERDICT]),
        Row("Time of each GPU by state and cause", 7, [(_GPU_TIME, 24)]),
        Row("Who is concerned", 7, [(_WORKLOADS, 16), (_SETTINGS, 8)]),
        *evidence.ROWS,
        *health.ROWS,
    ),
    alerts='cluster=~"$cluster", node=~"$node"',
    span="3h",
)
