"""What all dashboards have: variables, links to each other, alerts as annotations, the grid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from dashboards.build.panels import SOURCE, Panel
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

TAG = "gpuwait"
WIDTH = 24
#: Every choice, and a pattern for it that also takes series without the label.
ALL, ANY = "$__all", ".*"

#: Parts of an address that keep what was chosen.
KEPT = "${datasource:queryparam}&${__url_time_range}"
#: Two clusters may have nodes and jobs of one name: the cluster is that of the row (see query.to_cluster).
_OF_ROW = f"var-cluster=${{__data.fields.to_cluster}}&{KEPT}"
TO_NODE = f"/d/gpuwait-node?var-node=${{__value.raw}}&{_OF_ROW}"
TO_JOB = (
    "/d/gpuwait-job?var-workload=${__value.raw}&var-kind=${__data.fields.workload_kind}"
    f"&var-namespace=${{__data.fields.to_namespace}}&{_OF_ROW}"
)


class Row(NamedTuple):
    """A headed row: its panels with their widths, all of one height; wrapped where they are too many."""

    title: str
    height: int
    panels: Sequence[tuple[Panel, int]]


class Page(NamedTuple):
    """One dashboard. `alerts`: selector of the alerts that are shown as annotations."""

    uid: str
    title: str
    about: str
    variables: Sequence[Any]
    rows: Sequence[Row]
    alerts: str
    span: str


def source() -> dashboard.DatasourceVariable:
    """The one data source of all panels."""
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def choice(name: str, label: str, query: str, *, every: bool = True, multi: bool = False) -> Any:
    """Values of a label, asked for again when the time range changes."""
    variable = dashboard.QueryVariable(name).label(label).datasource(SOURCE)
    variable.query({"query": query, "refId": f"variable-{name}", "qryType": 1})
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.NATURAL_ASC).multi(multi)
    if every:
        # asked for with multi a list, else one value
        chosen = VariableOption(True, ["All"], [ALL]) if multi else VariableOption(True, "All", ALL)
        variable.include_all(include_all=True).all_value(ANY).current(chosen)
    return variable


def clusters() -> Any:
    """All clusters, or the series without the label."""
    return choice("cluster", "Cluster", "label_values(gpuwait_build_info, cluster)", multi=True)


def build(page: Page) -> str:
    """The dashboard as JSON, the same bytes every time."""
    made = dashboard.Dashboard(page.title).uid(page.uid).description(page.about).tags([TAG]).editable()
    made.time(f"now-{page.span}", "now").refresh("1m").timezone("browser")
    made.tooltip(DashboardCursorSync.CROSSHAIR)
    for variable in (source(), *page.variables):
        made.with_variable(variable)
    link = dashboard.DashboardLink("gpuwait").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    made.link(link.include_vars(include_vars=True).keep_time(keep_time=True).icon("external link"))
    tree = json.loads(JSONEncoder().encode(made.build()))
    tree["annotations"] = {"list": [_alerts(page.alerts)]}
    tree["panels"] = _placed(page.rows)
    return json.dumps(tree, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _alerts(selector: str) -> dict[str, Any]:
    """Firing alerts as annotations; the SDK knows no fields of the Prometheus data source here."""
    return {
        "name": "Alerts",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "enable": True,
        "hide": False,
        "iconColor": "#D55E00",
        "expr": f'ALERTS{{{selector}, alertstate="firing", severity=~"critical|warning"}}',
        "step": "60s",
        "titleFormat": "{{alertname}}",
        "textFormat": "{{cluster}} {{node}} {{gpu}} {{job_set}}",
        "tagKeys": "severity,cause",
    }


def _placed(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Panels from left to right and from top to bottom, numbered in that order."""
    placed: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        heading = dashboard.Row(row.title).grid_pos(GridPos(1, WIDTH, 0, y)).id(len(placed) + 1)
        placed.append(_plain(heading))
        x, y = 0, y + 1
        for panel, width in row.panels:
            if x + width > WIDTH:
                x, y = 0, y + row.height
            placed.append(_plain(panel.grid_pos(GridPos(row.height, width, x, y)).id(len(placed) + 1)))
            x += width
        y += row.height
    return placed


def _plain(panel: Panel) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(JSONEncoder().encode(panel.build()))
    return tree
