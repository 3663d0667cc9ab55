"""Exporter health: whether gpuwait itself works, everywhere, and what it costs."""

from __future__ import annotations

from dashboards.build import panels
from dashboards.build.page import TO_NODE, Page, Row, choice, clusters
from dashboards.build.query import CLUSTER, NODE, Query, rate, to_cluster, zero

#: Targets that are gpuwait's, by the name of the scrape job, as in the rules.
_OURS = f'{NODE}, job=~".*gpuwait.*"'
_NAMED = "no scrape job with gpuwait in its name"
_NONE = "no gpuwait exporter has been scraped"

#: Where the rules' alerts begin: CPUs, bytes, seconds; of the sampler ticks a second.
CPU_BUDGET, MEMORY_BUDGET, SLOW, STALLED = 0.05, 200e6, 2, 0.5

_NOW = (
    panels.number(
        "Exporters",
        "Targets that answered their last scrape.",
        "short",
        Query(f"sum(up{{{_OURS}}})"),
        absent=_NAMED,
    ),
    panels.number(
        "Down",
        "Targets that did not. Their nodes are unobserved.",
        "short",
        Query(zero(f"count(up{{{_OURS}}} == 0)", f"count(up{{{_OURS}}})")),
        absent=_NAMED,
        over=1,
    ),
    panels.number(
        "Collectors that fail",
        "A fault, or no answer in time; a source that is not there is none.",
        "short",
        Query(
            zero(
                f"count(gpuwait_collector_success{{{NODE}}} == 0)",
                f"count(gpuwait_collector_success{{{NODE}}})",
            )
        ),
        absent=_NONE,
        over=1,
    ),
    panels.number(
        "GPU readers that stand still",
        "Nodes whose driver does not answer, or whose reader does not run.",
        "short",
        Query(
            zero(f"count(gpuwait_gpu_reader_up{{{NODE}}} == 0)", f"count(gpuwait_gpu_reader_up{{{NODE}}})")
        ),
        absent="no reader of GPUs is configured, or no gpuwait exporter has been scraped",
        over=1,
    ),
    panels.number(
        "Series",
        "Samples in the last scrape of all exporters.",
        "short",
        Query(f"sum(scrape_samples_scraped{{{_OURS}}})"),
        absent=_NAMED,
    ),
    panels.number(
        "Series dropped in 1 h",
        "Samples that exporters left out: over the budget of a collector, or named twice.",
        "short",
        Query(
            zero(
                f"sum(increase(gpuwait_series_dropped_total{{{NODE}}}[1h]))",
                f"count(gpuwait_build_info{{{NODE}}})",
            )
        ),
        absent=_NONE,
        over=1,
    ),
)

_SOURCES = (
    panels.rows(
        "What fails",
        "Collectors with a fault now; the exporter's log says which file.",
        "none",
        Query(
            to_cluster(f"max by (cluster, node, collector) (gpuwait_collector_success{{{NODE}}} == 0)"),
            heading="works",
        ),
        absent="nothing fails",
        links={"node": ("Node", TO_NODE)},
        hidden=("Value",),
    ),
    panels.rows(
        "What is not there",
        "Nodes that lack a source, or a part of it, by reason. `no_permission` can be mended; `absent` "
        "need not be.",
        "short",
        Query(
            "count by (collector, reason) (max by (cluster, node, collector, reason) "
            f"(gpuwait_collector_available{{{NODE}}} == 0))",
            heading="nodes",
        ),
        absent="every source is there",
        sort="nodes",
    ),
    panels.rows(
        "Versions",
        "Exporters by version.",
        "short",
        Query(f"count by (version, pythonversion) (gpuwait_build_info{{{NODE}}})", heading="exporters"),
        absent=_NONE,
        sort="exporters",
    ),
    panels.rows(
        "Thresholds that differ",
        "Numbers of a node that are not those of most nodes: a configuration file changed them. The lines on "
        "the node's page show the defaults.",
        "none",
        Query(
            to_cluster(
                f"max by (cluster, node, cause, signal) (gpuwait_cause_threshold{{{NODE}}})"
                " != on (cause, signal) group_left () quantile by (cause, signal) (0.5, "
                f"gpuwait_cause_threshold{{{CLUSTER}}})"
            ),
            heading="value",
        ),
        absent="all exporters use the same numbers",
        links={"node": ("Node", TO_NODE)},
    ),
)

