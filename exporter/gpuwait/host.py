"""The one place that opens files of the host, below the configured roots.

Kernel files are read whole with `os.open` and `os.read` in pieces of 16 KiB:
a larger buffer costs more than the read itself (25 us for 1 MiB).
No function here may be pointed at a mounted file system: a dead NFS server
would block the caller in the kernel, unkillably.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from itertools import islice

PIECE = 16 * 1024
#: No kernel file that is read here comes near this; a larger one is a fault, not data.
LIMIT = 64 * 1024 * 1024
LABEL_LENGTH = 128
#: C0 and C1 controls, line separators and what turns the direction of text: a scrape that is
#: shown on a terminal must not move its cursor, nor look like other lines than it has.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udc7f\udd00-\udfff]"
)

#: Errors that say "this kernel, driver or container does not offer that file", as against a fault.
#: EOPNOTSUPP: PSI compiled in but off; ENODEV: a cgroup or device that just went away;
#: ESRCH: a process that just ended; EINVAL: some drivers' counters.
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP, errno.ENODEV, errno.ESRCH})


def is_absent(error: OSError) -> bool:
    """Tell whether an error means that the source is not there, as against a fault."""
    return error.errno in ABSENT


@dataclass(frozen=True, slots=True)
class Host:
    """Paths of one host: its own, a container's view of it, or a captured tree.

    procfs, sysfs: mount points of the two kernel file systems.
    rootfs:        root of the host's file system; below it only udev's data are ever read, cgroup
                   file systems that are mounted outside sysfs, and on a thread of their own the names of
                   containers and the owners of GPUs (`read_file`, `first_names`).
    """

    procfs: str = "/proc"
    sysfs: str = "/sys"
    rootfs: str = "/"
    udev_data: str = "/run/udev/data"

    def proc(self, path: str) -> str:
        """Text of `<procfs>/<path>`; raises OSError."""
        return read_text(f"{self.procfs}/{path}")

    def sys(self, path: str) -> str:
        """Text of `<sysfs>/<path>`; raises OSError."""
        return read_text(f"{self.sysfs}/{path}")

    def maybe_proc(self, path: str) -> str | None:
        """Text of `<procfs>/<path>`, None where it is absent; raises OSError for a fault."""
        return maybe_text(f"{self.procfs}/{path}")

    def maybe_sys(self, path: str) -> str | None:
        """Text of `<sysfs>/<path>`, None where it is absent; raises OSError for a fault."""
        return maybe_text(f"{self.sysfs}/{path}")

    def list_proc(self, path: str = "") -> list[str]:
        """Names in `<procfs>/<path>`, sorted; raises OSError."""
        return sorted(os.listdir(f"{self.procfs}/{path}"))

    def list_sys(self, path: str) -> list[str]:
        """Names in `<sysfs>/<path>`, sorted, empty where the directory is absent."""
        return names(f"{self.sysfs}/{path}")

    def subdirectories(self, path: str) -> list[str]:
        """Names of the directories in `<sysfs>/<path>`, sorted, empty where it is absent; raises OSError."""
        return directories(f"{self.sysfs}/{path}")

    def sys_link(self, path: str) -> str | None:
        """Resolved target of `<sysfs>/<path>`, None where it is absent. Reads links of sysfs only."""
        full = f"{self.sysfs}/{path}"
        return os.path.realpath(full) if os.path.lexists(full) else None


def names(path: str) -> list[str]:
    """Names in a directory of a kernel file system, sorted, empty where it is absent; raises OSError."""
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        if is_absent(error):
            return []
        raise


def directories(path: str) -> list[str]:
    """Names of the directories in a directory of a kernel file system, as `names`; raises OSError.

    Links are not followed, and the kernel tells directories apart without a look at each.
    """
    try:
        with os.scandir(path) as entries:
            return sorted([entry.name for entry in entries if entry.is_dir(follow_symlinks=False)])
    except OSError as error:
        if is_absent(error):
            return []
        raise


def label(text: str, limit: int = LABEL_LENGTH) -> str:
    """A name from outside as the value of a label: bounded, and safe to show on a terminal."""
    if not text.isprintable():
        text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
        # A name of a directory that is no UTF-8 is written as `read_text` writes such bytes.
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text[:limit]


def read_bytes(path: str) -> bytes:
    """Whole content of a kernel file; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A short read is not the end: seq_file hands out one record set at a time.
        piece = os.read(descriptor, PIECE)
        if not piece:
            return b""
        rest = os.read(descriptor, PIECE)
        if not rest:
            return piece
        return _whole(descriptor, [piece, rest], LIMIT, path)
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise
    finally:
        os.close(descriptor)


def _whole(descriptor: int, pieces: list[bytes], limit: int, path: str) -> bytes:
    """What was read so far and the rest; raises OSError: EFBIG beyond `limit` bytes."""
    size = sum(map(len, pieces))
    while piece := os.read(descriptor, PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return b"".join(pieces)


def read_text(path: str) -> str:
    r"""Whole content of a kernel file; a byte that is no UTF-8 becomes `\xNN`. Raises OSError."""
    return read_bytes(path).decode("utf-8", "backslashreplace")


def maybe_text(path: str) -> str | None:
    """Whole content of a kernel file, None where it is absent; raises OSError for a fault."""
    try:
        return read_text(path)
    except OSError as error:
        if is_absent(error):
            return None
        raise


def read_file(path: str, limit: int) -> str | None:
    r"""Text of an ordinary file, None where it is absent; a byte that is no UTF-8 becomes `\xNN`.

    Its file system may hang: only for a thread that nobody waits for. Raises OSError: EFBIG beyond `limit`
    bytes, EINVAL for what is no file.
    """
    try:
        return read_ordinary(path, limit).decode("utf-8", "backslashreplace")
    except OSError as error:
        if is_absent(error):
            return None
        raise


def read_ordinary(path: str, limit: int) -> bytes:
    """Content of an ordinary file. As `read_file`, but raises OSError also where it is absent."""
    # A pipe in its place must not hold us up until someone writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file", path)
        return _whole(descriptor, [], limit, path)
    finally:
        os.close(descriptor)


def first_names(path: str, most: int) -> list[str]:
    """At most so many names in an ordinary directory, empty where it is absent. As `read_file`; OSError."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in islice(entries, most)]
    except OSError as error:
        if is_absent(error):
            return []
        raise


def fingerprint(path: str) -> tuple[int, int, int] | None:
    """Another value after an ordinary file, or the names in a directory, changed; None where it is absent.

    Inode, time of change in ns, size. As `read_file`; raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if is_absent(error):
            return None
        raise
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_ino, status.st_mtime_ns, status.st_size


def inode(directory: str, name: str) -> int:
    """Inode number of an entry of a directory of a kernel file system, 0 where it is gone; asks no entry."""
    try:
        with os.scandir(directory) as entries:
            return next((entry.inode() for entry in entries if entry.name == name), 0)
    except OSError:
        return 0


def open_kept(path: str) -> int:
    """Descriptor of a kernel file that is read again and again and closed by the caller; raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def write_setting(path: str, text: str) -> None:
    """Write a setting below procfs or sysfs, which only a person may ask for; raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
