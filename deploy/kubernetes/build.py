"""Writes what is generated below deploy/: copies in the chart, its README's table, manifests for kubectl.

    python deploy/kubernetes/build.py          write
    python deploy/kubernetes/build.py --check  write nothing; exit 1 and name what is stale

Helm reads nothing outside a chart, so rules and dashboards are copied into it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/gpuwait"
PLAIN = ROOT / "deploy/kubernetes"
BEGIN, END = "<!-- values: generated from values.yaml -->\n", "<!-- end of values -->\n"
#: Labels that say an object belongs to a release of Helm.
HELMS = re.compile(r"^ *(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.MULTILINE)
HEAD = "# Generated from the chart by `make generate`; change deploy/helm/gpuwait instead.\n"
NAMESPACE = """\
---
apiVersion: v1
kind: Namespace
metadata:
  name: gpuwait
  labels:
    # hostPID, mounts of the host and added capabilities are beyond `baseline`.
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/warn: privileged
"""


def rows(values: yaml.MappingNode, lines: list[str], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, default and comment of each value; a mapping written in braces is one value."""
    for key, value in values.value:
        name = f"{path}{key.value}"
        comment = _comment(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            if comment:
                yield name, "", comment
            yield from rows(value, lines, f"{name}.")
        else:
            text = yaml.serialize(value)
            yield name, f"`{json.dumps(yaml.safe_load(text))}`", comment


def _comment(lines: list[str], line: int) -> str:
    """The comment that begins with `# --` right above a line."""
    found: list[str] = []
    for text in map(str.strip, reversed(lines[:line])):
        if not text.startswith("#"):
            break
        found.insert(0, text.removeprefix("#").strip())
        if found[0].startswith("-- "):
            return " ".join([found[0][3:], *found[1:]])
    return ""


def table() -> str:
    """The table of the chart's README."""
    text = (CHART / "values.yaml").read_text()
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    body = "".join(
        f"| `{name}` | {default.replace('|', '&#124;')} | {comment.replace('|', '&#124;')} |\n"
        for name, default, comment in rows(node, text.splitlines())
    )
    return f"| value | default | what |\n|---|---|---|\n{body}"


def readme() -> str:
    """The chart's README with the table of today."""
    text = (CHART / "README.md").read_text()
    return text[: text.index(BEGIN) + len(BEGIN)] + table() + text[text.index(END) :]


def render(values: dict[str, Any], *templates: str) -> str:
    """These templates of the chart in this order, for the release `gpuwait` in the namespace `gpuwait`."""
    import helm_python  # noqa: PLC0415 - 240 MB that only this needs

    with helm_python.Chart.load(CHART) as chart:
        made = chart.render(values, name="gpuwait", namespace="gpuwait")
    texts = [made[f"gpuwait/templates/{template}.yaml"].strip("\n") for template in templates]
    return HELMS.sub("", "".join("---\n" + text.removeprefix("---\n") + "\n" for text in texts))


def files() -> dict[Path, str]:
    """Path and content of every generated file. Copies come first: the manifests are rendered from them."""
    found = {}
    for source in sorted((ROOT / "alerts/rules").glob("*.yaml")):
        found[CHART / "files/rules" / source.name] = source.read_text()
    for source in sorted((ROOT / "dashboards").glob("*.json")):
        found[CHART / "files/dashboards" / source.name] = source.read_text()
    found[CHART / "README.md"] = readme()
    return found


def manifests() -> dict[Path, str]:
    """The same for what is rendered."""
    plain = render({}, "serviceaccount", "service", "daemonset")
    on = {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
    monitoring = render(on, "podmonitor", "prometheusrule")
    return {PLAIN / "gpuwait.yaml": HEAD + NAMESPACE + plain, PLAIN / "monitoring.yaml": HEAD + monitoring}


def put(wanted: dict[Path, str], *, check: bool) -> list[str]:
    """Write what differs; the names of those files."""
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale if not check else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
    return [str(path.relative_to(ROOT)) for path in stale]


def main(arguments: list[str]) -> int:
    """Write, or with `--check` compare."""
    check = arguments == ["--check"]
    copies = files()
    gone = {*CHART.glob("files/*/*")} - copies.keys()
    stale = put(copies, check=check) + [str(path.relative_to(ROOT)) for path in gone]
    for path in gone if not check else ():
        path.unlink()
    stale += put(manifests(), check=check)
    for name in stale if check else ():
        sys.stderr.write(f"stale: {name}; run `make generate`\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