_SAMPLER = (
    panels.graph(
        "Sampler: ticks",
        "Snapshots a second; 1 is right. Below the line an alert fires: then GPU time is not observed.",
        "ops",
        Query(
            f"bottomk(10, max by (cluster, node) ({rate('gpuwait_sampler_ticks_total', NODE)}))", "{{node}}"
        ),
        absent=_NONE,
        at=STALLED,
    ),
    panels.graph(
        "Sampler: lag",
        "Seconds by which a snapshot came late or is overdue; the ten worst nodes. Gaps above a few "
        "seconds are not counted as observed.",
        "s",
        Query(f"topk(10, max by (cluster, node) (gpuwait_sampler_lag_seconds{{{NODE}}}))", "{{node}}"),
        absent=_NONE,
    ),
    panels.graph(
        "GPU reader: driver without an answer",
        "Seconds; the ten worst nodes.",
        "s",
        Query(f"topk(10, max by (cluster, node) (gpuwait_gpu_reader_stuck_seconds{{{NODE}}}))", "{{node}}"),
        absent="no reader of GPUs runs",
    ),
    panels.graph(
        "GPU reader: ended",
        "Readers that ended in the hour before, by a crash, a kill or a new driver.",
        "short",
        Query(
            "topk(10, max by (cluster, node) "
            f"(increase(gpuwait_gpu_reader_restarts_total{{{NODE}}}[1h]))) > 0",
            "{{node}}",
        ),
        absent="none ended, or no reader of GPUs runs",
    ),
    panels.graph(
        "Exporter: restarts",
        "In the hour before.",
        "short",
        Query(
            f"topk(10, max by (cluster, node) (changes(process_start_time_seconds{{{_OURS}}}[1h]))) > 0",
            "{{node}}",
        ),
        absent="none restarted",
    ),
    panels.graph(
        "Delay accounting: share of processes",
        "Share of the processes of GPU workloads whose delays the kernel accounts; the lowest ten nodes. "
        "Those that started before it was switched on are not.",
        "percentunit",
        Query(
            f"bottomk(10, min by (cluster, node) (gpuwait_delay_accounting_coverage_ratio{{{NODE}}}))",
            "{{node}}",
        ),
        absent="delay accounting is off (kernel.task_delayacct), or no workload holds a GPU",
        top=1,
    ),
)

_COST = (
    panels.graph(
        "Scrape duration",
        "The ten slowest; an alert fires above the line.",
        "s",
        Query(f"topk(10, max by (cluster, node) (scrape_duration_seconds{{{_OURS}}}))", "{{node}}"),
        absent=_NAMED,
        at=SLOW,
    ),
    panels.graph(
        "Collectors: duration",
        "The slowest node of each collector.",
        "s",
        Query(f"max by (collector) (gpuwait_collector_duration_seconds{{{NODE}}})", "{{collector}}"),
        absent=_NONE,
    ),
    panels.graph(
        "Series by node",
        "Samples of a scrape; the ten largest. Workloads, mounts and disks make them.",
        "short",
        Query(f"topk(10, max by (cluster, node) (scrape_samples_scraped{{{_OURS}}}))", "{{node}}"),
        absent=_NAMED,
    ),
    panels.graph(
        "Resident memory",
        "Of the daemon; the ten largest. An alert fires above the line.",
        "bytes",
        Query(f"topk(10, max by (cluster, node) (process_resident_memory_bytes{{{_OURS}}}))", "{{node}}"),
        absent=_NAMED,
        at=MEMORY_BUDGET,
    ),
    panels.graph(
        "CPUs used",
        "Of the daemon; the ten largest. An alert fires above the line.",
        "short",
        Query(f"topk(10, max by (cluster, node) ({rate('process_cpu_seconds_total', _OURS)}))", "{{node}}"),
        absent=_NAMED,
        at=CPU_BUDGET,
    ),
    panels.graph(
        "Dropped: samples and threads",
        "A second. Threads are left out of a look when a workload has too many.",
        "ops",
        Query(
            f"sum by (collector) ({rate('gpuwait_series_dropped_total', NODE)}) > 0", "{{collector}}: samples"
        ),
        Query(f"sum({rate('gpuwait_sampler_threads_skipped_total', NODE)}) > 0", "threads"),
        absent="nothing was dropped",
    ),
)

PAGE = Page(
    uid="gpuwait-exporter",
    title="gpuwait: Exporter health",
    about="Whether gpuwait itself works on every node, what it cannot see, and what it costs.",
    variables=(
        clusters(),
        choice("node", "Node", f"label_values(gpuwait_build_info{{{CLUSTER}}}, node)", multi=True),
    ),
    rows=(
        Row("Now", 5, [(panel, 4) for panel in _NOW]),
        Row("Sources", 8, [(panel, 6) for panel in _SOURCES]),
        Row("Sampler and GPU reader", 7, [(panel, 8) for panel in _SAMPLER]),
        Row("What it costs", 7, [(panel, 8) for panel in _COST]),
    ),
    alerts='cluster=~"$cluster", node=~"$node", component="gpuwait"',
    span="6h",
)
