"""To whom a GPU is given, whether or not a process of theirs runs: by the kubelet, and by Slurm's prolog.

What such a source says may be older than what the driver says, so a live process always wins:

- a pod that has no cgroup any more is over, though the kubelet may list it for a while (kubernetes#119423);
- of two pods with the same whole device the one whose process holds it is right, else the one that lives;
- a job whose cgroup is gone is over, though its epilog may have failed to remove the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpuwait.gpu.protocol import GpuReading
from gpuwait.host import label
from gpuwait.kernel.gpu_claims import Device
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
            pods = (
                _Claim(g.device, ("pod", label(g.namespace), label(g.pod), label(g.container)))
                for g in (latest.grants if latest else ())
            )
            jobs = (_Claim(device, ("slurm", "", job, "")) for device, ids in given or () for job in ids)
            self._claims, self._source = (*pods, *jobs), (latest, given)
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
        # An element of a job array has a cgroup by its own number, which a prolog may not have.
        return None if "_" in workload and kind == "slurm" else tree.lives(kind, namespace, workload)

    def _beaten(self, claim: _Claim, claims: list[_Claim], live: set[tuple[str, str, str]]) -> bool:
        """Tell whether another pod has the same whole device with more right."""
        if claim.device.shared or claim.labels[0] != "pod":
            return False
        rivals = {
            c.labels[:3]: c for c in claims if c.device == claim.device and c.labels[:3] != claim.labels[:3]
        }
        if claim.labels[:3] in live or not rivals:
            return False
        if rivals.keys() & live:
            return True
        return self._lives(claim) is not True and any(self._lives(rival) for rival in rivals.values())

    def _told(self, claim: _Claim, holders: Sequence[Labels]) -> bool:
        """Tell whether one of those that hold the GPU is the one it is given to, perhaps without its name."""
        kind, namespace, workload, container = claim.labels
        for holder in holders:
            group = self._tree.find(holder) if self._tree is not None else None
            owner = group.owner if group is not None else None
            if holder[:3] == (kind, namespace, workload):
                inner = owner.container_id if owner is not None else ""
                if not container or holder[3] in {container, ""} or inner.startswith(holder[3]):
                    return True
            elif kind == "pod" and holder[0] == "pod" and not holder[1]:
                return True  # a pod that is known by its uid only
            elif kind == "pod" and owner is not None and owner.kind == "slurm" and owner.pod_uid:
                return True  # a job in a pod: the job is nearer
        return False


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
