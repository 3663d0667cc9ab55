"""Names of pods and containers, from every source, for as long as they live."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpuwait.workload.identity import Owner

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
UID2 = "7e5d1c00-1234-4a3e-9f60-000000000002"
A, B, C = "a1" * 32, "b2" * 32, "c3" * 32


def pod_file(node: Any, path: str, pod: str, container: str, **more: Any) -> None:
    marks = {
        "io.kubernetes.cri.sandbox-name": pod,
        "io.kubernetes.cri.sandbox-namespace": "ml",
        "io.kubernetes.cri.container-name": container,
        **more,
    }
    node.file(path, json.dumps({"annotations": marks}))


def test_names_of_logs(node: Any) -> None:
    """Pod, namespace and both containers have the names of the kubelet's logs."""
    node.pod(UID, A, B)
    node.log("train-0", "ml", "main", A, UID)
    node.log("train-0", "ml", "side.car".replace(".", "-"), B)
    assert node.labels() == [
        ("pod", "ml", "train-0", ""),
        ("pod", "ml", "train-0", "main"),
        ("pod", "ml", "train-0", "side-car"),
    ]


def test_ids_stay_on_the_record(node: Any) -> None:
    """Whoever joins by uid or id still can."""
    node.pod(UID, A, pid=7)
    node.log("train-0", "ml", "main", A, UID)
    node.look()
    assert node.tree.owner_of_pid(7) == Owner(
        "pod", "ml", "train-0", "main", pod_uid=UID, container_id=A, qos="guaranteed"
    )


def test_container_logs_alone(node: Any) -> None:
    """Without /var/log/pods the logs of its containers name the pod."""
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A)
    assert node.labels() == [("pod", "ml", "train-0", ""), ("pod", "ml", "train-0", "main")]


def test_pod_logs_alone(node: Any) -> None:
    """Without /var/log/containers the pod has a name and its containers their ids."""
    node.pod(UID, A)
    (node.root / f"root/var/log/pods/ml_train-0_{UID}").mkdir(parents=True)
    assert node.labels() == [("pod", "ml", "train-0", ""), ("pod", "ml", "train-0", "a1a1a1a1a1a1")]


def test_static_pod(node: Any) -> None:
    """The uid of a static pod is a hash, in its cgroup as in its log."""
    static = "5f0e4c2b8d7a69130c1f8a5277b14a3e"
    node.pod(static, A)
    node.log("etcd.node-1", "kube-system", "etcd", A, static)
    assert node.labels() == [
        ("pod", "kube-system", "etcd.node-1", ""),
        ("pod", "kube-system", "etcd.node-1", "etcd"),
    ]


def test_logs_of_gone_pods(node: Any) -> None:
    """Logs that outlive their pods name nothing, also where the name is the same."""
    node.log("train-0", "ml", "main", B, UID2)
    node.pod(UID, A)
    assert node.labels() == [("pod", "", UID, ""), ("pod", "", UID, "a1a1a1a1a1a1")]
    node.log("train-0", "ml", "main", A, UID)
    assert node.labels() == [("pod", "ml", "train-0", ""), ("pod", "ml", "train-0", "main")]


def test_restarted_container(node: Any) -> None:
    """A container that restarts in its pod keeps its labels, though its id is another."""
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A, UID)
    before = node.labels()
    shutil.rmtree(node.root / f"sys/fs/cgroup/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice")
    node.pod(UID, B)
    node.log("train-0", "ml", "main", B)
    assert node.labels() == before


def test_recreated_pod(node: Any) -> None:
    """A pod that comes back with the same name and another uid has the same labels."""
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A, UID)
    before = node.labels()
    shutil.rmtree(node.root / "sys/fs/cgroup/kubepods.slice")
    node.pod(UID2, B)
    node.log("train-0", "ml", "main", B, UID2)
    assert node.labels() == before


def test_two_living_pods_of_one_name(node: Any) -> None:
    """Of two pods with one name (one was deleted by force and hangs) the newer has it, the other its uid."""
    node.pod(UID, A, pid=7)
    node.pod(UID2, B, pid=8)
    node.log("train-0", "ml", "main", A, UID)
    node.log("train-0", "ml", "main", B, UID2)
    top = node.root / "sys/fs/cgroup/kubepods.slice"
    inodes = {uid: (top / f"kubepods-pod{uid.replace('-', '_')}.slice").stat().st_ino for uid in (UID, UID2)}
    older = min(inodes, key=lambda uid: inodes[uid])
    assert sorted(node.labels()) == sorted(
        [
            ("pod", "ml", "train-0", ""),
            ("pod", "ml", "train-0", "main"),
            ("pod", "ml", older, ""),
            ("pod", "ml", older, "main"),
        ]
    )
    assert {node.tree.owner_of_pid(pid).workload for pid in (7, 8)} == {"train-0", older}
    shutil.rmtree(top / f"kubepods-pod{older.replace('-', '_')}.slice")
    assert node.labels() == [("pod", "ml", "train-0", ""), ("pod", "ml", "train-0", "main")]


