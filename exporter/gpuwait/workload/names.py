"""The names of pods and containers: one resolver for metrics, verdicts and `whois`.

A container has its ids from the start, by its cgroup, and its name as soon as a file tells it; so its labels
change at most once. A name that was found stays for as long as its cgroup lives, whatever becomes of the
file: a log that is rotated away or a runtime that restarts changes no series.

Lookups never wait. Files are read by `look`, on the thread of a `Lookout`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpuwait.host import Host, label
from gpuwait.kernel.kubelet_logs import ContainerName
from gpuwait.workload.identity import POD_LENGTH, Owner
from gpuwait.workload.name_files import NameFiles

#: Container of a pod that only holds its namespaces, as cAdvisor calls it. No container can have this name.
SANDBOX = "POD"
#: Containers outside the known cgroups that are asked for, and seconds for which one is remembered.
MOST_ASKED = 4096
REMEMBERED = 60.0

Key = tuple[str, str]
_NAMED = frozenset({"pod", "container"})


class Names:
    """Names by uid of the pod and id of the container.

    changed: told when a container appears whose name is not known.
    version: rises when a name becomes known, or one that is claimed twice changes hands.
    """

    def __init__(
        self, host: Host, clock: Callable[[], float], changed: Callable[[], None] = lambda: None
    ) -> None:
        self._files = NameFiles(host, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._live: dict[Key, None] = {}
        self._asked: dict[Key, float] = {}
        self._pods: dict[str, ContainerName] = {}
        self._containers: dict[str, ContainerName] = {}
        self._refused: frozenset[str] = frozenset()
        self.changed = changed
        self.version = 0

    @property
    def reasons(self) -> Mapping[str, str]:
        """By source, why it could not be read at the last look."""
        return dict(self._files.reasons)

    def named(self, owner: Owner, *, asked: bool = False) -> Owner:
        """The same owner with its names, as far as they are known now.

        asked: for a process, as those that hold a GPU are; its names are looked for before all others.
        """
        if owner.kind not in _NAMED:
            return owner
        key = (owner.pod_uid, owner.container_id)
        if asked or key not in self._live:
            self._ask(key)
        inner = self._containers.get(owner.container_id)
        if owner.kind == "container":
            if inner is None or inner.pod or owner.container_id in self._refused:
                return owner
            name = label(inner.container)
            return replace(owner, workload=name, container=name)
        pod = self._pods.get(owner.pod_uid)
        container = owner.container
        if inner is not None and owner.container_id not in self._refused:
            container = SANDBOX if inner.sandbox else label(inner.container) or container
        if pod is None:
            return replace(owner, container=container) if container != owner.container else owner
        workload = owner.workload if owner.pod_uid in self._refused else label(pod.pod, POD_LENGTH)
        return replace(owner, namespace=label(pod.namespace), workload=workload, container=container)

    def lives(self, owners: Iterable[Owner]) -> None:
        """Say which owners have a cgroup now; what is known of others is forgotten at the next look."""
        live = dict.fromkeys((o.pod_uid, o.container_id) for o in owners if o.kind in _NAMED)
        new = any(key not in self._live and not self._known(key) for key in live)
        self._live = live
        if new:
            self.changed()

    def settle(self, owners: Mapping[str, Owner], age: Callable[[str], int]) -> None:
        """Let the newest have a name that more than one has: the others are ending, or hang.

        Names are compared as they are shown: two that are the same once they are cut are one name.

        owners: by path of the cgroup, as `identity` finds them. age: of a path, more for a newer one.
        """
        holders: dict[tuple[str, ...], dict[str, str]] = {}
        for path, owner in owners.items():
            pod = self._pods.get(owner.pod_uid) if owner.kind == "pod" else None
            if pod is not None:
                shown = ("pod", label(pod.namespace), label(pod.pod, POD_LENGTH))
                holders.setdefault(shown, {}).setdefault(owner.pod_uid, path)
            inner = self._containers.get(owner.container_id) if owner.kind in _NAMED else None
            if inner is not None and not inner.sandbox:
                shown = (owner.kind, owner.pod_uid, label(inner.container))
                holders.setdefault(shown, {}).setdefault(owner.container_id, path)
        refused: set[str] = set()
        for same in holders.values():
            if len(same) > 1:
                refused.update(sorted(same, key=lambda identity: (age(same[identity]), identity))[:-1])
        if refused != self._refused:
            self._refused = frozenset(refused)
            self.version += 1

    def look(self) -> bool:
        """Look for what is not known yet; tell whether more is left. For one thread."""
        now = self._clock()
        with self._lock:
            self._asked = {key: at for key, at in self._asked.items() if now - at < REMEMBERED}
            asked = [*self._asked]
        keys = [*self._live, *asked]
        uids, ids = {uid for uid, _ in keys if uid}, {identity for _, identity in keys if identity}
        pods = {uid: name for uid, name in self._pods.items() if uid in uids}
        containers = {identity: name for identity, name in self._containers.items() if identity in ids}
        before = len(pods), len(containers)
        containers |= self._files.containers(ids - containers.keys(), {identity for _, identity in asked})
        pods |= self._files.pods(uids - pods.keys())
        for uid, identity in keys:
            inner = containers.get(identity)
            # A bundle of a cluster within a container could name a pod of that cluster.
            if uid and inner and inner.pod and uid not in pods and inner.pod_uid in {"", uid}:
                pods[uid] = ContainerName(inner.namespace, inner.pod, pod_uid=uid)
        self._pods, self._containers = pods, containers
        if (len(pods), len(containers)) != before:
            self.version += 1
        return self._files.more

    def _known(self, key: Key) -> bool:
        uid, identity = key
        return (not uid or uid in self._pods) and (not identity or identity in self._containers)

    def _ask(self, key: Key) -> None:
        with self._lock:
            new = key not in self._asked
            if new and len(self._asked) >= MOST_ASKED:
                return
            self._asked[key] = self._clock()
        if new and not self._known(key):
            self.changed()
