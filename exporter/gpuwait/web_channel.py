"""Connections: how long a client may take, how much it may leave unread, and TLS.

waitress bounds the silence of a client, not its slowness: a byte now and then
keeps a connection for ever, and one that does not read its answer is never
closed. `tidy` closes both, and makes room where too many are open.

TLS is spoken in waitress's own loop, on sockets that never block. Its worker
threads write to connections too, so each connection has a lock: OpenSSL must
not be in one connection twice.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError

if TYPE_CHECKING:
    import ssl

    from gpuwait.web_gate import Gate, Terms

#: Seconds for a TLS handshake, from the connection on.
HANDSHAKE_TIME = 10.0
#: Seconds for a request, from its first byte to its last.
REQUEST_TIME = 20.0
#: Seconds for a client to take its answer.
ANSWER_TIME = 60.0
#: Connections beyond which the one that has been silent longest is closed for each new one.
CROWDED = 300
#: Bytes that wait to be read by clients, beyond which those that wait longest are given up.
UNREAD = 16 * 1024 * 1024
#: Unread bytes of one client at which the worker that answers it waits, and seconds for which it does.
FULL = 4 * 1024 * 1024
FULL_TIME = 5.0
#: Seconds for which a client is not called slow.
PATIENCE = 1.0
#: Requests that a client may send before it has the answer to the first: their answers add up.
PIPELINED = 32
#: A record of TLS has 16 KiB at most, and what is left of one in OpenSSL wakes no poll.
RECORD = 32 * 1024


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """Refuses what two servers in a row could read in two ways."""

    path = ""  # waitress asks for it when a client is gone before it is told that its request was a bad one

    def parse_header(self, header_plus: bytes) -> None:
        """As waitress; a request with two lengths, or a length beyond all measure, is a bad one."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # a number with thousands of digits
            raise ParsingError("the request cannot be read") from error
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when it waits for its client."""

    parser_class = Parser

    def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self.opened = time.monotonic()
        self._asking_since: float | None = None
        self._telling_since: float | None = None
        super().__init__(server, sock, addr, adj, map=map)

    def received(self, data: bytes) -> bool:
        """Take what the client sent."""
        taken: bool = super().received(data)
        if len(self.requests) > PIPELINED:
            self.handle_close()
            return False
        if self.request is None:
            self._asking_since = None
        elif self._asking_since is None:
            self._asking_since = time.monotonic()
        return taken

    @property
    def running(self) -> bool:
        """Whether a request waits for its answer to be made, or is being answered."""
        return bool(self.requests)

    @property
    def in_hand(self) -> bool:
        """Whether a request is not answered to its last byte."""
        return self.running or bool(self.total_outbufs_len)

    def unread_for(self, now: float) -> float:
        """Seconds since a part of an answer waits to be read; 0 where none does."""
        if not self.total_outbufs_len:
            self._telling_since = None
            return 0.0
        if self._telling_since is None:
            self._telling_since = now
        return now - self._telling_since

    def overdue(self, now: float) -> bool:
        """Tell whether the client has had its time, for its request or for reading the answer."""
        asking = self._asking_since is not None and now - self._asking_since > REQUEST_TIME
        full = self.running and self.total_outbufs_len > FULL
        return asking or self.unread_for(now) > (FULL_TIME if full else ANSWER_TIME)

    def outdated(self) -> bool:
        """Tell whether the connection was let in under rules that are no longer in force."""
        return False


class TlsChannel(Channel):
    """A connection with TLS."""

    def __init__(self, server: Any, sock: TlsSocket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        super().__init__(server, sock, addr, adj, map=map)

    def writable(self) -> bool:
        """Whether there is something to send, TLS's own bytes among it."""
        return self.socket.wants_write or bool(super().writable())

    def handle_write(self) -> None:
        """Send what waits."""
        if self.socket.wants_write:
            self.handle_read()
        else:
            super().handle_write()

    def handle_read(self) -> None:
        """Go on with the handshake, or take what the client sent."""
        data = self.socket.advance()
        if data is None:
            return
        if not data or self.outdated():
            self.handle_close()
            return
        self.last_activity = time.time()  # noqa: TID251 - waitress compares with that clock
        self.received(data)

    def overdue(self, now: float) -> bool:
        """As without TLS; the handshake has its own time."""
        return (not self.socket.secure and now - self.opened > HANDSHAKE_TIME) or super().overdue(now)

    def outdated(self) -> bool:
        """Whether other certificates may come in now than when this client did."""
        return bool(self.socket.outdated())