@pytest.mark.parametrize(
    "path",
    [
        "run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
        "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
        "run/k0s/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
        "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
        "run/containers/storage/overlay-containers/{}/userdata/config.json",
    ],
)
def test_bundles(node: Any, path: str) -> None:
    """Where the kubelet's logs say nothing, the runtime's own file names container and pod."""
    node.pod(UID, A)
    pod_file(node, f"root/{path.format(A)}", "train-0", "main")
    assert node.labels() == [("pod", "ml", "train-0", ""), ("pod", "ml", "train-0", "main")]


def test_sandbox(node: Any) -> None:
    """The container that holds the namespaces of a pod is called POD, as elsewhere."""
    node.pod(UID, A, B)
    node.log("train-0", "ml", "main", A, UID)
    path = f"root/run/containerd/io.containerd.runtime.v2.task/k8s.io/{B}/config.json"
    pod_file(node, path, "train-0", "", **{"io.kubernetes.cri.container-type": "sandbox"})
    assert ("pod", "ml", "train-0", "POD") in node.labels()


def test_long_names(node: Any) -> None:
    """Two pods whose names differ in the last of 253 letters stay two, each with its name."""
    long, tasks = "p" * 252, "root/run/containerd/io.containerd.runtime.v2.task/k8s.io"
    node.pod(UID, A)
    node.pod(UID2, B)
    pod_file(node, f"{tasks}/{A}/config.json", f"{long}a", "main")
    pod_file(node, f"{tasks}/{B}/config.json", f"{long}b", "main")
    assert [labels[2] for labels in node.labels()] == [f"{long}a", f"{long}a", f"{long}b", f"{long}b"]


def test_long_names_of_containers(node: Any) -> None:
    """Two names that are cut to the same text are one name: one of the containers has its id."""
    for identity, name in ((A, "x" * 128 + "a"), (B, "x" * 128 + "b")):
        node.group(f"system.slice/docker-{identity}.scope")
        node.file(f"root/var/lib/docker/containers/{identity}/config.v2.json", f'{{"Name": "/{name}"}}')
    first, second = sorted((labels[2] for labels in node.labels()), key=len)
    assert first in {A[:12], B[:12]}
    assert second == "x" * 128


def test_bundle_of_another_pod(node: Any) -> None:
    """A file that tells another uid than the cgroup names the container, not the pod."""
    node.pod(UID, A)
    path = f"root/run/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json"
    pod_file(node, path, "inner", "main", **{"io.kubernetes.cri.sandbox-uid": UID2})
    assert node.labels() == [("pod", "", UID, ""), ("pod", "", UID, "main")]


def test_docker_and_podman(node: Any) -> None:
    """Containers without a pod have the names that they were given."""
    node.group(f"system.slice/docker-{A}.scope")
    node.group(f"machine.slice/libpod-{B}.scope")
    node.group(f"docker/{C}")
    node.file(f"root/var/lib/docker/containers/{A}/config.v2.json", '{"Name": "/jupyter"}')
    listed = json.dumps([{"id": B, "names": ["trainer"]}])
    node.file("root/var/lib/containers/storage/overlay-containers/containers.json", listed)
    assert node.labels() == [
        ("container", "", "c3c3c3c3c3c3", "c3c3c3c3c3c3"),
        ("container", "", "jupyter", "jupyter"),
        ("container", "", "trainer", "trainer"),
    ]


def test_two_engines_with_one_name(node: Any) -> None:
    """Docker and Podman may both have a `web`: two containers stay two."""
    node.group(f"system.slice/docker-{A}.scope")
    node.group(f"machine.slice/libpod-{B}.scope")
    node.file(f"root/var/lib/docker/containers/{A}/config.v2.json", '{"Name": "/web"}')
    listed = json.dumps([{"id": B, "names": ["web"]}])
    node.file("root/var/lib/containers/storage/overlay-containers/containers.json", listed)
    labels = node.labels()
    assert ("container", "", "web", "web") in labels
    assert len(set(labels)) == 2


def test_hostile_name(node: Any) -> None:
    """What a runtime's file says is bounded and cannot break a line."""
    node.group(f"docker/{A}")
    name = "x\n\x1b[2J\u202e" + "y" * 500
    node.file(f"root/var/lib/docker/containers/{A}/config.v2.json", json.dumps({"Name": name}))
    ((_, _, workload, container),) = node.labels()
    assert workload == container
    assert workload.isprintable()
    assert len(workload) == 128


def test_files_that_are_none(node: Any) -> None:
    """A pipe, a directory, a huge or closed file in the place of a configuration costs its own name only."""
    node.pod(UID, A, B, C)
    tasks = "root/run/containerd/io.containerd.runtime.v2.task/k8s.io"
    for identity in (A, B, C):
        (node.root / tasks / identity).mkdir(parents=True)
    os.mkfifo(node.root / tasks / A / "config.json")
    (node.root / tasks / B / "config.json").mkdir()
    pod_file(node, f"{tasks}/{C}/config.json", "train-0", "main", pad="x" * (1024 * 1024))
    node.look()
    assert [group.labels[2] for group in node.tree.groups()] == [UID] * 4
    assert set(node.names.reasons) == {"run/containerd/io.containerd.runtime.v2.task/k8s.io"}


