"""The sentences at the top: what a GPU did, and what the node did. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuwait.explain.model import Explanation
from gpuwait.explain.window import GpuWindow
from gpuwait.explain.wording import CAUSES, duration, percent, ranges
from gpuwait.wait.verdict import Cause, State


def gpu_names(numbers: Sequence[int]) -> str:
    """As in `GPU 0-7`."""
    return f"GPU {ranges(numbers)}"


def symptom(
    verdict: str,
    gpus: Sequence[GpuWindow],
    seconds: Mapping[str, float],
    utilization: float | None,
    observed: float,
) -> str:
    """What the GPUs did, with how much of the time."""
    name = gpu_names([gpu.index for gpu in gpus])
    span = duration(observed)
    used = f"; utilisation {percent(utilization)}" if utilization is not None else ""

    def part(state: State) -> str:
        return percent(seconds.get(state, 0.0) / observed if observed > 0 else 0.0)

    if verdict == "waiting":
        return f"{name} waited {part(State.WAITING)} of the last {span}{used}"
    if verdict == "idle":
        return f"{name} held, and idle for {part(State.IDLE)} of the last {span}{used}"
    if verdict == "free":
        return f"{name} free: no process holds {'it' if len(gpus) == 1 else 'them'}"
    if verdict == "unknown":
        return f"{name}: no reading for {part(State.UNKNOWN)} of the last {span}"
    share = percent(utilization or 0)
    return f"{name} at work: utilisation {share}, waited {part(State.WAITING)} of the last {span}"


def summary(rows: Sequence[Explanation], seconds: float) -> str:
    """The node in a line."""
    if not rows:
        return "No GPU is seen on this node." if seconds else "No readings yet."
    told = [e for e in rows if e.verdict in ("waiting", "unknown", "idle")]
    if told:
        return "; ".join(_short(e) for e in told[:4]) + "."
    busy = [e for e in rows if e.verdict == "healthy"]
    if not busy:
        return f"All {sum(len(e.gpus) for e in rows)} GPUs are free."
    row = busy[0]
    return f"All is well. {row.symptom}."


def _short(row: Explanation) -> str:
    name = gpu_names(row.gpus)
    if row.verdict != "waiting":
        return f"{name} {'held but idle' if row.verdict == 'idle' else 'without a reading'}"
    where = f" ({row.detail})" if row.detail else ""
    cause = f"{CAUSES.get(row.cause, row.cause)}{where}"
    if row.cause == Cause.UNEXPLAINED:
        cause = "nothing on this host explains it"
    part = percent(row.seconds.get(State.WAITING, 0.0) / row.observed_seconds)
    return f"{name} waited {part} of the last {duration(row.observed_seconds)}: {cause}"
