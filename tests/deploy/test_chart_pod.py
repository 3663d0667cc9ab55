"""The pods of the chart: what they may do, what they see, how they are kept running."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from gpuwait import __version__
from gpuwait.config import Config
from gpuwait.flags import env_name
from gpuwait.settings import parse

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "gpuwait"

pytestmark = pytest.mark.e2e

ALWAYS = {
    "/sys/block": "/host/sys/block",
    "/sys/bus": "/host/sys/bus",
    "/sys/class": "/host/sys/class",
    "/sys/devices": "/host/sys/devices",
    "/sys/kernel/mm": "/host/sys/kernel/mm",
    "/sys/fs/cgroup": "/host/sys/fs/cgroup",
    "/run/udev/data": "/host/root/run/udev/data",
}
LOGS = {
    "/var/log/containers": "/host/root/var/log/containers",
    "/var/log/pods": "/host/root/var/log/pods",
}
KUBELET = {"/var/lib/kubelet/pod-resources": "/host/root/var/lib/kubelet/pod-resources"}
CRIO = "/run/containers/storage/overlay-containers"
TASK = "containerd/io.containerd.runtime.v2.task/k8s.io"


def mounts(spec):
    """Path in the pod by path of the host."""
    paths = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    return {
        paths[m["name"]]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"] if m["name"] in paths
    }


def env(spec):
    return {e["name"]: e["value"] for e in spec["containers"][0]["env"]}


def test_privileges_are_these_and_no_more(pod):
    """Three capabilities, root only for their sake, nothing to escalate with and nothing to write to."""
    spec = pod()
    container = spec["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["DAC_READ_SEARCH", "SYS_PTRACE", "NET_ADMIN"]},
    }
    assert spec["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec["hostPID"] is True
    assert "hostNetwork" not in spec
    assert "hostIPC" not in spec
    assert spec["automountServiceAccountToken"] is False
    assert len(spec["containers"]) == 1
    assert "initContainers" not in spec


def test_each_capability_has_its_reason_beside_it(texts):
    """In values and in the rendered manifest, for those who read only one of them."""
    shown = texts()["daemonset.yaml"]
    values = (CHART / "values.yaml").read_text()
    readme = (CHART / "README.md").read_text()
    for name in ("DAC_READ_SEARCH", "SYS_PTRACE", "NET_ADMIN"):
        assert re.search(rf"- {name}  # .{{20}}", shown)
        assert re.search(rf"# .{{20,}}\n +- {name}\n", values)
        assert f"| `{name}` |" in readme


def test_mounts_are_read_only_and_none_is_the_root(pod):
    """Every mount, with a host directory that need not exist."""
    spec = pod({"runtime": "crio", "slurm": {"enabled": True}})
    assert all(m["readOnly"] is True for m in spec["containers"][0]["volumeMounts"])
    assert all("type" not in v["hostPath"] for v in spec["volumes"])
    assert "/" not in mounts(spec)
    assert mounts(pod()) == {**ALWAYS, **LOGS, **KUBELET}


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ({"runtime": "containerd"}, {f"/run/{TASK}": f"/host/root/run/{TASK}"} | KUBELET),
        (
            {"runtime": "crio"},
            {CRIO: f"/host/root{CRIO}"} | KUBELET,
        ),
        ({"runtime": "k3s"}, {f"/run/k3s/{TASK}": f"/host/root/run/k3s/{TASK}"} | KUBELET),
        (
            {"runtime": "k0s"},
            {
                f"/run/k0s/{TASK}": f"/host/root/run/k0s/{TASK}",
                "/var/lib/k0s/kubelet/pod-resources": "/host/root/var/lib/k0s/kubelet/pod-resources",
            },
        ),
        (
            {"runtime": "microk8s"},
            {
                f"/var/snap/microk8s/common/run/{TASK}": f"/host/root/var/snap/microk8s/common/run/{TASK}",
                "/var/snap/microk8s/common/var/lib/kubelet/pod-resources": (
                    "/host/root/var/snap/microk8s/common/var/lib/kubelet/pod-resources"
                ),
            },
        ),
        ({"kubelet": {"podResources": False}}, {}),
        (
            {"kubelet": {"podResourcesDirectory": "/data/kubelet/pod-resources"}},
            {"/data/kubelet/pod-resources": "/host/root/data/kubelet/pod-resources"},
        ),
        ({"slurm": {"enabled": True}}, {"/run/exporter": "/host/root/run/exporter"} | KUBELET),
    ],
    ids=lambda v: str(v)[:40],
)
def test_mounts_of_each_runtime(pod, values, more):
    """The directories that the runtime and the kubelet of a distribution use."""
    assert mounts(pod(values)) == {**ALWAYS, **LOGS, **more}


def test_the_logs_of_the_kubelet_can_be_left_out(pod):
    """Pods are known by their uid then, and nobody can read a log through this pod."""
    assert mounts(pod({"kubelet": {"logs": False}})) == {**ALWAYS, **KUBELET}


def test_mounts_of_ended_containers_do_not_live_on(pod):
    """A runtime's directory has mounts of containers below it: it follows the host."""
    by_name = {m["name"]: m for m in pod({"runtime": "containerd"})["containers"][0]["volumeMounts"]}
    assert by_name["runtime"]["mountPropagation"] == "HostToContainer"


