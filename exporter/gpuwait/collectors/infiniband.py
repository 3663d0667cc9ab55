"""Ports of InfiniBand and RoCE adapters: traffic, errors and retransmissions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import Host, label, names
from gpuwait.kernel.infiniband import parse_counter, parse_rate, parse_state
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

_PORT = ("device", "port")
_DIRECTORY = "class/infiniband"
_SOURCE = "/sys/class/infiniband/*/ports/*"

UP = Family(
    "gpuwait_infiniband_port_up", "gauge", "Whether the port is active, 1 or 0.", f"{_SOURCE}/state", _PORT
)
RATE = Family(
    "gpuwait_infiniband_rate_bytes_per_second",
    "gauge",
    "Speed of the link as negotiated.",
    f"{_SOURCE}/rate",
    _PORT,
)
INFO = Family(
    "gpuwait_infiniband_info",
    "gauge",
    "Link layer of the port; always 1.",
    f"{_SOURCE}/link_layer",
    (*_PORT, "link_layer"),
)
NETDEV_MTU = Family(
    "gpuwait_infiniband_netdev_mtu_bytes",
    "gauge",
    "MTU of the network interface that carries the RDMA packets of a RoCE adapter.",
    "/sys/class/infiniband/*/device/net/*/mtu",
    ("device", "netdev"),
)

#: Name, file below the port, factor, help. The two of data count words of 4 bytes, for any width of link.
_TABLE = (
    ("gpuwait_infiniband_received_bytes_total", "counters/port_rcv_data", 4, "Bytes received."),
    ("gpuwait_infiniband_transmitted_bytes_total", "counters/port_xmit_data", 4, "Bytes sent."),
    ("gpuwait_infiniband_received_packets_total", "counters/port_rcv_packets", 1, "Packets received."),
    ("gpuwait_infiniband_transmitted_packets_total", "counters/port_xmit_packets", 1, "Packets sent."),
    (
        "gpuwait_infiniband_transmit_wait_ticks_total",
        "counters/port_xmit_wait",
        1,
        "Ticks in which data waited for credits; the length of a tick depends on the adapter.",
    ),
    (
        "gpuwait_infiniband_transmit_discards_total",
        "counters/port_xmit_discards",
        1,
        "Packets to be sent that were dropped, since the port was down or congested.",
    ),
    (
        "gpuwait_infiniband_receive_errors_total",
        "counters/port_rcv_errors",
        1,
        "Packets received with an error.",
    ),
    ("gpuwait_infiniband_symbol_errors_total", "counters/symbol_error", 1, "Errors on a lane of the link."),
    ("gpuwait_infiniband_link_downed_total", "counters/link_downed", 1, "Times that the link went down."),
    (
        "gpuwait_infiniband_link_error_recoveries_total",
        "counters/link_error_recovery",
        1,
        "Times that the link recovered from an error.",
    ),
    (
        "gpuwait_infiniband_local_link_integrity_errors_total",
        "counters/local_link_integrity_errors",
        1,
        "Times that link errors went beyond the limit.",
    ),
    (
        "gpuwait_infiniband_excessive_buffer_overrun_errors_total",
        "counters/excessive_buffer_overrun_errors",
        1,
        "Times that the port ran out of receive buffers several times in a row.",
    ),
    (
        "gpuwait_infiniband_out_of_sequence_total",
        "hw_counters/out_of_sequence",
        1,
        "Packets received out of order: some were lost on the way.",
    ),
    (
        "gpuwait_infiniband_packet_sequence_errors_total",
        "hw_counters/packet_seq_err",
        1,
        "Answers that packets sent were missing, so they are sent again.",
    ),
    (
        "gpuwait_infiniband_ack_timeouts_total",
        "hw_counters/local_ack_timeout_err",
        1,
        "Packets sent again since no answer came in time.",
    ),
    (
        "gpuwait_infiniband_receiver_not_ready_total",
        "hw_counters/rnr_nak_retry_err",
        1,
        "Answers that the receiver had no buffer.",
    ),
    (
        "gpuwait_infiniband_out_of_buffer_total",
        "hw_counters/out_of_buffer",
        1,
        "Packets dropped since the application had given no buffer.",
    ),
    (
        "gpuwait_infiniband_ecn_marked_packets_total",
        "hw_counters/np_ecn_marked_roce_packets",
        1,
        "Packets received that a switch had marked as congested.",
    ),
    (
        "gpuwait_infiniband_congestion_notifications_sent_total",
        "hw_counters/np_cnp_sent",
        1,
        "Requests sent to a peer to slow down.",
    ),
    (
        "gpuwait_infiniband_congestion_notifications_handled_total",
        "hw_counters/rp_cnp_handled",
        1,
        "Requests from a peer to slow down.",
    ),
)
_COUNTERS = tuple(
    (Family(name, "counter", text, f"{_SOURCE}/{file}", _PORT), file, factor)
    for name, file, factor, text in _TABLE
)

#: Value of `state`.
_ACTIVE = 4
_LINK_LAYER_LIMIT = 32
#: Set by a person's hand, and up to hundreds of files.
_REREAD_SECONDS = 60
#: An adapter has an interface for each port; in switch mode also one for each virtual function.
_MOST_NETDEVS = 8
#: Value of `type` of an interface: not the one of IP over InfiniBand, on an adapter with both.
_ETHERNET = "1"


@dataclass(slots=True)
class _Interfaces:
    """MTU by device and interface."""

    read_at: float | None = None
    mtu: dict[tuple[str, str], int] = field(default_factory=dict)


def _read(host: Host, path: str) -> str:
    """Text of a file of a port, empty where it cannot be read."""
    # A driver may refuse one counter (EINVAL, EIO, EACCES, EOPNOTSUPP) and give all others:
    # node_exporter#2023, where one such file cost all metrics.
    try:
        return host.sys(path)
    except OSError:
        return ""


def _read_port(host: Host, device: str, port: str) -> Iterator[Sample]:
    labels = (label(device), label(port))
    path = f"{_DIRECTORY}/{device}/ports/{port}"
    state = parse_state(_read(host, f"{path}/state"))
    if state is not None:
        yield UP, labels, int(state == _ACTIVE)
    rate = parse_rate(_read(host, f"{path}/rate"))
    if rate is not None:
        yield RATE, labels, rate
    link_layer = _read(host, f"{path}/link_layer").strip()
    if link_layer:
        yield INFO, (*labels, label(link_layer, _LINK_LAYER_LIMIT)), 1
    for family, file, factor in _COUNTERS:
        value = parse_counter(_read(host, f"{path}/{file}"))
        if value is not None:
            yield family, labels, value * factor


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.list_sys(path)
    except OSError:
        return []


def _mtu(host: Host, devices: list[str]) -> dict[tuple[str, str], int]:
    """MTU of the interfaces of those devices that have a port of RoCE."""
    found = {}
    for device in devices:
        path = f"{_DIRECTORY}/{device}"
        layers = [_read(host, f"{path}/ports/{p}/link_layer").strip() for p in _names(host, f"{path}/ports")]
        if "Ethernet" not in layers:
            continue
        for netdev in _names(host, f"{path}/device/net")[:_MOST_NETDEVS]:
            mtu = parse_counter(_read(host, f"{path}/device/net/{netdev}/mtu"))
            kind = _read(host, f"{path}/device/net/{netdev}/type").strip()
            if mtu is not None and kind in {"", _ETHERNET}:
                found[label(device), label(netdev)] = mtu
    return found


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield what each port reports. Raises NoData, OSError."""
    host, faults = sources.host, Faults()
    devices = None
    with faults.at(f"{host.sysfs}/{_DIRECTORY}"):
        devices = host.list_sys(_DIRECTORY)
    for device in devices or ():
        with faults.at(path := f"{host.sysfs}/{_DIRECTORY}/{device}/ports"):
            for port in names(path):
                yield from _read_port(host, device, port)
    interfaces = sources.kept(_Interfaces)
    now = sources.clock()
    if interfaces.read_at is None or now - interfaces.read_at >= _REREAD_SECONDS:
        interfaces.read_at, interfaces.mtu = now, _mtu(host, devices or [])
    for labels, mtu in interfaces.mtu.items():
        yield NETDEV_MTU, labels, mtu
    faults.finish()
    if not devices:
        raise NoData(Reason.ABSENT, "no InfiniBand or RoCE adapter")


COLLECTOR = Collector(
    name="infiniband",
    help="Traffic, errors and retransmissions of InfiniBand and RoCE ports.",
    families=(UP, RATE, INFO, NETDEV_MTU, *(family for family, _, _ in _COUNTERS)),
    collect=collect,
)
