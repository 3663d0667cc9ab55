"""Names of containers in the files that their runtimes keep. All are JSON.

    containerd  io.containerd.runtime.v2.task/k8s.io/<id>/config.json  annotations, io.kubernetes.cri.*
    CRI-O       overlay-containers/<id>/userdata/config.json           annotations, io.kubernetes.*
    Docker      containers/<id>/config.v2.json                         Name, Config.Labels
    Podman      overlay-containers/containers.json                     [].id, [].names

What is no such file, or of a wrong type, tells nothing: the containers have their ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuwait.kernel.kubelet_logs import ContainerName

_ID = re.compile(r"[0-9a-f]{64}")
#: A name of twelve hexadecimal digits looks like the id of another container.
_LIKE_AN_ID = re.compile(r"[0-9a-f]{12}")

#: In the order of containerd, CRI-O's sandboxes, and the kubelet's own labels (CRI-O, cri-dockerd).
_KEYS = {
    "namespace": (
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
        "io.kubernetes.cri-o.Namespace",
    ),
    "pod": ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name", "io.kubernetes.cri-o.KubeName"),
    "container": ("io.kubernetes.cri.container-name", "io.kubernetes.container.name"),
    "pod_uid": ("io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"),
}
_TYPES = (
    "io.kubernetes.cri.container-type",
    "io.kubernetes.cri-o.ContainerType",
    "io.kubernetes.docker.type",
)


def parse_bundle(text: str) -> ContainerName | None:
    """Name of a pod's container from its OCI configuration, None where that has none."""
    return _annotated(_field(_load(text), "annotations"))


def parse_docker(text: str) -> ContainerName | None:
    """Name of a Docker container, None where there is none. With cri-dockerd it is a pod's."""
    config = _load(text)
    labelled = _annotated(_field(_field(config, "Config"), "Labels"))
    if labelled is not None:
        return labelled
    name = _field(config, "Name")
    return _plain(name.removeprefix("/")) if isinstance(name, str) else None


def parse_podman(text: str) -> Iterator[tuple[str, ContainerName]]:
    """Id and name of each container in the list of Podman's storage."""
    found = _load(text)
    for item in found if isinstance(found, list) else ():
        identity, names = _field(item, "id"), _field(item, "names")
        if not (isinstance(identity, str) and _ID.fullmatch(identity) and isinstance(names, list)):
            continue
        name = _plain(names[0]) if names and isinstance(names[0], str) else None
        if name is not None:
            yield identity, name


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _plain(name: str) -> ContainerName | None:
    return ContainerName(container=name) if name and not _LIKE_AN_ID.fullmatch(name) else None


def _annotated(marks: Any) -> ContainerName | None:
    texts = {name: next(filter(None, (_text(marks, k) for k in keys)), "") for name, keys in _KEYS.items()}
    if not texts["pod"]:
        return None
    sandbox = any(_text(marks, key) in {"sandbox", "podsandbox"} for key in _TYPES)
    if sandbox:
        texts["container"] = ""
    return ContainerName(**texts, sandbox=sandbox)


def _text(marks: Any, key: str) -> str:
    value = _field(marks, key)
    return value if isinstance(value, str) else ""
