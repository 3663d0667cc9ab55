"""Panels: one function for each kind, so that all of a kind read alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dashboards.build.query import Query, to_job
from dashboards.build.style import COLOURS, OVER, PLAIN, UNDER
from grafana_foundation_sdk.builders import bargauge, common, dashboard, stat, table, text, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common as shape
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from gpuwait.thresholds import DEFAULTS

Panel = Any  # the builders of the SDK share no base class that says what a panel has

SOURCE = DataSourceRef("prometheus", "${datasource}")
#: Recorded series come once a minute, and scrapes may be so far apart: a smaller step would show gaps.
STEP = "1m"
#: A cause and one of its signals.
Line = tuple[str, str]


def _finish(panel: Panel, title: str, about: str, absent: str) -> Panel:
    return (
        panel.title(title)
        .description(f"{about} No data: {absent}.")
        .no_value(absent[0].upper() + absent[1:])
        .datasource(SOURCE)
        .interval(STEP)
    )


def _targets(
    panel: Panel, queries: Sequence[Query], *, tabular: bool = False, instant: bool = False
) -> Panel:
    for number, query in enumerate(queries):
        target = Dataquery().expr(query.expr).ref_id(chr(ord("A") + number)).datasource(SOURCE)
        target.legend_format(_series(query) or "__auto")
        if tabular:
            target.format(PromQueryFormat.TABLE)
        panel.with_target(target.instant() if instant or tabular else target.range())
    return panel


def _series(query: Query) -> str:
    """The name of a series, with its cluster where the query tells clusters apart."""
    apart = query.legend not in ("", "{{cluster}}") and re.search(r"\bby \(cluster\b", query.expr)
    return f"{query.legend} {{{{cluster}}}}" if apart else query.legend


def _steps(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    config = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE)
    return config.steps([Threshold(value, colour) for value, colour in steps])


def fixed(colour: str) -> DynamicConfigValue:
    """A fixed colour as a property of an override."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})


def _coloured(panel: Panel, names: Sequence[str] = tuple(COLOURS)) -> Panel:
    for name in names:
        panel.override_by_regexp(f"/^{name}( |$)/", [fixed(COLOURS[name])])  # a cluster may follow
    return panel


def graph(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    absent: str,
    line: Line | None = None,
    at: float | None = None,
    top: float | None = None,
    coloured: bool = False,
) -> Panel:
    """Series over time; with a dashed line at a threshold of the daemon, or at a number of the rules."""
    limit = DEFAULTS[line].value if line else at
    if line:
        about = f"{about} Line: the daemon's threshold {'.'.join(line)}."
    panel = _finish(timeseries.Panel(), title, about, absent).unit(unit).min(0)
    panel.line_width(1).fill_opacity(8).show_points(shape.VisibilityMode.AUTO).axis_soft_min(0)
    panel.legend(_legend([])).tooltip(_tooltip())
    if top is not None:
        panel.max(top)
    if limit is not None:
        panel.thresholds(_steps((None, "transparent"), (limit, OVER))).axis_soft_max(limit * 1.25)
        panel.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(shape.GraphThresholdsStyleMode.DASHED)
        )
    return _targets(_coloured(panel) if coloured else panel, queries)


def stack(title: str, about: str, unit: str, *queries: Query, absent: str, top: float | None = None) -> Panel:
    """States and causes on top of each other, each in its own colour."""
    panel = _finish(timeseries.Panel(), title, about, absent).unit(unit).min(0)
    panel.line_width(0).fill_opacity(85).show_points(shape.VisibilityMode.NEVER)
    panel.stacking(common.StackingConfig().mode(shape.StackingMode.NORMAL).group("A"))
    panel.legend(_legend([])).tooltip(_tooltip())
    if top is not None:
        panel.max(top)
    return _targets(_coloured(panel), queries)


def number(
    title: str, about: str, unit: str, query: Query, *, absent: str, over: float | None = None
) -> Panel:
    """One number of now, not the last one of the range; another colour from `over` on."""
    panel = _finish(stat.Panel(), title, about, absent).unit(unit)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(values=False))
    panel.graph_mode(shape.BigValueGraphMode.NONE).color_mode(shape.BigValueColorMode.VALUE)
    steps = [(None, PLAIN)] if over is None else [(None, UNDER), (over, OVER)]
    return _targets(panel.thresholds(_steps(*steps)), [query], instant=True)


def bars(title: str, about: str, unit: str, query: Query, *, absent: str) -> Panel:
    """One bar for each cause, of now."""
    panel = _finish(bargauge.Panel(), title, about, absent).unit(unit).min(0)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(values=False))
    panel.orientation(shape.VizOrientation.HORIZONTAL).display_mode(shape.BarGaugeDisplayMode.BASIC)
    panel.show_unfilled(show_unfilled=False)
    return _targets(_coloured(panel), [query], instant=True)


