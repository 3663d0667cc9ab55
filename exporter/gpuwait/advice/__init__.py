"""What to do about each cause: the table behind `gpuwait explain`, the status page and the runbooks."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwait.advice import compute, memory, still, storage
from gpuwait.advice.model import Advice, Step, Verify
from gpuwait.wait.verdict import Cause

#: Advice on every cause.
ADVICE: Mapping[Cause, Advice] = {**memory.ADVICE, **storage.ADVICE, **compute.ADVICE}

#: Advice on a GPU that is held by a workload that does nothing; by processes that cannot be seen; that is
#: given and not opened; and that has no reading.
IDLE: Advice = still.IDLE
HIDDEN: Advice = still.HIDDEN
UNOPENED: Advice = still.UNOPENED
UNKNOWN: Advice = still.UNKNOWN
POD_BY_UID: Step = still.POD_BY_UID


def ledger_query(cause: Cause) -> str:
    """PromQL of the GPU seconds a second that each GPU loses to this cause."""
    return f'rate(gpuwait_gpu_waiting_seconds_total{{cause="{cause}"}}[5m])'


__all__ = [
    "ADVICE",
    "HIDDEN",
    "IDLE",
    "POD_BY_UID",
    "UNKNOWN",
    "UNOPENED",
    "Advice",
    "Step",
    "Verify",
    "ledger_query",
]
