"""The committed JSON is what the build makes, and what Grafana's own models read."""

import json
import subprocess  # noqa: TID251 - the build is a program
import sys
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "dashboards").glob("*.json"))


def test_regenerated(tmp_path):
    """Byte for byte, in a process of its own."""
    command = [sys.executable, "-m", "dashboards.build", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FILES}
    assert len(made) == 4


def lost(before, after, where=""):
    """What one tree has and the other has not."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after.get(key), f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{where}/{number}")
    elif before != after:
        yield where


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_grafanas_models_read_it(path):
    """Read into the models of the oldest Grafana that is promised, and written again, nothing is lost."""
    plugins.register_default_plugins()
    tree = json.loads(path.read_text())
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(tree)))
    # Of annotations the models know no fields of the Prometheus data source.
    unknown = {f"/annotations/list/0/{key}" for key in ("step", "tagKeys", "textFormat", "titleFormat")}
    assert set(lost(tree, again)) == unknown


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_schema(path):
    """Grafana 10.4 has schema 39 and never goes back; newer ones bring an older schema up."""
    assert json.loads(path.read_text())["schemaVersion"] == 36
