"""The ledger and the sampler as metrics."""

from dataclasses import dataclass, field

import pytest

from gpuwait.collector import Reason
from gpuwait.collectors.ledger import COLLECTOR
from gpuwait.thresholds import DEFAULTS, Thresholds
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.snapshot import Delay, Host, Snapshot, Workload
from gpuwait.wait.verdict import Cause, GpuVerdict, State, Verdict


@dataclass
class Sampler:
    """What a sampler shows after some ticks."""

    ledger: Ledger = field(default_factory=Ledger)
    limits: Thresholds = field(default_factory=Thresholds)
    verdict: Verdict | None = None
    snapshot: Snapshot | None = None
    ticks: int = 0
    lag_seconds: float = 0.0
    cpu_seconds: float = 0.0
    threads_skipped: int = 0
    stuck: str = ""
    dropped: dict = field(default_factory=dict)
    prices: dict = field(default_factory=dict)


class Sources:
    """Sources with a sampler."""

    def __init__(self, wait):
        self.wait = wait


@pytest.fixture
def sampler():
    """A GPU that waited for NFS for a quarter of a second."""
    seconds = {State.BUSY: 0.75, State.WAITING: 0.25}
    verdict = Verdict(10.0, 1.0, (GpuVerdict(0, "GPU-a", seconds, Cause.NFS, 0.75),))
    made = Sampler(verdict=verdict, ticks=2)
    made.ledger.add(verdict)
    return made


def test_no_sampler(tree):
    """Without a sampler there is no ledger, and the reason is told."""
    assert tree.run(COLLECTOR, Sources(None)) == ({}, Reason.ABSENT)


def test_before_the_first_verdict(tree):
    """Known GPUs start at zero in every state and cause."""
    sampler = Sampler()
    sampler.ledger.see((0, "GPU-a"))
    samples, outcome = tree.run(COLLECTOR, Sources(sampler))
    assert outcome == Reason.STARTING
    times = {key: value for key, value in samples.items() if key[0] == "gpu_time_seconds_total"}
    assert times == {
        ("gpu_time_seconds_total", "0", "GPU-a", state): 0
        for state in ("busy", "gap", "waiting", "idle", "free", "unknown")
    }
    assert sum(key[0] == "gpu_waiting_seconds_total" for key in samples) == 15


def test_seconds(tree, sampler):
    """Seconds by state and by cause, and the time in which a cause was active."""
    samples, outcome = tree.run(COLLECTOR, Sources(sampler))
    assert outcome is None
    assert samples["gpu_time_seconds_total", "0", "GPU-a", "busy"] == 0.75
    assert samples["gpu_time_seconds_total", "0", "GPU-a", "waiting"] == 0.25
    assert samples["gpu_waiting_seconds_total", "0", "GPU-a", "nfs"] == 0.25
    assert samples["gpu_waiting_seconds_total", "0", "GPU-a", "disk"] == 0
    assert samples["cause_active_seconds_total", "nfs"] == 1.0
    assert samples["cause_active_seconds_total", "disk"] == 0


def test_price_only_where_configured(tree, sampler):
    """A price is a series only where one is configured."""
    samples, _ = tree.run(COLLECTOR, Sources(sampler))
    assert not any(key[0] == "gpu_price_per_hour" for key in samples)
    sampler.prices = {(0, "GPU-a"): 2.5}
    samples, _ = tree.run(COLLECTOR, Sources(sampler))
    assert samples["gpu_price_per_hour", "0", "GPU-a"] == 2.5


def test_thresholds_in_force(tree, sampler):
    """Every threshold is exported, with the value that the configuration gave it."""
    sampler.limits = Thresholds({("gpu", "utilization"): 0.6})
    samples, _ = tree.run(COLLECTOR, Sources(sampler))
    assert samples["cause_threshold", "gpu", "utilization"] == 0.6
    assert samples["cause_threshold", "disk", "busy"] == 0.15
    assert sum(key[0] == "cause_threshold" for key in samples) == len(DEFAULTS)


def test_the_sampler_itself(tree, sampler):
    """Ticks, lag, cost, what was left out, and the coverage of delay accounting where there is any."""
    sampler.lag_seconds, sampler.cpu_seconds, sampler.threads_skipped = 0.004, 1.5, 12
    sampler.dropped = {Delay.BLKIO: 3}
    known, unknown = ("pod", "research", "train-0", "main"), ("slurm", "", "7", "0")
    workloads = {known: Workload(covered=0.25), unknown: Workload()}
    sampler.snapshot = Snapshot(10.0, Host(), (), workloads)
    samples, _ = tree.run(COLLECTOR, Sources(sampler))
    assert samples["sampler_ticks_total",] == 2
    assert samples["sampler_lag_seconds",] == 0.004
    assert samples["sampler_cpu_seconds_total",] == 1.5
    assert samples["sampler_threads_skipped_total",] == 12
    assert samples["delay_samples_dropped_total", "blkio"] == 3
    assert samples["delay_accounting_coverage_ratio", *known] == 0.25
    assert sum(key[0] == "delay_accounting_coverage_ratio" for key in samples) == 1


def test_budget_holds_the_largest_node(tree, sampler):
    """16 GPUs and as many gone ones as are kept fit into the budget."""
    sampler.ledger.see(*((i, f"GPU-{i}") for i in range(16 + 64)))
    samples, _ = tree.run(COLLECTOR, Sources(sampler))
    assert len(samples) <= COLLECTOR.budget


def test_a_stuck_sampler_is_a_fault_that_says_where(tree, sampler):
    """The sums stay, and the collector fails, so that no one takes them for current."""
    sampler.stuck = "sampler stuck for 12 s in /proc/1/mountstats"
    samples, outcome = tree.run(COLLECTOR, Sources(sampler))
    assert "/proc/1/mountstats" in str(outcome)
    assert samples["gpu_time_seconds_total", "0", "GPU-a", "busy"] == 0.75


def test_a_pid_never_becomes_a_label(tree, sampler):
    """Processes without a cgroup are one series, the worst covered of them."""
    loads = {
        ("other", "", "process 41", ""): Workload(covered=1.0),
        ("other", "", "process 42", ""): Workload(covered=0.5),
        ("slurm", "", "7", "0"): Workload(covered=0.75),
    }
    sampler.snapshot = Snapshot(1.0, Host(), (), loads)
    samples, _ = tree.run(COLLECTOR, Sources(sampler))
    found = {key[1:]: value for key, value in samples.items() if key[0] == "delay_accounting_coverage_ratio"}
    assert found == {("other", "", "", ""): 0.5, ("slurm", "", "7", "0"): 0.75}
