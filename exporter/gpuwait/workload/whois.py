"""Answers of `gpuwait whois`: who owns a process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TextIO

from gpuwait.host import Host
from gpuwait.kernel.process import parse_user
from gpuwait.workload.identity import Owner
from gpuwait.workload.tree import WorkloadTree

GpusOf = Callable[[int], Sequence[str]]


def run(
    host: Host,
    pids: Sequence[int],
    *,
    as_json: bool,
    out: TextIO,
    gpus_of: GpusOf | None = None,
    tree: WorkloadTree | None = None,
) -> int:
    """Write one line per process; return the exit status: 1 where a process has no owner.

    gpus_of: uuids of the GPUs that a process holds; without it, none is asked and that is not known.
    tree:    that knows names; without it pods and containers have their ids.
    """
    tree = tree or WorkloadTree(host, lambda: 0.0)
    status = 0
    for pid in pids:
        owner = tree.owner_of_pid(pid)
        if owner is None:
            status = 1
        elif owner.kind == "slurm" and not owner.uid:  # no v2 path tells the user
            owner = replace(owner, uid=_user(host, pid))
        gpus = None if gpus_of is None else list(gpus_of(pid))
        text = _json(pid, owner, gpus) if as_json else _text(pid, owner, gpus, gone=not _lives(host, pid))
        out.write(text + "\n")
    return status


def _json(pid: int, owner: Owner | None, gpus: list[str] | None) -> str:
    known = owner or Owner("other")
    pod = known.workload if known.kind == "pod" and known.workload != known.pod_uid else ""
    container = known.container if known.kind in {"pod", "container"} else ""
    texts = {
        "kind": owner.kind if owner else "",
        "namespace": known.namespace,
        "workload": known.workload,
        "pod": pod,
        "pod_uid": known.pod_uid,
        "container": "" if known.container_id.startswith(container) else container,
        "container_id": known.container_id,
        "qos": known.qos,
        "slurm_job_id": known.slurm_job_id,
        "slurm_step": known.slurm_step,
        "slurm_task": known.slurm_task,
        "uid": known.uid,
    }
    # null, not "", says that something is not known
    return json.dumps({"pid": pid, **{key: text or None for key, text in texts.items()}, "gpus": gpus})


def _user(host: Host, pid: int) -> str:
    try:
        return parse_user(host.maybe_proc(f"{pid}/status") or "")
    except OSError:
        return ""


def _lives(host: Host, pid: int) -> bool:
    """Tell whether there is such a process, though perhaps one that may not be looked at."""
    try:
        return host.maybe_proc(f"{pid}/stat") is not None
    except OSError:
        return True


def _text(pid: int, owner: Owner | None, gpus: list[str] | None, *, gone: bool) -> str:
    held = f" gpus {','.join(gpus)}" if gpus else ""
    if owner is None and gone:
        return f"{pid}: no such process{held}"
    if owner is None:
        return f"{pid}: no owner: not in a pod, container, job or service{held}"
    words = [
        f"{pid}: {owner.kind}",
        f"{owner.namespace}/{owner.workload}" if owner.namespace else owner.workload,
    ]
    for word, text in (
        ("container", owner.container if owner.kind == "pod" else ""),
        ("step", owner.slurm_step),
        ("task", owner.slurm_task),
        ("uid", owner.uid),
        ("qos", owner.qos),
    ):
        if text:
            words.append(f"{word} {text}")
    return " ".join(words) + held
