"""Everything that says whose a process or a GPU is, put together and started as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from gpuwait.host import Host
from gpuwait.workload.claims import Claims
from gpuwait.workload.job_files import JobFiles
from gpuwait.workload.kubelet import Kubelet
from gpuwait.workload.lookout import Lookout
from gpuwait.workload.names import Names
from gpuwait.workload.tree import WorkloadTree

#: Seconds that commands which run once wait for names: a listing and 64 files take 0.1 s.
FIRST = 2.0


@dataclass(frozen=True, slots=True)
class Owners:
    """`tree` knows cgroups and processes by name, `claims` to whom GPUs are given."""

    tree: WorkloadTree
    claims: Claims
    names: Names
    kubelet: Kubelet
    jobs: JobFiles
    lookout: Lookout
    rootfs: str

    @classmethod
    def build(
        cls,
        host: Host,
        keep: Callable[[str], bool] = lambda _path: True,
        *,
        kubelet_socket: str = "",
        job_directories: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> Owners:
        """All parts, not started."""
        names, jobs = Names(host, clock), JobFiles(host, job_directories)
        kubelet = Kubelet(host, kubelet_socket, clock=clock)
        lookout = Lookout((names.look, jobs.look), clock=clock)
        names.changed = lookout.wake
        tree = WorkloadTree(host, clock, keep, names)
        claims = Claims(tree, kubelet, jobs, clock)
        return cls(tree, claims, names, kubelet, jobs, lookout, host.rootfs.rstrip("/"))

    def start(self) -> None:
        """Start both threads; returns at once."""
        self.lookout.start()
        self.kubelet.start()

    def wait_first(self, timeout: float = FIRST) -> None:
        """Wait for names and for the kubelet's first answer, but not for those that hang."""
        end = time.monotonic() + timeout
        self.wait_names(timeout)
        self.kubelet.wait_first(end - time.monotonic())

    def wait_names(self, timeout: float = FIRST) -> None:
        """Let what has a cgroup now, and what was asked for, get its name, where files answer in time."""
        with suppress(OSError):  # no hierarchy: processes may have names yet
            self.tree.groups(fresh=True)
        if self.lookout.settle(timeout):
            with suppress(OSError):
                self.tree.groups(fresh=True)

    def stop(self) -> None:
        """End both threads; one that hangs is left to its fate."""
        self.lookout.stop()
        self.kubelet.stop()

    @property
    def reasons(self) -> dict[str, str]:
        """By source, why it says nothing though it is there."""
        found = {**self.names.reasons, **self.jobs.reasons}
        if self.kubelet.reason:
            found["kubelet"] = self.kubelet.reason
        if self.lookout.hung:
            found["names"] = self.lookout.hung
        return found
