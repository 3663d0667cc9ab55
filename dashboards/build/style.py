"""Colours of states and causes, the same on every dashboard.

What is no waiting is blue or grey; causes in memory are brown, in storage violet, in processors yellow. Hue
and lightness are such that people who see no red or no green can tell all of them apart; a test holds it.
"""

from __future__ import annotations

from gpuwait.wait.verdict import Cause, State

STATES = {
    State.BUSY: "#0072B2",
    State.GAP: "#56B4E9",
    State.WAITING: "#D55E00",
    State.IDLE: "#8E8E8E",
    State.FREE: "#C8C8C8",
    State.UNKNOWN: "#4D4D4D",
}

CAUSES = {
    Cause.COMPACTION: "#731700",
    Cause.RECLAIM: "#8C5E3F",
    Cause.SWAP: "#BF5900",
    Cause.WRITEBACK: "#59004A",
    Cause.NFS: "#CC73FF",
    Cause.LUSTRE: "#A66396",
    Cause.GPFS: "#62008C",
    Cause.DISK: "#9900F2",
    Cause.CPU_THROTTLING: "#FFFF00",
    Cause.CPU_CONTENTION: "#A69D7C",
    Cause.NUMA_REMOTE: "#FFEC73",
    Cause.FABRIC: "#CEFFBF",
    Cause.HOST_CPU: "#F2A200",
    Cause.HOST_KERNEL: "#D9A162",
    Cause.UNEXPLAINED: "#590D22",
}

COLOURS: dict[str, str] = {**{str(s): c for s, c in STATES.items()}, **{str(s): c for s, c in CAUSES.items()}}

#: What is over a limit, what is not, and a single series.
OVER, UNDER, PLAIN = "#D55E00", "#0072B2", "#0072B2"
