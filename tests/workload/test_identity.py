"""Owners of cgroup paths: every form that a container runtime or Slurm is known to write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.workload.identity import Owner, owner_of_cgroup_file, owner_of_path

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
UID_ = "0c1f8a52_77b1_4a3e_9f60_1d2e3c4b5a69"
INNER_UID = "ffffffff-1111-2222-3333-444444444444"
HASH = "0123456789abcdef0123456789abcdef"
ID = "abcdef012345" + "6" * 52
SHORT = "abcdef012345"
INNER = "b" * 64


def pod(qos: str, container_id: str = ID, uid: str = UID) -> Owner:
    return Owner(
        "pod",
        workload=uid,
        container=container_id[:12],
        pod_uid=uid,
        container_id=container_id,
        qos=qos,
    )


def container(container_id: str = ID) -> Owner:
    return Owner(
        "container", workload=container_id[:12], container=container_id[:12], container_id=container_id
    )


PODS = {
    "cgroupfs, guaranteed": (f"/kubepods/pod{UID}/{ID}", pod("guaranteed")),
    "cgroupfs, burstable": (f"/kubepods/burstable/pod{UID}/{ID}", pod("burstable")),
    "cgroupfs, besteffort": (f"/kubepods/besteffort/pod{UID}/{ID}", pod("besteffort")),
    "cgroupfs, the pod itself": (f"/kubepods/besteffort/pod{UID}", pod("besteffort", "")),
    "cgroupfs, CRI-O": (f"/kubepods/burstable/pod{UID}/crio-{ID}", pod("burstable")),
    "systemd, containerd, guaranteed": (
        f"/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope",
        pod("guaranteed"),
    ),
    "systemd, containerd, burstable": (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
        pod("burstable"),
    ),
    "systemd, CRI-O with a child": (
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice/crio-{ID}.scope/container",
        pod("besteffort"),
    ),
    "systemd, Docker": (
        f"/kubepods.slice/kubepods-pod{UID_}.slice/docker-{ID}.scope",
        pod("guaranteed"),
    ),
    "systemd, conmon is in the pod but in no container": (
        f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{ID}.scope",
        pod("guaranteed", ""),
    ),
    "containerd without the systemd driver": (
        f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}",
        pod("burstable"),
    ),
    "static pod": (f"/kubepods/burstable/pod{HASH}/{ID}", pod("burstable", ID, HASH)),
    "static pod, systemd": (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice/crio-{ID}.scope",
        pod("burstable", ID, HASH),
    ),
    "kind, cgroupfs": (f"/docker/{INNER}/kubelet/kubepods/besteffort/pod{UID}/{ID}", pod("besteffort")),
    "kind, systemd": (
        f"/system.slice/docker-{INNER}.scope/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
        pod("burstable"),
    ),
    "a cluster in a pod": (
        f"/kubepods/burstable/pod{INNER_UID}/{INNER}/kubelet/kubepods/pod{UID}/{ID}",
        pod("guaranteed"),
    ),
    "Docker in a pod": (f"/kubepods/burstable/pod{UID}/{ID}/docker/{INNER}", pod("burstable")),
    "systemd in a pod": (
        f"/kubepods/burstable/pod{UID}/{ID}/system.slice/sshd.service",
        pod("burstable"),
    ),
    "private cgroup namespace": (
        f"/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
        pod("burstable"),
    ),
    "removed while the process lives": (
        f"/kubepods/burstable/pod{UID}/{ID} (deleted)",
        pod("burstable"),
    ),
    "other root of the kubelet": (f"/mine/kubepods/pod{UID}/{ID}", pod("guaranteed")),
}


@pytest.mark.parametrize(("path", "owner"), PODS.values(), ids=PODS.keys())
def test_pods(path: str, owner: Owner) -> None:
    """Each driver and runtime gives the uid with dashes, the bare container id and the QoS class."""
    assert owner_of_path(path) == owner


CONTAINERS = {
    "docker": f"/docker/{ID}",
    "docker, systemd": f"/system.slice/docker-{ID}.scope",
    "docker, rootless": f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope",
    "docker in docker": f"/docker/{ID}/docker/{INNER}",
    "podman": f"/machine.slice/libpod-{ID}.scope",
    "podman with a child": f"/machine.slice/libpod-{ID}.scope/container",
    "podman pod": f"/machine.slice/machine-libpod_pod_{INNER}.slice/libpod-{ID}.scope",
    "podman, cgroupfs": f"/libpod_parent/libpod-{ID}",
    "podman, rootless": f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
    "podman, split below a unit": f"/system.slice/trainer.service/libpod-payload-{ID}",
    "nerdctl": f"/default/{ID}",
    "nerdctl, systemd": f"/system.slice/nerdctl-{ID}.scope",
    "containerd": f"/system.slice/containerd.service/default/{ID}",
    "systemd in docker": f"/docker/{ID}/system.slice/nginx.service",
    "private cgroup namespace": f"/../{ID}",
}


@pytest.mark.parametrize("path", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_containers(path: str) -> None:
    """A container without a pod is named by the first twelve digits of its id."""
    assert owner_of_path(path) == container()


NOBODY = {
    "root": "/",
    "empty": "",
    "init": "/init.scope",
    "session": "/user.slice/user-1000.slice/session-3.scope",
    "a user's service": "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
    "a user's scope with a UUID": (
        "/user.slice/user-1000.slice/user@1000.service/app.slice/"
        "vte-spawn-11111111-2222-3333-4444-555555555555.scope"
    ),
    "short id of buildkit": "/docker/buildkit/abcdefghij0123456789klmno",
    "63 digits": "/docker/" + "a" * 63,
    "65 digits": "/docker/" + "a" * 65,
    "upper case": "/docker/" + "A" * 64,
    "conmon of podman": f"/machine.slice/libpod-conmon-{ID}.scope",
    "podman pod without container": f"/machine.slice/machine-libpod_pod_{ID}.slice",
    "mount unit of docker": f"/system.slice/var-lib-docker-containers-{ID}-mounts-shm.mount",
    "slice": "/system.slice",
    "kubepods": "/kubepods/burstable",
    "slurmstepd itself": "/system.slice/slurmstepd.scope/system",
    "user directory of Slurm": "/slurm/uid_1000",
    "nearly a job": "/slurm/uid_1000/job_12x",
    "a job elsewhere": "/batch/job_12/step_0",
    "nested paths without end": "/..",
}


@pytest.mark.parametrize("path", NOBODY.values(), ids=NOBODY.keys())
def test_no_owner(path: str) -> None:
    """Sessions, slices and things that only resemble an id have no owner."""
    assert owner_of_path(path) is None


def job(step: str = "", task: str = "", uid: str = "", **ids: str) -> Owner:
    return Owner(
        "slurm",
        workload="4711",
        container=step,
        slurm_job_id="4711",
        slurm_step=step,
        slurm_task=task,
        uid=uid,
        **ids,  # type: ignore[arg-type]
    )


JOBS = {
    "v1 job": ("/slurm/uid_1000/job_4711", job(uid="1000")),
    "v1 step": ("/slurm/uid_1000/job_4711/step_batch", job("batch", uid="1000")),
    "v1 task": ("/slurm/uid_1000/job_4711/step_0/task_3", job("0", "3", "1000")),
    "v1 with a node name": ("/slurm_gpu-7/uid_1000/job_4711/step_extern/task_0", job("extern", "0", "1000")),
    "v2 job": ("/system.slice/slurmstepd.scope/job_4711", job()),
    "v2 task": ("/system.slice/slurmstepd.scope/job_4711/step_12/user/task_5", job("12", "5")),
    "v2 with a node name": (
        "/system.slice/gpu-7_slurmstepd.scope/job_4711/step_interactive/user/task_0",
        job("interactive", "0"),
    ),
    "v2 special task": (
        "/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_special",
        job("extern", "special"),
    ),
    "v2 slurmstepd of a step": ("/system.slice/slurmstepd.scope/job_4711/step_0/slurm", job("0")),
    "v2 heterogeneous step": ("/system.slice/slurmstepd.scope/job_4711/step_0+1/user", job("0+1")),
    "private cgroup namespace": ("/../../slurmstepd.scope/job_4711/step_0/user/task_0", job("0", "0")),
    "Slurm in a pod": (
        f"/kubepods/burstable/pod{UID}/{ID}/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0",
        job("0", "0", pod_uid=UID, container_id=ID, qos="burstable"),
    ),
    "Slurm in a container": (
        f"/docker/{ID}/slurm/uid_1000/job_4711",
        job(uid="1000", container_id=ID),
    ),
    "a container in a job": (f"/slurm/uid_1000/job_4711/step_0/task_0/{ID}", job("0", "0", "1000")),
}


@pytest.mark.parametrize(("path", "owner"), JOBS.values(), ids=JOBS.keys())
def test_slurm(path: str, owner: Owner) -> None:
    """Job, step, task and user come from the path, with both cgroup versions."""
    assert owner_of_path(path) == owner


def test_slurm_directory_named_by_sluid() -> None:
    """A directory of Slurm 26.05 gives a job by its SLUID, without a job id."""
    owner = owner_of_path("/system.slice/slurmstepd.scope/s5K1AAAAAAAA00/step_0/user/task_1")
    assert owner == Owner("slurm", workload="s5K1AAAAAAAA00", container="0", slurm_step="0", slurm_task="1")


def test_pod_in_a_job_is_the_owner() -> None:
    """A cluster that runs inside a job: the pod is nearer to the process."""
    assert owner_of_path(f"/slurm/uid_1000/job_4711/kubepods/pod{UID}/{ID}") == pod("guaranteed")


SERVICES = {
    "/system.slice/sshd.service": "sshd.service",
    "/system.slice/docker.service/inner": "docker.service",
    "/system.slice/system-getty.slice/getty@tty1.service": "getty@tty1.service",
    "/runtime.slice/containerd.service": "containerd.service",
    "/machine.slice/systemd-nspawn@w.service/payload/system.slice/a.service": "systemd-nspawn@w.service",
    "/../../system.slice/sshd.service": "sshd.service",
    "/system.slice/" + "n" * 200 + ".service": "n" * 128,
}


@pytest.mark.parametrize(("path", "unit"), SERVICES.items())
def test_services(path: str, unit: str) -> None:
    """A unit of any slice but the users' is a service; its name is bounded."""
    assert owner_of_path(path) == Owner("service", workload=unit)


