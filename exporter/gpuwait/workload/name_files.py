"""Looks for the names of containers and pods in the files of the kubelet and of the runtimes, below rootfs.

Cheapest first: the names of the kubelet's logs tell all of a node at one listing; only what they do not tell
is looked for in the runtimes' own files, a few at a look: those that were asked for, then each container once
before any again. Their file systems may hang: see `lookout`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpuwait.host import Host, fingerprint, first_names, read_file
from gpuwait.kernel.container_files import parse_bundle, parse_docker, parse_podman
from gpuwait.kernel.kubelet_logs import ContainerName, parse_container_log, parse_pod_log

#: Entries of a directory of logs: the kubelet keeps those of dead containers for a while.
MOST_LOGS = 20_000
#: Bytes of one configuration; those of GPU containers with 16 devices and 400 mounts have 100 KiB.
LONGEST = 1024 * 1024
#: Bytes of Podman's list: 2,000 containers.
LONGEST_LIST = 4 * 1024 * 1024
#: Containers whose own files are read in one look.
MOST_FILES = 64
#: Looks for one container: its file is there before its first process. Then seconds until the next, as a file
#: system may be mounted late, and seconds until one that could not be read is tried again.
TRIES = 3
AGAIN = 60.0
AFTER_ERROR = 10.0

CONTAINER_LOGS = "var/log/containers"
POD_LOGS = "var/log/pods"
_TASKS = "containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json"
_CRIO = "containers/storage/overlay-containers/{}/userdata/config.json"
#: Standard places, then those of k3s and RKE2, k0s and MicroK8s.
BUNDLES = (
    f"run/{_TASKS}",
    f"run/{_CRIO}",
    f"run/k3s/{_TASKS}",
    f"run/k0s/{_TASKS}",
    f"var/snap/microk8s/common/run/{_TASKS}",
)
DOCKER = "var/lib/docker/containers/{}/config.v2.json"
#: Containers that go with a restart of the host are in a list of their own since Podman 4.5.
PODMAN = (
    "var/lib/containers/storage/overlay-containers/containers.json",
    "var/lib/containers/storage/overlay-containers/volatile-containers.json",
)

_OWN_FILES: tuple[tuple[str, Callable[[str], ContainerName | None]], ...] = (
    *((path, parse_bundle) for path in BUNDLES),
    (DOCKER, parse_docker),
)


@dataclass(slots=True)
class _Tried:
    """How often the files of a container were read and told nothing, and when they are to be read next."""

    times: int = 0
    due: float = 0.0


@dataclass(slots=True)
class _Listed:
    """What is known of a file or directory that tells of many: its fingerprint, and ids that it lacks."""

    print: tuple[int, int, int] | None = None
    settled: bool = False
    lacks: set[str] = field(default_factory=set)

    def worth(self, seen: tuple[int, int, int] | None, wanted: Collection[str]) -> bool:
        """Tell whether it is to be read for these ids.

        A change within the same tick of the clock leaves the same time, so one look more follows each change.
        """
        if seen is None:
            self.print = None
            return False
        self.settled = seen == self.print
        if not self.settled:
            self.lacks.clear()
        elif self.lacks.issuperset(wanted):
            return False
        self.print = seen
        return True

    def note(self, wanted: Collection[str], found: Collection[str]) -> None:
        """Remember what it lacks; ids that nobody asks for any more are forgotten."""
        self.lacks = set(wanted) - set(found) if self.settled else set()


class NameFiles:
    """Used by one thread.

    clock:   monotonic seconds.
    reasons: by source, why it could not be read.
    more:    whether the last look left containers that were never looked for.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._root = host.rootfs.rstrip("/")
        self._listed: dict[str, _Listed] = {}
        self._tried: dict[str, _Tried] = {}
        self.reasons: dict[str, str] = {}
        self.more = False

    def pods(self, uids: Collection[str]) -> dict[str, ContainerName]:
        """Names of these pods, as far as they are told."""
        return self._logs(POD_LOGS, parse_pod_log, uids)

    def containers(self, ids: Collection[str], first: Collection[str] = ()) -> dict[str, ContainerName]:
        """Names of these containers, as far as they are told. `first`: those that matter most."""
        found = self._logs(CONTAINER_LOGS, parse_container_log, ids)
        left = set(ids) - found.keys()
        for path in PODMAN:
            found |= self._podman(path, left)
        left -= found.keys()
        tried = self._tried = {identity: t for identity, t in self._tried.items() if identity in left}
        now, never = self._clock(), _Tried()

        def rank(identity: str) -> tuple[bool, bool, float, str]:
            return identity in tried, identity not in first, tried.get(identity, never).due, identity

        due = sorted((i for i in left if tried.get(i, never).due <= now), key=rank)
        for identity in due[:MOST_FILES]:
            name = self._own_file(identity, tried.setdefault(identity, _Tried()), now)
            if name is not None:
                found[identity] = name
        self.more = any(identity not in tried for identity in due[MOST_FILES:])
        return found

    def _logs(
        self,
        path: str,
        parse: Callable[[str], tuple[str, ContainerName] | None],
        wanted: Collection[str],
    ) -> dict[str, ContainerName]:
        def read(full: str) -> Iterator[tuple[str, ContainerName]]:
            return (entry for entry in map(parse, first_names(full, MOST_LOGS)) if entry is not None)

        return self._listing(path, read, wanted)

    def _podman(self, path: str, wanted: Collection[str]) -> dict[str, ContainerName]:
        return self._listing(path, lambda full: parse_podman(read_file(full, LONGEST_LIST) or ""), wanted)

    def _listing(
        self,
        path: str,
        read: Callable[[str], Iterator[tuple[str, ContainerName]]],
        wanted: Collection[str],
    ) -> dict[str, ContainerName]:
        """What a source that tells of many says of the wanted ones."""
        found: dict[str, ContainerName] = {}
        if not wanted:
            return found
        listed = self._listed.setdefault(path, _Listed())
        full = f"{self._root}/{path}"
        with self._told(path):
            if listed.worth(fingerprint(full), wanted):
                found = {identity: name for identity, name in read(full) if identity in wanted}
                listed.note(wanted, found)
        return found

    def _own_file(self, identity: str, tried: _Tried, now: float) -> ContainerName | None:
        failed = False
        for path, parse in _OWN_FILES:
            name, read = None, False
            with self._told(path.partition("/{}")[0]):
                text = read_file(f"{self._root}/{path.format(identity)}", LONGEST)
                name, read = parse(text) if text is not None else None, True
            if name is not None:
                return name
            failed = failed or not read
        if failed:
            tried.due = now + AFTER_ERROR
        else:
            tried.times += 1
            tried.due = now if tried.times < TRIES else now + AGAIN
        return None

    @contextmanager
    def _told(self, source: str) -> Iterator[None]:
        """Note why a source cannot be read, until it can."""
        try:
            yield
        except OSError as error:
            self.reasons[source] = f"/{source}: {error.strerror or error}"
        else:
            self.reasons.pop(source, None)
