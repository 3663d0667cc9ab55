"""Which workloads hold a GPU, and which processes and threads they consist of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuwait.host import Host, names, read_bytes
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.task import parse_task
from gpuwait.wait.snapshot import Key
from gpuwait.workload.gpu_users import MOST_PROCESSES, processes_of
from gpuwait.workload.tree import Group, WorkloadTree

#: Seconds between two looks for processes and threads that nobody told of.
EVERY = 10.0
#: The same where something is known to have changed: churn must not become load.
SOONEST = 1.0
AFTER_END = 3.0
#: Processes that hold GPUs, and threads of one workload, that are looked at.
MOST_HOLDERS = 1024
MOST_THREADS = 32_768


@dataclass(slots=True, eq=False)
class Watched:
    """One workload with a GPU.

    group:   its cgroup, None where it has none of its own.
    holders: processes that the driver reports.
    threads: process and thread ids.
    """

    key: Key
    group: Group | None
    holders: tuple[int, ...] = ()
    pids: list[int] = field(default_factory=list)
    threads: list[tuple[int, int]] = field(default_factory=list)


class Discovery:
    """Looks again when the driver reports other processes, when one vanished, and every 10 s.

    A process whose cgroup is nobody's (a login session, the root group), or could not be found, is
    a workload with its descendants; its key names the process and is never a label.
    """

    def __init__(self, host: Host, tree: WorkloadTree | None, clock: Callable[[], float]) -> None:
        self._host = host
        self._tree = tree
        self._clock = clock
        self._holders: frozenset[int] = frozenset()
        self._looked: float | None = None
        self._stale = False
        self._version = 0
        self._parents: dict[int, int] = {}
        self._keys: dict[int, Key] = {}
        self.workloads: dict[Key, Watched] = {}

    def key_of(self, pid: int) -> Key | None:
        """Workload of a process that holds a GPU, None where the process is gone."""
        return self._keys.get(pid)

    def vanished(self) -> None:
        """Say that a process was gone."""
        self._stale = True

    def update(self, holders: Iterable[int]) -> bool:
        """Look if it is time to; tell whether that was done. Holders: what the driver reports now."""
        wanted = frozenset(sorted(holders)[:MOST_HOLDERS])
        now = self._clock()
        if self._looked is not None:
            since = now - self._looked
            changed = wanted != self._holders or self._version != self._names_version()
            wait = SOONEST if changed else AFTER_END if self._stale else EVERY
            if since < wait:
                return False
        self._looked, self._holders, self._stale = now, wanted, False
        self._version = self._names_version()
        self._look()
        return True

    def _names_version(self) -> int:
        return self._tree.names_version if self._tree is not None else 0

    def _look(self) -> None:
        found: dict[Key, Watched] = {}
        alone: list[int] = []
        groups = self._groups()
        for pid in sorted(self._holders):
            group = groups.get(pid)
            if group is None:
                alone.append(pid)
            else:
                watched = found.setdefault(group.labels, Watched(group.labels, group))
                watched.holders = (*watched.holders, pid)
        for watched in found.values():
            try:
                watched.pids = processes_of(self._host, watched.group, watched.holders)
            except OSError:  # a group that a security module hides: what the driver reports remains
                watched.pids = list(watched.holders)
        for watched in self._families(alone):
            found[watched.key] = watched
        for watched in found.values():
            watched.threads = self._threads(watched.pids)
        self.workloads = {key: watched for key, watched in found.items() if watched.threads}
        self._keys = {pid: key for key, watched in self.workloads.items() for pid in watched.holders}

    def _groups(self) -> dict[int, Group]:
        """Cgroups of the holders that have one of their own."""
        tree = self._tree
        if tree is None or not self._holders:
            return {}
        labels = {pid: o.labels for pid in self._holders if (o := tree.owner_of_pid(pid)) is not None}
        try:
            tree.groups()
            if any(tree.find(key) is None for key in labels.values()):
                tree.groups(fresh=True)
        except OSError:  # no hierarchy to be seen: process trees remain
            return {}
        return {pid: group for pid, key in labels.items() if (group := tree.find(key)) is not None}

    def _families(self, pids: list[int]) -> list[Watched]:
        """Each process with its descendants; one below another belongs to that one."""
        if not pids:
            self._parents = {}
            return []
        self._scan()
        children: dict[int, list[int]] = {}
        for pid, parent in self._parents.items():
            children.setdefault(parent, []).append(pid)
        families: dict[int, Watched] = {}
        for pid in pids:
            root, at = pid, pid
            for _ in range(64):
                at = self._parents.get(at, 0)
                if not at:
                    break
                root = at if at in pids else root
            key = ("other", "", f"process {root}", "")
            watched = families.setdefault(root, Watched(key, None))
            watched.holders = (*watched.holders, pid)
        for root, watched in families.items():
            below = [root]
            for pid in below:
                below += children.get(pid, ())
                if len(below) >= MOST_PROCESSES:
                    break
            watched.pids = sorted({*below[:MOST_PROCESSES], *watched.holders})
        return list(families.values())

    def _scan(self) -> None:
        """Parents of all processes. Only new ones are read: `children` files would cost one a thread."""
        try:
            present = {int(name) for name in names(self._host.procfs) if name.isascii() and name.isdigit()}
        except OSError:
            present = set()
        known = {pid: parent for pid, parent in self._parents.items() if pid in present}
        for pid in present - known.keys():
            try:
                known[pid] = parse_task(read_bytes(f"{self._host.procfs}/{pid}/stat")).parent
            except (OSError, ParseError):  # ended, or hidden (hidepid): none of ours
                continue
        # Orphans get another parent, whose id may be a new process' by the next look.
        self._parents = {pid: parent for pid, parent in known.items() if parent in present or parent == 0}

    def _threads(self, pids: list[int]) -> list[tuple[int, int]]:
        threads: list[tuple[int, int]] = []
        for pid in pids:
            try:
                found = names(f"{self._host.procfs}/{pid}/task")
            except OSError:  # EACCES: hidden from us
                continue
            threads += [(pid, int(name)) for name in found if name.isascii() and name.isdigit()]
            if len(threads) >= MOST_THREADS:
                return threads[:MOST_THREADS]
        return threads


def sample(watched: Watched, share: int, turn: int) -> list[tuple[int, int]]:
    """The workload's threads, or a share of them that moves on with each turn."""
    threads = watched.threads
    if len(threads) <= share:
        return threads
    holders = set(watched.holders)
    first = [(pid, tid) for pid, tid in threads if pid == tid and pid in holders][:share]
    kept = set(first)
    rest = [thread for thread in threads if thread not in kept]
    room = share - len(first)
    start = turn * room % len(rest) if rest else 0
    return first + (rest[start:] + rest[:start])[:room]
