"""The monitors' relabelings as the real Prometheus applies them."""

import contextlib
import json
import socket
import subprocess  # noqa: TID251 - Prometheus
import time
import urllib.request

import pytest
import yaml

pytestmark = pytest.mark.e2e

#: What discovery says of a pod, and what the operator does with it before a monitor's own relabelings.
META = {
    "__meta_kubernetes_namespace": "gpuwait",
    "__meta_kubernetes_pod_container_name": "gpuwait",
    "__meta_kubernetes_pod_name": "gpuwait-x7k2p",
    "__meta_kubernetes_pod_node_name": "gpu-0001",
}
OPERATORS = [
    {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
    {"source_labels": ["__meta_kubernetes_pod_container_name"], "target_label": "container"},
    {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    {"target_label": "job", "replacement": "gpuwait/gpuwait"},
    {"target_label": "endpoint", "replacement": "metrics"},
]
NAMES = {"sourceLabels": "source_labels", "targetLabel": "target_label"}


@pytest.mark.parametrize("kind", ["podMonitor", "serviceMonitor"])
def test_a_target_is_known_by_its_node_and_nothing_that_changes(render, tmp_path, kind):
    """No pod, container or namespace of the exporter, which would rename those of the workloads."""
    (monitor,) = (d for d in render({kind: {"enabled": True}}) if d["kind"].endswith("Monitor"))
    (endpoint,) = monitor["spec"].get("podMetricsEndpoints") or monitor["spec"]["endpoints"]
    steps = [{NAMES.get(key, key): value for key, value in s.items()} for s in endpoint["relabelings"]]
    job = {
        "job_name": "x",
        "static_configs": [{"targets": ["10.0.0.7:9410"], "labels": META}],
        "relabel_configs": OPERATORS + steps,
    }
    (tmp_path / "p.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    words = [
        f"--config.file={tmp_path}/p.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address={address}",
    ]
    active, end = [], time.monotonic() + 20
    with subprocess.Popen(["prometheus", *words], stderr=subprocess.DEVNULL) as prometheus:
        try:
            while not active and time.monotonic() < end:
                time.sleep(0.2)
                url = f"http://{address}/api/v1/targets"
                with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                    active = json.load(answer)["data"]["activeTargets"]
        finally:
            prometheus.terminate()
    expected = {"job": "gpuwait", "node": "gpu-0001", "instance": "gpu-0001"}
    assert [target["labels"] for target in active] == [expected]