def rows(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    absent: str,
    units: Mapping[str, str] | None = None,
    links: Mapping[str, tuple[str, str]] | None = None,
    hidden: Sequence[str] = (),
    empty: Mapping[str, str] | None = None,
    sort: str = "",
    first: bool = False,
) -> Panel:
    """A table of now. Columns are headed by their query; `links`: column -> (text, address).

    `empty`: column -> what a cell without a value says; else it says what the panel does without data.
    `first`: the value before the labels.
    """
    panel = _finish(table.Panel(), title, about, absent).unit(unit)
    names = {"Value": queries[0].heading}
    if len(queries) > 1:
        names = {f"Value #{chr(ord('A') + i)}": query.heading for i, query in enumerate(queries)}
        panel.with_transformation(DataTransformerConfig("merge", options={}))
    excluded = dict.fromkeys(("Time", *hidden), True)
    panel.with_transformation(
        DataTransformerConfig(
            "organize",
            options={
                "excludeByName": excluded,
                "indexByName": {"Value": 0} if first else {},
                "renameByName": names,
            },
        )
    )
    _linked(panel, links or {})
    for column, its in (units or {}).items():
        panel.override_by_name(column, [DynamicConfigValue("unit", its)])
    for column, its in (empty or {}).items():
        panel.override_by_name(column, [DynamicConfigValue("noValue", its)])
    if sort:
        panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(desc=True)])
    return _targets(panel, queries, tabular=True)


def matrix(
    title: str,
    about: str,
    unit: str,
    query: Query,
    *,
    absent: str,
    column: str,
    over: float,
    least: str,
    links: Mapping[str, tuple[str, str]],
) -> Panel:
    """Other labels against the label `column`, the value as the colour of the cell."""
    panel = _finish(table.Panel(), title, about, absent).unit(unit).decimals(0)
    # not groupingToMatrix, which keeps one label only: two clusters may have nodes of one name
    options = {"mode": "columns", "valueLabel": column}
    panel.with_transformation(DataTransformerConfig("labelsToFields", options=options))
    organized = {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {}}
    panel.with_transformation(DataTransformerConfig("organize", options=organized))
    cell = DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"})
    panel.override_by_field_type("number", [cell, DynamicConfigValue("noValue", least)])
    panel.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    panel.thresholds(_steps((None, "transparent"), (round(over / 3, 3), "#FFBE7D"), (over, OVER)))
    return _targets(_linked(panel, links), [query], instant=True)


#: What the first column of a list of firing alerts says of its number, which also sorts them.
_SEVERITIES = {3: ("critical", "#D55E00"), 2: ("warning", "#FFBE7D"), 1: ("info", "#8E8E8E")}


def firing(title: str, about: str, selector: str, by: str, links: Mapping[str, tuple[str, str]]) -> Panel:
    """Alerts that fire now, the most severe first: names would sort critical behind info."""
    alerts = f'ALERTS{{{selector}, alertstate="firing", severity'
    ranked = f'(3 * {alerts}="critical"}} or 2 * {alerts}="warning"}} or {alerts}!~"critical|warning|none"}})'
    query = Query(to_job(f"max by ({by}) {ranked}"), heading="severity")
    panel = rows(
        title,
        f"{about} Severity critical pages, warning is work for today, info is context.",
        "none",
        query,
        absent="none fires, or the rules are not loaded",
        links=links,
        sort="severity",
        first=True,
    )
    texts = {str(rank): {"text": name, "color": colour} for rank, (name, colour) in _SEVERITIES.items()}
    cell = DynamicConfigValue("custom.cellOptions", {"type": "color-text"})
    named = DynamicConfigValue("mappings", [{"type": "value", "options": texts}])
    return panel.override_by_name("severity", [named, cell])


def _linked(panel: Panel, links: Mapping[str, tuple[str, str]]) -> Panel:
    for column, (title, address) in links.items():
        link = {"title": title, "url": address, "targetBlank": False}
        panel.override_by_name(column, [DynamicConfigValue("links", [link])])
    for column in ("to_cluster", "to_namespace") if links else ():  # links read them
        panel.override_by_name(column, [DynamicConfigValue("custom.hidden", value=True)])
    return panel


def words(title: str, markdown: str) -> Panel:
    """A text; it needs no data."""
    about = "How to read this page."
    return text.Panel().title(title).description(about).content(markdown).mode(TextMode.MARKDOWN)


def _legend(calcs: list[str]) -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(show_legend=True).placement(shape.LegendPlacement.BOTTOM)
    return legend.display_mode(shape.LegendDisplayMode.LIST).calcs(calcs)


def _tooltip() -> common.VizTooltipOptions:
    tooltip = common.VizTooltipOptions().mode(shape.TooltipDisplayMode.MULTI)
    return tooltip.sort(shape.SortOrder.DESCENDING)
