"""Which workloads hold a GPU, and with which processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuwait.host import Host, directories, is_absent, names, read_text
from gpuwait.workload.tree import Group, Labels, WorkloadTree

if TYPE_CHECKING:
    from gpuwait.gpu.client import GpuClient

#: Processes of one workload that are looked at; loaders of eight GPUs are about 500.
MOST_PROCESSES = 1024
#: Levels of cgroups inside a container.
DEEPEST = 4


def gpu_users(client: GpuClient | None, tree: WorkloadTree | None) -> Mapping[Labels, tuple[int, ...]]:
    """Workloads of the processes that the GPU driver reports, with these processes' ids.

    A process that ended is left out. Empty without a current GPU reading.
    """
    if client is None or tree is None:
        return {}
    snapshot = client.latest().snapshot
    pids = {p.pid for d in (snapshot.devices if snapshot else ()) for p in d.processes or () if p.pid}
    found: dict[Labels, tuple[int, ...]] = {}
    for pid in sorted(pids):
        owner = tree.holder_of_pid(pid)
        if owner is not None:
            found[owner.labels] = (*found.get(owner.labels, ()), pid)
    return found


def processes_of(host: Host, group: Group | None, known: tuple[int, ...]) -> list[int]:
    """Every process in the cgroup of a workload: loader workers hold no GPU. At least the known ones.

    From `cgroup.procs` of the group and of the groups inside it. Raises OSError for a fault.
    """
    found = set(known)
    parts = (group, *group.others) if group else ()
    tops = (next((d for d in (p.unified, p.memory, p.cpu, p.cpuacct) if d), "") for p in parts)
    below = [(directory, 0) for directory in tops if directory]
    for path, depth in below:
        try:
            # A threaded group answers EOPNOTSUPP; its processes are listed further up.
            words = read_text(f"{path}/cgroup.procs").split()
        except OSError as error:
            if not is_absent(error):
                raise
            continue
        found.update(int(word) for word in words if word.isascii() and word.isdigit() and word != "0")
        if depth < DEEPEST and len(found) < MOST_PROCESSES:
            below += [(f"{path}/{name}", depth + 1) for name in directories(path)]
    return sorted(found)[:MOST_PROCESSES]


def open_files(host: Host, pid: int) -> int:
    """Open descriptors of a process, 0 where it ended; raises PermissionError (CAP_DAC_READ_SEARCH)."""
    return len(names(f"{host.procfs}/{pid}/fd"))
