"""The example configurations: programs accept them, and what they find has the label that rules need."""

import contextlib
import json
import re
import shutil
import socket
import subprocess  # noqa: TID251 - promtool, amtool, prometheus
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY.parent / "alerts" / "rules"
CONFIGS = ("prometheus/prometheus.yml", "prometheus/kubernetes.yml", "compose/prometheus.yml")


def laid(folder, name):
    """The example beside the files that it names, as its reader lays them."""
    for path in (DEPLOY / name).parent.iterdir():  # copies, not links: a test may change one
        if path.is_file():
            shutil.copy(path, folder)
    (folder / "rules").symlink_to(RULES)
    return folder / Path(name).name


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.e2e
@pytest.mark.parametrize("name", CONFIGS)
def test_promtool_accepts_the_configuration(tmp_path, name):
    """Each configuration with all rules loads."""
    path = laid(tmp_path, name)
    # Debian builds promtool without discovery by the Kubernetes API
    text = path.read_text()
    path.write_text(re.sub(r"kubernetes_sd_configs:\n(      .*\n)+", "static_configs: []\n", text))
    done = run("promtool", "check", "config", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout


@pytest.mark.e2e
def test_promtool_accepts_the_agent(tmp_path):
    """The configuration of an agent has no rules and loads as an agent's."""
    done = run("promtool", "check", "config", "--agent", str(laid(tmp_path, "prometheus/remote-write.yml")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.e2e
def test_amtool_accepts_the_configuration_of_the_first_look():
    """The Alertmanager of the compose file starts."""
    if not shutil.which("amtool"):
        pytest.skip("no amtool here (Debian: apt-get install prometheus-alertmanager)")
    assert run("amtool", "check-config", str(DEPLOY / "compose" / "alertmanager.yml")).returncode == 0


@pytest.mark.e2e
def test_targets_of_a_file_get_the_name_of_their_node(tmp_path):
    """A name, an IPv6 address and a node that the file names itself, as the real Prometheus relabels them."""
    path = laid(tmp_path, "prometheus/prometheus.yml")
    (tmp_path / "targets.yaml").write_text(
        yaml.safe_dump(
            [
                {"targets": ["gpu-0001:9410", "[fd00::7]:9410", "gpu-0002.site.example:9410"]},
                {"targets": ["10.0.0.9:9410"], "labels": {"node": "gpu-0009"}},
            ]
        )
    )
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    words = [
        f"--config.file={path}",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address={address}",
    ]
    with subprocess.Popen(["prometheus", *words], stderr=subprocess.DEVNULL) as prometheus:
        try:
            found = {}
            end = time.monotonic() + 20
            while len(found) < 4 and time.monotonic() < end:
                time.sleep(0.2)
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://{address}/api/v1/targets", timeout=5) as answer,
                ):
                    active = json.load(answer)["data"]["activeTargets"]
                    found = {t["discoveredLabels"]["__address__"]: t["labels"]["node"] for t in active}
        finally:
            prometheus.terminate()
    assert found == {
        "gpu-0001:9410": "gpu-0001",
        "[fd00::7]:9410": "fd00::7",
        "gpu-0002.site.example:9410": "gpu-0002.site.example",
        "10.0.0.9:9410": "gpu-0009",
    }


def test_pods_get_the_name_of_their_node():
    """Discovery by the Kubernetes API names the node, not the pod, which every rollout replaces."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "kubernetes.yml").read_text())
    steps = config["scrape_configs"][0]["relabel_configs"]
    given = {step["target_label"]: step["source_labels"] for step in steps if "target_label" in step}
    assert given == {
        "node": ["__meta_kubernetes_pod_node_name"],
        "instance": ["__meta_kubernetes_pod_node_name"],
    }


def test_the_first_look_mounts_what_is_there():
    """Every path that the compose file mounts or builds from exists."""
    folder = DEPLOY / "compose"
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    mounts = [volume.split(":")[0] for s in services.values() for volume in s.get("volumes", [])]
    paths = [folder / mount for mount in mounts if mount.startswith(".")]
    builds = [s["build"] for s in services.values() if "build" in s]
    paths += [folder / build["context"] / build["dockerfile"] for build in builds]
    assert len(paths) == 6
    assert [str(path) for path in paths if not path.exists()] == []


def test_nothing_of_the_first_look_is_reachable_from_outside():
    """Every published port is bound to the loopback address: Grafana there has no login."""
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_grafana_finds_the_dashboards_where_they_are_mounted():
    """The provider's folder is the one that the compose file mounts."""
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/gpuwait.yaml").read_text())
    path = provider["providers"][0]["options"]["path"]
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    assert f"../../dashboards:{path}:ro" in services["grafana"]["volumes"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY.parent / "dashboards" / Path(home).name).exists()
