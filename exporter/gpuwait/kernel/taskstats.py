"""Delay accounting of a process or thread: messages of the generic netlink family TASKSTATS.

https://docs.kernel.org/accounting/taskstats.html
https://docs.kernel.org/accounting/delay-accounting.html

    request  nlmsghdr(28, family, NLM_F_REQUEST, sequence, 0) genlmsghdr(CMD_GET) nlattr(8, PID or TGID) u32
    reply    nlmsghdr genlmsghdr nlattr(AGGR_*) { nlattr(PID or TGID) u32, nlattr(STATS) struct taskstats }
    error    nlmsghdr(.., NLMSG_ERROR, ..) s32 -errno

Fields are read by offset as far as the reply goes: kernels append to the structure. Versions 8 to 14
and from 16 on begin alike; version 15 (Linux 6.14, 6.15) moved the fields and is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError

#: Classes in the structure's order.
CLASSES = ("cpu", "blkio", "swapin", "freepages", "thrashing", "compact", "wpcopy", "irq")

_OLDEST, _ODD = 8, 15
_HEADERS, _ERROR, _STATS = 20, 2, 3
_BY_THREAD, _BY_GROUP = 1, 2
_REQUEST = struct.Struct("=IHHIIBBHHHI")
_HEADER = struct.Struct("=IHHI")
_ATTRIBUTE = struct.Struct("=HH")
#: Version and the delays of version 14, 11, 9 and 8 (thrashing came with 9, compact 11, wpcopy 13,
#: irq 14), each preceded by its count; longest first.
_LAYOUTS = tuple(
    struct.Struct(layout)
    for layout in (
        "=H22xQ8xQ8xQ256xQ8xQ16xQ40xQ8xQ",
        "=H22xQ8xQ8xQ256xQ8xQ16xQ40xQ",
        "=H22xQ8xQ8xQ256xQ8xQ16xQ",
        "=H22xQ8xQ8xQ256xQ8xQ",
        "=H22xQ8xQ8xQ256xQ",
    )
)


class UnsupportedVersion(ParseError):
    """A structure whose layout is another one. The message has its version."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    sequence:    of the request.
    error:       errno, 0 for none.
    version:     of the structure, 0 with an error.
    nanoseconds: of CLASSES, as many as this kernel has; a thread group's live and ended threads together.
    """

    sequence: int
    error: int = 0
    version: int = 0
    nanoseconds: tuple[int, ...] = ()


def family_request(sequence: int) -> bytes:
    """The message that asks the controller for the number of the family."""
    name = b"TASKSTATS\0"
    body = struct.pack("=BBHHH", 3, 1, 0, 4 + len(name), 2) + name + bytes(-len(name) % 4)
    return struct.pack("=IHHII", 16 + len(body), 16, 1, sequence, 0) + body


def request(family: int, pid: int, sequence: int, *, thread: bool = False) -> bytes:
    """The message that asks for one thread group, or one thread of it."""
    kind = _BY_THREAD if thread else _BY_GROUP
    return _REQUEST.pack(28, family, 1, sequence, 0, 1, 1, 0, 8, kind, pid)


def parse_family(message: bytes) -> tuple[int, int]:
    """Number of the family and errno, one of which is 0. Raises ParseError."""
    _, kind, _, _ = _header(message)
    if kind == _ERROR:
        return 0, _errno(message)
    found = dict(_attributes(message, _HEADERS, len(message)))
    if 1 not in found or found[1] + 2 > len(message):
        raise ParseError("taskstats: the controller's answer has no family number")
    family: int = struct.unpack_from("=H", message, found[1])[0]
    return family, 0


def parse_reply(message: bytes) -> Reply:
    """One answer about a thread or group. Raises ParseError, UnsupportedVersion."""
    length, kind, _, sequence = _header(message)
    if kind == _ERROR:
        return Reply(sequence, _errno(message))
    at = _structure(message)
    room = min(length, len(message)) - at
    for layout in _LAYOUTS:
        if layout.size <= room:
            version, *nanoseconds = layout.unpack_from(message, at)
            if version == _ODD or version < _OLDEST:
                raise UnsupportedVersion(f"taskstats: version {version} has another layout")
            return Reply(sequence, 0, version, tuple(nanoseconds))
    raise ParseError("taskstats: the answer is too short")


def _header(message: bytes) -> tuple[int, int, int, int]:
    if len(message) < _HEADERS:
        raise ParseError("taskstats: no netlink message")
    header: tuple[int, int, int, int] = _HEADER.unpack_from(message)
    return header


def _errno(message: bytes) -> int:
    code: int = struct.unpack_from("=i", message, 16)[0]
    if code >= 0:
        raise ParseError("taskstats: an error without a number")
    return -code


def _structure(message: bytes) -> int:
    """Offset of struct taskstats: behind 36 bytes, or more where the architecture wants it aligned."""
    if len(message) > 36 and _ATTRIBUTE.unpack_from(message, 32)[1] == _STATS:
        return 36
    # The attributes are inside the first one.
    found = dict(_attributes(message, _HEADERS + 4, len(message)))
    if _STATS not in found:
        raise ParseError("taskstats: the answer has no statistics")
    return found[_STATS]


def _attributes(message: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """Kind and offset of the content of each attribute."""
    found = []
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < 4:
            break
        found.append((kind & 0x3FFF, at + 4))
        at += (length + 3) & ~3
    return found
