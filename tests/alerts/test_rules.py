"""The rules against the exporter's own catalogue, its thresholds, and their tests."""

import re
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from gpuwait.collectors import ALL
from gpuwait.reference import sections
from gpuwait.thresholds import DEFAULTS

ALERTS = Path(__file__).parents[2] / "alerts"
FILES = sorted((ALERTS / "rules").glob("*.yaml"))
CASES = [
    test["name"]
    for path in (ALERTS / "tests").glob("*.yaml")
    for test in yaml.safe_load(path.read_text())["tests"]
]

RUNBOOKS = "https://gpuwait.example/runbooks/"
DASHBOARDS = "https://grafana.example/d/"
SEVERITIES = {"critical", "warning", "info", "none"}

#: Labels that a scrape or a site adds to every series.
SITE = {"cluster", "node", "instance", "job"}

_VMSTAT = (
    "compact_stall allocstall allocstall_normal allocstall_movable pswpin oom_kill numa_hint_faults "
    "numa_hint_faults_local nr_dirty nr_writeback nr_dirty_threshold"
)
_DISK = "io_time_seconds read_time_seconds write_time_seconds reads_completed writes_completed"

#: Series of other exporters that the adapters read, with the labels that the rules use.
INPUTS = {
    "up": set(),
    "scrape_duration_seconds": set(),
    "process_start_time_seconds": set(),
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    **{
        f"DCGM_FI_{name}": {"gpu", "UUID", "uuid", "Hostname", "hostname", "GPU_I_ID"}
        for name in ("PROF_GR_ENGINE_ACTIVE", "DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", "DEV_FB_USED")
    },
    "nvidia_smi_utilization_gpu_ratio": {"uuid", "gpu", "hostname"},
    "nvidia_smi_memory_used_bytes": {"uuid", "gpu", "hostname"},
    **{
        f"{prefix}{name}": {"gpu_id", "gpu_uuid", "gpu_partition_id", "hostname"}
        for prefix in ("", "amd_")
        for name in ("gpu_gfx_activity", "gpu_used_vram")
    },
    "npu_chip_info_utilization": {"id", "vdie_id", "hostname"},
    "npu_chip_info_hbm_used_memory": {"id", "vdie_id", "hostname"},
    **{f"node_vmstat_{name}": set() for name in _VMSTAT.split()},
    **{f"node_pressure_{name}_waiting_seconds_total": set() for name in ("memory", "io", "cpu")},
    **{f"node_disk_{name}_total": {"device"} for name in _DISK.split()},
    "node_nfs_rpc_retransmissions_total": set(),
    "node_mountstats_nfs_operations_response_time_seconds_total": {"export", "protocol", "operation"},
    "node_mountstats_nfs_operations_requests_total": {"export", "protocol", "operation"},
    **{
        f"container_cpu_cfs_{name}_total": {"namespace", "pod", "container"}
        for name in ("throttled_periods", "periods", "throttled_seconds")
    },
    "kube_pod_container_resource_limits": {"namespace", "pod", "container", "resource"},
}

#: Functions that Prometheus 2.42 does not have.
NEWER = re.compile(
    r"\b(mad_over_time|sort_by_label|sort_by_label_desc|double_exponential_smoothing|limitk|limit_ratio|info"
    r"|ts_of_\w+|first_over_time|histogram_avg)\s*\(|query_offset|smoothed|anchored"
)


GROUPS = [group for path in FILES for group in yaml.safe_load(path.read_text())["groups"]]


def rules(kind):
    return [rule for group in GROUPS for rule in group["rules"] if kind in rule]


RULES = [*rules("alert"), *rules("record")]
NAMES = sorted({rule["alert"] for rule in rules("alert")})
RECORDED = {}
for one in rules("record"):
    RECORDED.setdefault(one["record"], []).append(one)


CATALOGUE = {
    **{family.name: set(family.labels) for _, _, families in sections(ALL) for family in families},
    **INPUTS,
    "ALERTS": {"alertname", "alertstate", "component", "evidence", "cause", "severity"},
}


