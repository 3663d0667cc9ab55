r"""NFS mounts and what they did: `/proc/PID/mountstats`.

nfs_show_stats() in fs/nfs/super.c, rpc_clnt_show_stats() in net/sunrpc/stats.c

    device filer:/vol mounted on /data with fstype nfs4 statvers=1.1
        opts:   rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,timeo=600
        xprt:   tcp 903 1 2 0 4 30746 30744 2 91233 0 40 12011 45099
            READ: 9022 9024 0 1515696 9441120256 310 48120 48990 0

Read in two steps, since one file system that is bound to many places appears
once for each with the same numbers: first the mounts, then the statistics of
those that are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountinfo import unescape
from gpuwait.kernel.numbers import TOO_LARGE, counter

#: Column of the connections and of the requests sent, by protocol; receives, bad ids and the
#: queues follow the latter. From net/sunrpc/xprtsock.c and xprtrdma/transport.c: `udp` has no
#: connection, `local` no port, and `rdma` other numbers after the first ten.
_TRANSPORTS = {"tcp": (2, 5), "rdma": (2, 5), "local": (1, 4), "udp": (None, 2)}

_NAME_LIMIT = 32


@dataclass(frozen=True, slots=True)
class NfsMount:
    """One mount, not yet read; the export and the mount point are unescaped."""

    export: str
    mountpoint: str
    statistics: str
    filesystem_type: str = "nfs"


@dataclass(frozen=True, slots=True)
class Transport:
    """One connection to the server; None for what its protocol or kernel does not count.

    The last four add up, at each request sent, how many requests were there:
    in slots, waiting for a slot, waiting to be sent, waiting for the answer.
    """

    protocol: str
    port: int | None
    sends: int | None
    receives: int | None
    bad_transaction_ids: int | None
    connects: int | None
    slots_used: int | None
    backlog: int | None
    sending: int | None
    pending: int | None


@dataclass(frozen=True, slots=True)
class NfsStatistics:
    """What one mount did since it was mounted.

    options:     mount options, with an empty text for those without a value.
    age, lease:  seconds; the lease is that of NFSv4.
    transferred: bytes read and written by applications, the same with O_DIRECT, bytes
                 read and written at the server, pages read and written.
    transport_lines: connections, also those of unknown protocols.
    operations:  by name, those ever used: operations, transmissions, major timeouts, bytes
                 sent, bytes received, milliseconds in the queue, to the answer, in all, and
                 from 5.3 on errors. None for a number that cannot be true.
    version:     of the protocol: of the option `vers`, else of the program; empty where neither is.
    untrue:      numbers of the other lines that cannot be true.
    """

    options: dict[str, str]
    age: int | None
    lease: int | None
    lease_expired: int | None
    transferred: tuple[int | None, ...]
    transports: tuple[Transport, ...]
    transport_lines: int
    operations: Mapping[str, Sequence[int | None]]
    version: str = ""
    untrue: int = 0


def parse_mountstats(text: str) -> list[NfsMount]:
    """NFS mounts in the file's order. Raises ParseError. Source: `/proc/PID/mountstats`."""
    mounts = []
    blocks = f"\n{text}".split("\ndevice ")
    for block in blocks[1:]:
        # The rest of the file belongs to other file systems, often thousands.
        header, _, body = block.partition("\n")
        words = header.split(" ")
        if words[5:7] != ["fstype", "nfs"] and words[5:7] != ["fstype", "nfs4"]:
            continue
        if words[1:3] == ["mounted", "on"]:
            mounts.append(NfsMount(unescape(words[0]), unescape(words[3]), body, words[6]))
    if len(blocks) == 1 and text.strip() and not text.startswith("no device "):
        raise ParseError("mountstats: no line is a mount")
    return mounts


