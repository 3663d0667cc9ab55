"""How long the queries of the dashboards take, each over its page's default range, as Grafana asks them."""

import json
import re
import time
from pathlib import Path

DASHBOARDS = Path(__file__).resolve().parents[2] / "dashboards"
#: Points that Grafana asks for on a panel that fills a screen.
POINTS = 1000
UNITS = {"m": 60, "h": 3600, "d": 86400}


def seconds(text):
    """Seconds of `6h`."""
    return int(text[:-1]) * UNITS[text[-1]]


def filled(query, chosen, step, whole):
    """The query with every variable at its value; what nobody chose is all."""
    query = query.replace("$__rate_interval", f"{max(4 * 60, step)}s").replace("$__range", f"{whole}s")
    query = query.replace("$__interval", f"{step}s")
    return re.sub(r"\$\{?([a-z_]+)(?::[a-z]+)?\}?", lambda match: chosen.get(match[1], ".*"), query)


def panels(dashboard):
    """Panels, those of collapsed rows among them."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def asked(chosen):
    """(page, panel, query, step or None for now, range) of every target."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        page = json.loads(path.read_text())
        whole = seconds(page["time"]["from"].removeprefix("now-"))
        step = max(60, whole // POINTS)
        for panel in panels(page):
            for target in panel.get("targets", ()):
                # this page opens on all nodes
                mine = {} if page["uid"] == "gpuwait-exporter" else chosen
                query = filled(target["expr"], mine, step, whole)
                yield page["uid"], panel["title"], query, None if target.get("instant") else step, whole


def measure(get, now, chosen):
    """Seconds, page, panel and kind of every query, slowest first; get: as Prometheus.get."""
    rows = []
    for page, title, query, step, whole in asked(chosen):
        begin = time.monotonic()
        if step is None:
            get("/api/v1/query", query=query, time=now)
        else:
            get("/api/v1/query_range", query=query, start=now - whole, end=now, step=step)
        rows.append((time.monotonic() - begin, page, title, "now" if step is None else f"{whole // 3600} h"))
    return sorted(rows, reverse=True)
