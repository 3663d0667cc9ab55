"""The gate of TLS connections: which context they get, and who may come in.

Only a daemon with `tls_server_config` imports this.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from gpuwait.logs import Seldom
from gpuwait.web_tls import may_enter

log = logging.getLogger(__name__)

#: Handshakes of one context that may be under way at a time, see `Terms.context`.
AT_ONCE = 8
_BODY = b"this port speaks https, not http\n"
_PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class Terms:
    """What a connection is made with. For one thread at a time.

    make:    a new context; what it raises the first time is raised here.
    clients: whatever decides which client certificates may come in, to compare.
    """

    def __init__(
        self, make: Callable[[], ssl.SSLContext], allowed_sans: tuple[str, ...], clients: object
    ) -> None:
        self._make, self.allowed_sans, self.clients = make, allowed_sans, clients
        self._context = make()

    def context(self) -> ssl.SSLContext:
        """The context of the next connection; raises OSError, ValueError.

        OpenSSL keeps 20,480 sessions of TLS 1.2 in a context, with the certificates of the clients, to be
        resumed without showing one; Python has no switch for it. So a context that has one is not used
        again, nor while many handshakes of it are under way: they would all leave one. TLS 1.3 leaves none.
        """
        known = self._context.session_stats()
        if known["number"] or known["accept"] - known["accept_good"] >= AT_ONCE:
            self._context = self._make()
        return self._context


class Gate:
    """Makes plain connections into those of TLS, under the terms in force at that moment."""

    want_read = (ssl.SSLWantReadError,)
    want_write = (ssl.SSLWantWriteError,)

    def __init__(self, terms: Callable[[], Terms]) -> None:
        self._terms = terms
        self._seldom = Seldom(log)

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, Terms]:
        """The socket with TLS, before its handshake; raises OSError, ValueError."""
        terms = self._terms()
        return terms.context().wrap_socket(sock, server_side=True, do_handshake_on_connect=False), terms

    def admits(self, sock: ssl.SSLSocket, terms: Terms, address: str) -> bool:
        """Tell whether a client whose handshake succeeded has shown a name that may come in."""
        if terms.allowed_sans and not may_enter(sock.getpeercert(), terms.allowed_sans):
            self._seldom.warning("%s shows no certificate with one of client_allowed_sans", address)
            return False
        return True

    def same_clients(self, terms: Terms) -> bool:
        """Tell whether the same clients as under these terms may come in now."""
        return self._terms().clients == terms.clients

    def refused(self, address: str, error: Exception) -> None:
        """Note a handshake that failed; a client that just went away is none."""
        gone = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
        if isinstance(error, ssl.SSLError) and not isinstance(error, gone):
            why = getattr(error, "verify_message", "") or error.reason or "no reason"
            self._seldom.warning("TLS handshake of %s failed: %s", address, why)

    @staticmethod
    def turn_away(sock: socket.socket) -> None:
        """Answer a client that speaks plain HTTP."""
        with contextlib.suppress(OSError):
            sock.recv(16 * 1024)  # unread bytes would reset the connection before the answer is read
            sock.send(_PLAIN)
            sock.shutdown(socket.SHUT_WR)
