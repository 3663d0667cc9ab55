"""Finding the cgroups of workloads in trees of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwait.host import Host
from gpuwait.workload.gpu_users import processes_of
from gpuwait.workload.hierarchies import find_hierarchies
from gpuwait.workload.identity import Owner
from gpuwait.workload.tree import WorkloadTree

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
UID_ = "0c1f8a52_77b1_4a3e_9f60_1d2e3c4b5a69"
ID = "abcdef012345" + "6" * 52
SHORT = "abcdef012345"
POD_SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Tree:
    """A host under construction."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.host = Host(procfs=f"{root}/proc", sysfs=f"{root}/sys")

    def group(self, *paths: str) -> None:
        for path in paths:
            (self.root / "sys/fs/cgroup" / path).mkdir(parents=True, exist_ok=True)

    def file(self, path: str, text: str) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def v2(self) -> None:
        self.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n")

    def workloads(self) -> WorkloadTree:
        return WorkloadTree(self.host, self.clock)

    def labels(self) -> list[tuple[str, str, str, str]]:
        return [group.labels for group in self.workloads().groups()]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_v2_levels(tree: Tree) -> None:
    """Pods and their containers, whole jobs and their steps, services: one group each."""
    tree.v2()
    tree.group(
        f"{POD_SLICE}/cri-containerd-{ID}.scope/inner/more",
        f"{POD_SLICE}/crio-conmon-{ID}.scope",
        "system.slice/sshd.service/child",
        "system.slice/slurmstepd.scope/system",
        "system.slice/slurmstepd.scope/job_7/step_0/user/task_0",
        "system.slice/slurmstepd.scope/job_7/step_0/user/task_1",
        "system.slice/slurmstepd.scope/job_7/step_batch/slurm",
        "user.slice/user-1000.slice/session-1.scope",
        "init.scope",
        f"docker/{ID}/docker/{'b' * 64}",
    )
    assert tree.labels() == [
        ("pod", "", UID, ""),
        ("pod", "", UID, SHORT),
        ("slurm", "", "7", ""),
        ("slurm", "", "7", "0"),
        ("slurm", "", "7", "batch"),
        ("container", "", SHORT, SHORT),
        ("service", "", "sshd.service", ""),
    ]


def test_v2_directory(tree: Tree) -> None:
    """A group of a v2 host has one directory, in the unified hierarchy."""
    tree.v2()
    tree.group(POD_SLICE)
    (group,) = tree.workloads().groups()
    assert group.path == f"/{POD_SLICE}"
    assert group.unified == f"{tree.host.sysfs}/fs/cgroup/{POD_SLICE}"
    assert (group.cpu, group.cpuacct, group.memory) == ("", "", "")


@pytest.mark.parametrize("joined", ["cpu,cpuacct", "cpuacct,cpu"])
def test_v1_joined_controllers(tree: Tree, joined: str) -> None:
    """Joined controllers are found in any order."""
    tree.group(f"{joined}/docker/{ID}", f"memory/docker/{ID}")
    (group,) = tree.workloads().groups()
    top = f"{tree.host.sysfs}/fs/cgroup"
    assert group.cpu == group.cpuacct == f"{top}/{joined}/docker/{ID}"
    assert group.memory == f"{top}/memory/docker/{ID}"
    assert group.unified == ""


def test_v1_separate_controllers(tree: Tree) -> None:
    """Each controller has its own directory; a job may be missing below one of them."""
    tree.group("cpu/slurm/uid_5/job_9", "memory/slurm/uid_5/job_9", "cpuacct", "cpuset/slurm/uid_5/job_8")
    (group,) = tree.workloads().groups()
    assert group.labels == ("slurm", "", "9", "")
    assert group.owner.uid == "5"
    assert group.cpu.endswith("/cpu/slurm/uid_5/job_9")
    assert group.cpuacct == ""


def test_hybrid(tree: Tree) -> None:
    """A hybrid host has the controllers in v1 and pressure in v2, for one and the same group."""
    tree.group("cpu,cpuacct/docker/" + ID, "memory/docker/" + ID, "unified/docker/" + ID, "systemd/docker")
    tree.file("sys/fs/cgroup/unified/cgroup.controllers", "\n")
    (group,) = tree.workloads().groups()
    assert group.unified.endswith(f"/unified/docker/{ID}")
    assert group.cpu.endswith(f"/cpu,cpuacct/docker/{ID}")


def test_v2_without_controllers_file(tree: Tree) -> None:
    """A captured tree that lacks the file and shows no v1 controller is taken for v2."""
    tree.group("system.slice/a.service")
    assert find_hierarchies(tree.host) == {"fs/cgroup": ("unified",)}


