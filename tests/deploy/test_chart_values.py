"""The values: what the schema refuses, and that the chart is whole."""

import json
import tarfile
from pathlib import Path

import pytest
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "gpuwait"

pytestmark = pytest.mark.e2e

WRONG = [
    ({"gpuAcces": "cdi"}, "gpuAcces"),
    ({"image": {"repo": "x"}}, "repo"),
    ({"image": {"tag": 1.0}}, "tag"),
    ({"image": {"digest": "sha256:abc"}}, "digest"),
    ({"gpuAccess": "nvidia"}, "gpuAccess"),
    ({"runtime": "docker"}, "runtime"),
    ({"cdi": {"device": "all"}}, "device"),
    ({"hostPath": {"driver": "home/kubernetes"}}, "driver"),
    ({"slurm": {"directory": "/run/../etc"}}, "directory"),
    ({"kubelet": {"podResourcesDirectory": "/a b"}}, "podResourcesDirectory"),
    ({"config": {"price": 2}}, "price"),
    ({"config": {"prices": {"default": -1}}}, "default"),
    ({"config": {"thresholds": {"gpu": {"utilization": "70%"}}}}, "utilization"),
    ({"webConfig": {"probe": "exec"}}, "probe"),
    ({"webConfig": {"key": "../x"}}, "key"),
    ({"extraArgs": ["serve"]}, "extraArgs"),
    ({"extraArgs": "--log.level=debug"}, "extraArgs"),
    ({"extraEnv": [{"value": "x"}]}, "extraEnv"),
    ({"port": 0}, "port"),
    ({"port": "9410"}, "port"),
    ({"resources": {"request": {}}}, "request"),
    ({"resources": {"limits": {"memory": "256MB"}}}, "memory"),
    ({"updateStrategy": {"type": "Recreate"}}, "type"),
    ({"nodeSelector": {"gpu": True}}, "gpu"),
    ({"podSecurityContext": {"runAsUser": "root"}}, "runAsUser"),
    ({"securityContext": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}, "add"),
    ({"securityContext": {"allowPrivilegeEscalations": False}}, "allowPrivilegeEscalations"),
    ({"recursiveReadOnly": True}, "recursiveReadOnly"),
    ({"serviceAccount": {"automount": True}}, "automount"),
    ({"podMonitor": {"interval": "15"}}, "interval"),
    ({"podMonitor": {"honorLabels": True}}, "honorLabels"),
    ({"serviceMonitor": {"scheme": "HTTPS"}}, "scheme"),
    ({"prometheusRule": {"runbookUrl": "https://wiki.site/gpuwait"}}, "runbookUrl"),
    ({"prometheusRule": {"exclude": ["starved"]}}, "exclude"),
    ({"dashboards": {"labels": {"grafana_dashboard": 1}}}, "grafana_dashboard"),
    ({"networkPolicy": {"namespace": "monitoring"}}, "namespace"),
]


@pytest.mark.parametrize(("values", "key"), WRONG, ids=lambda v: str(v)[:50])
def test_the_schema_refuses(texts, helm, values, key):
    """A misspelt key or a wrong value is an error that names it, not a default in silence."""
    with pytest.raises(helm.HelmError, match=key):
        texts(values)


def test_every_value_has_its_place_in_the_schema():
    """And the schema allows nothing that values.yaml does not show, but a few fields of Kubernetes' own."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() - {"global"} == values.keys()

    def closed(node, path):
        if "$ref" in node:
            node = schema["definitions"][node["$ref"].rpartition("/")[2]]
        if "properties" in node:
            assert node["additionalProperties"] is False, path
            for key, child in node["properties"].items():
                closed(child, f"{path}.{key}")

    closed(schema, "")


def test_helm_has_nothing_to_complain_of(helm):
    """`helm lint --strict`; an icon is a matter of taste."""
    found = helm.lint(CHART, strict=True)
    assert found["errors"] == []
    assert [m["error"] for m in found["messages"]] == ["icon is recommended"]


def test_a_package_is_as_good_as_the_checkout(helm, texts, tmp_path):
    """Rules, dashboards and schema are in it: Helm reads nothing outside a chart."""
    on = {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}
    path = helm.package(CHART, destination=tmp_path)
    with helm.Chart.load(path) as chart:
        packed = chart.render(on, name="gpuwait", namespace="gpuwait")
        with pytest.raises(helm.HelmError, match="gpuAcces"):
            chart.render({"gpuAcces": "cdi"}, name="gpuwait", namespace="gpuwait")
    assert {name.removeprefix("gpuwait/templates/"): text for name, text in packed.items()} == texts(on)
    with tarfile.open(path) as archive:
        assert "gpuwait/README.md" in archive.getnames()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "image.repository is an example"),
        ({}, "Nothing scrapes it yet"),
        ({}, "no runtime `nvidia`"),
        ({"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}, "scraped twice"),
        ({"gpuAccess": "hostPath"}, "privileged"),
    ],
)
def test_notes_say_what_is_left_to_do(texts, values, said):
    """What a new user has to know next."""
    assert said in texts(values)["NOTES.txt"]


def test_notes_say_no_more_than_is_so(texts):
    """Once all is set nothing is warned of."""
    values = {
        "image": {"repository": "registry.site/gpuwait"},
        "podMonitor": {"enabled": True},
        "runtimeClass": {"name": ""},
    }
    notes = texts(values)["NOTES.txt"]
    assert "WARNING" not in notes
    assert "Nothing scrapes" not in notes


def test_names_follow_the_release(helm):
    """Two releases in one cluster do not collide, and a long name is cut."""
    with helm.Chart.load(CHART) as chart:
        for release, full in (("a", "a-gpuwait"), ("gpuwait-east", "gpuwait-east"), ("x" * 53, "x" * 50)):
            made = chart.render({"prometheusRule": {"enabled": True}}, name=release, namespace="n")
            assert yaml.safe_load(made["gpuwait/templates/daemonset.yaml"])["metadata"]["name"] == full
            rules = list(yaml.safe_load_all(made["gpuwait/templates/prometheusrule.yaml"]))
            assert max(len(d["metadata"]["name"]) for d in rules if d) <= 63
            assert len({d["metadata"]["name"] for d in rules if d}) == len([d for d in rules if d])
