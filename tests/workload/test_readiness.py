"""What `check` says of names and owners."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwait.kernel.gpu_claims import Device
from gpuwait.kernel.pod_resources import Grant
from gpuwait.workload import readiness
from gpuwait.workload.kubelet import NO_LIBRARY, Grants
from gpuwait.workload.owners import Owners

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
A, B = "a1" * 32, "b2" * 32


@pytest.fixture
def owners(node: Any) -> Iterator[Owners]:
    built = Owners.build(node.host, job_directories=[f"{node.root}/jobs"])
    built.start()
    yield built
    built.stop()


def states(owners: Owners) -> dict[str, str]:
    owners.wait_first(10)
    return {source.name: source.state for source in readiness.sources(owners)}


def test_an_empty_node(owners: Owners, node: Any) -> None:
    """Without any runtime all is absent; only the directory that was asked for is missed."""
    assert states(owners) == {
        "kubelet logs": "absent",
        "containerd": "absent",
        "cri-o": "absent",
        "docker": "absent",
        "podman": "absent",
        "kubelet socket": "absent",
        "slurm prolog": "fails",
    }
    (told,) = readiness.missing(owners)
    assert told.why == f"{node.root}/jobs: no such directory"
    assert "--path.gpu-jobs" in told.fix


def test_everything_there(owners: Owners, node: Any) -> None:
    """Each source that is there is told, and with all names known nothing is missing."""
    (node.root / "jobs").mkdir()
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A, UID)
    for path in ("run/containerd/io.containerd.runtime.v2.task/k8s.io", "var/lib/docker/containers"):
        (node.root / "root" / path).mkdir(parents=True)
    owners.wait_first(10)  # the kubelet's thread sleeps for 12 s after its first look
    owners.kubelet.latest = Grants((Grant("ml", "train-0", "main", Device("minor", "0")),), 0.0)
    found = states(owners)
    assert [name for name, state in found.items() if state == "ok"] == [
        "kubelet logs",
        "containerd",
        "docker",
        "kubelet socket",
        "slurm prolog",
    ]
    assert list(readiness.missing(owners)) == []


def test_pods_and_containers_without_names(owners: Owners, node: Any) -> None:
    """Both are counted, with what would name them."""
    (node.root / "jobs").mkdir()
    node.pod(UID, A)
    node.group(f"docker/{B}")
    states(owners)
    pods, containers = readiness.missing(owners)
    assert pods.what == "names: 1 of 1 pods are known by their uid only"
    assert "/var/log/containers and /var/log/pods" in pods.fix
    assert containers.what == "names: 1 of 1 containers are known by their id only"
    assert "CAP_DAC_READ_SEARCH" in containers.fix


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        (NO_LIBRARY, "pip install 'gpuwait[kubelet]'"),
        ("/s: no answer within 2 s", "systemctl status kubelet"),
        ("/s: Permission denied; it takes root or CAP_DAC_OVERRIDE", "run gpuwait as root or with CAP_DAC_O"),
    ],
)
def test_a_kubelet_that_does_not_say(owners: Owners, node: Any, reason: str, fix: str) -> None:
    """The missing package, a closed socket and a silent kubelet each have their own line."""
    (node.root / "jobs").mkdir()
    owners.wait_first(10)
    owners.kubelet.reason = reason
    (told,) = readiness.missing(owners)
    assert told.why == reason
    assert told.fix.startswith(fix)


def test_a_closed_directory(owners: Owners, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is closed to this user fails, with the reason of the system."""
    (node.root / "jobs").mkdir()
    node.group(f"docker/{B}")

    def closed(path: str, _limit: int) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("gpuwait.workload.name_files.read_file", closed)
    found = states(owners)
    assert found["docker"] == "fails"
    (told,) = readiness.missing(owners)
    assert told.why == "/var/lib/docker/containers: Permission denied"


def test_a_file_system_that_hangs(owners: Owners, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung file costs the time that was allowed, no more; what is known without it is told."""
    node.pod(UID, A, pid=7)
    reader, writer = os.pipe()
    monkeypatch.setattr(
        "gpuwait.workload.name_files.fingerprint", lambda _path: (os.read(reader, 1), None)[1]
    )
    owners.wait_first(0.3)
    assert owners.tree.owner_of_pid(7).workload == UID
    os.write(writer, b"x" * 64)
    shutil.rmtree(Path(node.root) / "root", ignore_errors=True)
