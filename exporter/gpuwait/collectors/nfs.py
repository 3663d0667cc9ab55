"""NFS client: calls of the node, and operations and connections of each mount."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import Host, label
from gpuwait.kernel.mountstats import NfsStatistics
from gpuwait.kernel.nfs_totals import bounded_operations, in_flight, total
from gpuwait.kernel.rpc_nfs import parse_rpc_nfs
from gpuwait.metrics import Family, Sample
from gpuwait.nfs_mounts import OPTION_LENGTH, Key, Mounts, Row, chosen_mounts
from gpuwait.sources import Sources

_RPC, _MOUNT = "/proc/1/net/rpc/nfs", "/proc/1/mountstats"
_KEY = ("export", "mountpoint", "version")

RPC_CALLS = Family("gpuwait_nfs_rpc_calls_total", "counter", "Calls to NFS servers.", _RPC)
RPC_RETRANSMISSIONS = Family(
    "gpuwait_nfs_rpc_retransmissions_total",
    "counter",
    "Calls to NFS servers sent again; NFSv4 does not count them in an outage.",
    _RPC,
)
RPC_REFRESHES = Family(
    "gpuwait_nfs_rpc_authentication_refreshes_total", "counter", "Refreshes of NFS credentials.", _RPC
)
PROCEDURE_CALLS = Family(
    "gpuwait_nfs_procedure_calls_total",
    "counter",
    "Calls of each NFS procedure.",
    _RPC,
    ("version", "procedure"),
)
IN_FLIGHT = Family(
    "gpuwait_nfs_mount_in_flight",
    "gauge",
    "Requests sent and not answered, of all mounts that share the connection; an upper bound.",
    _MOUNT,
    _KEY,
)
LEASE_EXPIRED = Family(
    "gpuwait_nfs_mount_lease_expired_seconds",
    "gauge",
    "Seconds since the NFSv4 lease ran out; 0 while it is valid.",
    _MOUNT,
    _KEY,
)
LEASE = Family("gpuwait_nfs_mount_lease_seconds", "gauge", "Seconds that an NFSv4 lease lasts.", _MOUNT, _KEY)
AGE = Family("gpuwait_nfs_mount_age_seconds", "gauge", "Seconds since the mount was made.", _MOUNT, _KEY)
TRANSPORTS = Family(
    "gpuwait_nfs_mount_transports", "gauge", "Connections of the mount (nconnect).", _MOUNT, _KEY
)
INFO = Family(
    "gpuwait_nfs_mount_info",
    "gauge",
    "Options of the mount; always 1.",
    _MOUNT,
    (*_KEY, "transport", "rsize", "wsize", "recovery"),
)


def _counters(labels: tuple[str, ...], table: tuple[tuple[str, str], ...]) -> tuple[Family, ...]:
    return tuple(Family(name, "counter", text, _MOUNT, labels) for name, text in table)


#: In the order of the columns of an operation; those in milliseconds are 5, 6 and 7.
OPERATION = _counters(
    (*_KEY, "operation"),
    (
        ("gpuwait_nfs_mount_operations_total", "NFS operations completed on the mount."),
        ("gpuwait_nfs_mount_transmissions_total", "Requests sent for NFS operations, more when sent again."),
        ("gpuwait_nfs_mount_major_timeouts_total", "Major timeouts, when all retries were used up."),
        ("gpuwait_nfs_mount_sent_bytes_total", "Bytes sent for NFS operations, headers included."),
        ("gpuwait_nfs_mount_received_bytes_total", "Bytes received for NFS operations, headers included."),
        ("gpuwait_nfs_mount_queue_time_seconds_total", "Seconds before requests were sent."),
        ("gpuwait_nfs_mount_response_time_seconds_total", "Seconds between request and answer."),
        ("gpuwait_nfs_mount_request_time_seconds_total", "Seconds from begin to end of operations."),
        ("gpuwait_nfs_mount_errors_total", "Answers with an error, such as no such file; from 5.3 on."),
    ),
)
_MILLISECONDS = range(5, 8)
#: A small budget of samples keeps what decides: how many, how long, how often again.
_COLUMNS = (0, 6, 7, 1, 2, 5, 8, 4, 3)

#: In the order of the numbers after `bytes:`.
TRANSFERRED = _counters(
    _KEY,
    (
        ("gpuwait_nfs_mount_application_read_bytes_total", "Bytes read by programs, cached or not."),
        ("gpuwait_nfs_mount_application_written_bytes_total", "Bytes written by programs."),
        ("gpuwait_nfs_mount_direct_read_bytes_total", "Bytes read by programs with O_DIRECT."),
        ("gpuwait_nfs_mount_direct_written_bytes_total", "Bytes written by programs with O_DIRECT."),
        ("gpuwait_nfs_mount_server_read_bytes_total", "Bytes read from the server."),
        ("gpuwait_nfs_mount_server_written_bytes_total", "Bytes written to the server."),
        ("gpuwait_nfs_mount_read_pages_total", "Pages read from the server."),
        ("gpuwait_nfs_mount_written_pages_total", "Pages written to the server."),
    ),
)

#: Sums over the connections of a mount. Mounts of one server often share them.
TRANSPORT = _counters(
    _KEY,
    (
        ("gpuwait_nfs_mount_transport_sends_total", "Requests sent on the connections of the mount."),
        ("gpuwait_nfs_mount_transport_receives_total", "Answers received; it stands still in an outage."),
        ("gpuwait_nfs_mount_transport_bad_transaction_ids_total", "Answers to no known request."),
        ("gpuwait_nfs_mount_transport_connects_total", "Connections made, more when they broke."),
        ("gpuwait_nfs_mount_transport_slots_used_total", "Requests in flight, added up at each request."),
        ("gpuwait_nfs_mount_transport_backlog_total", "Waits for a slot, added up at each request."),
        ("gpuwait_nfs_mount_transport_sending_total", "Requests to be sent, added up at each request."),
        ("gpuwait_nfs_mount_transport_pending_total", "Requests not answered, added up at each request."),
    ),
)
_TRANSPORT_FIELDS = (
    "sends",
    "receives",
    "bad_transaction_ids",
    "connects",
    "slots_used",
    "backlog",
    "sending",
    "pending",
)

#: A mount uses ten operations or so; beyond this many the rest go into `other`, the least important first.
_NAMED_OPERATIONS = 24
#: A number that cannot be true, or a mount that is here twice: left out, and counted as such.
_LOST = float("nan")


def _info(labels: Key, statistics: NfsStatistics) -> Sample:
    options = statistics.options
    recovery = next((word for word in ("softerr", "soft", "hard") if word in options), "")
    protocol = next((transport.protocol for transport in statistics.transports), "")
    values = (options.get("proto", protocol), options.get("rsize", ""), options.get("wsize", ""))
    return INFO, (*labels, *(label(text, OPTION_LENGTH) for text in values), recovery), 1


def _mount_samples(rows: list[Row]) -> Iterator[Sample]:
    waiting = in_flight([(labels[0], statistics) for labels, statistics in rows])
    for (labels, _), requests in zip(rows, waiting, strict=True):
        if requests is not None:
            yield IN_FLIGHT, labels, requests
    for labels, statistics in rows:
        gauges = (
            (LEASE_EXPIRED, statistics.lease_expired),
            (LEASE, statistics.lease),
            (AGE, statistics.age),
            (TRANSPORTS, statistics.transport_lines),
        )
        for family, value in gauges:
            if value is not None:
                yield family, labels, value
        yield _info(labels, statistics)
        for family, field in zip(TRANSPORT, _TRANSPORT_FIELDS, strict=True):
            value = total([getattr(transport, field) for transport in statistics.transports])
            if value is not None:
                yield family, labels, value
        for family, value in zip(TRANSFERRED, statistics.transferred, strict=False):
            yield family, labels, _LOST if value is None else value
        for _ in range(min(statistics.untrue, len(TRANSPORT))):
            yield AGE, labels, _LOST


def _operation_samples(rows: list[Row]) -> Iterator[Sample]:
    table = [
        ((*labels, name), values)
        for labels, statistics in rows
        for name, values in bounded_operations(statistics.operations, _NAMED_OPERATIONS)
    ]
    for column in _COLUMNS:
        family = OPERATION[column]
        # Kernels before 5.3 have no column of errors.
        readings = [(labels, values[column]) for labels, values in table if column < len(values)]
        if column in _MILLISECONDS:
            yield from ((family, labels, _LOST if v is None else v / 1000) for labels, v in readings)
        else:
            yield from ((family, labels, _LOST if v is None else v) for labels, v in readings)


def _rpc_samples(text: str) -> Iterator[Sample]:
    rpc = parse_rpc_nfs(text)
    totals = (
        (RPC_CALLS, rpc.calls),
        (RPC_RETRANSMISSIONS, rpc.retransmissions),
        (RPC_REFRESHES, rpc.authentication_refreshes),
    )
    for family, value in totals:
        if value is not None:
            yield family, (), value
    for version, procedure, calls in rpc.procedures:
        yield PROCEDURE_CALLS, (version, procedure), calls
    for _ in range(rpc.untrue):
        yield RPC_CALLS, (), _LOST


def _read(host: Host, faults: Faults, *paths: str) -> tuple[str, str | None]:
    """The first of the files that is there, and its text. Raises OSError."""
    path = ""
    for path in paths:
        try:
            text = host.maybe_proc(path)
        except PermissionError as error:  # CAP_DAC_READ_SEARCH: better our own than none
            faults.refuse(path, error)
            continue
        if text is not None:
            return path, text
    return path, None


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the node's calls, then each mount's numbers. Raises NoData, OSError, ParseError."""
    host, faults = sources.host, Faults()
    rpc, mounts = None, Mounts([], 0)
    # Process 1 stands for the host: in a container the own network and mounts are others.
    with faults.at(f"{host.procfs}/1/net/rpc/nfs"):
        path, rpc = _read(host, faults, "1/net/rpc/nfs", "net/rpc/nfs")
        with faults.at(f"{host.procfs}/{path}"):
            yield from _rpc_samples(rpc or "")
    with faults.at(f"{host.procfs}/1/mountstats"):
        path, text = _read(host, faults, "1/mountstats", "self/mountstats")
        with faults.at(f"{host.procfs}/{path}"):
            mounts = chosen_mounts(text or "", path.partition("/")[0], host, sources.options.nfs_mounts)
    yield from _mount_samples(mounts.rows)
    yield from _operation_samples(mounts.rows)
    for _ in range(mounts.more):
        yield AGE, mounts.rows[0][0], _LOST
    faults.finish()
    if rpc is None and not mounts.rows:
        raise NoData(Reason.ABSENT, "no NFS client is loaded")


COLLECTOR = Collector(
    name="nfs",
    help="Calls of the NFS client, and operations, times and connections of each NFS mount.",
    families=(
        RPC_CALLS,
        RPC_RETRANSMISSIONS,
        RPC_REFRESHES,
        IN_FLIGHT,
        LEASE_EXPIRED,
        *OPERATION,
        *TRANSPORT,
        *TRANSFERRED,
        LEASE,
        AGE,
        TRANSPORTS,
        INFO,
        PROCEDURE_CALLS,
    ),
    collect=collect,
    # 50 mounts with every operation in use.
    budget=15_000,
)
