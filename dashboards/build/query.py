"""Queries and the selectors that they share."""

from __future__ import annotations

from dataclasses import dataclass

#: What each page's variables choose.
CLUSTER = 'cluster=~"$cluster"'
NODE = f'{CLUSTER}, node=~"$node"'
GPU = f'{NODE}, gpu=~"$gpu"'
JOB = f'{CLUSTER}, workload_kind=~"$kind", workload_namespace=~"$namespace", job_set="$workload"'

#: Labels of a workload, without node and container.
OWNER = "cluster, workload_kind, workload_namespace, workload"

#: What the name of a pod of a set has after the name of the set; as in rules/workloads.yaml.
MEMBER = (
    "(?:-(?:master|workers?|launcher|leader|chief|head|ps))?"
    "(?:-[0-9]+-[0-9]+-[b-df-hj-np-tv-xz2456789]{5}|(?:-[0-9]+)?(?:-[b-df-hj-np-tv-xz2456789]{5})?)"
)

#: The workloads that are members of the chosen job or pod set.
MEMBERS = (
    f'{CLUSTER}, workload_kind=~"$kind", workload_namespace=~"$namespace", workload=~"$workload{MEMBER}"'
)


@dataclass(frozen=True, slots=True)
class Query:
    """One query: PromQL, the legend of its series, and the heading of its column in a table."""

    expr: str
    legend: str = ""
    heading: str = ""


def named(expr: str) -> str:
    """The same series with the label job_set: the name of the job or pod set."""
    return f'label_replace({expr}, "job_set", "$1", "workload", "(.+?){MEMBER}")'


def rate(metric: str, selector: str) -> str:
    """Growth per second of a counter."""
    return f"rate({metric}{{{selector}}}[$__rate_interval])"


def ratio(above: str, below: str) -> str:
    """A quotient, absent where nothing is counted below."""
    return f"{above} / ({below} > 0)"


def zero(expr: str, measured: str) -> str:
    """0 where `expr` is absent, but `measured` shows that somebody looked; absent where nobody did."""
    return f"{expr} or 0 * {measured}"


def day(metric: str, selector: str) -> str:
    """A sum over 24 hours: recorded every five minutes, which is also how long Prometheus looks back."""
    return f"last_over_time({metric}{{{selector}}}[10m])"


def to_cluster(expr: str) -> str:
    """The same series with the label that links pass on; where no series has a cluster, all are meant."""
    copied = f'label_replace({expr}, "to_cluster", "$1", "cluster", "(.+)")'
    return f'label_replace({copied}, "to_cluster", "All", "cluster", "")'


def to_job(expr: str) -> str:
    """The same series with the labels that links to a job pass on; Slurm jobs have no namespace."""
    copied = f'label_replace({to_cluster(expr)}, "to_namespace", "$1", "workload_namespace", "(.+)")'
    return f'label_replace({copied}, "to_namespace", ".*", "workload_namespace", "")'
