"""Which blocks of mountstats are NFS mounts of their own, and what each is called in labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gpuwait.host import Host, label
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountinfo import Mount, parse_mountinfo
from gpuwait.kernel.mountstats import NfsMount, NfsStatistics, parse_mountstats, parse_nfs_statistics

#: A path below a kubelet's directory takes up to about 180 characters; cut shorter, two would be one.
PATH_LENGTH = 256
OPTION_LENGTH = 16

#: Export, mount point and protocol version.
Key = tuple[str, str, str]
Row = tuple[Key, NfsStatistics]


@dataclass(frozen=True, slots=True)
class Mounts:
    """Numbers of each mount, and how many mounts are left out since they have the labels of one of these."""

    rows: list[Row]
    more: int


def chosen_mounts(text: str, process: str, host: Host, wanted: Callable[[str], bool]) -> Mounts:
    """Mounts of the mountstats of a process. Raises ParseError.

    wanted: told a mount point, says whether it is to be exported.
    """
    rows: dict[Key, NfsStatistics] = {}
    same: set[Key] = set()
    more = 0
    for mount in _select(parse_mountstats(text), process, host, wanted):
        statistics = parse_nfs_statistics(mount.statistics)
        where = (label(mount.export, PATH_LENGTH), label(mount.mountpoint, PATH_LENGTH))
        key = (*where, label(statistics.version, OPTION_LENGTH))
        # One file system that is bound twice to one place shows the same text.
        if key in rows:
            more += (*where, mount.statistics) not in same
        else:
            rows[key] = statistics
        same.add((*where, mount.statistics))
    return Mounts(list(rows.items()), more)


def _select(
    mounts: list[NfsMount], process: str, host: Host, wanted: Callable[[str], bool]
) -> list[NfsMount]:
    """The mounts that are wanted, each file system once, however many places it is mounted or bound to."""
    chosen = [mount for mount in mounts if wanted(mount.mountpoint)]
    known = _mounted(host, process) if chosen else []
    if not known:  # each mount point is told by itself, which is right too
        return chosen
    # A server may put whole lines into the text that its `impl_id` takes up here. A mount that the
    # process does not have, or has fewer times than told, is then anyone's, and nobody gets its numbers.
    times = Counter(mount.mountpoint for mount in known)
    told = Counter(mount.mountpoint for mount in mounts)
    devices: dict[Key, list[str]] = {}
    for there in reversed(known):
        devices.setdefault((there.source, there.mountpoint, there.filesystem_type), []).append(there.device)
    seen: set[str] = set()
    selected = []
    for mount in chosen:
        if told[mount.mountpoint] > times[mount.mountpoint]:
            continue
        # Both files are in the order of the mounts, also of those that lie on each other.
        left = devices.get((mount.export, mount.mountpoint, mount.filesystem_type))
        device = left.pop() if left else ""
        if not device or device not in seen:
            selected.append(mount)
        seen.add(device)
    return selected


def _mounted(host: Host, process: str) -> list[Mount]:
    """NFS mounts of the process; empty where mountinfo is not to be had."""
    with suppress(OSError, ParseError):
        text = host.maybe_proc(f"{process}/mountinfo") or ""
        return parse_mountinfo("\n".join([line for line in text.split("\n") if " - nfs" in line]))
    return []
