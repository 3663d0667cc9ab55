"""A node under construction: kernel files, and what the kubelet and the runtimes keep below its root."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwait.host import Host
from gpuwait.workload.names import Names
from gpuwait.workload.tree import WorkloadTree


class Clock:
    """A clock that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A node with cgroup v2."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.host = Host(f"{root}/proc", f"{root}/sys", f"{root}/root")
        self.names = Names(self.host, self.clock)
        self.tree = WorkloadTree(self.host, self.clock, names=self.names)
        self.file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        self.file("root/etc/hostname", "n1\n")
        (root / "proc").mkdir()

    def file(self, path: str, text: str = "") -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def group(self, path: str, *pids: int) -> None:
        (self.root / "sys/fs/cgroup" / path).mkdir(parents=True, exist_ok=True)
        for pid in pids:
            self.file(f"proc/{pid}/cgroup", f"0::/{path}\n")

    def pod(self, uid: str, *containers: str, pid: int = 0, scope: str = "cri-containerd") -> None:
        """A guaranteed pod; its first container has the process."""
        top = f"kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice"
        self.group(top)
        for number, identity in enumerate(containers):
            self.group(f"{top}/{scope}-{identity}.scope", *([pid] if pid and not number else []))

    def log(self, pod: str, namespace: str, container: str, identity: str, uid: str = "") -> None:
        """What the kubelet leaves of a container."""
        self.file(f"root/var/log/containers/{pod}_{namespace}_{container}-{identity}.log")
        if uid:
            (self.root / f"root/var/log/pods/{namespace}_{pod}_{uid}/{container}").mkdir(parents=True)

    def look(self) -> None:
        """Walk, look for names, walk again."""
        self.tree.groups(fresh=True)
        self.names.look()
        self.tree.groups(fresh=True)

    def labels(self) -> list[tuple[str, str, str, str]]:
        self.look()
        return [group.labels for group in self.tree.groups()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)
