"""What to say of GPUs that are held or given and not worked with. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuwait import advice
from gpuwait.explain import fill
from gpuwait.explain.context import Scene
from gpuwait.explain.model import Fact
from gpuwait.explain.whereabouts import states, whereabouts
from gpuwait.explain.window import GpuWindow
from gpuwait.explain.wording import duration, percent
from gpuwait.wait.snapshot import Host, Key, Snapshot, Workload
from gpuwait.wait.verdict import State

#: Owners for whom a command is given.
_MOST = 4


def suits(keys: Sequence[Key], gpus: Sequence[GpuWindow], latest: Snapshot | None) -> advice.Advice:
    """The advice for these idle GPUs: of a known workload, of hidden processes, or of none."""
    chosen = {gpu.index for gpu in gpus}
    now = latest.gpus if latest is not None else ()
    held = [gpu.in_use for gpu in now if gpu.index in chosen]
    if held and not any(use is not False for use in held):
        return advice.UNOPENED
    return advice.IDLE if keys else advice.HIDDEN


def steps(keys: Sequence[Key], latest: Snapshot | None) -> Iterator[tuple[advice.Step, dict[str, str]]]:
    """For each known owner the one step that fits its kind, and what is to be filled in."""
    for key in keys[:_MOST]:
        scene = Scene(latest or Snapshot(0.0, Host()), (key,), (), None)
        known = fill.words(scene, "")
        for step in advice.IDLE.now:
            if key[0] not in step.kinds:
                continue
            if fill.knows(step.command, known):
                yield step, known
            elif known.get("uid"):
                yield advice.POD_BY_UID, known
            else:
                yield replace(step, command=""), known


def facts(
    keys: Sequence[Key], gpus: Sequence[GpuWindow], latest: Snapshot | None, earlier: Snapshot | None
) -> Iterator[Fact]:
    """CPU of the workload, what its threads do, and since when the GPUs are idle."""
    if latest is not None and keys:
        used = _cpu(keys, latest, earlier)
        if used is not None:
            source = "cgroup cpu.stat usage_usec, else /proc/PID/task/TID/stat"
            yield _fact("cpu", "CPU time of the workload", f"{percent(used)} of a CPU", source, used)
        threads = whereabouts(earlier, latest, keys)
        if threads is not None:
            text = f"what the {threads.total:,} threads of the workload do"
            yield _fact("threads", text, states(threads), "/proc/PID/task/TID/stat")
    seconds, throughout = min((_since(gpu) for gpu in gpus), default=(0.0, False))
    if seconds > 0:
        shown = f"for {duration(seconds)}{' or longer' if throughout else ''}"
        yield _fact("since", "idle up to now", shown, "gpuwait_gpu_time_seconds_total")


def _fact(signal: str, text: str, shown: str, source: str, value: float | None = None) -> Fact:
    return Fact(signal, text, value, "" if value is None else "ratio", shown, None, "", True, source)


def _since(gpu: GpuWindow) -> tuple[float, bool]:
    """Seconds up to now in which the GPU was idle, and whether that is all that was looked at."""
    seconds = 0.0
    for dt, verdict in reversed(gpu.ticks):
        if not verdict.seconds.get(State.IDLE):
            return seconds, False
        seconds += dt
    return seconds, True


def _cpu(keys: Sequence[Key], latest: Snapshot, earlier: Snapshot | None) -> float | None:
    """CPUs that the workloads used between the snapshots; None where that is not known."""
    if earlier is None or not latest.at > earlier.at:
        return None
    used = [
        seconds
        for key in keys
        if key in latest.workloads and key in earlier.workloads
        if (seconds := _seconds(earlier.workloads[key], latest.workloads[key])) is not None
    ]
    return sum(used) / (latest.at - earlier.at) if used else None


def _seconds(before: Workload, after: Workload) -> float | None:
    if before.cpu_seconds is not None and after.cpu_seconds is not None:
        seconds = after.cpu_seconds - before.cpu_seconds
        return seconds if seconds >= 0 else None
    both = [(before.threads[tid], thread) for tid, thread in after.threads.items() if tid in before.threads]
    if not both:
        return None
    return sum(
        max(0.0, new.user_seconds - old.user_seconds) + max(0.0, new.system_seconds - old.system_seconds)
        for old, new in both
    )