class TlsSocket:
    """What waitress needs of a socket. TLS begins with the first byte, so a silent client costs no memory."""

    def __init__(self, sock: socket.socket, gate: Gate, address: str) -> None:
        self._plain, self._gate, self._address = sock, gate, address
        self._lock = threading.Lock()
        self._tls: ssl.SSLSocket | None = None
        self._terms: Terms | None = None
        self.secure = self.wants_write = False
        self.fileno, self.getsockopt, self.setblocking = sock.fileno, sock.getsockopt, sock.setblocking

    def advance(self) -> bytes | None:
        """What the client sent, None for nothing yet, empty where the connection is at its end."""
        with self._lock:
            self.wants_write = False
            try:
                return self._step()
            except (BlockingIOError, *self._gate.want_read):
                return None
            except self._gate.want_write:
                self.wants_write = True
                return None
            except (OSError, ValueError) as error:  # ValueError: the client is gone before TLS began
                if not self.secure:
                    self._gate.refused(self._address, error)
                return b""

    def _step(self) -> bytes:
        if self._tls is None or self._terms is None:
            first = self._plain.recv(1, socket.MSG_PEEK)
            if first != b"\x16":
                if first:
                    self._gate.turn_away(self._plain)
                return b""
            self._tls, self._terms = self._gate.wrap(self._plain)
            self.fileno, self.getsockopt = self._tls.fileno, self._tls.getsockopt
        if not self.secure:
            self._tls.do_handshake()
            self.secure = self._gate.admits(self._tls, self._terms, self._address)
            if not self.secure:
                return b""
        return self._tls.recv(RECORD)

    def send(self, data: bytes) -> int:
        """Bytes taken; raises BlockingIOError, ConnectionResetError."""
        with self._lock:
            try:
                if self._tls is None:
                    raise ConnectionResetError(errno.ECONNRESET, "nothing is said before TLS")
                return self._tls.send(data)
            except (*self._gate.want_read, *self._gate.want_write) as error:
                raise BlockingIOError(errno.EWOULDBLOCK, "the connection is full") from error
            except OSError as error:
                raise ConnectionResetError(errno.ECONNRESET, "the connection broke") from error

    def outdated(self) -> bool:
        """Whether other certificates may come in now than when this client did."""
        return self._terms is not None and not self._gate.same_clients(self._terms)

    def close(self) -> None:
        """Say so to the client, and close."""
        with self._lock:
            if self._tls is None:
                self._plain.close()
                return
            if self.secure:
                with contextlib.suppress(OSError, ValueError):
                    self._tls.unwrap()
            self._tls.close()


def tidy(channels: Iterable[Channel], now: float) -> None:
    """Close connections whose time is over, and make room."""
    left = []
    for channel in list(channels):
        if channel.overdue(now) or (channel.outdated() and not channel.in_hand):
            channel.handle_close()
        else:
            left.append(channel)
    _give_up_unread(left, now)
    left = [channel for channel in left if channel.connected]
    if len(left) > CROWDED:
        # Silent ones first, so that idle clients lock nobody out; then those that do not read their answer.
        idle = sorted((c for c in left if not c.running), key=lambda c: (c.in_hand, c.last_activity))
        for channel in idle[: len(left) - CROWDED]:
            channel.handle_close()


def _give_up_unread(channels: list[Channel], now: float) -> None:
    unread = sum(channel.total_outbufs_len for channel in channels)
    if unread <= UNREAD:
        return
    for channel in sorted(channels, key=lambda c: c.unread_for(now), reverse=True):
        if unread <= UNREAD or channel.unread_for(now) < PATIENCE:
            return
        unread -= channel.total_outbufs_len
        channel.handle_close()
