"""The manifests for kubectl and the other generated files: equal to what the chart makes."""

import json
from pathlib import Path

import pytest
import yaml

PLAIN = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"

pytestmark = pytest.mark.e2e


def objects(name):
    return [d for d in yaml.safe_load_all((PLAIN / name).read_text()) if d]


def without_helm(item):
    """The object without the two labels that say that Helm has it."""
    text = json.dumps(item)
    for label in ('"app.kubernetes.io/managed-by": "Helm", ', '"helm.sh/chart": "gpuwait-0.1.0"'):
        assert label in text
        text = text.replace(label, "")
    return json.loads(text.replace(", }", "}"))


def test_no_generated_file_is_stale(helm, build, capsys):
    """Copies, the table of the README and the manifests; `make generate` writes them."""
    assert build.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_would_be_seen(helm, build, capsys, monkeypatch):
    """The check above names it and writes nothing."""
    wanted = {PLAIN / "gpuwait.yaml": "something else"}
    monkeypatch.setattr(build, "manifests", lambda: wanted)
    assert build.main(["--check"]) == 1
    assert "stale: deploy/kubernetes/gpuwait.yaml" in capsys.readouterr().err
    assert objects("gpuwait.yaml")


def test_the_manifest_is_the_chart_with_its_defaults(render):
    """Object by object, and a namespace that admits them."""
    namespace, *rest = objects("gpuwait.yaml")
    assert namespace["metadata"]["name"] == "gpuwait"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    by_kind = {d["kind"]: d for d in rest}
    assert by_kind == {d["kind"]: without_helm(d) for d in render()}


def test_the_monitoring_manifest_is_the_chart_with_monitors_on(render):
    """A PodMonitor and every rule."""
    found = objects("monitoring.yaml")
    made = render({"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}})
    expected = [without_helm(d) for d in made if d["kind"] in ("PodMonitor", "PrometheusRule")]
    key = lambda d: (d["kind"], d["metadata"]["name"])  # noqa: E731 - one word for both
    assert sorted(found, key=key) == sorted(expected, key=key)


@pytest.mark.parametrize("name", ["gpuwait.yaml", "monitoring.yaml"])
def test_manifests_say_nothing_of_helm(name):
    """What kubectl applies is nobody's release."""
    assert "Helm" not in (PLAIN / name).read_text()
