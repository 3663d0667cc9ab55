"""Panels show what their queries say: numbers of now, rows that lead on, no means over gaps, true names."""

import json
import re
from pathlib import Path

import pytest

from gpuwait.collectors import gpu

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
PANELS = [(uid, panel) for uid, page in PAGES.items() for panel in page["panels"] if panel.get("targets")]


def title(value):
    return f"{value['title']}" if isinstance(value, dict) else str(value)


def of_kind(*kinds):
    return [(uid, panel) for uid, panel in PANELS if panel["type"] in kinds]


def overrides(panel, column):
    """Properties that a column has beside those of the panel."""
    return {
        one["id"]: one.get("value")
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == column
        for one in override["properties"]
    }


@pytest.mark.parametrize(("uid", "panel"), of_kind("stat", "bargauge", "table"), ids=title)
def test_now_is_asked_for_now(uid, panel):
    """Over a range the last number that is not null may be a day old."""
    for target in panel["targets"]:
        assert target["instant"]
        assert not target.get("range")
    assert panel.get("options", {}).get("graphMode", "none") == "none"


@pytest.mark.parametrize(("uid", "panel"), of_kind("timeseries"), ids=title)
def test_no_mean_over_gaps(uid, panel):
    """A cause has no series where it is 0: a mean of the points that are there is many times too high."""
    assert panel["options"]["legend"]["calcs"] == []


#: Sums over the fleet, and what is told by version, collector or reason.
_OVER_ALL = {
    *("state", "cause", "collector", "collector, reason", "version, pythonversion", "cause, signal"),
}


@pytest.mark.parametrize(("uid", "panel"), PANELS, ids=title)
def test_clusters_are_told_apart(uid, panel):
    """Two clusters may have nodes, GPUs and jobs of one name: every aggregation that names one keeps both."""
    for target in panel["targets"]:
        for labels in re.findall(r"\bby \(([^)]*)\)", target["expr"]):
            assert "cluster" in labels.split(", ") or labels in _OVER_ALL
        for aggregation in re.findall(r"\b(?:max|min|sum|avg|count)\(", target["expr"]):
            assert panel["type"] == "stat" or target["legendFormat"] == "threads", aggregation
        apart = "by (cluster" in target["expr"] and panel["type"] == "timeseries"
        assert not apart or target["legendFormat"].endswith("{{cluster}}")


@pytest.mark.parametrize(
    ("uid", "name"), [("gpuwait-fleet", "Firing alerts"), ("gpuwait-node", "Firing alerts of this node")]
)
def test_critical_is_first(uid, name):
    """Sorted by a number, which reads as the severity: by name critical would be last."""
    (panel,) = (panel for page, panel in PANELS if (page, panel["title"]) == (uid, name))
    assert panel["options"]["sortBy"] == [{"displayName": "severity", "desc": True}]
    (organize,) = panel["transformations"]
    assert organize["options"]["renameByName"] == {"Value": "severity"}
    (mapping,) = overrides(panel, "severity")["mappings"]
    assert {number: its["text"] for number, its in mapping["options"].items()} == {
        "3": "critical",
        "2": "warning",
        "1": "info",
    }


@pytest.mark.parametrize(
    ("uid", "name"), [("gpuwait-fleet", "Node against cause"), ("gpuwait-job", "Cause by node")]
)
def test_matrix_keeps_the_cluster(uid, name):
    """A column for each cause; cluster and node stay columns of their own, which the link reads."""
    (panel,) = (panel for page, panel in PANELS if (page, panel["title"]) == (uid, name))
    labels, _ = panel["transformations"]
    assert (labels["id"], labels["options"]) == ("labelsToFields", {"mode": "columns", "valueLabel": "cause"})
    assert panel["fieldConfig"]["defaults"]["unit"] == "percentunit"
    assert overrides(panel, "number")["noValue"] == "< 1 %"


@pytest.mark.parametrize(("uid", "panel"), of_kind("table"), ids=title)
def test_columns_meet_in_one_row(uid, panel):
    """Queries of one table have labels in common that no series lacks, so that no row is split or mixed."""
    for added in ("to_cluster", "to_namespace"):
        having = [f'"{added}"' in target["expr"] for target in panel["targets"]]
        assert len(set(having)) == 1


@pytest.mark.parametrize(("uid", "panel"), of_kind("table"), ids=title)
def test_empty_cells_do_not_speak_for_the_panel(uid, panel):
    """A cell without a value says so itself; else it would say that nothing was lost, or nobody is there."""
    if len(panel["targets"]) > 1:
        headings = [
            name
            for one in panel["transformations"]
            if one["id"] == "organize"
            for name in one["options"]["renameByName"].values()
        ]
        for heading in headings[1:]:
            assert "noValue" in overrides(panel, heading) or heading == "in use now"


def test_reasons_are_those_of_the_metric():
    """Reasons for low clocks that the text names are those that the exporter exports."""
    (panel,) = (panel for _, panel in PANELS if panel["title"] == "Clocks held down")
    named = set(re.findall(r"`(\w+)`", panel["description"]))
    assert named == {"software_power_cap", "idle"}
    assert named <= {reason for _, reason in gpu._LIMITS}


def test_nfs_outage_is_seen():
    """In flight may be 0 in an outage of NFSv4; the answers beside it stand still."""
    names = [panel["title"] for _, panel in PANELS]
    at = names.index("NFS: requests in flight")
    assert names[at + 1] == "NFS: answers received"
    flight, answers = PANELS[at][1], PANELS[at + 1][1]
    assert "0 does not mean that all is well" in flight["description"]
    assert "gpuwait_nfs_mount_transport_receives_total" in answers["targets"][0]["expr"]


def test_a_job_is_of_one_kind_and_namespace():
    """The page of a job has no choice that adds up jobs of one name."""
    variables = {v["name"]: v for v in PAGES["gpuwait-job"]["templating"]["list"]}
    for name in ("kind", "namespace", "workload"):
        assert not variables[name].get("includeAll")
        assert not variables[name].get("multi")
    note = PAGES["gpuwait-job"]["annotations"]["list"][0]["expr"]
    assert 'workload_kind=~"$kind", workload_namespace=~"$namespace", job_set="$workload"' in note
