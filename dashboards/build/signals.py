"""Queries that panels of several causes share."""

from __future__ import annotations

from dashboards.build.query import NODE, OWNER, Query, rate

WHO = "{{workload_namespace}}/{{workload}} {{workload_container}}"
_LABELS = f"{OWNER}, workload_container"

NO_PRESSURE = "pressure stall information is off (psi=1 switches it on)"
BLOCKED = f"max by ({_LABELS}) (gpuwait_workload_blocked_threads{{{NODE}}})"


def largest(series: str) -> str:
    """One series for each container of a workload; a group that two exporters see counts once."""
    return f"max by ({_LABELS}) ({series})"


def own(metric: str, more: str = "") -> str:
    """Rate of a workload's counter."""
    return largest(rate(metric, NODE + more))


def pressure(resource: str) -> tuple[Query, Query]:
    """Pressure of each workload and of the node."""
    chosen = f', resource="{resource}"'
    return (
        Query(own("gpuwait_cgroup_pressure_some_seconds_total", chosen), WHO),
        Query(
            f"max by (cluster) ({rate('gpuwait_pressure_some_seconds_total', NODE + chosen)})",
            "the whole node",
        ),
    )


def top(metric: str, by: str) -> str:
    """Rate of a counter of the node, once for each of these labels."""
    return f"max by (cluster, {by}) ({rate(metric, NODE)})"
