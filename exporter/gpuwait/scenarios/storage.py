"""Incidents in storage."""

from __future__ import annotations

from gpuwait.scenarios.rates import DiskRate, NfsRate, Rates, block, starve, wobble
from gpuwait.scenarios.scenario import Phase, Scenario
from gpuwait.wait.snapshot import WaitClass
from gpuwait.wait.verdict import Cause


def _slices(rates: Rates, second: int) -> None:
    """187 ms a read against 23 ms of compute; direct reads, so that PSI sees nothing."""
    starve(rates, 0.11 + 0.02 * wobble(second, 3))
    rates.nfs["/data"] = NfsRate(84, 84, 0.187)
    block(rates, WaitClass.NFS, 1.0)


NFS_SMALL_FILES = Scenario(
    "nfs-small-files",
    "Four GPUs read small files over NFS",
    "CT slices of some hundred kB are read one by one over NFS: 187 ms a read against 23 ms of compute. The "
    "network is idle, the server's disks are not.",
    (
        Phase("training from memory", 30),
        Phase("reading slices", 120, _slices, Cause.NFS),
        Phase("training from memory again", 30),
    ),
    Cause.NFS,
)

#: Of each period: the stall starts after so many seconds and lasts so long.
_PERIOD, _START, _STALL = 30, 27.4, 2.5

#: Requests, one of each loader, that are held back meanwhile.
_HELD = 16


def _lease(rates: Rates, second: int) -> None:
    """Every 30 s the lease is renewed; the server holds it back, and with it all reads."""
    within = second % _PERIOD
    begins, ends = _START, _START + _STALL
    stalled = min(within + 1, ends) - max(within, begins)
    if stalled <= 0:
        return
    starve(rates, 0.95 * (1 - stalled))
    answered = 900 * (1 - stalled)
    if within < begins:
        rates.nfs["/data"] = NfsRate(answered + _HELD, answered, 0.0012)
        block(rates, WaitClass.NFS, 1.0)  # looks begin when the GPU is seen to stop
    elif within + 1 <= ends:
        rates.nfs["/data"] = NfsRate(0, 0, 0.0)
        block(rates, WaitClass.NFS, 1.0)
    else:
        late = (_HELD * _STALL + answered * 0.0012) / (answered + _HELD)
        rates.nfs["/data"] = NfsRate(answered, answered + _HELD, late)
        block(rates, WaitClass.NFS, stalled)


EVERY_30_SECONDS = Scenario(
    "every-30-seconds",
    "Every 30 seconds the GPUs stop for two",
    "GPU use falls to zero for 2 to 3 s every 30 s, when the NFS lease is renewed. A gauge that is scraped "
    "every 15 s sees it by chance or never.",
    (Phase("training with pauses", 300, _lease, Cause.NFS),),
    Cause.NFS,
)


def _flush(rates: Rates, second: int) -> None:
    """The page cache is full of the checkpoint: writers are held, readers queue behind the flusher."""
    starve(rates, 0.22 + 0.05 * wobble(second, 6))
    rates.dirty, rates.writeback = 0.97, 0.4
    rates.disks["nvme0n1"] = DiskRate(9_800, 0.013, 1.0, 0.1)
    rates.pressure["io"] = 0.93
    rates.story.pressure |= {"io": 0.84, "memory": 0.02}
    block(rates, WaitClass.LOCAL_IO, 0.8)
    block(rates, WaitClass.DIRTY, 0.7)


CHECKPOINT_STORM = Scenario(
    "checkpoint-storm",
    "Asynchronous checkpoints stall the loaders",
    "Checkpoints are written in the background through the page cache. Every few minutes dirty pages reach "
    "their limit, the kernel holds back whoever writes, and for a minute all reads wait behind the flush.",
    (
        Phase("training", 60),
        Phase("flush", 60, _flush, Cause.WRITEBACK),
        Phase("training again", 60),
        Phase("flush again", 60, _flush, Cause.WRITEBACK),
        Phase("training to the end", 30),
    ),
    Cause.WRITEBACK,
)


def _random_reads(rates: Rates, second: int) -> None:
    """One spinning disk at its limit of random reads."""
    starve(rates, 0.18 + 0.05 * wobble(second, 7))
    rates.disks["sda"] = DiskRate(176, 0.088, 1.0)
    rates.pressure["io"] = 0.9
    rates.story.pressure["io"] = 0.81
    block(rates, WaitClass.PAGE, 1.0)
    block(rates, WaitClass.LOCAL_IO, 0.3)


SLOW_DISK = Scenario(
    "slow-disk",
    "Random reads from a disk at its limit",
    "A million small files lie on one local disk, which manages 180 random reads a second. The loaders wait "
    "for it.",
    (
        Phase("training", 30),
        Phase("reading files", 100, _random_reads, Cause.DISK),
        Phase("training again", 30),
    ),
    Cause.DISK,
)


def _stats(rates: Rates, second: int) -> None:
    """Every rank asks for the attributes of millions of files."""
    starve(rates, 0.06 + 0.03 * wobble(second, 8))
    rates.lustre = 14.5
    block(rates, WaitClass.LUSTRE, 1.0)


def _lustre_usual(rates: Rates, second: int) -> None:
    rates.lustre = 0.08


LUSTRE_METADATA = Scenario(
    "lustre-metadata",
    "The start of each epoch waits for Lustre metadata",
    "At the start of an epoch every rank stats millions of files. The metadata server answers in "
    "milliseconds, but one after the other.",
    (
        Phase("training", 30, _lustre_usual),
        Phase("start of an epoch", 80, _stats, Cause.LUSTRE),
        Phase("training again", 30, _lustre_usual),
    ),
    Cause.LUSTRE,
)


def _slow_server(rates: Rates, second: int) -> None:
    """One storage server is slow; the client's waiters grow old."""
    starve(rates, 0.09 + 0.03 * wobble(second, 9))
    rates.gpfs = 3.0 + 1.5 * wobble(second, 2)
    block(rates, WaitClass.GPFS, 1.0)


def _gpfs_usual(rates: Rates, second: int) -> None:
    rates.gpfs = 0.01


GPFS_WAITERS = Scenario(
    "gpfs-waiters",
    "GPFS waits for a slow server",
    "One storage server has a failing disk. Every read that touches it waits for seconds in the client.",
    (
        Phase("training", 30, _gpfs_usual),
        Phase("slow server", 80, _slow_server, Cause.GPFS),
        Phase("training again", 30, _gpfs_usual),
    ),
    Cause.GPFS,
)
