"""Where the seconds of each GPU went, what it waited for, and how well the sampler does."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources
from gpuwait.wait.state import WaitState, coverage

_LEDGER = "wait ledger"
_SAMPLER = "sampler"

TIME = Family(
    "gpuwait_gpu_time_seconds_total",
    "counter",
    "Seconds of the GPU by state; the states add up to the observed time.",
    _LEDGER,
    ("gpu", "uuid", "state"),
)
WAITING = Family(
    "gpuwait_gpu_waiting_seconds_total",
    "counter",
    "Seconds that the GPU waited, by cause; the causes add up to its waiting time.",
    _LEDGER,
    ("gpu", "uuid", "cause"),
)
ACTIVE = Family(
    "gpuwait_cause_active_seconds_total",
    "counter",
    "Seconds in which the cause held for any waiting GPU, alone or beside a stronger one.",
    _LEDGER,
    ("cause",),
)
PRICE = Family(
    "gpuwait_gpu_price_per_hour",
    "gauge",
    "Configured price of an hour of the GPU, in the currency of the configuration.",
    "configuration file",
    ("gpu", "uuid"),
)
THRESHOLD = Family(
    "gpuwait_cause_threshold",
    "gauge",
    "Threshold in force, in the base unit of its signal.",
    "thresholds and configuration file",
    ("cause", "signal"),
)
TICKS = Family(
    "gpuwait_sampler_ticks_total",
    "counter",
    "Snapshots that the sampler took.",
    _SAMPLER,
)
LAG = Family(
    "gpuwait_sampler_lag_seconds",
    "gauge",
    "Seconds by which the last snapshot came late.",
    _SAMPLER,
)
CPU = Family(
    "gpuwait_sampler_cpu_seconds_total",
    "counter",
    "CPU seconds that the sampler used.",
    _SAMPLER,
)
SKIPPED = Family(
    "gpuwait_sampler_threads_skipped_total",
    "counter",
    "Threads of GPU workloads that the sampler left out of a snapshot because there were too many.",
    _SAMPLER,
)
COVERAGE = Family(
    "gpuwait_delay_accounting_coverage_ratio",
    "gauge",
    "Share of the workload's processes whose delays the kernel accounts; those started before it was "
    "switched on are not.",
    "taskstats",
    ("workload_kind", "workload_namespace", "workload", "workload_container"),
)
DROPPED = Family(
    "gpuwait_delay_samples_dropped_total",
    "counter",
    "Delays of GPU workloads that were dropped because they exceed the time that had passed.",
    "taskstats",
    ("class",),
)


def _ledger(state: WaitState) -> Iterator[Sample]:
    sums = state.ledger.sums()
    for (index, uuid), account in sums.gpus.items():
        for gpu_state, seconds in account.states.items():
            yield TIME, (str(index), uuid, gpu_state), seconds
    for (index, uuid), account in sums.gpus.items():
        for cause, seconds in account.causes.items():
            yield WAITING, (str(index), uuid, cause), seconds
    for cause, seconds in sums.active.items():
        yield ACTIVE, (cause,), seconds
    for (index, uuid), price in state.prices.items():
        yield PRICE, (str(index), uuid), price


def _sampler(state: WaitState) -> Iterator[Sample]:
    yield TICKS, (), state.ticks
    yield LAG, (), state.lag_seconds
    yield CPU, (), state.cpu_seconds
    yield SKIPPED, (), state.threads_skipped
    for key, share in coverage(state).items():
        yield COVERAGE, key, share
    for kind, count in state.dropped.items():
        yield DROPPED, (kind,), count


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield seconds, thresholds and the state of the sampler. Raises NoData."""
    state = sources.wait
    if state is None:
        raise NoData(Reason.ABSENT, "the sampler does not run")
    yield from _ledger(state)
    for (cause, signal), value in state.limits.items():
        yield THRESHOLD, (cause, signal), value
    yield from _sampler(state)
    if state.stuck:
        raise OSError(errno.EIO, state.stuck)
    if state.verdict is None:
        raise NoData(Reason.STARTING, "the sampler has not taken two snapshots yet")


COLLECTOR = Collector(
    name="ledger",
    help="Seconds of each GPU by state, its waiting seconds by cause, and the state of the sampler.",
    families=(
        TIME,
        WAITING,
        ACTIVE,
        PRICE,
        THRESHOLD,
        TICKS,
        LAG,
        CPU,
        SKIPPED,
        COVERAGE,
        DROPPED,
    ),
    collect=collect,
)