@pytest.fixture(scope="module")
def promql():
    return pytest.importorskip("promql_parser", reason="needs promql-parser")


class Reading:
    """Names and labels of an expression: what is read, and what is available to group by."""

    recorded: ClassVar[dict[str, set[str]]] = {}

    def __init__(self, promql):
        self.promql = promql
        self.names, self.wrong = set(), []

    def series(self, name, matchers):
        self.names.add(name)
        if name in RECORDED and name not in self.recorded:
            found = self.recorded[name] = set()
            for rule in RECORDED[name]:
                inner = Reading(self.promql)
                found |= inner.labels(self.promql.parse(rule["expr"])) | set(rule.get("labels", {}))
        known = self.recorded[name] if name in RECORDED else CATALOGUE.get(name, set())
        self.check(matchers, known | SITE, name)
        return known | SITE

    def check(self, wanted, known, where):
        self.wrong += [f"{label} of {where}" for label in wanted if label not in known]

    def labels(self, e):
        p = self.promql
        if isinstance(e, p.MatrixSelector):
            return self.labels(e.vector_selector)
        if isinstance(e, p.VectorSelector):
            return self.series(e.name, [m.name for m in e.matchers.matchers])
        if isinstance(e, p.AggregateExpr):
            return self.aggregate(e, self.labels(e.expr))
        if isinstance(e, p.BinaryExpr):
            return self.binary(e)
        if isinstance(e, p.Call):
            return self.call(e)
        if isinstance(e, (p.ParenExpr, p.SubqueryExpr, p.UnaryExpr)):
            return self.labels(e.expr)
        return set()

    def aggregate(self, e, known):
        if e.modifier is None:
            return set()
        self.check(e.modifier.labels, known, "aggregation")
        by = e.modifier.type == self.promql.AggModifierType.By
        return set(e.modifier.labels) if by else known - set(e.modifier.labels)

    def binary(self, e):
        left, right = self.labels(e.lhs), self.labels(e.rhs)
        if e.modifier is not None and e.modifier.matching is not None:
            self.check(e.modifier.matching.labels, left | right, "on()")
        return left | right

    def call(self, e):
        known = set().union(*(self.labels(arg) for arg in e.args)) if e.args else set()
        words = [arg.val for arg in e.args if isinstance(arg, self.promql.StringLiteral)]
        if e.func.name == "label_replace":
            known |= {words[0]}
            self.check([words[2]] if words[2] else [], known, "label_replace")
        if e.func.name == "label_join":
            self.check([w for w in words[2:] if w not in {"node", "gpu", "uuid"}], known, "label_join")
            known |= {words[0]}
        return known


def title(rule):
    return rule.get("alert") or rule["record"]


@pytest.mark.parametrize("rule", RULES, ids=title)
def test_every_name_and_label_is_known(rule, promql):
    """A rule reads only what the exporter, another rule or a documented adapter input gives."""
    reading = Reading(promql)
    reading.labels(promql.parse(rule["expr"]))
    unknown = {name for name in reading.names if name not in CATALOGUE and name not in RECORDED}
    assert (unknown, reading.wrong) == (set(), [])


def test_every_query_in_a_text_is_known(promql):
    """Queries in annotations too: with the node filled in they parse, and read known series and labels."""
    seen = 0
    for rule in rules("alert"):
        for query in re.findall(
            r'printf "((?:[^"\\]|\\.)*)"[^|}]*\| query', rule["annotations"]["description"]
        ):
            seen += 1
            reading = Reading(promql)
            reading.labels(promql.parse(query.replace('\\"', '"').replace("%q", '"x"')))
            unknown = {name for name in reading.names if name not in CATALOGUE and name not in RECORDED}
            assert (rule["alert"], unknown, reading.wrong) == (rule["alert"], set(), [])
    assert seen > 30


