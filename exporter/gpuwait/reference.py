"""The metric reference, made from the families themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable

from gpuwait.collector import Collector
from gpuwait.exposition import SELF_FAMILIES
from gpuwait.metrics import Family

TITLE = """# Metrics

Made by `make generate` from the code; do not edit. Units are base units, counters end in `_total`.
A value that the kernel or the driver does not offer has no series.
"""

HEADER = "| metric | type | labels | what | source |"


def sections(collectors: Iterable[Collector]) -> list[tuple[str, str, tuple[Family, ...]]]:
    """Name, help and families of each collector, and of the program itself."""
    found = [(c.name, c.help, c.families) for c in collectors]
    return [*found, ("itself", "The exporter about itself.", SELF_FAMILIES)]


def markdown(collectors: Iterable[Collector]) -> str:
    """The reference as Markdown."""
    lines = [TITLE]
    for name, text, families in sections(collectors):
        lines += [
            f"## {name}",
            "",
            text,
            "",
            "| metric | type | labels | what | source |",
            "|---|---|---|---|---|",
        ]
        for f in families:
            cells = (f"`{f.name}`", f.kind, ", ".join(f.labels) or "-", f.help, f.source)
            lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        lines.append("")
    lines += [
        "Besides these: `process_*` and `python_info`, as the Prometheus client library gives them.",
        "",
    ]
    return "\n".join(lines)


def as_json(collectors: Iterable[Collector]) -> str:
    """The reference as JSON: a list of objects."""
    rows = [
        {
            "collector": name,
            "name": f.name,
            "type": f.kind,
            "labels": list(f.labels),
            "help": f.help,
            "source": f.source,
        }
        for name, _, families in sections(collectors)
        for f in families
    ]
    return json.dumps(rows, indent=1) + "\n"
