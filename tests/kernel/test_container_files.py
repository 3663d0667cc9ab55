"""Names in the files of container runtimes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwait.kernel.container_files import parse_bundle, parse_docker, parse_podman
from gpuwait.kernel.kubelet_logs import ContainerName

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"


def bundle(**annotations: Any) -> str:
    return json.dumps({"ociVersion": "1.1.0", "process": {}, "annotations": annotations})


def test_containerd() -> None:
    """Containerd writes pod, namespace, uid and container as io.kubernetes.cri annotations."""
    text = bundle(
        **{
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "main",
            "io.kubernetes.cri.image-name": "registry.example/train:1",
            "io.kubernetes.cri.sandbox-id": "ab" * 32,
            "io.kubernetes.cri.sandbox-name": "train-0",
            "io.kubernetes.cri.sandbox-namespace": "research",
            "io.kubernetes.cri.sandbox-uid": UID,
        }
    )
    assert parse_bundle(text) == ContainerName("research", "train-0", "main", UID)


def test_containerd_sandbox() -> None:
    """The container that only holds the namespaces of a pod has no name."""
    text = bundle(
        **{
            "io.kubernetes.cri.container-type": "sandbox",
            "io.kubernetes.cri.sandbox-name": "train-0",
            "io.kubernetes.cri.sandbox-namespace": "research",
        }
    )
    assert parse_bundle(text) == ContainerName("research", "train-0", sandbox=True)


def test_crio() -> None:
    """CRI-O writes the kubelet's labels; its sandboxes are called POD there."""
    labels = {
        "io.kubernetes.pod.name": "train-0",
        "io.kubernetes.pod.namespace": "research",
        "io.kubernetes.pod.uid": UID,
    }
    main = bundle(
        **labels,
        **{"io.kubernetes.container.name": "main", "io.kubernetes.cri-o.ContainerType": "container"},
    )
    assert parse_bundle(main) == ContainerName("research", "train-0", "main", UID)
    pause = bundle(
        **labels, **{"io.kubernetes.container.name": "POD", "io.kubernetes.cri-o.ContainerType": "sandbox"}
    )
    assert parse_bundle(pause) == ContainerName("research", "train-0", "", UID, sandbox=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '{"annotations": []}',
        '{"annotations": {"io.kubernetes.cri.sandbox-name": 7}}',
        '{"annotations": {"io.kubernetes.cri.container-name": "main"}}',
        '{"annotations": null}',
        "[" * 100_000,
    ],
)
def test_no_bundle_of_a_pod(text: str) -> None:
    """Broken, deep or foreign JSON and wrong types tell nothing."""
    assert parse_bundle(text) is None
    assert parse_docker(text) is None
    assert list(parse_podman(text)) == []


def test_docker() -> None:
    """Docker's names begin with a slash."""
    text = json.dumps({"ID": "ab" * 32, "Name": "/training-worker-1", "Config": {"Labels": {"a": "b"}}})
    assert parse_docker(text) == ContainerName(container="training-worker-1")


def test_docker_of_a_pod() -> None:
    """With cri-dockerd the labels tell the pod; the long name of the container does not matter."""
    labels = {
        "io.kubernetes.container.name": "main",
        "io.kubernetes.pod.name": "train-0",
        "io.kubernetes.pod.namespace": "research",
        "io.kubernetes.pod.uid": UID,
        "io.kubernetes.docker.type": "container",
    }
    text = json.dumps({"Name": f"/k8s_main_train-0_research_{UID}_0", "Config": {"Labels": labels}})
    assert parse_docker(text) == ContainerName("research", "train-0", "main", UID)


@pytest.mark.parametrize("name", ["/", "", "/abcdef012345", None, 7, ["/x"]])
def test_docker_without_a_usable_name(name: object) -> None:
    """A name that looks like the id of another container, or is none, is not used."""
    assert parse_docker(json.dumps({"Name": name})) is None


def test_podman() -> None:
    """Podman's storage lists id and names; what is malformed costs its own entry."""
    items: list[object] = [
        {"id": "ab" * 32, "names": ["trainer"], "image": "x"},
        {"id": "cd" * 32, "names": ["one", "two"]},
        {"id": "short", "names": ["x"]},
        {"id": "ef" * 32, "names": []},
        {"id": "ef" * 32, "names": [7]},
        {"id": 7, "names": ["x"]},
        "text",
        None,
    ]
    assert list(parse_podman(json.dumps(items))) == [
        ("ab" * 32, ContainerName(container="trainer")),
        ("cd" * 32, ContainerName(container="one")),
    ]