def parse_nfs_statistics(text: str) -> NfsStatistics:
    """Read the statistics of one mount; what is malformed is absent.

    Source: `/proc/PID/mountstats`, the lines below `device`.
    """
    head, _, operations = text.partition("per-op statistics\n")
    lines: dict[str, str] = {}
    transports = []
    untrue = 0
    for line in head.split("\n"):
        key, colon, rest = line.strip().partition(":")
        if key == "xprt":
            protocol, *words = rest.split() or [""]
            numbers = [counter(word) for word in words]
            untrue += numbers.count(None) if protocol in _TRANSPORTS else 0
            transports.append(_transport(protocol, numbers))
        elif colon:
            # The first wins: `impl_id` may bring lines of the server's own making.
            lines.setdefault(key, rest.strip())
    version4, options = _options(lines.get("nfsv4", "")), _options(lines.get("opts", ""))
    times = (lines.get("age", ""), version4.get("lease_time", ""), version4.get("lease_expired", ""))
    age, lease, lease_expired = map(counter, times)
    return NfsStatistics(
        options=options,
        age=age,
        lease=lease,
        lease_expired=lease_expired,
        transferred=tuple(counter(word) for word in lines.get("bytes", "").split()),
        transports=tuple(transport for transport in transports if transport is not None),
        transport_lines=len(transports),
        operations=_operations(operations),
        version=options.get("vers", "") or _program_version(lines.get("RPC iostats version", "")),
        untrue=untrue + sum(1 for word in times if word and counter(word) is None),
    )


def _program_version(text: str) -> str:
    # `1.1  p/v: 100003/4 (nfs)`; 100003 is the program number of NFS.
    version = text.partition("p/v: 100003/")[2].partition(" ")[0]
    return version if version.isdecimal() and len(version) < 3 else ""


def _options(text: str) -> dict[str, str]:
    options = {}
    for option in text.split(","):
        name, _, value = option.partition("=")
        options[name] = value
    return options


def _transport(protocol: str, numbers: list[int | None]) -> Transport | None:
    if protocol not in _TRANSPORTS:
        return None
    connects, sends = _TRANSPORTS[protocol]
    if len(numbers) < sends + 2:
        return None
    numbers += [None] * (sends + 8 - len(numbers))
    # Absent before statvers 1.1; `rdma` counts other things there.
    has_queues = protocol != "rdma"
    return Transport(
        protocol=protocol,
        port=None if protocol == "local" else numbers[0],
        connects=None if connects is None else numbers[connects],
        sends=numbers[sends],
        receives=numbers[sends + 1],
        bad_transaction_ids=numbers[sends + 2],
        slots_used=numbers[sends + 3],
        backlog=numbers[sends + 4],
        sending=numbers[sends + 6] if has_queues else None,
        pending=numbers[sends + 7] if has_queues else None,
    )


def _operations(text: str) -> Mapping[str, Sequence[int | None]]:
    # All rows at once take half the time. Where every name ends in a colon and every other word
    # is a number, all rows are as wide as the first; anything else is read row by row.
    words = text.split()
    width = len(text.partition("\n")[0].split())
    if width < 3 or len(words) % width:
        return _row_by_row(text)
    names = words[::width]
    del words[::width]
    try:
        numbers = list(map(int, words))
    except ValueError:
        return _row_by_row(text)
    if "-" in text or max(numbers) >= TOO_LARGE or not all(map(_is_name, names)):
        return _row_by_row(text)
    columns = width - 1
    starts = range(0, len(numbers), columns)
    return {
        name[:-1]: numbers[start : start + columns]
        for name, start in zip(names, starts, strict=True)
        if numbers[start] or numbers[start + 1]
    }


def _row_by_row(text: str) -> Mapping[str, Sequence[int | None]]:
    operations = {}
    for line in text.split("\n"):
        name, *words = line.split() or [""]
        values = [counter(word) for word in words]
        if _is_name(name) and len(values) > 1 and values[:2] != [0, 0]:
            operations[name[:-1]] = values
    return operations


def _is_name(word: str) -> bool:
    # Names of the kernel are upper case, so none of them is `other`.
    return word[-1:] == ":" and word.isupper() and word.isprintable() and len(word) <= _NAME_LIMIT
