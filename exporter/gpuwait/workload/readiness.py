"""What `gpuwait check` says of names and of who was given a GPU: each source, and what is lost without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuwait.host import fingerprint
from gpuwait.workload.kubelet import NO_LIBRARY, SOCKETS
from gpuwait.workload.name_files import BUNDLES, CONTAINER_LOGS, DOCKER, POD_LOGS, PODMAN
from gpuwait.workload.owners import Owners

_READ = "run gpuwait as root or with CAP_DAC_READ_SEARCH"
_CONNECT = "run gpuwait as root or with CAP_DAC_OVERRIDE: the kubelet's socket is its own"


@dataclass(frozen=True, slots=True)
class Source:
    """One source. `state`: ok, absent or fails."""

    name: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What is not known, why, and what would change that."""

    what: str
    why: str
    fix: str


def sources(owners: Owners) -> Iterator[Source]:
    """Every source of names and owners. Call it after `Owners.wait_first`."""
    places = {
        "kubelet logs": (CONTAINER_LOGS, POD_LOGS),
        "containerd": (BUNDLES[0], *BUNDLES[2:]),
        "cri-o": (BUNDLES[1],),
        "docker": (DOCKER,),
        "podman": PODMAN,
    }
    reasons = owners.reasons
    for name, paths in places.items():
        tops = [path.partition("/{}")[0] for path in paths]
        failed = next((reasons[top] for top in tops if top in reasons), "")
        there = [f"/{top}" for top in tops if _there(owners, top)]
        yield Source(name, "fails" if failed else "ok" if there else "absent", failed or ", ".join(there))
    kubelet, latest = owners.kubelet, owners.kubelet.latest
    told = f"{len(latest.grants)} devices given" if latest else f"no /{SOCKETS[0]}"
    state = "fails" if kubelet.reason else "ok" if latest else "absent"
    yield Source("kubelet socket", state, kubelet.reason or told)
    failed = "; ".join(owners.jobs.reasons.values())
    given = owners.jobs.given
    told = "no directory" if given is None else f"{sum(bool(jobs) for _, jobs in given)} GPUs given"
    yield Source("slurm prolog", "fails" if failed else "absent" if given is None else "ok", failed or told)


def missing(owners: Owners) -> Iterator[Missing]:
    """What this node could tell and does not."""
    groups = owners.tree.groups()
    pods = [g.owner for g in groups if g.owner.kind == "pod" and not g.owner.container]
    nameless = sum(not owner.namespace for owner in pods)
    if nameless:
        yield Missing(
            f"names: {nameless} of {len(pods)} pods are known by their uid only",
            owners.lookout.hung or "neither the kubelet's logs nor the runtime's files tell their names",
            f"make /{CONTAINER_LOGS} and /{POD_LOGS} of the host readable below --path.rootfs; {_READ}",
        )
    alone = [g.owner for g in groups if g.owner.kind == "container"]
    nameless = sum(owner.container_id.startswith(owner.workload) for owner in alone)
    if nameless:
        tops = (DOCKER.partition("/{}")[0], *PODMAN)
        why = next((owners.reasons[top] for top in tops if top in owners.reasons), "")
        yield Missing(
            f"names: {nameless} of {len(alone)} containers are known by their id only",
            why or f"/{DOCKER.partition('/{}')[0]} and Podman's list say nothing of them",
            _READ,
        )
    yield from _givers(owners)


def _givers(owners: Owners) -> Iterator[Missing]:
    reason = owners.kubelet.reason
    if reason:
        fix = "pip install 'gpuwait[kubelet]'" if reason == NO_LIBRARY else "systemctl status kubelet"
        fix = _CONNECT if "CAP_" in reason else fix
        yield Missing("owners: GPUs that are given to pods and not used", reason, fix)
    for reason in owners.jobs.reasons.values():
        yield Missing(
            "owners: GPUs that are given to Slurm jobs and not used",
            reason,
            "let Slurm's prolog write it, or correct --path.gpu-jobs",
        )


def _there(owners: Owners, path: str) -> bool:
    try:
        return fingerprint(f"{owners.rootfs}/{path}") is not None
    except OSError:
        return True
