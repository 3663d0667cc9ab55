"""Everything the chart makes, over a matrix of values: valid for Kubernetes, the operator and Prometheus."""

import json
import re
import subprocess  # noqa: TID251 - promtool
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "gpuwait"
RULES = sorted((ROOT / "alerts" / "rules").glob("*.yaml"))
BOARDS = sorted((ROOT / "dashboards").glob("*.json"))
#: What `kubectl apply` can note in an annotation.
LONGEST = 262_144

pytestmark = pytest.mark.e2e

ALL_ON = {
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
    "networkPolicy": {"enabled": True},
}
LOCKED = {
    "scheme": "https",
    "tlsConfig": {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}, "serverName": "gpuwait"},
    "basicAuth": {
        "username": {"name": "door", "key": "user"},
        "password": {"name": "door", "key": "password"},
    },
}
MATRIX = {
    "default": {},
    "all on": ALL_ON,
    "service monitor": {"serviceMonitor": {"enabled": True}, "service": {"enabled": False}},
    "elsewhere": {
        "podMonitor": {
            "enabled": True,
            "namespace": "monitoring",
            "labels": {"release": "monitoring"},
            **LOCKED,
        },
        "serviceMonitor": {"enabled": True, "namespace": "monitoring", **LOCKED},
        "prometheusRule": {"enabled": True, "namespace": "monitoring", "labels": {"release": "monitoring"}},
        "dashboards": {"enabled": True, "namespace": "grafana", "annotations": {"grafana_folder": "GPUs"}},
    },
    "relabelled": {
        "podMonitor": {
            "enabled": True,
            "relabelings": [{"targetLabel": "cluster", "replacement": "a"}],
            "metricRelabelings": [{"regex": "model", "action": "labeldrop"}],
        }
    },
    "cdi": {"gpuAccess": "cdi", "cdi": {"runtimeClassName": "nvidia-cdi"}},
    "hostPath": {"gpuAccess": "hostPath"},
    "hostPath, unprivileged": {"gpuAccess": "hostPath", "hostPath": {"privileged": False}},
    "no gpu": {"gpuAccess": "none"},
    "default runtime": {"runtimeClass": {"name": ""}},
    **{f"runtime {r}": {"runtime": r} for r in ("containerd", "crio", "k3s", "k0s", "microk8s")},
    "bare": {
        "kubelet": {"logs": False, "podResources": False},
        "service": {"enabled": False},
        "serviceAccount": {"create": False},
        "priorityClassName": "",
        "securityContext": {"capabilities": {"add": []}},
        "tolerations": [],
        "resources": {"limits": {}},
    },
    "another user": {
        "podSecurityContext": {"runAsUser": 65534, "runAsGroup": 65534, "runAsNonRoot": True},
        "securityContext": {
            "capabilities": {"add": ["DAC_READ_SEARCH"]},
            "seLinuxOptions": {"type": "spc_t"},
        },
    },
    "locked": {
        "webConfig": {"existingSecret": "door", "certificateSecret": "tls", "probe": "tcp"},
        "config": {"prices": {"default": 2.5}, "thresholds": {"gpu": {"utilization": 0.6}}},
    },
    "site": {
        "image": {"repository": "registry.example/gpuwait", "tag": "1", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "nameOverride": "waits",
        "slurm": {"enabled": True},
        "extraArgs": ["--log.format=json", "--collector.gpfs"],
        "extraEnv": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "extraVolumes": [{"name": "lib", "hostPath": {"path": "/opt/lib"}}],
        "extraVolumeMounts": [{"name": "lib", "mountPath": "/opt/lib", "readOnly": True}],
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "affinity": {"nodeAffinity": {}},
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "ml"},
        "serviceAccount": {"name": "watcher", "annotations": {"a": "b"}},
        "service": {"annotations": {"a": "b"}},
        "terminationGracePeriodSeconds": 20,
    },
}
#: Fields that 1.27 does not have: they are there where a value asks for them only.
NEWER = {
    "recursive": ({"recursiveReadOnly": "IfPossible"}, "recursiveReadOnly"),
    "apparmor": ({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "appArmorProfile"),
}


def operators(objects):
    return [d for d in objects if d["apiVersion"].startswith("monitoring.coreos.com/")]


@pytest.fixture(scope="session")
def kubernetes():
    """Schemas of Kubernetes."""
    return pytest.importorskip("kubernetes_validate", reason="needs the extra deploy-test")


@pytest.fixture(scope="session")
def models():
    """Resource types of the Prometheus operator."""
    return pytest.importorskip(
        "cloudcoil.models.prometheus_operator.v1", reason="needs the extra deploy-test"
    )


@pytest.mark.parametrize("version", ["1.27", "1.28", "1.30", "1.32", "1.34", "newest"])
@pytest.mark.parametrize("name", MATRIX)
def test_kubernetes_accepts_every_object(render, kubernetes, name, version):
    """Strictly: an unknown key is an error."""
    version = kubernetes.latest_version() if version == "newest" else version
    objects = [d for d in render(MATRIX[name]) if d not in operators([d])]
    assert objects
    for item in objects:
        kubernetes.validate(item, version, strict=True)


@pytest.mark.parametrize("name", NEWER)
def test_newer_fields_come_only_where_they_are_asked_for(render, kubernetes, name):
    """The newest schema has them, that of 1.27 refuses them."""
    values, key = NEWER[name]
    (item,) = (d for d in render(values) if d["kind"] == "DaemonSet")
    kubernetes.validate(item, kubernetes.latest_version(), strict=True)
    with pytest.raises(kubernetes.ValidationError, match=key):
        kubernetes.validate(item, "1.27", strict=True)


def through(models, item):
    """The object as the operator's type keeps it: keys that the type does not have are lost."""
    model = getattr(models, item["kind"]).model_validate(item)
    return model.model_dump(by_alias=True, exclude_unset=True, mode="json")


@pytest.mark.parametrize("name", MATRIX)
def test_the_operator_accepts_its_objects(render, models, name):
    """Types are right and no key is unknown."""
    for item in operators(render(MATRIX[name])):
        assert through(models, item) == item


def test_a_key_that_the_operator_does_not_know_would_be_seen(render, models):
    """The check above can fail, also deep inside."""
    (item,) = operators(render({"podMonitor": {"enabled": True}}))
    item["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True
    assert through(models, item) != item


def test_what_is_off_is_not_made(render):
    """By default nothing that needs the operator, Grafana or a network plugin."""
    assert sorted(d["kind"] for d in render()) == ["DaemonSet", "Service", "ServiceAccount"]


@pytest.mark.parametrize("kind", ["podMonitor", "serviceMonitor"])
def test_monitors_name_the_node(render, kind):
    """The series of a node go on when its pod is replaced, and `pod` stays the workload's label."""
    (item,) = operators(render({kind: {"enabled": True}}))
    spec = item["spec"]
    (endpoint,) = spec["podMetricsEndpoints" if kind == "podMonitor" else "endpoints"]
    assert endpoint["honorLabels"] is False
    assert spec["sampleLimit"] == 20000
    assert endpoint["port"] == "metrics"
    steps = endpoint["relabelings"]
    assert [(s.get("sourceLabels"), s.get("targetLabel")) for s in steps[:2]] == [
        (["__meta_kubernetes_pod_node_name"], "node"),
        (["__meta_kubernetes_pod_node_name"], "instance"),
    ]
    assert steps[2] == {"targetLabel": "job", "replacement": "gpuwait", "action": "replace"}
    assert steps[3] == {"regex": "pod|container|namespace|endpoint|service", "action": "labeldrop"}


def test_selectors_find_the_pods(render):
    """Monitors, the service and the network policy select what the DaemonSet labels."""
    objects = render({**ALL_ON, "serviceMonitor": {"enabled": True}})
    by_kind = {d["kind"]: d for d in objects}
    labels = by_kind["DaemonSet"]["spec"]["template"]["metadata"]["labels"].items()
    wanted = [
        by_kind["DaemonSet"]["spec"]["selector"]["matchLabels"],
        by_kind["PodMonitor"]["spec"]["selector"]["matchLabels"],
        by_kind["Service"]["spec"]["selector"],
        by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in wanted:
        assert selector
        assert selector.items() <= labels
    chosen = by_kind["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    assert chosen <= by_kind["Service"]["metadata"]["labels"].items()
    assert by_kind["Service"]["spec"]["clusterIP"] == "None"


def test_the_network_policy_lets_prometheus_in_and_nothing_out(render):
    """From the namespace of the monitoring to the one port."""
    (policy,) = (d for d in render(ALL_ON) if d["kind"] == "NetworkPolicy")
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == []
    assert spec["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "ports": [{"port": "metrics", "protocol": "TCP"}],
        }
    ]


def test_rules_are_those_of_the_bundle(render):
    """One object for each file, with the same groups, and the site's addresses in the links."""
    site = {"runbookUrl": "https://wiki.site/gpuwait/", "dashboardUrl": "https://grafana.site/d/"}
    found = [d["spec"] for d in operators(render({"prometheusRule": {"enabled": True, **site}}))]
    expected = [
        yaml.safe_load(
            path.read_text()
            .replace("https://gpuwait.example/runbooks/", "https://wiki.site/gpuwait/")
            .replace("https://grafana.example/d/", "https://grafana.site/d/")
        )
        for path in RULES
    ]
    assert found == expected
    assert ".example/" not in json.dumps(found)


def test_rules_can_be_left_out(render):
    """By the name of the file."""
    values = {"prometheusRule": {"enabled": True, "exclude": ["alerts-counters.yaml", "starved.yaml"]}}
    names = {d["metadata"]["name"] for d in operators(render(values))}
    assert len(names) == len(RULES) - 2
    assert "gpuwait-alerts-fleet" in names
    assert "gpuwait-starved" not in names


def test_promtool_accepts_the_rules(render, tmp_path):
    """What the operator would write for Prometheus, all lints on."""
    paths = []
    for item in operators(render({"prometheusRule": {"enabled": True}})):
        path = tmp_path / f"{item['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(item["spec"]))
        paths.append(str(path))
    words = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *paths]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(paths) == len(RULES)


def test_dashboards_are_those_of_the_bundle(render):
    """One ConfigMap for each, with the label that Grafana's sidecar looks for."""
    maps = [d for d in render({"dashboards": {"enabled": True}}) if d["kind"] == "ConfigMap"]
    found = {name: json.loads(text) for d in maps for name, text in d["data"].items()}
    assert found == {path.name: json.loads(path.read_text()) for path in BOARDS}
    assert len(maps) == len(BOARDS)
    assert all(d["metadata"]["labels"]["grafana_dashboard"] == "1" for d in maps)


def test_kubectl_can_apply_every_object(render):
    """Each fits the annotation in which `kubectl apply` notes it, and has a name that fits."""
    objects = render(ALL_ON)
    assert max(len(json.dumps(d)) for d in objects) < LONGEST
    for item in objects:
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", item["metadata"]["name"])


def test_nothing_depends_on_what_a_cluster_offers():
    """Rendered without a cluster it is the same: `.Capabilities` is never asked."""
    for path in (CHART / "templates").iterdir():
        assert ".Capabilities" not in path.read_text()
