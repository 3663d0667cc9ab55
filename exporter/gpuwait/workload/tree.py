"""The cgroups of a host that are workloads, found in cgroup v1, v2 and hybrid trees.

Only directories below `<sysfs>/fs/cgroup` are ever listed, and where there is no hierarchy
those of the cgroup file systems that are mounted elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuwait.host import Host, directories, inode
from gpuwait.workload.hierarchies import find_hierarchies, top
from gpuwait.workload.identity import OTHER, Owner, owner_of_cgroup_file, owner_of_path
from gpuwait.workload.names import Names

Labels = tuple[str, str, str, str]

#: Seconds between two walks of the whole tree: a walk of 2,000 groups costs 30 ms.
WALK_EVERY = 10.0
#: A host with more leaks groups, and a walk must end.
MOST_DIRECTORIES = 20_000
#: A pod in a cluster in a container of a systemd host is 10 levels deep.
DEEPEST = 12


@dataclass(slots=True, eq=False)
class Group:
    """One workload's cgroup.

    labels:  of its series; no two groups have the same.
    path:    below the hierarchy, as `/proc/PID/cgroup` shows it.
    unified: its directory in the v2 hierarchy, empty where it has none.
    cpu, cpuacct, memory: its directories in the v1 hierarchies that own these controllers.
    missing: files found absent since the last whole walk, so that they are not tried at each scrape.
    others:  further cgroups of the same workload, as of one job under two slurmd of a host.
    """

    owner: Owner
    labels: Labels
    path: str
    unified: str = ""
    cpu: str = ""
    cpuacct: str = ""
    memory: str = ""
    missing: set[str] = field(default_factory=set)
    others: list[Group] = field(default_factory=list)


class WorkloadTree:
    """Finds groups and owners; shared by the sampler and the collectors, so it locks.

    clock: monotonic seconds.
    keep:  told the path of a group, says whether it is wanted.
    names: of pods and containers; without it they have their ids.
    uses_slurm: whether Slurm has a directory of its own, with or without a job in it.
    jobs: Slurm jobs that have a cgroup, wanted or not: the id, or the SLUID where the path tells no id.
    """

    def __init__(
        self,
        host: Host,
        clock: Callable[[], float],
        keep: Callable[[str], bool] = lambda _path: True,
        names: Names | None = None,
    ) -> None:
        self._host = host
        self._clock = clock
        self._keep = keep
        self._lock = threading.Lock()
        self._roots: dict[str, tuple[str, ...]] = {}
        self._walked: float | None = None
        self._groups: dict[Labels, Group] = {}
        self._ordered: tuple[Group, ...] = ()
        self._insides: dict[str, list[str]] = {}
        self._owners: dict[str, Owner | None] = {}
        self._earlier_owners: dict[str, Owner | None] = {}
        self._names = names
        self._named: dict[str, Owner] = {}
        self._version = 0
        self._alive: frozenset[tuple[str, str, str]] = frozenset()
        self._nameless = True
        self.jobs: frozenset[str] = frozenset()
        self.uses_slurm = False

    @property
    def names_version(self) -> int:
        """Another number once a workload has another name."""
        return self._names.version if self._names is not None else 0

    @property
    def present(self) -> bool:
        """Whether a cgroup hierarchy was found at the last walk."""
        return bool(self._roots)

    def groups(self, *, fresh: bool = False) -> Sequence[Group]:
        """Groups of workloads: pods and Slurm jobs, then containers, then services.

        The list may be 10 s old. `fresh` looks for groups that began or ended since, which costs
        a quarter of a walk: the insides of containers and services known by then are left out.
        Raises OSError where the hierarchy's own directory cannot be read.
        """
        with self._lock:
            now = self._clock()
            whole = self._walked is None or now - self._walked >= WALK_EVERY
            if whole:
                self._walked = now
                self._insides = {}
                self._earlier_owners, self._owners = self._owners, {}
            if whole or fresh or self._version != self.names_version:
                self._walk(whole=whole)
            return self._ordered

    def find(self, labels: Labels) -> Group | None:
        """The group of a workload, None where it has none or none was seen at the last walk."""
        return self._groups.get(labels)

    def lives(self, kind: str, namespace: str, workload: str) -> bool | None:
        """Whether there is a cgroup of it, wanted or not; None where a pod without a name may be it."""
        if (kind, namespace, workload) in self._alive:
            return True
        return None if kind == "pod" and self._nameless else False

    def owner_of_pid(self, pid: int) -> Owner | None:
        """Owner of a process, None for a process that has none, is gone or cannot be read."""
        try:
            text = self._host.maybe_proc(f"{pid}/cgroup")
        except OSError:  # EACCES with hidepid, or a process that a security module protects
            return None
        return self._name(owner_of_cgroup_file(text)) if text else None

    def holder_of_pid(self, pid: int) -> Owner | None:
        """As `owner_of_pid`, but OTHER for a live process that no pod, job, container or service owns."""
        try:
            text = self._host.maybe_proc(f"{pid}/cgroup")
        except OSError:
            return OTHER
        return (self._name(owner_of_cgroup_file(text)) or OTHER) if text else None

    def _name(self, owner: Owner | None) -> Owner | None:
        return owner if owner is None or self._names is None else self._names.named(owner, asked=True)

    def _walk(self, *, whole: bool) -> None:
        if not self._groups:
            self._roots = find_hierarchies(self._host)
        self.uses_slurm = False
        below = {root: list(self._below(root)) for root in self._roots}
        owners = self._called(dict(entry for entries in below.values() for entry in entries), below)
        found: dict[Labels, Group] = {}
        for root, roles in self._roots.items():
            for path, _ in below[root]:
                if not self._keep(path):
                    continue
                group = _group(found, owners[path], path, roles[0])
                for role in roles:
                    setattr(group, role, f"{top(self._host, root)}{path}")
        if not whole:
            for labels, group in found.items():
                earlier = self._groups.get(labels)
                if earlier is not None and earlier.path == group.path:
                    group.missing = earlier.missing
        self._groups = found
        self._ordered = tuple(sorted(found.values(), key=_order))

    def _called(
        self, owners: dict[str, Owner], below: dict[str, list[tuple[str, Owner]]]
    ) -> dict[str, Owner]:
        """The owners of these paths with their names."""
        names = self._names
        if owners.keys() == self._named.keys() and self._version == self.names_version:
            return self._named
        if names is not None:
            roots = {path: root for root, entries in below.items() for path, _ in entries}

            def age(path: str) -> int:
                above, _, name = f"{top(self._host, roots[path])}{path}".rpartition("/")
                return inode(above, name)  # the kernel numbers its directories upwards

            names.lives(owners.values())
            names.settle(owners, age)
            if self._version != names.version:
                self._version, self._named = names.version, {}
            known = self._named
            owners = {path: known.get(path) or names.named(owner) for path, owner in owners.items()}
        self._named = owners
        pods = [owner for owner in owners.values() if owner.kind == "pod"]
        self._nameless = not pods or any(_nameless(owner) for owner in pods)
        self.jobs = frozenset(owner.workload for owner in owners.values() if owner.kind == "slurm")
        self._alive = frozenset((owner.kind, owner.namespace, owner.workload) for owner in owners.values())
        return owners

    def _below(self, root: str) -> Iterator[tuple[str, Owner]]:
        """Path and owner where the owner changes on the way down, nearest to the root first."""
        queue: deque[tuple[str, Owner | None, int]] = deque([("", None, 0)])
        seen, start = 0, top(self._host, root)
        while queue and seen < MOST_DIRECTORIES:
            above, outer, depth = queue.popleft()
            for name in self._children(f"{start}{above}", outer):
                seen += 1
                path = f"{above}/{name}"
                if depth < 2 and (name.startswith("slurm") or name.endswith("slurmstepd.scope")):
                    self.uses_slurm = True
                owner = self._owner(path)
                if owner is not None and (outer is None or owner.labels != outer.labels):
                    yield path, owner
                if depth < DEEPEST:
                    queue.append((path, owner, depth + 1))

    def _children(self, directory: str, owner: Owner | None) -> list[str]:
        inside = self._insides.get(directory)
        if inside is None:
            try:
                inside = directories(directory)
            except PermissionError:
                inside = []
            # New pods, containers, jobs and steps appear in other places than inside one of these.
            if owner is not None and (owner.container or owner.kind == "service"):
                self._insides[directory] = inside
        return inside

    def _owner(self, path: str) -> Owner | None:
        try:
            return self._owners[path]
        except KeyError:
            earlier = self._earlier_owners
            owner = self._owners[path] = earlier[path] if path in earlier else owner_of_path(path)
            return owner


def _nameless(owner: Owner) -> bool:
    """Whether a pod's name is not known. One that another pod has taken over leaves the namespace."""
    return owner.workload == owner.pod_uid and not owner.namespace


def _group(found: dict[Labels, Group], owner: Owner, path: str, role: str) -> Group:
    """The group that has no directory in this role yet: of the workload, or one of its further ones."""
    group = found.get(owner.labels)
    if group is None:
        group = found[owner.labels] = Group(owner, owner.labels, path)
    if getattr(group, role) or (group.others and group.path != path):
        return _other(group, owner, path)
    return group


def _other(group: Group, owner: Owner, path: str) -> Group:
    """The further cgroup of the workload that has this path."""
    for other in group.others:
        if other.path == path:
            return other
    group.others.append(Group(owner, group.labels, path))
    return group.others[-1]


def _order(group: Group) -> tuple[int, Labels]:
    return ("pod", "slurm", "container", "service", "other").index(group.owner.kind), group.labels
