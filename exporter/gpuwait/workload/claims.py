"""To whom a GPU is given, whether or not a process of theirs runs: by the kubelet, and by Slurm's prolog.

What such a source says may be older than what the driver says, so a live process always wins:

- a pod that has no cgroup any more is over, though the kubelet may list it for a while (kubernetes#119423);
- of two pods with the same whole device the one whose process holds it is right, else the one that lives;
- a job whose cgroup is gone is over, though its epilog may have failed to remove the file.

A prolog may call a job otherwise than its cgroup does: `742` where the cgroup has the SLUID (Slurm 26.05), or
`742_3` for an element of an array. Then every living job that no file names otherwise may be the one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpuwait.gpu.protocol import GpuReading
from gpuwait.host import label
from gpuwait.kernel.gpu_claims import Device
from gpuwait.kernel.pod_resources import Grant
from gpuwait.workload.identity import POD_LENGTH
from gpuwait.workload.job_files import JobFiles
from gpuwait.workload.kubelet import Kubelet
from gpuwait.workload.tree import Labels, WorkloadTree

#: Workloads of one GPU: 64 time slices.
MOST = 64


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of one GPU.

    allocated: whether it is given to someone; None where no source tells.
    others:    to whom, but for those whose processes hold it.
    """

    allocated: bool | None = None
    others: tuple[Labels, ...] = ()


@dataclass(frozen=True, slots=True)
class _Claim:
    device: Device
    labels: Labels
    claim: str = ""


class Claims:
    """Asked by the sampler and by scrapes; never waits."""

    def __init__(
        self, tree: WorkloadTree | None, kubelet: Kubelet, jobs: JobFiles, clock: Callable[[], float]
    ) -> None:
        self._tree = tree
        self._kubelet = kubelet
        self._jobs = jobs
        self._clock = clock
        self._source: tuple[object, object] = (None, None)
        self._claims: tuple[_Claim, ...] = ()
        self._jobs_by_file: frozenset[str] = frozenset()

    @property
    def age(self) -> float | None:
        """Seconds since the kubelet's last answer, None before the first."""
        latest = self._kubelet.latest
        return None if latest is None else max(self._clock() - latest.at, 0.0)

    def of(self, gpu: GpuReading, holders: Sequence[Labels]) -> Given:
        """Whose the GPU is. `holders`: workloads of the processes that hold it now."""
        claims = self._all()
        if claims is None:
            return Given()
        mine = [claim for claim in claims if _means(claim.device, gpu)][:MOST]
        live = {labels[:3] for labels in holders}
        kept = [claim for claim in mine if claim.labels[:3] in live or self._lives(claim) is not False]
        kept = [claim for claim in kept if not self._beaten(claim, kept, live)]
        others = dict.fromkeys(claim.labels for claim in kept if not self._told(claim, holders))
        return Given(bool(kept), tuple(others))

    def _all(self) -> tuple[_Claim, ...] | None:
        latest, given = self._kubelet.latest, self._jobs.given
        if latest is None and given is None:
            return None
        if (latest, given) != self._source or self._source == (None, None):
            pods = map(_of_pod, latest.grants if latest else ())
            jobs = [_Claim(device, ("slurm", "", job, "")) for device, ids in given or () for job in ids]
            self._claims, self._source = (*pods, *jobs), (latest, given)
            self._jobs_by_file = frozenset(claim.labels[2] for claim in jobs)
        if self._claims and self._tree is not None:
            with suppress(OSError):
                self._tree.groups()  # walks where the last walk is old
        return self._claims

    def _lives(self, claim: _Claim) -> bool | None:
        """Whether there is a cgroup of it; None where that cannot be told."""
        tree = self._tree
        kind, namespace, workload, _ = claim.labels
        if tree is None or not tree.present or (kind == "slurm" and not tree.uses_slurm):
            return None
        if kind == "slurm" and workload not in tree.jobs:
            return None if any(self._may_be(workload, job) for job in tree.jobs) else False
        return tree.lives(kind, namespace, workload)

    def _may_be(self, called: str, job: str) -> bool:
        """Whether a living job may be the one that a prolog calls so."""
        if job == called:
            return True
        by_sluid = not job.isdigit() and called[0].isdigit()
        return (by_sluid or "_" in called) and job not in self._jobs_by_file

    def _beaten(self, claim: _Claim, claims: list[_Claim], live: set[tuple[str, str, str]]) -> bool:
        """Tell whether another pod has the same whole device with more right."""
        if claim.device.shared or claim.labels[0] != "pod":
            return False
        rivals = {
            c.labels[:3]: c
            for c in claims
            if c.device == claim.device
            and c.labels[:3] != claim.labels[:3]
            and not (claim.claim and c.claim == claim.claim)
        }
        if claim.labels[:3] in live or not rivals:
            return False
        if rivals.keys() & live:
            return True
        return self._lives(claim) is not True and any(self._lives(rival) for rival in rivals.values())

    def _told(self, claim: _Claim, holders: Sequence[Labels]) -> bool:
        """Tell whether one of those that hold the GPU is the one it is given to, perhaps without its name."""
        if claim.labels[0] == "slurm":
            return any(kind == "slurm" and self._may_be(claim.labels[2], job) for kind, _, job, _ in holders)
        return any(self._holds(claim.labels, holder) for holder in holders)

    def _holds(self, pod: Labels, holder: Labels) -> bool:
        """Tell whether the holder is this container of a pod."""
        kind, namespace, _, container = pod
        group = self._tree.find(holder) if self._tree is not None else None
        owner = group.owner if group is not None else None
        if holder[:3] == pod[:3]:
            inner = owner.container_id if owner is not None else ""
            return not container or holder[3] in {container, ""} or inner.startswith(holder[3])
        if holder[0] == kind:
            # One that is known by its uid only, or lost its name to a pod that has the same.
            unnamed = owner is not None and owner.workload == owner.pod_uid
            return not holder[1] or (unnamed and holder[1] == namespace)
        # A job in a pod: the job is nearer.
        return owner is not None and owner.kind == "slurm" and bool(owner.pod_uid)


def _of_pod(grant: Grant) -> _Claim:
    name, container = label(grant.pod, POD_LENGTH), label(grant.container)
    return _Claim(grant.device, ("pod", label(grant.namespace), name, container), grant.claim)


def _means(device: Device, gpu: GpuReading) -> bool:
    """Tell whether the device is this GPU, or a part of it."""
    match device.kind:
        case "uuid":
            return device.value.lower() == gpu.uuid.lower()
        case "mig":
            return any(device.value.lower() == part.uuid.lower() for part in gpu.slices)
        case "minor":
            return device.value == str(gpu.index if gpu.minor is None else gpu.minor)
        case "pci":
            return device.value == gpu.pci_address.lower()
        case "index":
            return device.value == str(gpu.index)
