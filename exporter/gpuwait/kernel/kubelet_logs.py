"""Names that the kubelet gives to the logs of containers and pods.

Source: `/var/log/containers` and `/var/log/pods` (kubelet, pkg/kubelet/kuberuntime/legacy.go and helpers.go).
Only the names are read, never what they lead to:

    containers/<pod>_<namespace>_<container>-<64 hexadecimal digits>.log
    pods/<namespace>_<pod>_<uid>

No name holds an underscore (RFC 1123), and only the name of a pod may hold dots. The uid of a static pod is
the hash of its configuration, 32 digits without dashes, as in its cgroup. A name of more than 255 bytes is
cut by the kubelet, with the id: it tells nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_POD = r"(?P<pod>[a-z0-9][a-z0-9.-]{0,252})"
_NAMESPACE = r"(?P<namespace>[a-z0-9][a-z0-9-]{0,62})"
_CONTAINER_LOG = re.compile(
    rf"{_POD}_{_NAMESPACE}_(?P<container>[a-z0-9][a-z0-9-]{{0,62}})-(?P<id>[0-9a-f]{{64}})\.log"
)
_POD_LOG = re.compile(
    rf"{_NAMESPACE}_{_POD}_(?P<uid>[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|[0-9a-f]{{32}})"
)


@dataclass(frozen=True, slots=True)
class ContainerName:
    """What a container is called. A text that is not known is empty.

    container: without a pod the name that its engine gave it.
    sandbox:   it only holds the namespaces of its pod (the pause container).
    """

    namespace: str = ""
    pod: str = ""
    container: str = ""
    pod_uid: str = ""
    sandbox: bool = False


def parse_container_log(name: str) -> tuple[str, ContainerName] | None:
    """Id of the container and its name, None for a name of another form."""
    found = _CONTAINER_LOG.fullmatch(name)
    if found is None:
        return None
    return found["id"], ContainerName(found["namespace"], found["pod"], found["container"])


def parse_pod_log(name: str) -> tuple[str, ContainerName] | None:
    """Uid of the pod and its name, None for a name of another form."""
    found = _POD_LOG.fullmatch(name)
    if found is None:
        return None
    return found["uid"], ContainerName(found["namespace"], found["pod"], pod_uid=found["uid"])
