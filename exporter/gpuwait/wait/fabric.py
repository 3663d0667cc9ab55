"""Ports of InfiniBand and RoCE adapters, read every 5 s: some drivers ask the adapter for each counter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuwait.host import Host
from gpuwait.kernel.infiniband import parse_counter, parse_rate, parse_state
from gpuwait.wait.snapshot import FabricPort

EVERY = 5.0
MOST = 64
_DIRECTORY = "class/infiniband"
_ACTIVE = 4
_ERRORS = (
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
)
_RETRANSMISSIONS = (
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_sequence",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/roce_adp_retrans",
    "hw_counters/rnr_nak_retry_err",
)


@dataclass(slots=True, eq=False)
class _Port:
    """Two readings, and when the second was made."""

    before: FabricPort
    last: FabricPort


class Fabric:
    """Counters of a reading are given out over the time until the next one.

    Else a tick would see the errors of five seconds in one, and none in the other four.
    State and rate are those of the last reading.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ports: dict[str, _Port] = {}
        self._read: float | None = None

    def read(self, now: float) -> Mapping[str, FabricPort]:
        """Ports by device and port."""
        if self._read is None or now - self._read >= EVERY:
            self._read = now
            self._look()
        share = min(1.0, (now - self._read) / EVERY)
        return {name: _between(port.before, port.last, share) for name, port in self._ports.items()}

    def _look(self) -> None:
        found: dict[str, _Port] = {}
        for device in _listed(self._host, _DIRECTORY):
            node = _text(self._host, f"{_DIRECTORY}/{device}/device/numa_node").strip()
            for port in _listed(self._host, f"{_DIRECTORY}/{device}/ports"):
                name = f"{device}/{port}"
                now = self._port(f"{_DIRECTORY}/{device}/ports/{port}", node)
                if now is None or len(found) == MOST:
                    continue
                earlier = self._ports.get(name)
                before = now if earlier is None else earlier.last
                # A driver that was loaded again counts from 0.
                fell = now.errors < before.errors or now.retransmissions < before.retransmissions
                found[name] = _Port(now if fell else before, now)
        self._ports = found

    def _port(self, path: str, node: str) -> FabricPort | None:
        state = parse_state(_text(self._host, f"{path}/state"))
        if state is None:
            return None
        return FabricPort(
            state == _ACTIVE,
            parse_rate(_text(self._host, f"{path}/rate")),
            self._sum(path, _ERRORS),
            self._sum(path, _RETRANSMISSIONS),
            int(node) if node.isdecimal() and len(node) < 6 else None,
        )

    def _sum(self, path: str, files: tuple[str, ...]) -> int:
        values = (parse_counter(_text(self._host, f"{path}/{file}")) for file in files)
        return sum(value for value in values if value is not None)


def _between(before: FabricPort, last: FabricPort, share: float) -> FabricPort:
    return replace(
        last,
        errors=before.errors + int((last.errors - before.errors) * share),
        retransmissions=before.retransmissions + int((last.retransmissions - before.retransmissions) * share),
    )


def _listed(host: Host, path: str) -> list[str]:
    try:
        return host.list_sys(path)
    except OSError:
        return []


def _text(host: Host, path: str) -> str:
    # A driver may refuse one counter (EINVAL, EIO, EACCES) and give all others.
    try:
        return host.sys(path)
    except OSError:
        return ""
