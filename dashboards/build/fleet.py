"""Fleet: where GPU time goes, what waiting costs, and which nodes and workloads it hits."""

from __future__ import annotations

from dashboards.build import panels
from dashboards.build.page import TO_JOB, TO_NODE, Page, Row, clusters
from dashboards.build.query import CLUSTER, Query, day, named, to_cluster, to_job, zero

from gpuwait.thresholds import DEFAULTS

#: From here on a GPU cannot reach the use below which it counts as starved; the alerts fire at it.
STARVED = round(1 - DEFAULTS["gpu", "utilization"].value, 6)
_USE, _LOST = f"{DEFAULTS['gpu', 'utilization'].value:.0%}", f"{STARVED:.0%}"
#: Rows of a ranking.
MOST = 15

_GPUS, _HOURS = "suffix: GPUs", "suffix: GPU h"
_RULES = "the recording rules have run for less than two minutes, or no GPU was in use"
_WAITS = "no GPU waited"
_UNSEEN = "no GPU has been observed for two minutes"
_MONEY = "no price configured, or nothing lost; prices are set in the exporter's configuration (prices:)"


def _sum(by: str, metric: str) -> str:
    return f"sum by ({by}) ({metric}{{{CLUSTER}}})"


def _sum_day(by: str, metric: str) -> str:
    return f"sum by ({by}) ({day(metric, CLUSTER)})"


#: Where GPUs were observed, whatever they did: what has no series there is 0.
_OBSERVED = f'cluster_state:gpuwait_time:gpus_rate5m{{{CLUSTER}, state!="unknown"}}'
_OBSERVED_DAY = day("cluster_state:gpuwait_time:gpu_hours_1d", f'{CLUSTER}, state!="unknown"')
#: Always fires, so that no other alert means that none fires.
_ALERTED = 'ALERTS{alertname="GpuwaitWatchdog", alertstate="firing"}'


def _worst(expr: str) -> str:
    return f"topk({MOST}, {expr})"


_NOW = (
    panels.number(
        "GPUs in use",
        "GPUs that a workload wants at this moment: busy, between kernels, or waiting. Held but idle "
        "ones are not.",
        _GPUS,
        Query(zero(f"sum(node:gpuwait_in_use:gpus_rate5m{{{CLUSTER}}})", f"count({_OBSERVED})")),
        absent=_UNSEEN,
    ),
    panels.number(
        "GPUs lost to waiting",
        "GPUs' worth of time that is lost at this moment: 3 may be three GPUs that stand still, or six "
        "that wait half of the time.",
        _GPUS,
        Query(zero(f"sum(cluster_cause:gpuwait_waiting:gpus_rate5m{{{CLUSTER}}})", f"count({_OBSERVED})")),
        absent=_UNSEEN,
    ),
    panels.number(
        "Starved share",
        f"GPUs in use that compute less than {_USE} of the time, as the mean over the nodes. It also "
        "counts nodes with another GPU exporter and without the ledger. A GPU counts after it was held "
        "for 10 minutes.",
        "percentunit",
        Query(f"avg(node:gpuwait_starved:ratio{{{CLUSTER}}})"),
        absent="no GPU has been held for 10 minutes",
        over=STARVED,
    ),
    panels.number(
        "Lost in 24 h",
        "GPU-hours lost to waiting in the last 24 hours, whatever the time range says. Right from the "
        "first day on.",
        _HOURS,
        Query(
            zero(f"sum({day('cluster_cause:gpuwait_lost:gpu_hours_1d', CLUSTER)})", f"count({_OBSERVED_DAY})")
        ),
        absent=f"{_UNSEEN}, or the rules have run for less than five minutes",
    ),
    panels.number(
        "Money lost in 24 h",
        "The same in the currency of the exporter's configuration. GPUs without a price are not in it.",
        "short",
        Query(
            zero(
                f"sum({day('cluster_cause:gpuwait_lost:money_1d', CLUSTER)})",
                f"count(gpuwait_gpu_price_per_hour{{{CLUSTER}}})",
            )
        ),
        absent="no price configured; prices are set in the exporter's configuration (prices:)",
    ),
    panels.number(
        "Nodes with an alert",
        "Nodes where an alert about waiting GPUs or their health fires.",
        "short",
        Query(
            zero(
                f'count(count by (cluster, node) (ALERTS{{{CLUSTER}, component=~"gpu-wait|gpu-health", '
                'alertstate="firing", node!=""}))',
                f"count({_ALERTED})",
            )
        ),
        absent="the alert rules are not loaded",
        over=1,
    ),
)

_TIME = (
    panels.stack(
        "GPU time by state",
        "All GPUs by what they do. Blue is work, orange is waiting, grey is unused: `idle` is held by a "
        "workload that does nothing, `free` belongs to nobody, `unknown` could not be observed.",
        _GPUS,
        Query(_sum("state", "cluster_state:gpuwait_time:gpus_rate5m"), "{{state}}"),
        absent=_RULES,
    ),
    panels.stack(
        "GPUs lost by cause",
        "The waiting above, by what the hosts say it is for. Many nodes that wait for one cause at the "
        "same time share a server, a network or a change.",
        _GPUS,
        Query(_sum("cause", "cluster_cause:gpuwait_waiting:gpus_rate5m"), "{{cause}}"),
        absent=_WAITS,
    ),
)

