"""Commands and sentences with what the verdict knows filled in. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from gpuwait.explain.context import Scene
from gpuwait.explain.window import EvidenceWindow
from gpuwait.explain.wording import amount, printable
from gpuwait.thresholds import DEFAULTS
from gpuwait.workload.identity import POD_LENGTH

#: What stands where the verdict does not know.
_UNKNOWN: Mapping[str, str] = {
    "it": "NAME",
    "numa": "N",
    "tid": "TID",
    "pid": "PID",
    "namespace": "NAMESPACE",
    "owner": "OWNER",
    "uid": "UID",
}
_HOLE = re.compile(r"\{(" + "|".join(_UNKNOWN) + r")\}")
_LIMIT = re.compile(r"\{([a-z_]+)\.([a-z_]+)\}")
_UID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def words(scene: Scene, detail: str) -> dict[str, str]:
    """What may be filled in, quoted for a shell. `detail`: the mount, device or port."""
    found = {"it": _safe(detail)}
    if len(scene.home) == 1:
        found["numa"] = str(scene.home[0])
    tid = _thread(scene)
    if tid is not None:
        found["tid"] = str(tid)
        found["pid"] = f"$(awk '/^Tgid:/ {{print $2}}' /proc/{tid}/status)"
    if len(scene.keys) == 1:
        kind, namespace, owner, _ = scene.keys[0]
        # Without the kubelet's names a pod goes by its uid, which kubectl does not take.
        if kind == "pod" and _UID.fullmatch(owner):
            found["uid"] = owner
        else:
            found |= {"namespace": _safe(namespace), "owner": _safe(owner)}
    return found


def fill(command: str, known: Mapping[str, str]) -> str:
    """The command; a word in capitals for what is not known."""
    return _HOLE.sub(lambda hole: known.get(hole[1]) or _UNKNOWN[hole[1]], command)


def knows(command: str, known: Mapping[str, str]) -> bool:
    """Tell whether every hole of the command can be filled."""
    return all(known.get(hole) for hole in _HOLE.findall(command))


def prose(sentence: str, own: EvidenceWindow | None) -> str:
    """The sentence with thresholds, `{nfs.response}`, as they are in force, else as they are by default."""

    def limit(hole: re.Match[str]) -> str:
        cause, name = hole[1], hole[2]
        known = DEFAULTS.get((cause, name))
        if known is None:
            return hole[0]
        value, seen = known.value, own.signals.get(name) if own is not None and own.cause == cause else None
        if seen is not None and seen.last.threshold is not None:
            value = seen.last.threshold
        return amount(value, known.unit, cause, name)

    return _LIMIT.sub(limit, sentence)


def _safe(name: str) -> str:
    """A name as one word of a shell; empty where it would not survive being shown, or be an option."""
    if not name or name != printable(name, POD_LENGTH) or name.startswith("-"):
        return ""
    return shlex.quote(name)


def _thread(scene: Scene) -> int | None:
    if scene.threads is not None and scene.threads.busiest:
        return scene.threads.busiest[0].tid
    return min((tid for load in scene.loads for tid in load.threads), default=None)
