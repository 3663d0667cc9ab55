"""Incidents in CPU time, placement and the network, and what is no incident."""

from __future__ import annotations

from gpuwait.scenarios.rates import (
    GIB,
    LOADERS,
    RANKS,
    SLEEPERS,
    PortRate,
    Rates,
    ThreadRate,
    starve,
    wobble,
)
from gpuwait.scenarios.scenario import Phase, Scenario
from gpuwait.wait.verdict import Cause, State

_MORE = tuple(range(4217, 4233))


def _throttled(rates: Rates, second: int) -> None:
    """32 loaders share two CPUs by quota: in most periods all of them stand still."""
    starve(rates, 0.21 + 0.04 * wobble(second, 3), 0.045)
    for tid in _MORE:
        rates.story.threads[tid] = ThreadRate("pt_data_worker", 0.045, 0.01)
    for tid in (*LOADERS, *_MORE):
        rates.story.threads[tid].queue = 0.62
    rates.story.quota_cores = 2.0
    rates.story.throttled = 0.9
    rates.story.throttled_seconds = 19.0
    rates.story.pressure["cpu"] = 0.93


def _limited(rates: Rates, second: int) -> None:
    """The same limit, with loaders that stay below it."""
    for tid in LOADERS:
        rates.story.threads[tid].user, rates.story.threads[tid].system = 0.05, 0.01
    for tid in RANKS:
        rates.story.threads[tid].user, rates.story.threads[tid].system = 0.2, 0.05
    rates.story.quota_cores = 2.0
    rates.story.throttled = 0.1
    rates.story.throttled_seconds = 0.02


THROTTLED_LOADERS = Scenario(
    "throttled-loaders",
    "The CPU limit throttles the loaders",
    "A pod asked for 2 CPUs, has them as its limit too, and runs 32 loader workers: the kernel stops them "
    "in most periods of 100 ms, though half of the node's CPUs are idle.",
    (
        Phase("cached epoch", 30, _limited),
        Phase("decoding", 90, _throttled, Cause.CPU_THROTTLING),
        Phase("cached epoch again", 30, _limited),
    ),
    Cause.CPU_THROTTLING,
)


def _remote(rates: Rates, second: int) -> None:
    """Loaders and their memory are on the node that the GPUs are not on."""
    starve(rates, 0.55 + 0.05 * wobble(second, 4), 0.4)
    for thread in rates.story.threads.values():
        thread.numa_node = 1
    rates.story.memory_by_node = {0: 12 * GIB, 1: 188 * GIB}
    rates.settings["numa_balancing"] = "1"
    rates.vmstat |= {"numa_hint_faults": 5_200.0, "numa_hint_faults_local": 700.0}


REMOTE_NUMA = Scenario(
    "remote-numa",
    "The loaders run on the other NUMA node",
    "The CPU manager gave the pod CPUs on one NUMA node and GPUs on the other. Every batch crosses the link "
    "between them, twice.",
    (
        Phase("pinned", 30),
        Phase("on the other node", 90, _remote, Cause.NUMA_REMOTE),
        Phase("pinned again", 30),
    ),
    Cause.NUMA_REMOTE,
)


def _gil(rates: Rates, second: int) -> None:
    """One thread holds the interpreter's lock; the rest sleeps."""
    starve(rates, 0.33 + 0.05 * wobble(second, 5), 0.004)
    first = rates.story.threads[RANKS[0]]
    first.user, first.system, first.state = 0.985, 0.01, "R"


BUSY_PYTHON = Scenario(
    "busy-python",
    "One Python thread does all the work",
    "Collating and augmenting happen in the main process. One thread is at 100 % of a core, all others wait "
    "for the interpreter's lock, and the node's load is low.",
    (
        Phase("cached batches", 30),
        Phase("collating", 90, _gil, Cause.HOST_CPU),
        Phase("cached batches again", 30),
    ),
    Cause.HOST_CPU,
)


def _flapping(rates: Rates, second: int) -> None:
    """One cable: symbol errors, retransmissions, and every few seconds the link is down."""
    starve(rates, 0.41 + 0.06 * wobble(second, 6), 0.2)
    up = second % 7 != 5
    rates.fabric["mlx5_2/1"] = PortRate(up, 50e9 if up else 0.0, 240.0, 3_100.0, 0)


FABRIC_RETRANSMITS = Scenario(
    "fabric-retransmits",
    "One port of the fabric flaps",
    "A damaged cable makes symbol errors. Packets are sent again, all-reduce waits for the slowest rank, "
    "and the whole job slows down.",
    (
        Phase("training", 30),
        Phase("flapping port", 90, _flapping, Cause.FABRIC),
        Phase("training again", 30),
    ),
    Cause.FABRIC,
)


def _notebook(rates: Rates, second: int) -> None:
    """A kernel that waits for its user: 0.6 % of a core."""
    for i in range(4):
        rates.use[i] = 0.0
    threads = (RANKS[0], *SLEEPERS)
    rates.story.threads = {tid: ThreadRate("python3", 0.0004, 0.0001, 0.0) for tid in threads}
    rates.story.pressure = {"memory": 0.0, "io": 0.0, "cpu": 0.0005}


HELD_NOTEBOOK = Scenario(
    "held-notebook",
    "A notebook holds four GPUs and does nothing",
    "Somebody loaded a model on Friday. The kernel of the notebook still holds the GPUs on Monday.",
    (Phase("held", 120, _notebook),),
    None,
    State.IDLE,
)


def _unknown(rates: Rates, second: int) -> None:
    """The GPUs wait for a service on another machine: the threads poll a socket."""
    starve(rates, 0.35 + 0.08 * wobble(second, 7), 0.06)


NO_CAUSE = Scenario(
    "no-cause",
    "The GPUs wait and the host does not say why",
    "A reward service on another machine answers slowly. Nothing on this host is short.",
    (
        Phase("training", 30),
        Phase("waiting for the service", 90, _unknown, Cause.UNEXPLAINED),
        Phase("training again", 30),
    ),
    Cause.UNEXPLAINED,
)

QUIET = Scenario(
    "quiet",
    "A busy node without an incident",
    "Eight GPUs at 95 %. Other pods load the CPUs, a disk and memory; a neighbour compacts memory for 20 s "
    "of each minute. Nobody waits.",
    (Phase("training", 240),),
    None,
    State.GAP,
)
