"""Queries of the dashboards: known names and labels, right rate windows, links that lead somewhere."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from gpuwait.collectors import ALL
from gpuwait.reference import sections

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
RULES = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "alerts" / "rules").glob("*.yaml")}
RECORDED = {
    rule["record"]
    for file in RULES.values()
    for group in file["groups"]
    for rule in group["rules"]
    if "record" in rule
}
ALERTING = [
    rule for file in RULES.values() for group in file["groups"] for rule in group["rules"] if "alert" in rule
]

SITE = {"cluster", "node", "instance", "job"}
_GPU, _OWNER = {"gpu", "uuid"}, {"workload_kind", "workload_namespace", "workload"}
#: Labels of recorded series besides cluster and node, by the level that their name begins with.
LEVELS = {
    "gpu": _GPU | {"exporter"},
    "gpu_state": _GPU | {"state"},
    "gpu_cause": _GPU | {"cause"},
    "gpu_workload": _GPU | _OWNER,
    "node": {"exporter"},
    "node_state": {"state"},
    "node_cause": {"cause"},
    "node_job": {"workload_kind", "workload_namespace", "job_set"},
    "workload": _OWNER,
    "workload_cause": _OWNER | {"cause"},
    "cluster_state": {"state"},
    "cluster_cause": {"cause"},
}
#: What Prometheus makes itself, and what its client library exports.
BUILT_IN = {
    "up": set(),
    "scrape_duration_seconds": set(),
    "scrape_samples_scraped": set(),
    "process_start_time_seconds": set(),
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "ALERTS": {
        *("alertname", "alertstate", "severity", "component", "cause", "gpu", "job_set", "collector"),
        *_OWNER,
    },
}
CATALOGUE = BUILT_IN | {
    family.name: set(family.labels) for _, _, families in sections(ALL) for family in families
}
GROWTH = {"rate", "increase", "changes"}


def queries():
    """(where, PromQL) of every panel, annotation and variable."""
    for uid, page in PAGES.items():
        for panel in page["panels"]:
            for target in panel.get("targets", ()):
                yield f"{uid}: {panel['title']} {target['refId']}", target["expr"]
        for note in page["annotations"]["list"]:
            yield f"{uid}: {note['name']}", note["expr"]
        for variable in page["templating"]["list"]:
            if variable["type"] == "query":
                chosen = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                yield f"{uid}: ${variable['name']}", f"count by ({chosen[2]}) ({chosen[1]})"


QUERIES = list(queries())


def filled(expression):
    """PromQL that a parser reads: variables have a value."""
    assert "$__interval" not in expression
    expression = expression.replace("$__rate_interval", "4m")
    return re.sub(r"\$(cluster|node|gpu|kind|namespace|workload)\b", "x", expression)


@pytest.fixture(scope="module")
def promql():
    return pytest.importorskip("promql_parser", reason="needs promql-parser")


class Reader:
    """Walks an expression; notes what no series has, and counters that are not under a rate."""

    def __init__(self, promql):
        self.p, self.wrong = promql, []

    def need(self, labels, known, where):
        self.wrong += [f"{where}: no label {label}" for label in labels if label not in known]

    def series(self, e, growth):
        level = e.name.split(":")[0]
        if e.name in RECORDED:
            known = LEVELS[level] | SITE
        elif e.name in CATALOGUE:
            known = CATALOGUE[e.name] | SITE
        else:
            known = SITE
            self.wrong.append(f"unknown {e.name}")
        if e.name.endswith("_total") and growth not in GROWTH:
            self.wrong.append(f"{e.name} is a counter without a rate")
        self.need([m.name for m in e.matchers.matchers], known, e.name)
        return known

    def walk(self, e, growth=""):
        """Labels that the value may have."""
        p = self.p
        if isinstance(e, p.VectorSelector):
            return self.series(e, growth)
        if isinstance(e, p.MatrixSelector):
            return self.series(e.vector_selector, growth)
        if isinstance(e, p.AggregateExpr):
            known = self.walk(e.expr)
            if e.modifier is not None:
                self.need(e.modifier.labels, known, "aggregation")
                return set(e.modifier.labels)
            return known if str(e.op) in {"topk", "bottomk"} else set()
        if isinstance(e, p.BinaryExpr):
            known = self.walk(e.lhs) | self.walk(e.rhs)
            if e.modifier is not None and e.modifier.matching is not None:
                self.need(e.modifier.matching.labels, known, "on()")
            return known
        if isinstance(e, p.Call):
            known = set().union(*(self.walk(arg, e.func.name) for arg in e.args)) if e.args else set()
            if e.func.name == "label_replace":
                known |= {e.args[1].val}
            return known
        if isinstance(e, (p.ParenExpr, p.UnaryExpr, p.SubqueryExpr)):
            return self.walk(e.expr, growth)
        return set()


@pytest.mark.parametrize(("where", "expression"), QUERIES, ids=[where for where, _ in QUERIES])
def test_every_name_and_label_is_known(where, expression, promql):
    """A query reads what the exporter, a recording rule or Prometheus gives, and takes rates of counters."""
    reader = Reader(promql)
    reader.walk(promql.parse(filled(expression)))
    assert reader.wrong == []


@pytest.mark.parametrize(
    "expression",
    [
        "sum by (nod) (up)",
        'up{gpu="0"}',
        "gpuwait_no_such_thing",
        "gpuwait_sampler_ticks_total",
        'node:gpuwait_in_use:gpus_rate5m{gpu="0"}',
        "max by (cause) (node_state:gpuwait_time:gpus_rate5m)",
        "gpuwait_gpu_up and on (cluster, host) up",
    ],
)
def test_the_check_itself(expression, promql):
    """What is wrong is found."""
    reader = Reader(promql)
    reader.walk(promql.parse(expression))
    assert reader.wrong


@pytest.mark.parametrize(("where", "expression"), QUERIES, ids=[where for where, _ in QUERIES])
def test_rates(where, expression):
    """Rates look over $__rate_interval; a fixed window is an hour or a day, named in the text.

    What is recorded every five minutes is looked for in ten.
    """
    for function, window in re.findall(r"(\w+)\([^()]*\[([^\]]+)\]", expression):
        expected = {"rate": {"$__rate_interval"}, "max_over_time": {"1d"}, "last_over_time": {"10m"}}.get(
            function, {"1h"}
        )
        assert window in expected, function


def test_members_of_a_set_are_as_in_the_rules():
    """Links and the job's page cut names of pods as the rules do."""
    (file,) = (ROOT / "alerts" / "rules").glob("workloads.yaml")
    (rule,) = set(re.findall(r'"\(\.\+\?\)(.*)"\)', file.read_text()))
    found = [re.findall(r'(?:\(\.\+\?\)|\$workload)(\(\?:.*?\{5\}\)\?\))"', query) for _, query in QUERIES]
    assert {part for parts in found for part in parts} == {rule}
    assert sum(map(bool, found)) > 10


