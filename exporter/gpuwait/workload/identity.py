"""Which pod, container, Slurm job or service a cgroup path belongs to.

Source: `/proc/PID/cgroup` and the directories below `/sys/fs/cgroup`
(Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cgroups.rst).

    0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/crio-<id>.scope
    4:cpu,cpuacct:/slurm/uid_1000/job_77/step_batch/task_0
    1:name=systemd:/system.slice/sshd.service

Rules where a path names more than one owner:

- the last pod counts: a cluster inside a container (kind) shows the outer container first;
- within a pod, and without one, the first container counts: what runs in Docker inside a
  container belongs to that container, the only one that the host's own runtime knows;
- of a pod and a Slurm job the deeper one is the owner. For Slurm in a pod the kind is `slurm`
  and the pod's ids stay on the record;
- a service is the unit that the host's own systemd runs; what it nests below is part of it.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Literal

from gpuwait.host import label

OwnerKind = Literal["pod", "container", "slurm", "service", "other"]

#: systemd allows unit names of 255 characters; a label takes this many of them.
UNIT_LENGTH = 128
#: Kubernetes allows names of pods of 253 characters. Cut ones could be those of two pods.
POD_LENGTH = 253

_POD = re.compile(
    r"(?:^|[/-])pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-zA-Z_-])"
)
# `:` as a separator is containerd with a cgroupfs path but the systemd driver's name:
# kubepods-burstable-pod<uid>.slice:cri-containerd:<id>
_CONTAINER = re.compile(r"[/:](?:[a-z][a-z0-9-]*-)?([0-9a-f]{64})(?:\.scope)?(?=/|$)")
# SLUIDs name the directories of Slurm 26.05 unless CgroupJobIdPaths is set.
_SLURM = re.compile(
    r"/(?:uid_(?P<uid>[0-9]{1,20})|slurm(?:_[^/]+)?|(?:[^/]+_)?slurmstepd\.scope)"
    r"/(?:job_(?P<job>[0-9]{1,20})|(?P<sluid>s[0-9A-Z]{8,20}))(?=/|$)"
    r"(?:/step_(?P<step>[0-9A-Za-z_+.-]{1,64})(?=/|$))?"
    r"(?:/user)?(?:/task_(?P<task>[0-9A-Za-z_]{1,64})(?=/|$))?"
)
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a process or a cgroup belongs to. A text that is not known is empty.

    namespace, workload, container: values of the labels `workload_namespace`, `workload`
                  and `workload_container`.
    workload:     uid of the pod (32 hexadecimal digits without dashes: hash of a static pod),
                  id of the Slurm job (its SLUID where the path has no id), name of the unit;
                  of a container without pod the first 12 digits of its id.
    container:    first 12 digits of the container's id, empty for a whole pod; step of a Slurm
                  job, empty for the whole job.
    container_id: all 64 digits.
    qos:          guaranteed, burstable or besteffort.
    uid:          numeric user id of a Slurm job, where the path has it (cgroup v1).
    """

    kind: OwnerKind
    namespace: str = ""
    workload: str = ""
    container: str = ""
    pod_uid: str = ""
    container_id: str = ""
    qos: str = ""
    slurm_job_id: str = ""
    slurm_step: str = ""
    slurm_task: str = ""
    uid: str = ""

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """Values of the labels workload_kind, workload_namespace, workload, workload_container."""
        return (self.kind, self.namespace, self.workload, self.container)


#: For what must carry workload labels and has no owner that is known.
OTHER = Owner("other")


def owner_of_cgroup_file(text: str) -> Owner | None:
    """Owner from the text of `/proc/PID/cgroup`: the most specific one of all its lines.

    The controllers of a v1 host may disagree (Slurm without a cpuacct tree, a hybrid host whose
    v2 line shows only the runtime's unit). A zombie's file may be empty: no owner.
    """
    best: Owner | None = None
    seen: set[str] = set()
    for line in text.split("\n"):
        columns = line.split(":", 2)
        if len(columns) < 3 or columns[2] in seen:
            continue
        seen.add(columns[2])
        owner = owner_of_path(columns[2])
        if owner is not None and (best is None or _detail(owner) > _detail(best)):
            best = owner
    return best


def owner_of_path(path: str) -> Owner | None:
    """Owner of one cgroup path as the kernel writes it, None where the path names none.

    A user's session has no owner, and neither has the root. Paths seen from a private cgroup
    namespace begin with `/../..`: nothing is anchored at the start.
    """
    path = path.removesuffix(_DELETED)
    pod = _last(_POD, path)
    job = _last(_SLURM, path)
    if job is not None and (pod is None or job.start() > pod.start()):
        return _slurm(job, _contained(path[: job.start()], _last(_POD, path[: job.start()])))
    return _contained(path, pod) or _service(path)


def _last(pattern: re.Pattern[str], path: str) -> re.Match[str] | None:
    found = deque(pattern.finditer(path), maxlen=1)
    return found.pop() if found else None


def _contained(path: str, pod: re.Match[str] | None) -> Owner | None:
    """The pod and its container, or the container without a pod."""
    if pod is None:
        container_id = _first_container(path)
        if not container_id:
            return None
        short = container_id[:12]
        return Owner("container", workload=short, container=short, container_id=container_id)
    uid = pod[1].replace("_", "-")
    container_id = _first_container(path[pod.end() :])
    return Owner(
        "pod",
        workload=uid,
        container=container_id[:12],
        pod_uid=uid,
        container_id=container_id,
        qos=_qos(path, pod.start()),
    )


def _first_container(path: str) -> str:
    for match in _CONTAINER.finditer(path):
        # conmon watches the container from outside; it carries the id but is not inside
        if "conmon-" not in match[0]:
            return match[1]
    return ""


def _qos(path: str, end: int) -> str:
    start = path.rfind("kubepods", 0, end)
    if start < 0:
        return ""
    between = path[start:end]
    if "burstable" in between:
        return "burstable"
    return "besteffort" if "besteffort" in between else "guaranteed"


def _slurm(job: re.Match[str], around: Owner | None) -> Owner:
    step = job["step"] or ""
    return Owner(
        "slurm",
        workload=job["job"] or job["sluid"],
        container=step,
        pod_uid=around.pod_uid if around else "",
        container_id=around.container_id if around else "",
        qos=around.qos if around else "",
        slurm_job_id=job["job"] or "",
        slurm_step=step,
        slurm_task=job["task"] or "",
        uid=job["uid"] or "",
    )


def _service(path: str) -> Owner | None:
    """The unit directly below the slices, for any top slice but the users'."""
    in_slice = False
    for part in path.split("/"):
        if part in {"", ".."}:
            continue
        if part == "user.slice":
            return None
        if part.endswith(".slice"):
            in_slice = True
        elif in_slice and part.endswith(".service"):
            return Owner("service", workload=label(part, UNIT_LENGTH))
        else:
            return None
    return None


def _detail(owner: Owner) -> tuple[int, int]:
    """Order of how much an owner says: a job over a pod over a container over a unit."""
    rank = ("other", "service", "container", "pod", "slurm").index(owner.kind)
    known = (owner.container_id, owner.slurm_job_id, owner.slurm_step, owner.slurm_task, owner.uid)
    return rank, sum(map(bool, known))
