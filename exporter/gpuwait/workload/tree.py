"""The cgroups of a host that are workloads, found in cgroup v1, v2 and hybrid trees.

Only directories below `<sysfs>/fs/cgroup` are ever listed, and where there is no hierarchy
those of the cgroup file systems that are mounted elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuwait.host import Host, directories, names
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountinfo import Mount, parse_mountinfo
from gpuwait.workload.identity import OTHER, Owner, owner_of_cgroup_file, owner_of_path

Labels = tuple[str, str, str, str]

#: Seconds between two walks of the whole tree: a walk of 2,000 groups costs 30 ms.
WALK_EVERY = 10.0
#: A host with more leaks groups, and a walk must end.
MOST_DIRECTORIES = 20_000
#: A pod in a cluster in a container of a systemd host is 10 levels deep.
DEEPEST = 12
#: Types of file systems that have no device and no server behind them.
NEVER_HANG = frozenset({"cgroup", "cgroup2", "tmpfs", "devtmpfs", "sysfs"})

TOP = "fs/cgroup"
#: v1 controllers that are read; `unified` is the v2 hierarchy.
ROLES = ("unified", "cpu", "cpuacct", "memory")
#: First directories of a v1 or hybrid host that no v2 tree has.
V1_NAMES = frozenset(
    {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "net_cls", "net_prio"}
    | {"perf_event", "hugetlb", "rdma", "misc", "systemd", "unified"}
)


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
    """

    def __init__(
        self,
        host: Host,
        clock: Callable[[], float],
        keep: Callable[[str], bool] = lambda _path: True,
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
            if whole or fresh:
                self._walk(whole=whole)
            return self._ordered

    def find(self, labels: Labels) -> Group | None:
        """The group of a workload, None where it has none or none was seen at the last walk."""
        return self._groups.get(labels)

    def owner_of_pid(self, pid: int) -> Owner | None:
        """Owner of a process, None for a process that has none, is gone or cannot be read."""
        try:
            text = self._host.maybe_proc(f"{pid}/cgroup")
        except OSError:  # EACCES with hidepid, or a process that a security module protects
            return None
        return owner_of_cgroup_file(text) if text else None

    def holder_of_pid(self, pid: int) -> Owner | None:
        """As `owner_of_pid`, but OTHER for a live process that no pod, job, container or service owns."""
        try:
            text = self._host.maybe_proc(f"{pid}/cgroup")
        except OSError:
            return OTHER
        return (owner_of_cgroup_file(text) or OTHER) if text else None

    def _walk(self, *, whole: bool) -> None:
        if not self._groups:
            self._roots = find_hierarchies(self._host)
        found: dict[Labels, Group] = {}
        for root, roles in self._roots.items():
            for path, owner in self._below(root):
                labels = owner.labels
                group = found.get(labels)
                if group is None:
                    group = found[labels] = Group(owner, labels, path)
                directory = f"{_top(self._host, root)}{path}"
                if getattr(group, roles[0]) or (group.others and group.path != path):
                    group = _other(group, owner, path)
                for role in roles:
                    setattr(group, role, directory)
        if not whole:
            for labels, group in found.items():
                earlier = self._groups.get(labels)
                if earlier is not None and earlier.path == group.path:
                    group.missing = earlier.missing
        self._groups = found
        self._ordered = tuple(sorted(found.values(), key=_order))

    def _below(self, root: str) -> Iterator[tuple[str, Owner]]:
        """Path and owner where the owner changes on the way down, nearest to the root first."""
        queue: deque[tuple[str, Owner | None, int]] = deque([("", None, 0)])
        seen, top = 0, _top(self._host, root)
        while queue and seen < MOST_DIRECTORIES:
            above, outer, depth = queue.popleft()
            for name in self._children(f"{top}{above}", outer):
                seen += 1
                path = f"{above}/{name}"
                owner = self._owner(path)
                if owner is not None and (outer is None or owner.labels != outer.labels) and self._keep(path):
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


def _other(group: Group, owner: Owner, path: str) -> Group:
    """The further cgroup of the workload that has this path."""
    for other in group.others:
        if other.path == path:
            return other
    group.others.append(Group(owner, group.labels, path))
    return group.others[-1]


def _order(group: Group) -> tuple[int, Labels]:
    return ("pod", "slurm", "container", "service", "other").index(group.owner.kind), group.labels


def _top(host: Host, root: str) -> str:
    """Whole path of the root of a hierarchy: below rootfs where it begins with a slash, else below sysfs."""
    return f"{host.rootfs.rstrip('/')}{root}" if root.startswith("/") else f"{host.sysfs}/{root}"


def find_hierarchies(host: Host) -> dict[str, tuple[str, ...]]:
    """Directories that are roots of cgroup hierarchies, with the roles of each.

    They are below sysfs, or, beginning with a slash, below the root of the host's file system.
    A role is `unified` or a v1 controller: `{"fs/cgroup/cpu,cpuacct": ("cpu", "cpuacct")}`.
    From mountinfo of process 1, or by looking where that says nothing, as in a captured tree.
    Raises OSError.
    """
    found = _mounted(host) or _seen(host)
    roots: dict[str, tuple[str, ...]] = {}
    for role in ROLES:
        if role in found:
            roots[found[role]] = (*roots.get(found[role], ()), role)
    return roots


def _mounted(host: Host) -> dict[str, str]:
    found: dict[str, str] = {}
    for process in ("1", "self"):
        try:
            text = host.maybe_proc(f"{process}/mountinfo") or ""
        except PermissionError:  # hidepid shows a process its own only
            continue
        # A node with many pods has thousands of mounts; a handful of them matter.
        lines = [line for line in text.split("\n") if " - cgroup" in line]
        try:
            mounts = parse_mountinfo("\n".join(lines))
            found = _roles((mount, _below_sysfs(host, mount.mountpoint)) for mount in mounts)
            if mounts and not found:
                everything = parse_mountinfo(text)
                found = _roles((mount, _elsewhere(mount.mountpoint, everything)) for mount in mounts)
        except ParseError:
            continue
        if found:
            break
    # The mountinfo of a captured host may speak of trees that were not captured with it.
    return {role: path for role, path in found.items() if names(_top(host, path))}


def _roles(mounts: Iterable[tuple[Mount, str | None]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for mount, directory in mounts:
        if directory is None:
            continue
        if mount.filesystem_type == "cgroup2":
            found["unified"] = directory
        elif mount.filesystem_type == "cgroup":
            found.update(dict.fromkeys(set(mount.super_options.split(",")) & set(ROLES), directory))
    return found


def _elsewhere(mountpoint: str, mounts: Sequence[Mount]) -> str | None:
    """The mount point of a hierarchy outside sysfs, as on EL 6 (`/cgroup/cpuacct`).

    This is the one place where a path from mountinfo is opened. A cgroup file system never hangs,
    but one that lies on the way to it or on top of it could: then it is left alone.
    """
    if not mountpoint.startswith("/") or ".." in mountpoint.split("/"):
        return None
    way = [m for m in mounts if f"{mountpoint}/".startswith(f"{m.mountpoint.rstrip('/')}/")]
    local = all(
        m.filesystem_type in NEVER_HANG or (m.mountpoint == "/" and not m.filesystem_type.startswith("nfs"))
        for m in way
    )
    return mountpoint if local else None


def _below_sysfs(host: Host, mountpoint: str) -> str | None:
    for prefix in ("/sys/", f"{host.sysfs}/"):
        path = mountpoint.removeprefix(prefix)
        if path != mountpoint and (path == TOP or path.startswith(f"{TOP}/")) and ".." not in path:
            return path
    return None


def _seen(host: Host) -> dict[str, str]:
    if host.maybe_sys(f"{TOP}/cgroup.controllers") is not None:
        return {"unified": TOP}
    tops = host.subdirectories(TOP)
    found: dict[str, str] = {}
    for name in tops:
        # The order of joined controllers differs between distributions.
        found.update(dict.fromkeys(set(name.split(",")) & set(ROLES), f"{TOP}/{name}"))
    if not found and not any(V1_NAMES & set(name.split(",")) for name in tops):
        return {"unified": TOP} if tops else {}
    return found
