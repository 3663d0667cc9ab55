"""The committed dashboards, as somebody imports them: complete, readable, and the same everywhere."""

import json
import math
import re
from itertools import combinations
from pathlib import Path

import pytest

from gpuwait.thresholds import DEFAULTS
from gpuwait.wait.verdict import Cause, State

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
PANELS = [(uid, panel) for uid, page in PAGES.items() for panel in page["panels"] if panel["type"] != "row"]
WITH_DATA = [(uid, panel) for uid, panel in PANELS if panel["type"] != "text"]

#: Units as Grafana names them.
UNITS = {
    *("none", "short", "percentunit", "s", "bytes", "Bps", "ops", "celsius", "watt", "bool"),
    *("suffix: GPUs", "suffix: GPU h"),
}
VARIABLES = {
    "gpuwait-fleet": ["datasource", "cluster"],
    "gpuwait-node": ["datasource", "cluster", "node", "gpu"],
    "gpuwait-job": ["datasource", "cluster", "workload", "kind", "namespace"],
    "gpuwait-exporter": ["datasource", "cluster", "node"],
}


def title(value):
    return f"{value['title']}" if isinstance(value, dict) else str(value)


def test_the_set():
    """Four dashboards; their uids are what alerts and bookmarks hold."""
    assert {uid: page["uid"] for uid, page in PAGES.items()} == {
        "gpuwait-exporter": "gpuwait-exporter",
        "gpuwait-fleet": "gpuwait-fleet",
        "gpuwait-job": "gpuwait-job",
        "gpuwait-node": "gpuwait-node",
    }


@pytest.mark.parametrize("uid", VARIABLES)
def test_page(uid):
    """Title, tag, range, refresh, shared crosshair, annotations of alerts, links that keep the choice."""
    page = PAGES[uid]
    assert page["title"].startswith("gpuwait: ")
    assert page["description"]
    assert page["tags"] == ["gpuwait"]
    assert re.fullmatch(r"now-\d+h", page["time"]["from"])
    assert page["refresh"] == "1m"
    assert page["graphTooltip"] == 1
    (note,) = page["annotations"]["list"]
    assert note["enable"]
    assert note["datasource"]["uid"] == "${datasource}"
    assert 'alertstate="firing"' in note["expr"]
    (link,) = page["links"]
    assert (link["type"], link["tags"]) == ("dashboards", ["gpuwait"])
    assert link["includeVars"]
    assert link["keepTime"]


@pytest.mark.parametrize("uid", VARIABLES)
def test_size(uid):
    """Below 200 kB: kubectl apply refuses a ConfigMap above 256 KiB."""
    assert (ROOT / "dashboards" / f"{uid}.json").stat().st_size < 200_000