def test_mountinfo_decides(tree: Tree) -> None:
    """Process 1's mounts say where the hierarchies are, under whatever name."""
    tree.file(
        "proc/1/mountinfo",
        "20 1 0:5 / /proc rw - proc proc rw\n"
        "30 1 0:6 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
        "31 30 0:7 / /sys/fs/cgroup/time rw shared:9 - cgroup cgroup rw,cpuacct,cpu\n"
        "32 30 0:8 / /sys/fs/cgroup/mem rw shared:9 - cgroup cgroup rw,memory\n"
        "33 30 0:9 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd\n"
        "34 30 0:10 / /sys/fs/cgroup/two rw shared:9 - cgroup2 cgroup2 rw\n"
        "35 30 0:11 / /var/lib/x/sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n",
    )
    for name in ("time", "mem", "two"):
        tree.file(f"sys/fs/cgroup/{name}/cgroup.procs", "1\n")
    assert find_hierarchies(tree.host) == {
        "fs/cgroup/two": ("unified",),
        "fs/cgroup/time": ("cpu", "cpuacct"),
        "fs/cgroup/mem": ("memory",),
    }


def test_mountinfo_of_another_tree(tree: Tree) -> None:
    """Where the mounts speak of directories that are not there, the tree itself decides."""
    tree.file("proc/1/mountinfo", "31 30 0:7 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
    tree.v2()
    tree.group("system.slice/a.service")
    assert find_hierarchies(tree.host) == {"fs/cgroup": ("unified",)}


def test_no_tree(tree: Tree) -> None:
    """A host without cgroups has no groups, and says so."""
    workloads = tree.workloads()
    assert list(workloads.groups()) == []
    assert not workloads.present


def test_two_slurmd(tree: Tree) -> None:
    """One job id under two slurmd of a host is one group, which knows the other directory."""
    tree.v2()
    tree.group("system.slice/a_slurmstepd.scope/job_7", "system.slice/b_slurmstepd.scope/job_7")
    workloads = tree.workloads()
    (group,) = workloads.groups()
    assert group.path == "/system.slice/a_slurmstepd.scope/job_7"
    assert [other.path for other in group.others] == ["/system.slice/b_slurmstepd.scope/job_7"]
    assert group.others[0].unified == f"{tree.host.sysfs}/fs/cgroup/system.slice/b_slurmstepd.scope/job_7"


def test_two_slurmd_v1(tree: Tree) -> None:
    """Below each v1 controller the directories of one slurmd belong together."""
    for name in ("cpu", "memory"):
        tree.group(f"{name}/slurm_a/uid_5/job_7", f"{name}/slurm_b/uid_5/job_7")
    (group,) = tree.workloads().groups()
    (other,) = group.others
    assert [d.split("/cgroup/")[1] for d in (group.cpu, group.memory)] == [
        "cpu/slurm_a/uid_5/job_7",
        "memory/slurm_a/uid_5/job_7",
    ]
    assert [d.split("/cgroup/")[1] for d in (other.cpu, other.memory)] == [
        "cpu/slurm_b/uid_5/job_7",
        "memory/slurm_b/uid_5/job_7",
    ]


EL6 = (
    "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
    "30 20 0:20 / /cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
    "31 20 0:21 / /cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def test_hierarchies_outside_sysfs(tree: Tree) -> None:
    """Where sysfs has no hierarchy those that are mounted elsewhere are read below the host's root."""
    tree.host = Host(f"{tree.root}/proc", f"{tree.root}/sys", f"{tree.root}/root")
    tree.file("proc/1/mountinfo", EL6)
    for name in ("cpuacct", "memory"):
        tree.file(f"root/cgroup/{name}/slurm/uid_5/job_9/cgroup.procs", "41\n")
    assert find_hierarchies(tree.host) == {"/cgroup/cpuacct": ("cpuacct",), "/cgroup/memory": ("memory",)}
    (group,) = tree.workloads().groups()
    assert group.cpuacct == f"{tree.root}/root/cgroup/cpuacct/slurm/uid_5/job_9"
    assert group.memory == f"{tree.root}/root/cgroup/memory/slurm/uid_5/job_9"
    assert processes_of(tree.host, group, ()) == [41]


@pytest.mark.parametrize(
    "mount",
    [
        "40 20 0:40 / /cgroup rw - nfs4 filer:/c rw",
        "40 20 0:40 / /cgroup/cpuacct rw - nfs filer:/c rw",
        "40 20 0:40 / / rw - nfs filer:/root rw",
    ],
)
def test_hierarchies_behind_a_mount_that_may_hang(tree: Tree, mount: str) -> None:
    """A hierarchy that lies behind, or below, a file system with a server is left alone."""
    tree.host = Host(f"{tree.root}/proc", f"{tree.root}/sys", f"{tree.root}/root")
    tree.file("proc/1/mountinfo", EL6.replace("31 20 0:21", f"{mount}\n31 20 0:21"))
    tree.file("root/cgroup/cpuacct/cgroup.procs", "41\n")
    tree.file("root/cgroup/memory/x/cgroup.procs", "41\n")
    assert "/cgroup/cpuacct" not in find_hierarchies(tree.host)


def test_hierarchies_of_a_container(tree: Tree) -> None:
    """Where sysfs has a hierarchy, one that is mounted into a container is not taken besides."""
    tree.file(
        "proc/1/mountinfo",
        "31 30 0:7 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "35 30 0:11 / /var/lib/x/cgroup/memory rw - cgroup cgroup rw,memory\n",
    )
    tree.v2()
    tree.file("var/lib/x/cgroup/memory/cgroup.procs", "1\n")
    assert find_hierarchies(tree.host) == {"fs/cgroup": ("unified",)}


def test_nested_cluster(tree: Tree) -> None:
    """Pods of a cluster inside a container are groups of their own."""
    tree.v2()
    tree.group(f"docker/{'b' * 64}/kubelet/kubepods/pod{UID}/{ID}")
    assert tree.labels() == [
        ("pod", "", UID, ""),
        ("pod", "", UID, SHORT),
        ("container", "", "bbbbbbbbbbbb", "bbbbbbbbbbbb"),
    ]


def test_walk_is_kept_for_ten_seconds(tree: Tree) -> None:
    """A group that begins is seen after ten seconds, at once when asked for fresh ones."""
    tree.v2()
    tree.group("system.slice/a.service")
    workloads = tree.workloads()
    assert len(workloads.groups()) == 1
    tree.group("system.slice/b.service")
    assert len(workloads.groups()) == 1
    assert len(workloads.groups(fresh=True)) == 2
    tree.group("system.slice/c.service")
    tree.clock.now += 10
    assert len(workloads.groups()) == 3


def test_fresh_sees_what_ended_and_new_containers(tree: Tree) -> None:
    """A fresh look drops a container that ended and finds its successor in the same pod."""
    tree.v2()
    tree.group(f"{POD_SLICE}/cri-containerd-{ID}.scope")
    workloads = tree.workloads()
    assert len(workloads.groups()) == 2
    (tree.root / "sys/fs/cgroup" / POD_SLICE / f"cri-containerd-{ID}.scope").rmdir()
    tree.group(f"{POD_SLICE}/cri-containerd-{'b' * 64}.scope")
    assert [group.labels[3] for group in workloads.groups(fresh=True)] == ["", "bbbbbbbbbbbb"]


def test_missing_files_are_forgotten_at_a_whole_walk(tree: Tree) -> None:
    """Files that were absent are remembered over fresh looks and tried again after a whole walk."""
    tree.v2()
    tree.group("system.slice/a.service")
    workloads = tree.workloads()
    workloads.groups()[0].missing.add("x")
    assert workloads.groups(fresh=True)[0].missing == {"x"}
    tree.clock.now += 10
    assert workloads.groups()[0].missing == set()


def test_links_are_not_followed(tree: Tree) -> None:
    """A link in the tree leads nowhere."""
    tree.v2()
    tree.group("system.slice")
    (tree.root / "sys/fs/cgroup/system.slice/a.service").symlink_to("/")
    assert tree.labels() == []


def test_depth_is_bounded(tree: Tree) -> None:
    """What lies deeper than any known runtime puts it is not looked for."""
    tree.v2()
    tree.group("/".join("abcdefghijklmnop") + f"/docker/{ID}")
    assert tree.labels() == []


def test_keep(tree: Tree) -> None:
    """A group that is not wanted is left out, what is below it is not."""
    tree.v2()
    tree.group(f"docker/{ID}", "system.slice/a.service")
    workloads = WorkloadTree(tree.host, tree.clock, lambda path: not path.startswith("/system.slice"))
    assert [group.labels[0] for group in workloads.groups()] == ["container"]


def test_find(tree: Tree) -> None:
    """The group of an owner is found by its labels."""
    tree.v2()
    tree.group(f"docker/{ID}")
    workloads = tree.workloads()
    (group,) = workloads.groups()
    assert workloads.find(group.owner.labels) is group
    assert workloads.find(Owner("service", workload="a.service").labels) is None


def test_owner_of_pid(tree: Tree) -> None:
    """A process' owner comes from its cgroup file; gone, empty and rootless ones have none."""
    tree.file("proc/5/cgroup", f"0::/{POD_SLICE}/cri-containerd-{ID}.scope\n")
    tree.file("proc/6/cgroup", "")
    tree.file("proc/7/cgroup", "0::/\n")
    workloads = tree.workloads()
    owner = workloads.owner_of_pid(5)
    assert owner is not None
    assert (owner.pod_uid, owner.container_id, owner.qos) == (UID, ID, "burstable")
    assert [workloads.owner_of_pid(pid) for pid in (6, 7, 8)] == [None, None, None]


def test_unreadable_process(tree: Tree) -> None:
    """A cgroup file that cannot be read is no owner and no fault."""
    (tree.root / "proc/5/cgroup").mkdir(parents=True)
    assert tree.workloads().owner_of_pid(5) is None
