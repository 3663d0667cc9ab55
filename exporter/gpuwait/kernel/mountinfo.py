r"""Mounts of a process: `/proc/PID/mountinfo`.

https://docs.kernel.org/filesystems/proc.html#proc-pid-mountinfo-information-about-mounts

    28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
    97 28 0:52 / /data/a\040b rw,noatime shared:53 master:2 - nfs4 filer:/vol rw,vers=4.2
    99 28 0:61 / /run/user/1000/doc rw,nosuid - fuse.portal  rw,user_id=1000

Columns: mount id, parent id, device, root, mount point, options, any number of
optional fields, a single hyphen, type, source (may be empty), options of the
superblock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError

#: The kernel writes space, tab, newline, backslash and, in a source, `#` as three octal digits.
_ESCAPE = re.compile(r"\\(0[0-7]{2}|1[0-7]{2})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount; the mount point and the source are unescaped.

    device: `major:minor` of the superblock, the same for bind mounts of one file system.
    root:   directory of that file system which is seen at the mount point.
    """

    mount_id: int
    device: str
    root: str
    mountpoint: str
    options: str
    filesystem_type: str
    source: str
    super_options: str


def parse_mountinfo(text: str) -> list[Mount]:
    """Mounts in the file's order; a malformed line is skipped. Raises ParseError.

    Source: `/proc/PID/mountinfo`.
    """
    mounts = []
    for line in text.split("\n"):
        # Only single spaces separate: an empty source leaves two in a row.
        fields = line.split(" ")
        if len(fields) < 9 or not (fields[0].isascii() and fields[0].isdigit()):
            continue
        try:
            hyphen = fields.index("-", 6)
            filesystem_type, source, super_options = fields[hyphen + 1 : hyphen + 4]
            mount_id = int(fields[0])
        except ValueError:
            continue
        mounts.append(
            Mount(
                mount_id,
                fields[2],
                unescape(fields[3]),
                unescape(fields[4]),
                fields[5],
                filesystem_type,
                unescape(source),
                super_options,
            )
        )
    if not mounts and text.strip():
        raise ParseError("mountinfo: no line is a mount")
    return mounts


def unescape(word: str) -> str:
    r"""Replace the octal escapes of a path, such as `\040` for a space."""
    return _ESCAPE.sub(_character, word) if "\\" in word else word


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
