"""What to do about each cause: the table behind `gpuwait explain`, the status page and the runbooks."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwait.advice import compute, memory, storage
from gpuwait.advice.model import Advice, Step, Verify
from gpuwait.wait.verdict import Cause

#: Advice on every cause.
ADVICE: Mapping[Cause, Advice] = {**memory.ADVICE, **storage.ADVICE, **compute.ADVICE}

#: Advice on a GPU that is held by a workload that does nothing, and on one without a reading.
IDLE: Advice = compute.IDLE
UNKNOWN: Advice = compute.UNKNOWN


def ledger_query(cause: Cause) -> str:
    """PromQL of the GPU seconds a second that each GPU loses to this cause."""
    return f'rate(gpuwait_gpu_waiting_seconds_total{{cause="{cause}"}}[5m])'


__all__ = ["ADVICE", "IDLE", "UNKNOWN", "Advice", "Step", "Verify", "ledger_query"]
