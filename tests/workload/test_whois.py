"""Answers of the whois command."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gpuwait.host import Host
from gpuwait.workload import whois
from gpuwait.workload.names import Names
from gpuwait.workload.tree import WorkloadTree

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
ID = "abcdef012345" + "6" * 52
TEXTS = ("kind", "namespace", "workload", "pod", "pod_uid", "container", "container_id", "qos", "uid")
NOTHING = dict.fromkeys((*TEXTS, "slurm_job_id", "slurm_step", "slurm_task"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for pid, text in {
        5: f"0::/kubepods/burstable/pod{UID}/{ID}\n",
        6: "4:memory:/slurm/uid_1000/job_9/step_batch/task_0\n",
        7: "0::/\n",
        8: "0::/system.slice/sshd.service\n",
        9: "0::/system.slice/slurmstepd.scope/s5K1AAAAAAAA00/step_0\n",
        10: f"0::/docker/{ID}\n",
    }.items():
        (tmp_path / f"{pid}").mkdir()
        (tmp_path / f"{pid}/cgroup").write_text(text)
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (x) S 1")
    return Host(procfs=str(tmp_path))


def ask(host: Host, *pids: int, **options: object) -> tuple[int, str]:
    out = io.StringIO()
    status = whois.run(host, pids, out=out, **options)  # type: ignore[arg-type]
    return status, out.getvalue()


def named_tree(host: Host, log: str) -> WorkloadTree:
    """A tree that knows the names that this log of a container tells."""
    logs = Path(host.procfs, "root/var/log/containers")
    logs.mkdir(parents=True)
    (logs / log).touch()
    names = Names(Host(rootfs=f"{host.procfs}/root"), lambda: 0.0)
    tree = WorkloadTree(host, lambda: 0.0, names=names)
    for pid in (5, 10):
        tree.owner_of_pid(pid)
    names.look()
    return tree


def test_json_of_a_pod(host: Host) -> None:
    """A pod's process has its ids; what is not known is null."""
    status, text = ask(host, 5, as_json=True)
    assert status == 0
    assert json.loads(text) == NOTHING | {
        "pid": 5,
        "kind": "pod",
        "workload": UID,
        "pod_uid": UID,
        "container_id": ID,
        "qos": "burstable",
        "gpus": None,
    }


def test_json_of_a_job(host: Host) -> None:
    """A job's process has job, step, task and user as texts."""
    assert json.loads(ask(host, 6, as_json=True)[1]) == NOTHING | {
        "pid": 6,
        "kind": "slurm",
        "workload": "9",
        "slurm_job_id": "9",
        "slurm_step": "batch",
        "slurm_task": "0",
        "uid": "1000",
        "gpus": None,
    }


def test_json_of_a_sluid(host: Host) -> None:
    """Where a path has a SLUID only, it is the workload and the job id is unknown."""
    answer = json.loads(ask(host, 9, as_json=True)[1])
    assert (answer["workload"], answer["slurm_job_id"]) == ("s5K1AAAAAAAA00", None)


def test_json_of_nobody(host: Host) -> None:
    """A process without owner and one that is gone give nulls and exit status 1."""
    status, text = ask(host, 7, 4711, 5, as_json=True)
    assert status == 1
    answers = [json.loads(line) for line in text.splitlines()]
    assert answers[0] == NOTHING | {"pid": 7, "gpus": None}
    assert answers[1] == NOTHING | {"pid": 4711, "gpus": None}
    assert answers[2]["kind"] == "pod"


def test_names_and_gpus_from_outside(host: Host) -> None:
    """Names stand beside the ids, and GPUs are listed."""
    status, text = ask(
        host,
        5,
        as_json=True,
        gpus_of=lambda pid: [f"GPU-{pid}"],
        tree=named_tree(host, f"train-0_ml_main-{ID}.log"),
    )
    answer = json.loads(text)
    assert status == 0
    assert (answer["pod"], answer["namespace"], answer["container"]) == ("train-0", "ml", "main")
    assert (answer["pod_uid"], answer["gpus"]) == (UID, ["GPU-5"])


def test_user_of_a_job_on_v2(host: Host) -> None:
    """A v2 path tells no user; the process does."""
    Path(host.procfs, "9/status").write_text("Name:\tpython\nUid:\t20177\t20177\t20177\t20177\n")
    assert json.loads(ask(host, 9, as_json=True)[1])["uid"] == "20177"


def test_text(host: Host) -> None:
    """The text form is one readable line per process."""
    assert ask(host, 5, 6, 7, 8, 10, as_json=False) == (
        1,
        f"5: pod {UID} container abcdef012345 qos burstable\n"
        "6: slurm 9 step batch task 0 uid 1000\n"
        "7: no owner: not in a pod, container, job or service\n"
        "8: service sshd.service\n"
        "10: container abcdef012345\n",
    )


def test_text_of_nobody(host: Host) -> None:
    """A live process without owner shows the GPUs that it holds; one that is gone is told as such."""
    status, text = ask(
        host, 7, 4711, as_json=False, gpus_of=lambda pid: ["GPU-a", "GPU-b"] if pid == 7 else []
    )
    assert status == 1
    assert text == (
        "7: no owner: not in a pod, container, job or service gpus GPU-a,GPU-b\n4711: no such process\n"
    )


def test_a_process_that_may_not_be_looked_at(host: Host, tmp_path: Path) -> None:
    """One whose files cannot be opened is there."""
    (tmp_path / "12").mkdir()
    (tmp_path / "12/stat").mkdir()
    assert ask(host, 12, as_json=False)[1] == "12: no owner: not in a pod, container, job or service\n"
