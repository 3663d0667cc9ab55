"""Advice on GPUs that do not wait: held and not worked with, or without a reading."""

from __future__ import annotations

from gpuwait.advice.model import Advice, Step, Verify

_ASK = "ask its owner; where it is not needed, end it"
_HOLDERS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv"
_PAGE = "GPUHeldButIdle.md"
_VERIFY = Verify(
    "idle seconds must stop rising", _HOLDERS, 'rate(gpuwait_gpu_time_seconds_total{state="idle"}[5m])'
)

#: Held by a workload that is known. Of `now` one step fits each kind.
IDLE = Advice(
    "nothing",
    "the GPU is held by a workload that neither runs nor waits for anything",
    (
        Step(_ASK, "kubectl -n {namespace} delete pod {owner}", ("pod",)),
        Step(_ASK, "scancel {owner}", ("slurm",)),
        Step(_ASK, "systemctl stop {owner}", ("service",)),
        Step(f"{_ASK} (podman, nerdctl and crictl take the same)", "docker stop {owner}", ("container",)),
        Step(
            "see whose it is; where it is not needed, end it", "ps -o user,lstart,args -p {pid}", ("other",)
        ),
    ),
    (
        Step("notebooks: cull idle kernels", "jupyter server --MappingKernelManager.cull_idle_timeout=3600"),
        Step("a time limit for interactive jobs", "#SBATCH --time=HH:MM:SS", ("slurm",)),
    ),
    _VERIFY,
    _PAGE,
)

#: In place of the command for a pod that is known by its uid only: kubectl does not take that.
POD_BY_UID = Step(
    "find the name of the pod, then ask its owner",
    "kubectl get pods -A -o custom-columns=NS:.metadata.namespace,POD:.metadata.name,UID:.metadata.uid "
    "| grep {uid}",
    ("pod",),
)

#: Held by processes of which nothing is known but that they are there.
HIDDEN = Advice(
    "nothing",
    "the GPU is held by processes that cannot be seen from here; nothing on the node gives it a reason to "
    "wait, and whether its processes have one is not known",
    (Step("see on the host which processes hold it", _HOLDERS),),
    (
        Step(
            "let gpuwait see them: run it in the host's process namespace (Kubernetes: hostPID: true; a "
            "container: --pid=host)"
        ),
    ),
    _VERIFY,
    _PAGE,
)

#: Given to a pod or job that has not opened it.
UNOPENED = Advice(
    "nothing",
    "the GPU is given to a pod or job, and no process has opened it",
    (
        Step(
            "Kubernetes: see which pods are on the node",
            "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE",
        ),
        Step("Slurm: see which jobs are on the node", "squeue -w NODE"),
    ),
    (Step("request only the GPUs that the program opens"),),
    _VERIFY,
    _PAGE,
)

UNKNOWN = Advice(
    "nothing",
    "the GPU gave no reading: it is lost, its driver hangs or is replaced, or the sampler has just begun",
    (
        Step("see whether the driver reported a fault", "dmesg | grep -i -e nvrm -e xid | tail"),
        Step("see whether the driver answers (it may hang: then so does this)", "timeout 10 nvidia-smi -L"),
        Step("see what gpuwait says of its reader", "gpuwait check"),
    ),
    (Step("a GPU that fell off the bus needs a reset or a restart of the node; if it recurs, replace it"),),
    Verify(
        "gpuwait_gpu_up must be 1",
        "gpuwait once | grep gpuwait_gpu_up",
        "gpuwait_gpu_up",
    ),
    "GPUMissing.md",
)