def test_labels_are_the_same_four() -> None:
    """Labels come in the order kind, namespace, workload, container."""
    assert pod("burstable").labels == ("pod", "", UID, SHORT)
    assert job("batch", "0").labels == ("slurm", "", "4711", "batch")


def test_v1_file_with_root_lines() -> None:
    """Controllers at the root are ignored, whatever the order of the lines."""
    text = f"12:files:/\n11:cpuacct,cpu:/kubepods/pod{UID}/{ID}\n5:rdma:/\n1:name=systemd:/\n"
    assert owner_of_cgroup_file(text) == pod("guaranteed")


def test_v1_file_whose_controllers_disagree() -> None:
    """The job and its step win over the unit of slurmd and over the job alone."""
    text = (
        "9:cpuset:/slurm/uid_1000/job_4711\n"
        "8:memory:/slurm/uid_1000/job_4711/step_batch\n"
        "4:cpu,cpuacct:/\n"
        "1:name=systemd:/system.slice/slurmd.service\n"
    )
    assert owner_of_cgroup_file(text) == job("batch", uid="1000")


def test_hybrid_file() -> None:
    """The v2 line of a hybrid host shows only the runtime: the v1 lines say who it is."""
    unit = "/system.slice/docker.service"
    text = f"3:memory:/docker/{ID}\n1:name=systemd:{unit}\n0::{unit}\n"
    assert owner_of_cgroup_file(text) == container()


def test_v2_file() -> None:
    """A v2 host has one line; the path may contain colons."""
    quirk = f"0::/system.slice/containerd.service/kubepods-pod{UID_}.slice:cri-containerd:{ID}\n"
    assert owner_of_cgroup_file(quirk) == pod("guaranteed")


@pytest.mark.parametrize("text", ["", "\n", "0::/\n", "garbage", "1:name", "0::", "a:b:c:d\n"])
def test_files_without_an_owner(text: str) -> None:
    """An empty, foreign or root-only file has no owner and raises nothing."""
    assert owner_of_cgroup_file(text) is None


VALID = [path for path, _ in [*PODS.values(), *JOBS.values()]] + [*CONTAINERS.values(), *SERVICES]


@given(st.text() | st.builds("0::{}{}{}\n".format, st.text(), st.sampled_from(VALID), st.text()))
def test_any_text_has_bounded_labels(text: str) -> None:
    """No text raises, and no label is longer than 128 characters or holds a line break."""
    owner = owner_of_cgroup_file(text)
    if owner is not None:
        assert all(len(label) <= 128 and "\n" not in label for label in owner.labels)
        assert owner.container_id == "" or len(owner.container_id) == 64
