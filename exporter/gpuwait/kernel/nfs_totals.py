"""Sums over the connections and the operations of NFS mounts that `mountstats` told of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from gpuwait.kernel.mountstats import NfsStatistics

_PRIORITY = (
    "READ WRITE COMMIT OPEN CLOSE GETATTR LOOKUP ACCESS READDIR READDIRPLUS SETATTR CREATE REMOVE RENAME "
    "SEQUENCE RENEW LAYOUTGET OPEN_NOATTR READ_PLUS LOCK LOCKU DELEGRETURN MKDIR RMDIR STATFS FSSTAT LINK "
    "SYMLINK READLINK LAYOUTCOMMIT LAYOUTRETURN LAYOUTSTATS GETDEVICEINFO COPY CLONE SEEK ALLOCATE DEALLOCATE"
)
_RANK = {name: rank for rank, name in enumerate(_PRIORITY.split())}

_Values = Sequence[int | None]


def total(values: _Values) -> int | None:
    """Sum, None where there is no number or one is missing: a sum without it would fall."""
    if not values or None in values:
        return None
    return sum(cast(Sequence[int], values))


def bounded_operations(operations: Mapping[str, _Values], limit: int) -> Iterator[tuple[str, _Values]]:
    """Operations by name; beyond the limit the least important ones are one, named `other`."""
    if len(operations) <= limit:
        yield from operations.items()
        return
    names = sorted(operations, key=lambda name: _RANK.get(name, len(_RANK)))
    for name in names[:limit]:
        yield name, operations[name]
    rest = [operations[name] for name in names[limit:]]
    yield "other", [total(column) for column in zip(*rest, strict=False)]


def in_flight(mounts: Sequence[tuple[str, NfsStatistics]]) -> list[int | None]:
    """Requests sent and not answered, for each mount with its export; None where not counted.

    A request that is sent again counts as a send (NFSv3), so those are taken off.
    Mounts of one server share connections, whose sends are then those of all of them.
    """
    resent: dict[tuple[object, ...], set[tuple[str, int, int]]] = {}
    for export, statistics in mounts:
        # A set, since one file system may be here for each of its mount points.
        again = resent.setdefault(_connection(export, statistics), set())
        again.add((export, *_operations_and_transmissions(statistics)))
    counts: list[int | None] = []
    for export, statistics in mounts:
        sends = total([transport.sends for transport in statistics.transports])
        receives = total([transport.receives for transport in statistics.transports])
        if sends is None or receives is None:
            counts.append(None)
            continue
        again = resent[_connection(export, statistics)]
        more = sum(transmissions - operations for _, operations, transmissions in again)
        counts.append(max(0, sends - receives - more))
    return counts


def _connection(export: str, statistics: NfsStatistics) -> tuple[object, ...]:
    """What is equal for mounts that share their connections."""
    server = export.partition(":/")[0]
    return (server, *((transport.protocol, transport.port) for transport in statistics.transports))


def _operations_and_transmissions(statistics: NfsStatistics) -> tuple[int, int]:
    operations = transmissions = 0
    for row in statistics.operations.values():
        if row[0] is not None and row[1] is not None:
            operations += row[0]
            transmissions += row[1]
    return operations, transmissions