@pytest.mark.parametrize(("uid", "names"), VARIABLES.items())
def test_variables(uid, names):
    """One data source; all others are asked for again when the range changes; all clusters by default."""
    variables = PAGES[uid]["templating"]["list"]
    assert [v["name"] for v in variables] == names
    source, cluster, *_ = variables
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    assert (cluster["allValue"], cluster["current"]["value"]) == (".*", ["$__all"])
    for variable in variables[1:]:
        assert variable["type"] == "query"
        assert variable["refresh"] == 2
        assert variable["label"]
        assert variable["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("uid", VARIABLES)
def test_grid(uid):
    """Ids are unique; panels lie inside the grid and none lies over another."""
    panels = PAGES[uid]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(p["x"] >= 0 and p["x"] + p["w"] <= 24 for p in places)
    over = [
        (a, b)
        for a, b in combinations(places, 2)
        if a["x"] < b["x"] + b["w"]
        and b["x"] < a["x"] + a["w"]
        and a["y"] < b["y"] + b["h"]
        and b["y"] < a["y"] + a["h"]
    ]
    assert over == []


@pytest.mark.parametrize(("uid", "panel"), PANELS, ids=title)
def test_panel_says_what_it_is(uid, panel):
    """A title, and a description of at least a sentence."""
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert len(panel["description"]) > 20


@pytest.mark.parametrize(("uid", "panel"), WITH_DATA, ids=title)
def test_panel_with_data(uid, panel):
    """Data source, unit, step, and what it means when there is nothing to show."""
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(t["datasource"] == panel["datasource"] for t in panel["targets"])
    assert [t["refId"] for t in panel["targets"]] == sorted({t["refId"] for t in panel["targets"]})
    assert defaults["unit"] in UNITS
    assert panel["interval"] == "1m"
    assert panel["description"].endswith(f"{defaults['noValue'][1:]}.")


@pytest.mark.parametrize("uid", VARIABLES)
def test_titles_are_not_repeated(uid):
    """A page never shows two panels of one name."""
    titles = [panel["title"] for panel in PAGES[uid]["panels"] if panel["type"] != "row"]
    assert sorted(set(titles)) == sorted(titles)


def lines():
    return [
        (uid, panel, panel["fieldConfig"]["defaults"]["thresholds"]["steps"])
        for uid, panel in WITH_DATA
        if panel["type"] == "timeseries" and "thresholds" in panel["fieldConfig"]["defaults"]
    ]


#: What else a line may be, and where the rules say so.
OF_THE_RULES = {
    0.3: ("ledger.yaml", "> 1 - 0.70  # @{gpu.utilization}"),
    0.5: ("alerts-exporter.yaml", '(rate(gpuwait_sampler_ticks_total{node!=""}[5m])) < 0.5'),
    2: (
        "alerts-exporter.yaml",
        '(avg_over_time(scrape_duration_seconds{job=~".*gpuwait.*", node!=""}[15m])) > 2',
    ),
    200e6: ("alerts-exporter.yaml", "> 200e6"),
    0.05: ("alerts-exporter.yaml", "> 0.05"),
}


@pytest.mark.parametrize(("uid", "panel", "steps"), lines(), ids=title)
def test_thresholds_are_the_daemons(uid, panel, steps):
    """A line is the daemon's default for the signal in the description, else a number of the rules."""
    base, over = steps
    assert (base.get("value"), base["color"]) == (None, "transparent")
    assert panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"] == {"mode": "dashed"}
    named = re.search(r"Line: the daemon's threshold ([a-z_]+)\.([a-z_]+)\.", panel["description"])
    if named:
        assert over["value"] == DEFAULTS[named.groups()].value
    else:
        file, text = OF_THE_RULES[over["value"]]
        assert text in (ROOT / "alerts" / "rules" / file).read_text()


def test_no_threshold_is_forgotten():
    """The lines that are drawn, by name: a panel that loses its line is noticed."""
    drawn = {
        m.group(1)
        for _, panel, _ in lines()
        if (m := re.search(r"daemon's threshold ([a-z_.]+)\.", panel["description"]))
    }
    assert drawn == {
        *("compaction.stalls", "reclaim.pressure", "reclaim.stalls", "swap.pages", "writeback.dirty"),
        *("nfs.response", "nfs.busy", "nfs.lost", "lustre.busy"),
        *("disk.busy", "disk.latency", "disk.queue", "disk.pressure"),
        *("cpu_throttling.periods", "cpu_contention.pressure", "numa_remote.faults", "host_cpu.group"),
        *("fabric.errors", "fabric.retransmissions", "fabric.link"),
    }


def test_every_cause_has_its_evidence():
    """Rows of the node's page name the causes that they are about; all but the unexplained are there."""
    rows = [p["title"] for p in PAGES["gpuwait-node"]["panels"] if p["type"] == "row"]
    named = {
        word
        for row in rows
        if row.startswith("Evidence")
        for word in re.search(r"\((.*)\)", row)[1].split(", ")
    }
    assert named == {str(cause) for cause in Cause} - {"unexplained"}


def colours():
    """Colours by name over all panels."""
    found = {}
    for _, panel in WITH_DATA:
        for override in panel["fieldConfig"]["overrides"]:
            for one in override["properties"]:
                if one["id"] == "color":
                    (name,) = re.fullmatch(r"/\^(\w+)\( \|\$\)/", override["matcher"]["options"]).groups()
                    found.setdefault(name, set()).add(one["value"]["fixedColor"])
    return found


def test_one_colour_for_each_state_and_cause():
    """The same on every page, and no two alike."""
    found = colours()
    assert set(found) == {str(s) for s in State} | {str(c) for c in Cause}
    assert all(len(its) == 1 for its in found.values())
    assert len({c for n, its in found.items() for c in its if n != "waiting"}) == len(found) - 1


#: What is left of light (linear red, green, blue) without one kind of cone; Machado and others, 2009.
BLIND = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}


def seen(colour, kind):
    """CIE Lab of a colour as such an eye sees it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    light = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    r, g, b = (min(1, max(0, sum(w * x for w, x in zip(row, light, strict=True)))) for row in BLIND[kind])
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("kind", BLIND)
def test_told_apart_without_red_or_green(kind):
    """No two states or causes look alike: 15 apart in Lab, where 2 can just be seen."""
    found = {name: seen(next(iter(its)), kind) for name, its in colours().items() if name != "waiting"}
    near = {
        (m, n): round(math.dist(a, b), 1)
        for (m, a), (n, b) in combinations(found.items(), 2)
        if math.dist(a, b) < 15
    }
    assert near == {}