@pytest.mark.parametrize("rule", ALERTING, ids=lambda rule: rule["alert"])
def test_links_of_alerts(rule):
    """The dashboard of an alert is there, and knows every variable that the link passes."""
    url = urlsplit(rule["annotations"]["dashboard_url"].replace("{{ ", "{{").replace(" }}", "}}"))
    page = PAGES[url.path.removeprefix("/d/")]
    passed = {key for key in parse_qs(url.query) if key.startswith("var-")}
    assert passed <= {f"var-{variable['name']}" for variable in page["templating"]["list"]}
    assert set(parse_qs(url.query)) - passed <= {"from", "to"}


def links():
    """Addresses of data links."""
    for uid, page in PAGES.items():
        for panel in page["panels"]:
            for override in panel.get("fieldConfig", {}).get("overrides", ()):
                for one in override["properties"]:
                    if one["id"] == "links":
                        yield uid, panel, override["matcher"]["options"], one["value"][0]["url"]


LINKS = list(links())


@pytest.mark.parametrize(("uid", "panel", "column", "url"), LINKS)
def test_links_between_pages(uid, panel, column, url):
    """A link in a table leads to a page that knows its variables, with the row's cluster (and namespace)."""
    to = urlsplit(url)
    target = PAGES[to.path.removeprefix("/d/")]
    (name,) = re.findall(r"var-(\w+)=\$\{__value\.raw\}", to.query)
    assert name in [variable["name"] for variable in target["templating"]["list"]]
    for kept in (
        "${datasource:queryparam}",
        "var-cluster=${__data.fields.to_cluster}",
        "${__url_time_range}",
    ):
        assert kept in to.query
    if "gpuwait-job" in to.path:
        assert "var-kind=${__data.fields.workload_kind}" in to.query
        assert "var-namespace=${__data.fields.to_namespace}" in to.query
    for label in {column, "cluster", *(re.findall(r"fields\.(workload_\w+)", to.query))}:
        assert any(re.search(rf"\bby \([^)]*\b{label}\b", target["expr"]) for target in panel["targets"])
    hidden = {
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if {"id": "custom.hidden", "value": True} in override["properties"]
    }
    assert hidden == {"to_cluster", "to_namespace"}


def test_there_are_links_to_nodes_and_jobs():
    """From the fleet to both, from a node to its jobs, from a job to its nodes."""
    assert {(uid, urlsplit(url).path) for uid, _, _, url in LINKS} == {
        ("gpuwait-fleet", "/d/gpuwait-node"),
        ("gpuwait-fleet", "/d/gpuwait-job"),
        ("gpuwait-node", "/d/gpuwait-job"),
        ("gpuwait-job", "/d/gpuwait-node"),
        ("gpuwait-exporter", "/d/gpuwait-node"),
    }
