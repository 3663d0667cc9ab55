"""Calls of the NFS client of the node: `/proc/net/rpc/nfs`.

net/sunrpc/stats.c of the kernel; procedures in the order of `nfs3_procedures` and of
`NFSPROC4_CLNT_*` in include/linux/nfs4.h

    rpc 2533373021 110 2536628201
    proc3 22 6 2771010022 6518600 30642200 58912500 7803300 724375100 ...
    proc4 69 4 75054600 94821200 3097200 19908600 0 267900 0 17462600 ...

The first number of a proc line says how many follow: more with each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter

_V2_NAMES = (
    "null getattr setattr root lookup readlink read wrcache write create remove rename link symlink mkdir "
    "rmdir readdir fsstat"
)
_V3_NAMES = (
    "null getattr setattr lookup access readlink read write create mkdir symlink mknod remove rmdir rename "
    "link readdir readdirplus fsstat fsinfo pathconf commit"
)
_V4_NAMES = (
    "null read write commit open open_confirm open_noattr open_downgrade close setattr fsinfo renew "
    "setclientid setclientid_confirm lock lockt locku access getattr lookup lookup_root remove rename link "
    "symlink create pathconf statfs readlink readdir server_caps delegreturn getacl setacl fs_locations "
    "release_lockowner secinfo fsid_present exchange_id create_session destroy_session sequence "
    "get_lease_time reclaim_complete layoutget getdeviceinfo layoutcommit layoutreturn secinfo_no_name "
    "test_stateid free_stateid getdevicelist bind_conn_to_session destroy_clientid seek allocate deallocate "
    "layoutstats clone copy offload_cancel lookupp layouterror copy_notify getxattr setxattr listxattrs "
    "removexattr read_plus offload_status"
)
_V2, _V3, _V4 = (tuple(names.split()) for names in (_V2_NAMES, _V3_NAMES, _V4_NAMES))

#: Kernels before 3.13 lack fsid_present and have fewer columns than this: their order is
#: known for the first 36 names only.
_V4_COLUMNS_WITH_FSID_PRESENT = 54
_V4_STABLE = 36
#: zero_range was inserted before layoutstats when there were 70 already (6.16).
_V4_COLUMNS_WITH_ZERO_RANGE = 71
_V4_ZERO_RANGE = _V4.index("layoutstats")


@dataclass(frozen=True, slots=True)
class RpcNfs:
    """Calls since the module was loaded; None for what the file does not say.

    procedures: protocol version, name and calls.
    untrue:     numbers that cannot be true.
    """

    calls: int | None
    retransmissions: int | None
    authentication_refreshes: int | None
    procedures: tuple[tuple[str, str, int], ...]
    untrue: int = 0


def parse_rpc_nfs(text: str) -> RpcNfs:
    """Read the client's calls. Raises ParseError. Source: `/proc/net/rpc/nfs`."""
    rpc: list[int | None] = []
    procedures: dict[tuple[str, str], int] = {}
    untrue = 0
    known = False
    for line in text.split("\n"):
        key, *words = line.split() or [""]
        if key == "rpc":
            rpc = [counter(word) for word in words[:3]]
            untrue += rpc.count(None)
        elif key in {"proc2", "proc3", "proc4"}:
            untrue += _read_procedures(key[-1], words, procedures)
        known |= key in {"net", "rpc", "proc2", "proc3", "proc4"}
    if not known and text.strip():
        raise ParseError("rpc/nfs: no line of the client's statistics")
    rpc += [None] * (3 - len(rpc))
    calls = tuple((version, name, value) for (version, name), value in procedures.items())
    return RpcNfs(rpc[0], rpc[1], rpc[2], calls, untrue)


def _read_procedures(version: str, words: list[str], procedures: dict[tuple[str, str], int]) -> int:
    """Read the calls of one version; how many numbers cannot be true."""
    columns = counter(words[0]) if words else None
    if columns is None:
        return 0
    untrue = 0
    names = {"2": _V2, "3": _V3}.get(version) or _v4_names(columns)
    for name, word in zip(names, words[1 : columns + 1], strict=False):
        value = counter(word)
        if value is None:
            untrue += 1
        else:
            procedures[version, name] = value
    return untrue


def _v4_names(columns: int) -> tuple[str, ...]:
    if columns < _V4_COLUMNS_WITH_FSID_PRESENT:
        return _V4[:_V4_STABLE]
    if columns >= _V4_COLUMNS_WITH_ZERO_RANGE:
        return (*_V4[:_V4_ZERO_RANGE], "zero_range", *_V4[_V4_ZERO_RANGE:])
    return _V4
