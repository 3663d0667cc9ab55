"""Asks the kubelet which pod was given which GPU: its `PodResources` service, gRPC over a Unix socket.

A gRPC call is one HTTP/2 request with a message of five bytes more (compressed or not, and length). `h2`
speaks HTTP/2 for 1 MiB of memory, where `grpcio` takes 15; it comes with the extra `kubelet`.

The kubelet answers from memory, but while it restarts or is overloaded it may accept and not answer: hence a
thread of its own, a deadline, and the last answer is kept.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwait.host import Host, is_absent
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.pod_resources import Grant, parse_pod_resources

if TYPE_CHECKING:
    from h2.connection import H2Connection
    from h2.events import Event

log = logging.getLogger(__name__)

#: The usual place, k0s's and MicroK8s'. A container must mount the directory: a restart makes a new socket.
SOCKETS = (
    "var/lib/kubelet/pod-resources/kubelet.sock",
    "var/lib/k0s/kubelet/pod-resources/kubelet.sock",
    "var/snap/microk8s/common/var/lib/kubelet/pod-resources/kubelet.sock",
)
#: Seconds between two calls, and that one may take.
EVERY = 12.0
DEADLINE = 2.0
#: Bytes of an answer: what gRPC takes by default. 250 pods of two containers, each with a GPU and pinned to
#: 128 CPUs, have 125 KB.
LONGEST = 4 * 1024 * 1024
_PIECE = 64 * 1024
_METHOD = "/v1.PodResourcesLister/List"
NO_LIBRARY = "the Python package h2 is not installed: pip install 'gpuwait[kubelet]'"


class NoAnswer(Exception):
    """The kubelet did not say; the message tells why."""


@dataclass(frozen=True, slots=True)
class Grants:
    """The last answer, and when it came (monotonic seconds)."""

    grants: tuple[Grant, ...]
    at: float


class Kubelet:
    """Keeps the last answer.

    path:   of the socket; without one it is looked for in the usual places.
    latest: None until the first answer. Replaced as a whole.
    reason: why the last call failed, empty where it did not or there is no kubelet.
    """

    def __init__(
        self, host: Host, path: str = "", *, every: float = EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        root = host.rootfs.rstrip("/")
        self._paths = (path,) if path else tuple(f"{root}/{place}" for place in SOCKETS)
        self._named = bool(path)
        self._every = every
        self._clock = clock
        self._ended, self._first = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self.latest: Grants | None = None
        self.reason = ""

    def start(self) -> None:
        """Start the thread; returns at once."""
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        """End it within a tenth of a second; a call under way ends by its deadline."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(0.1)

    def wait_first(self, timeout: float) -> None:
        """Wait until it was asked once."""
        self._first.wait(timeout)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._first.set()
            self._ended.wait(self._every)

    def look(self) -> None:
        """Ask once. Raises nothing."""
        reason = ""
        try:
            grants = self._ask()
            if grants is not None:
                self.latest = Grants(tuple(grants), self._clock())
        except (NoAnswer, ParseError) as error:
            reason = str(error)
        except Exception as error:  # whatever a peer sends, the next call may do better
            reason = f"{type(error).__name__}: {error}"[:200]
            log.debug("kubelet", exc_info=True)
        if reason != self.reason:
            if reason:
                log.warning("kubelet: %s", reason)
            else:
                log.info("kubelet: answers")
        self.reason = reason

    def _ask(self) -> list[Grant] | None:
        """GPUs by container, None where there is no kubelet. Raises NoAnswer, ParseError."""
        for path in self._paths:
            if not os.path.lexists(path):
                continue
            try:
                import h2.connection  # noqa: F401, PLC0415 - optional, and only where there is a kubelet
            except ImportError as error:
                raise NoAnswer(NO_LIBRARY) from error
            return parse_pod_resources(_call(path, self._clock() + DEADLINE, self._clock))
        if self._named or self.latest is not None:
            raise NoAnswer(f"{self._paths[0]}: no such socket")
        return None


def _call(path: str, end: float, clock: Callable[[], float]) -> bytes:
    """The message of the answer. Raises NoAnswer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as peer:
        peer.settimeout(DEADLINE)
        try:
            peer.connect(path)
            return _Exchange(peer, end, clock).answer()
        except TimeoutError as error:
            raise NoAnswer(f"{path}: no answer within {DEADLINE:g} s") from error
        except PermissionError as error:
            raise NoAnswer(f"{path}: {error.strerror}; it takes root or CAP_DAC_OVERRIDE") from error
        except (BrokenPipeError, ConnectionResetError) as error:
            raise NoAnswer(f"{path}: closed without an answer") from error
        except OSError as error:
            what = "no kubelet listens" if is_absent(error) else error.strerror or error
            raise NoAnswer(f"{path}: {what}") from error


class _Exchange:
    """One request on a connection of its own."""

    def __init__(self, peer: socket.socket, end: float, clock: Callable[[], float]) -> None:
        self._peer, self._end, self._clock = peer, end, clock
        self._body = bytearray()
        self._status = ""
        self._done = False

    def answer(self) -> bytes:
        """Send the request and read to the end. Raises NoAnswer, OSError."""
        import h2.config  # noqa: PLC0415 - see above
        import h2.connection  # noqa: PLC0415
        import h2.exceptions  # noqa: PLC0415

        connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        try:
            self._send(connection)
            while not self._done:
                self._peer.settimeout(max(self._end - self._clock(), 0.001))
                piece = self._peer.recv(_PIECE)
                if not piece:
                    raise ConnectionResetError
                if self._clock() > self._end:
                    raise TimeoutError
                self._take(connection, connection.receive_data(piece))
                self._peer.sendall(connection.data_to_send())
        except h2.exceptions.ProtocolError as error:
            raise NoAnswer(f"the socket does not speak gRPC: {error}"[:200]) from error
        return self._message()

    def _send(self, connection: H2Connection) -> None:
        connection.initiate_connection()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", _METHOD),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", f"{int(DEADLINE * 1000)}m"),
        ]
        connection.send_headers(1, headers)
        connection.send_data(1, bytes(5), end_stream=True)
        self._peer.sendall(connection.data_to_send())

    def _take(self, connection: H2Connection, events: Sequence[Event]) -> None:
        import h2.events as e  # noqa: PLC0415 - see above

        for event in events:
            if isinstance(event, e.ResponseReceived | e.TrailersReceived):
                for name, value in event.headers or ():
                    if name in {b"grpc-status", b"grpc-message"}:
                        self._status = f"{self._status} {value.decode('utf-8', 'replace')}".strip()[:200]
            elif isinstance(event, e.DataReceived):
                self._body += event.data or b""
                # Its length comes first; a peer that lies of it is cut off too.
                if max(len(self._body) - 5, int.from_bytes(self._body[1:5], "big")) > LONGEST:
                    raise NoAnswer(f"the kubelet's answer is longer than {LONGEST // 2**20} MiB")
                connection.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            elif isinstance(event, e.StreamEnded | e.StreamReset | e.ConnectionTerminated):
                self._done = True

    def _message(self) -> bytes:
        if self._status != "0":
            raise NoAnswer(f"the kubelet refused: gRPC status {self._status or 'missing'}")
        body = bytes(self._body)
        if len(body) < 5 or body[0] or int.from_bytes(body[1:5], "big") != len(body) - 5:
            raise NoAnswer("the kubelet's answer is no single plain message")
        return body[5:]
