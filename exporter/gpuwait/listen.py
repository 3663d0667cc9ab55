"""Listening addresses as the exporters of the Prometheus world write them: `:9410`, `[::1]:9410`."""

from __future__ import annotations

import os
import socket


def parse_address(text: str) -> tuple[str, int]:
    """Host ("" for all) and port of `HOST:PORT`, `[IPV6]:PORT` or `:PORT`; raises ValueError."""
    host, colon, port = text.rpartition(":")
    wrong = ValueError(f"{text!r} is not HOST:PORT, [IPV6]:PORT or :PORT")
    if not colon or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise wrong
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise wrong
    return host, int(port)


def format_address(name: tuple[str, int]) -> str:
    """`HOST:PORT` or `[IPV6]:PORT` of a socket's own name."""
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def open_sockets(addresses: list[str]) -> list[socket.socket]:
    """Bound sockets for these addresses. Raises OSError whose text names the address."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            host, port = parse_address(address)
            sockets += [_all(port)] if not host else _named(host, port)
    except OSError as error:
        for opened in sockets:
            opened.close()
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise OSError(error.errno, f"cannot listen on {address}: {reason}") from error
    return sockets


def _all(port: int) -> socket.socket:
    if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _named(host: str, port: int) -> list[socket.socket]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    targets = {(family, address[:2]) for family, _, _, _, address in found}
    return [socket.create_server((str(h), int(p)), family=family) for family, (h, p) in sorted(targets)]