def test_recursive_read_only_where_it_is_asked_for(pod):
    """Kubernetes allows it on mounts without propagation only."""
    spec = pod({"recursiveReadOnly": "IfPossible", "runtime": "containerd"})
    by_name = {m["name"]: m for m in spec["containers"][0]["volumeMounts"]}
    assert by_name["cgroup"]["recursiveReadOnly"] == "IfPossible"
    assert "recursiveReadOnly" not in by_name["runtime"]


def test_options_are_variables_that_the_daemon_knows(pod):
    """So that `kubectl exec ... gpuwait check` sees what the daemon sees."""
    spec = pod(
        {
            "runtime": "k0s",
            "slurm": {"enabled": True, "directory": "/run/jobs"},
            "config": {"prices": {"default": 1}},
            "webConfig": {"existingSecret": "door"},
        }
    )
    found = {name: value for name, value in env(spec).items() if name.startswith("GPUWAIT_")}
    assert found == {
        "GPUWAIT_PATH_SYSFS": "/host/sys",
        "GPUWAIT_PATH_ROOTFS": "/host/root",
        "GPUWAIT_PATH_UDEV_DATA": "/host/root/run/udev/data",
        "GPUWAIT_WEB_LISTEN_ADDRESS": ":9410",
        "GPUWAIT_PATH_POD_RESOURCES": "/host/root/var/lib/k0s/kubelet/pod-resources/kubelet.sock",
        "GPUWAIT_PATH_GPU_JOBS": "/host/root/run/jobs",
        "GPUWAIT_CONFIG_FILE": "/etc/gpuwait/config/gpuwait.yaml",
        "GPUWAIT_WEB_CONFIG_FILE": "/etc/gpuwait/web/web.yaml",
    }
    known = {env_name(f.metadata["flag"]) for f in fields(Config) if f.metadata}
    assert found.keys() - known == set()


