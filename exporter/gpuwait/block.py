"""Which rows of diskstats are disks, what is known of them, and where they are mounted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuwait.host import Host, label
from gpuwait.kernel.diskstats import DiskRow, disk_of_partition
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountinfo import Mount, parse_mountinfo
from gpuwait.udev import DiskFacts, Facts

#: Seconds after which facts are read again where no event says that they changed.
FACTS_FOR = 300.0
MOST_MOUNTS = 64
MOUNTPOINT_LENGTH = 256

#: Path of a multipath NVMe namespace: its requests are counted at the namespace again.
_NVME_PATH = re.compile(r"nvme([0-9]+)c[0-9]+n([0-9]+)")
#: A bad character for one step of a path below sysfs; the slash is written `!` there.
_ODD_NAME = re.compile(r"\.\.|\x00")

MountLabels = tuple[str, str, str]


def sysfs_name(name: str) -> str:
    """Name of a block device in sysfs: `cciss!c0d0` for `cciss/c0d0`; empty for one that no driver gives."""
    return "" if _ODD_NAME.search(name) or name == "." else name.replace("/", "!")


class Disks:
    """Decides once per set of rows; asks udev at each look what changed since.

    disks: name of each row that is a whole disk, with its facts.
    """

    def __init__(self) -> None:
        self.disks: dict[str, Facts] = {}
        #: Row name to the disk it is a part of, itself for a disk.
        self._disk_of: dict[str, str] = {}
        self._rows: list[tuple[str, str]] = []
        self._until = 0.0
        self._reader: DiskFacts | None = None
        self._reader_for: Host | None = None
        self._mountinfo: str | None = None
        self._mounts: list[MountLabels] = []

    def update(self, host: Host, rows: Sequence[DiskRow], wanted: Callable[[str], bool], now: float) -> bool:
        """Take in the rows of one scrape; tell whether anything is different.

        wanted: told the name of a disk, says whether it is to be exported.
        """
        if self._reader is None or self._reader_for != host:
            self._reader, self._reader_for = DiskFacts(host), host
            self._until = 0.0
        seen = [(row.device, row.name) for row in rows]
        changed = self._reader.changed()
        if seen != self._rows or now >= self._until:
            self._rows, self._until = seen, now + FACTS_FOR
            self._decide(host, rows, wanted)
        elif changed:
            for name in self.disks:
                if sysfs_name(name) in changed:
                    self.disks[name] = self._reader.facts(sysfs_name(name))
        else:
            return False
        self._mountinfo = None
        return True

    def mounts(self, host: Host) -> list[MountLabels]:
        """Disk, mount point and file system type of each mount from a disk; never touches the mount.

        From `<procfs>/1/mountinfo`, the host's view, else from this process' own.
        """
        text = _mountinfo(host)
        if text != self._mountinfo:
            self._mountinfo = text
            try:
                self._mounts = self._join(parse_mountinfo(text))
            except ParseError:  # mounts are an extra: the disks' counters do not depend on them
                self._mounts = []
        return self._mounts

    def _decide(self, host: Host, rows: Sequence[DiskRow], wanted: Callable[[str], bool]) -> None:
        assert self._reader is not None
        known, wholes = _listed(host, "class/block"), _listed(host, "block")
        names = {row.name for row in rows} | {name.replace("!", "/") for name in wholes}
        self._disk_of = {row.name: _disk_of(host, row.name, known, wholes, names) for row in rows}
        paths: dict[str, list[str]] = {}
        for name in names:
            match = _NVME_PATH.fullmatch(name)
            if match:
                paths.setdefault(f"nvme{match[1]}n{match[2]}", []).append(name)
        self.disks = {}
        for name, disk in self._disk_of.items():
            if name == disk and wanted(name) and not _NVME_PATH.fullmatch(name):
                directory = sysfs_name(name)
                facts = (
                    self._reader.facts(directory, sorted(paths.get(name, ())))
                    if directory
                    else Facts("other")
                )
                if not facts.hidden:
                    self.disks[name] = facts

    def _join(self, mounts: Sequence[Mount]) -> list[MountLabels]:
        by_device = {device: self._disk_of[name] for device, name in reversed(self._rows)}
        mapped = {facts.name: name for name, facts in self.disks.items() if facts.name}
        whole = {mount.device for mount in mounts if mount.root == "/"}
        found: dict[MountLabels, None] = {}
        part: set[str] = set()
        for mount in mounts:
            disk = by_device.get(mount.device) or self._disk_by_source(mount, mapped)
            if disk not in self.disks:
                continue
            # A directory of a file system that is mounted elsewhere as a whole is a bind mount.
            if mount.root != "/" and (mount.device in whole or mount.device in part):
                continue
            part.add(mount.device)
            where = label(mount.mountpoint, MOUNTPOINT_LENGTH)
            found[label(disk), where, label(mount.filesystem_type, 32)] = None
            if len(found) == MOST_MOUNTS:
                break
        return list(found)

    def _disk_by_source(self, mount: Mount, mapped: dict[str, str]) -> str:
        """Btrfs and zfs mounts carry an anonymous device; their source names a real one."""
        if not mount.device.startswith("0:") or not mount.source.startswith("/dev/"):
            return ""
        name = mount.source.removeprefix("/dev/")
        return self._disk_of.get(name, "") or mapped.get(name.removeprefix("mapper/"), "")


def _listed(host: Host, path: str) -> set[str]:
    try:
        return set(host.list_sys(path))
    except OSError:  # EACCES: the counters do not depend on it, the names decide instead
        return set()


def _mountinfo(host: Host) -> str:
    for process in ("1", "self"):
        try:
            text = host.maybe_proc(f"{process}/mountinfo")
        except PermissionError:
            continue
        if text:
            return text
    return ""


def _disk_of(host: Host, name: str, known: set[str], wholes: set[str], names: set[str]) -> str:
    """The disk of a row: by sysfs where it knows the row, else by the names of all rows."""
    directory = sysfs_name(name)
    guess = disk_of_partition(name, names) or name
    if not directory or directory in wholes or directory not in known:
        return name if directory in wholes else guess
    if _partition(host, directory) is None:
        return name
    link = host.sys_link(f"class/block/{directory}") or ""
    parent = link.rsplit("/", 2)[-2].replace("!", "/") if link.count("/") > 1 else ""
    return parent if parent in names else guess if guess != name else f"{name} (partition)"


def _partition(host: Host, directory: str) -> str | None:
    try:
        return host.maybe_sys(f"class/block/{directory}/partition")
    except OSError:  # the device went away between the listing and the reading
        return None