_COST = (
    panels.bars(
        "GPU-hours lost by cause, 24 h",
        "Start with the longest bar. Whatever the time range says, these are the last 24 hours.",
        _HOURS,
        Query(f"sort_desc({_sum_day('cause', 'cluster_cause:gpuwait_lost:gpu_hours_1d')})", "{{cause}}"),
        absent=f"{_WAITS}, or the rules have run for less than five minutes",
    ),
    panels.bars(
        "Money lost by cause, 24 h",
        "Lost time of each GPU times its price.",
        "short",
        Query(f"sort_desc({_sum_day('cause', 'cluster_cause:gpuwait_lost:money_1d')})", "{{cause}}"),
        absent=_MONEY,
    ),
    panels.stack(
        "Money lost per hour by cause",
        "What waiting costs at the rate of each moment.",
        "short",
        Query(_sum("cause", "cluster_cause:gpuwait_lost:money_per_hour"), "{{cause}}"),
        absent=_MONEY,
    ),
)


def _by_set(what: str) -> str:
    return f"sum by ({_SET}) ({named(f'workload:gpuwait_{what}:gpus_rate5m{{{CLUSTER}}}')})"


_SET = "cluster, workload_kind, workload_namespace, job_set"
_NODES = _worst(_sum_day("cluster, node", "node:gpuwait_lost:gpu_hours_1d"))
_SETS = _worst(f"{_by_set('waiting')} > 0")


def _of_nodes(expr: str) -> str:
    """The same nodes as in the first column."""
    return f"{expr} and on (cluster, node) {_NODES}"


_IN_USE = zero(
    _of_nodes(_sum("cluster, node", "node:gpuwait_in_use:gpus_rate5m")),
    "("
    + _of_nodes(
        f'count by (cluster, node) (node_state:gpuwait_time:gpus_rate5m{{{CLUSTER}, state!="unknown"}})'
    )
    + ")",
)

_WORST = (
    panels.rows(
        f"Worst {MOST} nodes",
        "By GPU-hours lost in 24 h. `worst GPU` is the share of its time that the GPU which waits most "
        "loses now. Click a node for its evidence.",
        "none",
        Query(to_cluster(_NODES), heading="lost in 24 h"),
        Query(
            to_cluster(
                _of_nodes(f"max by (cluster, node) (node:gpuwait_waiting_worst:ratio_rate5m{{{CLUSTER}}})")
            ),
            heading="worst GPU now",
        ),
        Query(to_cluster(_IN_USE), heading="in use now"),
        absent=f"{_WAITS}, or the rules have run for less than five minutes",
        units={"lost in 24 h": _HOURS, "worst GPU now": "percentunit", "in use now": _GPUS},
        links={"node": ("Node", TO_NODE)},
        empty={"worst GPU now": "none in use", "in use now": "not observed"},
        sort="lost in 24 h",
    ),
    panels.rows(
        f"Worst {MOST} workloads",
        "By GPUs' worth of time lost now; pods of one set and nodes of one Slurm job are one line. Click "
        "a name for its nodes (pods and Slurm jobs; services and bare containers have no page of their "
        "own).",
        _GPUS,
        Query(to_job(_SETS), heading="lost now"),
        Query(to_job(f"{_by_set('in_use')} and on ({_SET}) {_SETS}"), heading="in use now"),
        absent="no workload that holds a GPU waited",
        links={"job_set": ("Workload or job", TO_JOB)},
        sort="lost now",
    ),
)

_WHERE = (
    panels.matrix(
        "Node against cause",
        "Share of its time in use that the GPU which loses most to the cause gives to it, now. Orange, from "
        f"{_LOST} on, is what alerts fire at. A full column is one cause on many nodes.",
        "percentunit",
        Query(
            to_cluster(
                "max by (cluster, node, cause) "
                f"(node_cause:gpuwait_waiting_worst:ratio_rate5m{{{CLUSTER}}}) > 0.01 and on (cluster, node) "
                f"topk(40, max by (cluster, node) (node:gpuwait_waiting_worst:ratio_rate5m{{{CLUSTER}}}))"
            )
        ),
        absent=_WAITS,
        column="cause",
        over=STARVED,
        least="< 1 %",
        links={"node": ("Node", TO_NODE)},
    ),
    panels.firing(
        "Firing alerts",
        "Everything from these rules that fires now, but for the heartbeat.",
        f'{CLUSTER}, component=~"gpu.*"',
        f"cluster, alertname, node, gpu, cause, {_SET.removeprefix('cluster, ')}, collector",
        {"node": ("Node", TO_NODE), "job_set": ("Workload or job", TO_JOB)},
    ),
)

PAGE = Page(
    uid="gpuwait-fleet",
    title="gpuwait: Fleet",
    about="Where the GPU time of all nodes goes, what waiting costs, and where to look first.",
    variables=(clusters(),),
    rows=(
        Row("Now", 5, [(panel, 4) for panel in _NOW]),
        Row("GPU time", 9, [(panel, 12) for panel in _TIME]),
        Row("What waiting costs", 9, [(panel, 8) for panel in _COST]),
        Row("Where to look", 11, [(panel, 12) for panel in _WORST]),
        Row("Causes and alerts", 12, [(panel, 12) for panel in _WHERE]),
    ),
    alerts='cluster=~"$cluster", component="gpu-wait"',
    span="24h",
)