@pytest.mark.parametrize("mode", ["runtimeClass", "cdi", "hostPath", "none"])
def test_gpu_access(render, mode):
    """What each way adds, and that the others do not add it."""
    (found,) = (d for d in render({"gpuAccess": mode}) if d["kind"] == "DaemonSet")
    spec = found["spec"]["template"]["spec"]
    notes = found["spec"]["template"]["metadata"]["annotations"]
    cdi = notes.get("nvidia.cdi.k8s.io/container.gpuwait")
    assert spec.get("runtimeClassName") == ("nvidia" if mode == "runtimeClass" else None)
    assert env(spec)["NVIDIA_VISIBLE_DEVICES"] == ("all" if mode == "runtimeClass" else "void")
    assert env(spec)["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert cdi == ("management.nvidia.com/gpu=all" if mode == "cdi" else None)
    driver = mounts(spec).get("/home/kubernetes/bin/nvidia")
    assert driver == ("/host/root/home/kubernetes/bin/nvidia" if mode == "hostPath" else None)
    assert spec["containers"][0]["securityContext"].get("privileged") is (
        True if mode == "hostPath" else None
    )
    # No way takes a GPU away from a job.
    assert "gpu" not in str(spec["containers"][0]["resources"])


def test_the_default_runtime_and_unprivileged_host_paths(pod):
    """No class where NVIDIA's runtime is the default; and not privileged where devices are allowed."""
    assert "runtimeClassName" not in pod({"runtimeClass": {"name": ""}})
    spec = pod({"gpuAccess": "hostPath", "hostPath": {"privileged": False}})
    assert spec["containers"][0]["securityContext"]["capabilities"]["drop"] == ["ALL"]


@pytest.mark.parametrize(
    ("values", "probe"),
    [
        ({}, ("httpGet", "HTTP")),
        ({"webConfig": {"existingSecret": "door"}}, ("tcpSocket", None)),
        ({"webConfig": {"existingSecret": "door", "probe": "https"}}, ("httpGet", "HTTPS")),
    ],
)
def test_probes(pod, values, probe):
    """A locked door is probed by connecting: the kubelet has neither password nor certificate."""
    container = pod(values)["containers"][0]
    for name, path in (("livenessProbe", "/-/healthy"), ("readinessProbe", "/-/ready")):
        (found,) = (k for k in container[name] if k in ("httpGet", "tcpSocket", "exec"))
        assert found == probe[0]
        assert container[name][found]["port"] == "metrics"
        if probe[1]:
            assert container[name][found]["scheme"] == probe[1]
            assert container[name][found]["path"] == path


def test_it_stays_on_every_node_and_in_nobodys_way(render):
    """Every taint, the priority of a node's own services, a tenth of the nodes at once, no limit of CPU."""
    (found,) = (d for d in render() if d["kind"] == "DaemonSet")
    spec = found["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"
    assert found["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "10%"},
    }
    resources = spec["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "20m", "memory": "64Mi"}
    assert resources["limits"] == {"memory": "128Mi"}
    assert "nodeSelector" not in spec
    assert "affinity" not in spec


def test_what_a_site_adds(pod):
    """Flags, variables, volumes, selectors and a security context of the site's own."""
    spec = pod(
        {
            "extraArgs": ["--log.format=json"],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "extraVolumes": [{"name": "lib", "hostPath": {"path": "/opt/lib"}}],
            "extraVolumeMounts": [{"name": "lib", "mountPath": "/opt/lib"}],
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
            "securityContext": {
                "appArmorProfile": {"type": "Unconfined"},
                "capabilities": {"add": ["NET_ADMIN"]},
            },
            "image": {"digest": "sha256:" + "a" * 64},
            "port": 9999,
        }
    )
    container = spec["containers"][0]
    assert container["args"] == ["serve", "--log.format=json"]
    assert env(spec)["TZ"] == "UTC"
    assert env(spec)["GPUWAIT_WEB_LISTEN_ADDRESS"] == ":9999"
    assert container["ports"] == [{"name": "metrics", "containerPort": 9999, "protocol": "TCP"}]
    assert {"name": "lib", "mountPath": "/opt/lib"} in container["volumeMounts"]
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert container["securityContext"]["appArmorProfile"] == {"type": "Unconfined"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert container["image"] == "registry.example/gpuwait@sha256:" + "a" * 64


def test_the_daemon_accepts_the_configuration_that_the_chart_writes(render):
    """The ConfigMap is a file of `--config.file`, and a change of it replaces the pods."""
    values = {
        "config": {
            "prices": {"models": {"NVIDIA H100 80GB HBM3": 4.1}},
            "thresholds": {"compaction": {"stalls": 6}},
        }
    }
    objects = {d["kind"]: d for d in render(values)}
    settings = parse(objects["ConfigMap"]["data"]["gpuwait.yaml"], "gpuwait.yaml")
    assert settings.price_of("NVIDIA H100 80GB HBM3") == 4.1
    assert settings.thresholds == {("compaction", "stalls"): 6.0}

    def checksum(values):
        (found,) = (d for d in render(values) if d["kind"] == "DaemonSet")
        return found["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum(values) != checksum({"config": {"prices": {"default": 1}}})


def test_the_chart_has_the_version_of_the_program():
    """Chart, image and program are one release."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    dockerfile = (CHART.parents[1] / "docker" / "Dockerfile").read_text()
    assert f"ARG VERSION={__version__}\n" in dockerfile
