"""Incidents in memory management."""

from __future__ import annotations

from gpuwait.scenarios.rates import LOADERS, RANKS, Rates, block, starve, wobble
from gpuwait.scenarios.scenario import Phase, Scenario
from gpuwait.wait.snapshot import Delay, WaitClass
from gpuwait.wait.verdict import Cause


def _loading(rates: Rates, second: int) -> None:
    """Each rank reads its index at 100 % system CPU: every page fault compacts memory first."""
    starve(rates, 0.04 + 0.02 * wobble(second, 3))
    rates.settings["thp_enabled"] = "always"
    rates.unusable = {0: 0.99, 1: 0.97}
    rates.vmstat |= {"compact_stall": 1900 + 300 * wobble(second, 1), "compact_fail": 1750.0}
    rates.vmstat |= {"allocstall_normal": 14.0, "allocstall_movable": 9.0}
    rates.pressure["memory"] = 0.83
    rates.story.pressure |= {"memory": 0.79, "io": 0.03}
    rates.nfs["/data"].sends = rates.nfs["/data"].answers = 60
    rates.gpfs = 0.02
    for pid in RANKS:
        rates.story.threads[pid].user, rates.story.threads[pid].system = 0.03, 0.97
        rates.story.delays[pid] = {Delay.COMPACT: 0.86, Delay.RECLAIM: 0.03}


DATASET_INIT = Scenario(
    "dataset-init",
    "Loading the data set takes an hour",
    "1,200 GPUs. Every rank loads 200 GB of indexes from GPFS; after an hour NCCL times out. There is "
    "little storage traffic, yet users blame GPFS. The ranks are at 100 % system CPU in page faults: NumPy "
    "asked for huge pages, memory is fragmented, and every fault compacts memory first.",
    (
        Phase("training", 40),
        Phase("loading", 200, _loading, Cause.COMPACTION),
        Phase("training again", 30),
    ),
    Cause.COMPACTION,
)


def _copying(rates: Rates, second: int) -> None:
    """30 GB go from the devices to the page cache; steps go on."""
    rates.dirty = 0.30
    rates.vmstat["pgfault"] = 900_000.0
    rates.story.pressure["memory"] = 0.03


def _slow_steps(rates: Rates, second: int) -> None:
    """Malloc, free and futex take 10 to 50 ms: memory is reclaimed, then compacted, in the workers."""
    starve(rates, 0.30 + 0.05 * wobble(second, 4), 0.2)
    rates.unusable = {0: 0.81, 1: 0.74}
    rates.vmstat |= {"allocstall_normal": 640.0, "allocstall_movable": 900.0}
    rates.vmstat |= {"compact_stall": 120.0, "compact_fail": 70.0}
    rates.pressure["memory"] = 0.46
    rates.story.pressure["memory"] = 0.41
    rates.story.reclaim_pages = 9_000
    for pid in (*RANKS, *LOADERS[:6]):
        rates.story.delays[pid] = {Delay.RECLAIM: 0.34, Delay.THRASHING: 0.04, Delay.COMPACT: 0.08}
        rates.story.threads[pid].system = 0.35


AFTER_CHECKPOINT = Scenario(
    "after-checkpoint",
    "The steps after each checkpoint are slow",
    "3,000 NPUs. A checkpoint copies 30 GB from device to host; the next steps are 20 % slower and device "
    "use falls from 95 % to 30 %, while CPU and network look fine. malloc, free and futex take 10 to 50 ms: "
    "the kernel takes memory back from the page cache in the middle of the step.",
    (
        Phase("training", 30),
        Phase("checkpoint", 10, _copying),
        Phase("slow steps", 18, _slow_steps, Cause.RECLAIM),
        Phase("training again", 30),
        Phase("second checkpoint", 10, _copying),
        Phase("slow steps again", 18, _slow_steps, Cause.RECLAIM),
        Phase("training to the end", 20),
    ),
    Cause.RECLAIM,
)


def _swapping(rates: Rates, second: int) -> None:
    """Loaders copied the data set when they forked; their pages come back from swap one by one."""
    starve(rates, 0.12 + 0.04 * wobble(second, 5))
    rates.vmstat |= {"pswpin": 21_000.0, "allocstall_normal": 110.0, "allocstall_movable": 40.0}
    rates.disks["nvme0n1"].latency = 0.0004
    rates.pressure |= {"memory": 0.66, "io": 0.58}
    rates.story.pressure |= {"memory": 0.61, "io": 0.40}
    rates.story.refaults = 16_000
    block(rates, WaitClass.PAGE, 0.8)
    for pid in LOADERS:
        rates.story.delays[pid] = {Delay.SWAPIN: 0.55, Delay.THRASHING: 0.52, Delay.RECLAIM: 0.06}


SWAPPING = Scenario(
    "swapping",
    "The loaders copied the data set and the node swaps",
    "Every loader process touched the reference counts of a large Python list, so that fork copied the data "
    "set sixteen times. Memory is full and each batch waits for pages to come back from swap.",
    (Phase("training", 30), Phase("swapping", 90, _swapping, Cause.SWAP), Phase("training again", 30)),
    Cause.SWAP,
)
