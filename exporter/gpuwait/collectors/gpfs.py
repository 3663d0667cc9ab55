"""GPFS (Storage Scale): bytes and operations by file system, asked of `mmpmon`.

Off by default, since it runs a program. The program is killed when it does not
answer in time, and never started while an earlier one is still there.
"""

from __future__ import annotations

import os
import signal
import subprocess  # noqa: TID251 - GPFS has no file to read: mmpmon is its one interface
from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mmpmon import parse_fs_io
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

#: Seconds for one answer; below the deadline of a collector, so that the kill is ours.
TIMEOUT = 1.5
SOURCE = "mmpmon -p, fs_io_s"
LABELS = ("gpfs_cluster", "filesystem")
FAMILIES = {
    "read_bytes": Family(
        "gpuwait_gpfs_read_bytes_total", "counter", "Bytes read by applications.", SOURCE, LABELS
    ),
    "written_bytes": Family(
        "gpuwait_gpfs_written_bytes_total", "counter", "Bytes written by applications.", SOURCE, LABELS
    ),
    "opens": Family("gpuwait_gpfs_opens_total", "counter", "Files opened.", SOURCE, LABELS),
    "closes": Family("gpuwait_gpfs_closes_total", "counter", "Files closed.", SOURCE, LABELS),
    "reads": Family("gpuwait_gpfs_reads_total", "counter", "Reads by applications.", SOURCE, LABELS),
    "writes": Family("gpuwait_gpfs_writes_total", "counter", "Writes by applications.", SOURCE, LABELS),
    "readdirs": Family("gpuwait_gpfs_readdirs_total", "counter", "Directories read.", SOURCE, LABELS),
    "inode_updates": Family(
        "gpuwait_gpfs_inode_updates_total", "counter", "Inode updates to disk.", SOURCE, LABELS
    ),
}


class Running:
    """The last mmpmon that did not end when it was killed; None mostly."""

    child: subprocess.Popen[bytes] | None = None


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the counters of every file system that mmpmon reports."""
    text = ask(sources.options.gpfs_mmpmon, sources.kept(Running))
    for filesystem in parse_fs_io(text):
        labels = (filesystem.cluster[:128], filesystem.name[:128])
        for name, value in filesystem.counters.items():
            yield FAMILIES[name], labels, value


def ask(program: str, running: Running) -> str:
    """What mmpmon answers to `fs_io_s`. Raises NoData, ParseError or TimeoutError."""
    if running.child is not None and running.child.poll() is None:
        raise TimeoutError(f"{program}: an earlier call does not end (pid {running.child.pid})")
    running.child = None
    try:
        child = subprocess.Popen(  # noqa: S603 - the program is the operator's own flag
            [program, "-s", "-p"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NoData(Reason.ABSENT, f"no {program}") from error
    except PermissionError as error:
        raise NoData(Reason.NO_PERMISSION, f"{program} may not be run by this user") from error
    try:
        output, _ = child.communicate(b"fs_io_s\n", TIMEOUT)
    except subprocess.TimeoutExpired as error:
        _kill(child, running)
        raise TimeoutError(f"{program}: no answer within {TIMEOUT} s") from error
    if child.returncode != 0:
        raise ParseError(f"{program}: exit status {child.returncode}")
    return output.decode("utf-8", "backslashreplace")


def _kill(child: subprocess.Popen[bytes], running: Running) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(0.2)
    except ProcessLookupError:
        child.wait(0.2)
    except subprocess.TimeoutExpired:
        running.child = child  # in the kernel, unkillable: looked at again before the next call
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


COLLECTOR = Collector(
    name="gpfs",
    help="GPFS bytes and operations, by running mmpmon",
    families=tuple(FAMILIES.values()),
    collect=collect,
    enabled=False,
)