@pytest.mark.parametrize(
    "expression",
    [
        "sum by (nod) (up)",
        'up{gpu="0"}',
        "gpuwait_gpu_up and on (cluster, host) up",
        'label_replace(gpuwait_gpu_up, "a", "$1", "b", "(.*)")',
        "sum without (cause) (gpuwait_gpu_time_seconds_total)",
        'node:gpuwait_in_use:gpus_rate5m{gpu="0"}',
    ],
)
def test_a_wrong_label_is_found(expression, promql):
    """The check itself: a label that the series does not have is not waved through."""
    reading = Reading(promql)
    reading.labels(promql.parse(expression))
    assert reading.wrong


def test_every_recorded_series_is_a_level_a_metric_and_an_operation():
    """level:metric:operation, as Prometheus advises; the metric begins with gpuwait_."""
    assert [n for n in RECORDED if not re.fullmatch(r"[a-z_]+:gpuwait_[a-z_]+:[a-z_0-9]+", n)] == []


def test_no_syntax_newer_than_2_42():
    """Prometheus 2.42 loads the files."""
    assert [path.name for path in FILES if NEWER.search(path.read_text())] == []


def test_files_are_short():
    """A rule file can be read in one sitting."""
    assert [path.name for path in FILES if len(path.read_text().splitlines()) >= 300] == []


@pytest.mark.parametrize("rule", rules("alert"), ids=title)
def test_every_alert_is_complete(rule):
    """Severity, component, for, a summary without labels, a description, a runbook, a dashboard."""
    name, texts = rule["alert"], rule["annotations"]
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["labels"]["component"]
    assert "for" in rule
    assert "keep_firing_for" in rule or name == "GpuwaitWatchdog"
    assert re.fullmatch(r"([A-Z]|gpuwait)[^{}]*\.", texts["summary"])
    assert texts["description"].strip()
    assert texts["runbook_url"] == f"{RUNBOOKS}{name}.md"
    assert texts["dashboard_url"].startswith(DASHBOARDS)
    assert "$value" not in str(rule["labels"])


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_tests(name):
    """One case where it fires, and one where it stays silent or stands at its boundary."""
    kinds = [case.split(": ", 1)[1].split()[0] for case in CASES if case.startswith(f"{name}: ")]
    assert "fires" in kinds
    assert {"silent", "boundary,"} & set(kinds)


NUMBER = re.compile(r"(?<![\w.\[])\d+(?:\.\d+)?(?![\w.])")


def tagged():
    found = []
    for line in (line.strip() for path in FILES for line in path.read_text().splitlines()):
        tags = re.findall(r"@\{([a-z_]+)\.([a-z_]+)\}", line)
        if tags:
            found.append((line, {float(n) for n in NUMBER.findall(line.split("#")[0])}, tags))
    return found


@pytest.mark.parametrize(("line", "numbers", "tags"), tagged())
def test_thresholds_are_the_daemons(line, numbers, tags):
    """A number that carries @{cause.signal} is the default of the daemon."""
    assert {tag for tag in tags if tag not in DEFAULTS} == set()
    assert {tag: DEFAULTS[tag].value for tag in tags if DEFAULTS[tag].value not in numbers} == {}, line


def test_the_combinations_compare_with_tagged_numbers_only():
    """No number of a combination may drift; the share of starved GPUs is the rules' own."""
    lines = (ALERTS / "rules" / "alerts-counters.yaml").read_text().splitlines()
    compared = [x for x in lines if re.search(r"[<>]=? [\d.]", x) and "description" not in x]
    own = ("node:gpuwait_starved_without_ledger:ratio >= 0.5", "_mounts:count > 0", "offset 12h >= 0")
    assert [x for x in compared if "@{" not in x and not x.strip().endswith(own)] == []


@pytest.mark.parametrize("path", sorted(ALERTS.glob("tests/*.yaml")), ids=lambda path: path.stem)
def test_unit_tests_name_the_order_of_groups(path):
    """Every group is in the order, or promtool evaluates it when it likes and a chain is late by chance."""
    groups = {g["name"] for p in ALERTS.glob("rules/*.yaml") for g in yaml.safe_load(p.read_text())["groups"]}
    assert set(yaml.safe_load(path.read_text())["group_eval_order"]) == groups