def test_directory_of_logs_that_is_a_file(node: Any) -> None:
    """Nonsense in the place of a directory is the same as nothing."""
    node.file("root/var/log/containers", "no directory\n")
    node.pod(UID, A)
    assert [labels[2] for labels in node.labels()] == [UID, UID]


def test_a_name_stays(node: Any) -> None:
    """A log that is rotated away, or a runtime whose files vanish, takes no name from what lives."""
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A, UID)
    before = node.labels()
    shutil.rmtree(node.root / "root/var")
    node.clock.now += 1000
    assert node.labels() == before


def test_a_name_goes_with_its_cgroup(node: Any) -> None:
    """What is gone is forgotten."""
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A, UID)
    node.look()
    shutil.rmtree(node.root / "sys/fs/cgroup/kubepods.slice")
    node.look()
    shutil.rmtree(node.root / "root/var")
    node.pod(UID, A)
    assert [labels[2] for labels in node.labels()] == [UID, UID]


def test_a_name_that_comes_late(node: Any) -> None:
    """The log appears after the container: then the labels change, once, and the version tells."""
    node.pod(UID, A)
    assert [labels[2] for labels in node.labels()] == [UID, UID]
    for _ in range(5):
        node.look()
    version = node.names.version
    node.log("train-0", "ml", "main", A, UID)
    assert [labels[2] for labels in node.labels()] == ["train-0", "train-0"]
    assert node.names.version == version + 1
    node.look()
    assert node.names.version == version + 1


def test_asked_for_outside_the_tree(node: Any) -> None:
    """A process whose cgroup is left out of the walk has its name too, for as long as it is asked for."""
    node.file("proc/7/cgroup", f"0::/kubepods/pod{UID}/{A}\n")
    node.log("train-0", "ml", "main", A, UID)
    assert node.tree.owner_of_pid(7).workload == UID
    node.names.look()
    assert node.tree.owner_of_pid(7).labels == ("pod", "ml", "train-0", "main")
    node.clock.now += 61
    node.names.look()
    node.root.joinpath("root/var").rename(node.root / "moved")
    assert node.tree.owner_of_pid(7).workload == UID


def test_slurm_in_a_pod(node: Any) -> None:
    """A job in a pod is the job's, with the ids of the pod; its labels take no name of the pod."""
    top = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{A}.scope"
    node.group(f"{top}/system.slice/slurmstepd.scope/job_77/step_0/user/task_0", 9)
    node.log("slurmd-0", "slurm", "slurmd", A, UID)
    node.look()
    owner = node.tree.owner_of_pid(9)
    assert owner.labels == ("slurm", "", "77", "0")
    assert (owner.pod_uid, owner.container_id) == (UID, A)
    assert ("pod", "slurm", "slurmd-0", "slurmd") in node.labels()


def test_many_containers(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of runtimes are read a few at a look, and each at most three times."""
    ids = [f"{n:064x}" for n in range(100)]
    node.pod(UID, *ids)
    reads: list[str] = []
    monkeypatch.setattr("gpuwait.workload.name_files.read_file", lambda path, _limit: reads.append(path))
    node.tree.groups(fresh=True)
    assert node.names.look() is True
    first = len(reads)
    for _ in range(20):
        node.names.look()
    own = [path for path in reads if "docker" in path]
    assert first == 64 * 6
    assert len(own) == 300


def test_unchanged_directories_are_not_listed(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With something unnamed, logs are listed twice after a change and then not again until the next."""
    node.pod(UID, A)
    (node.root / "root/var/log/containers").mkdir(parents=True)
    listed: list[str] = []
    monkeypatch.setattr(
        "gpuwait.workload.name_files.first_names", lambda path, _most: listed.append(path) or []
    )
    for _ in range(10):
        node.look()
    assert len(listed) == 2
    node.log("x", "y", "z", B)
    for _ in range(10):
        node.look()
    assert len(listed) == 4


def test_nothing_is_listed_when_all_is_named(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node where every container has its name costs no file at all."""
    node.pod(UID, A)
    node.log("train-0", "ml", "main", A, UID)
    node.look()

    def never(*_: object) -> None:
        raise AssertionError("a file was touched")

    for function in ("fingerprint", "first_names", "read_file"):
        monkeypatch.setattr(f"gpuwait.workload.name_files.{function}", never)
    assert [labels[2] for labels in node.labels()] == ["train-0", "train-0"]


@pytest.mark.parametrize("rootfs", ["/", ""])
def test_root_of_the_host(tmp_path: Path, rootfs: str) -> None:
    """With the host's own root the paths are the host's."""
    from gpuwait.host import Host
    from gpuwait.workload.name_files import NameFiles

    assert NameFiles(Host(rootfs=rootfs)).containers({A}) == {}
