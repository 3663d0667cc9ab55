"""The HTTP side: a WSGI application on waitress.

waitress reads a request whole in its event loop before a worker thread sees
it, so slow or silent clients cost a socket and no thread. What they may cost
is bounded below.
"""

from __future__ import annotations

import gzip
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from waitress import wasyncore
from waitress.server import create_server

from gpuwait.collector import Collector
from gpuwait.exposition import OPENMETRICS, TEXT, Exposition
from gpuwait.gather import Gatherer
from gpuwait.status_page import CONTENT_SECURITY_POLICY
from gpuwait.web_channel import FULL, Channel, TlsChannel, TlsSocket, tidy

if TYPE_CHECKING:
    from gpuwait.web_door import Door
    from gpuwait.web_gate import Gate

log = logging.getLogger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], object]
Environ = dict[str, Any]
#: Status, content type and body of an answer, from the request.
Handler = Callable[[Environ], tuple[str, str, bytes]]

#: Seconds kept back from the scraper's time-out for rendering and the way back.
MARGIN = 0.5
#: Seconds a scrape may take where the scraper does not say.
LIMIT = 10.0
#: Below this many bytes compression saves nothing.
GZIP_FROM = 1024
#: Threads beyond `--web.max-requests`, so that health checks never queue behind scrapes.
SPARE_THREADS = 2
LIMITS = {
    "connection_limit": 400,
    "channel_timeout": 90,  # seconds of silence on a connection: longer than a usual scrape interval
    "cleanup_interval": 5,
    "max_request_header_size": 16 * 1024,
    "max_request_body_size": 4096,  # no path takes a body
    "backlog": 1024,  # a full one costs the next scraper a second: its first packet is dropped
    "outbuf_high_watermark": FULL,
    "outbuf_overflow": 64 * 1024 * 1024,  # never to a file: the root file system may be read-only
    "log_socket_errors": False,  # a client can cause them at will
}
#: What a browser may do with an answer: show the page and nothing else, in no frame of another page.
SECURITY = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "deny"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
PAGE_POLICY = f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'"
NO_PAGE_POLICY = "default-src 'none'; frame-ancestors 'none'"
#: Seconds that requests in hand have to finish after SIGTERM.
GRACE = 1.5


class BadRequestError(Exception):
    """A request that cannot be answered; the message is the body of the 400."""


class Application:
    """The WSGI application. `ready` turns true with the first complete gathering.

    pages:   further paths and what answers them.
    trouble: what makes the program unhealthy, "" where nothing does.
    web_config: as for `Exposition`.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        all_names: Iterable[str],
        *,
        path: str = "/metrics",
        max_requests: int = 16,
        pages: Mapping[str, Handler] | None = None,
        trouble: Callable[[], str] = str,
        web_config: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self._gatherer, self._exposition = gatherer, Exposition(web_config)
        self._enabled = {c.name: c for c in gatherer.collectors}
        self._all_names = set(all_names)
        self._path, self._trouble = path, trouble
        self._slots = threading.BoundedSemaphore(max_requests)
        self.ready = threading.Event()
        self._routes = {
            path: self._metrics,
            "/-/healthy": self._health,
            "/-/ready": self._readiness,
            **(pages or {}),
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Answer one request."""
        extra: list[tuple[str, str]] = []
        route = self._routes.get(environ["PATH_INFO"])
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            status, kind, body = _plain("405 Method Not Allowed", "only GET and HEAD")
            extra.append(("Allow", "GET, HEAD"))
        elif route is None:
            status, kind, body = _plain("404 Not Found", f"see {self._path} and /")
        else:
            try:
                status, kind, body = route(environ)
            except BadRequestError as error:
                status, kind, body = _plain("400 Bad Request", str(error))
        if len(body) >= GZIP_FROM and "gzip" in _accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            body = gzip.compress(body, 1, mtime=0)
            extra.append(("Content-Encoding", "gzip"))
        extra += [
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Vary", "Accept, Accept-Encoding"),
            ("Cache-Control", "no-store"),
            *SECURITY,
            ("Content-Security-Policy", PAGE_POLICY if kind.startswith("text/html") else NO_PAGE_POLICY),
        ]
        start_response(status, extra)
        return [b""] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _metrics(self, environ: Environ) -> tuple[str, str, bytes]:
        chosen = self._choose(environ.get("QUERY_STRING", ""))
        limit = scrape_limit(environ.get("HTTP_X_PROMETHEUS_SCRAPE_TIMEOUT_SECONDS"))
        if not self._slots.acquire(blocking=False):
            return _plain("503 Service Unavailable", "too many scrapes at once: see --web.max-requests")
        try:
            outcomes = self._gatherer.gather(chosen, limit)
            if wants_openmetrics(environ.get("HTTP_ACCEPT", "")):
                return "200 OK", OPENMETRICS, self._exposition.openmetrics(outcomes, self._gatherer.dropped)
            return "200 OK", TEXT, self._exposition.text(outcomes, self._gatherer.dropped)
        finally:
            self._slots.release()

    def _choose(self, query: str) -> list[Collector] | None:
        """Collectors that `collect[]` or `exclude[]` leave; raises BadRequestError."""
        if not query:
            return None
        try:
            fields = parse_qs(query, keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise BadRequestError("the query string cannot be read") from error
        collect, exclude = fields.get("collect[]"), fields.get("exclude[]")
        if collect and exclude:
            raise BadRequestError("collect[] and exclude[] exclude each other: give one of them")
        for name in [*(collect or ()), *(exclude or ())]:
            if name not in self._all_names:
                raise BadRequestError(
                    f"no collector {name!r}; there are {', '.join(sorted(self._all_names))}"
                )
            if name not in self._enabled:
                raise BadRequestError(f"the collector {name!r} is not enabled")
        if collect:
            return [c for c in self._gatherer.collectors if c.name in collect]
        if exclude:
            return [c for c in self._gatherer.collectors if c.name not in exclude]
        return None

    def _health(self, _: Environ) -> tuple[str, str, bytes]:
        trouble = self._trouble()
        return (
            _plain("503 Service Unavailable", trouble) if trouble else _plain("200 OK", "gpuwait is healthy")
        )

    def _readiness(self, _: Environ) -> tuple[str, str, bytes]:
        if self.ready.is_set():
            return _plain("200 OK", "gpuwait is ready")
        return _plain("503 Service Unavailable", "starting: the first readings are not in yet")


def _plain(status: str, text: str) -> tuple[str, str, bytes]:
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()


def _accepted(header: str) -> dict[str, str]:
    """Media types or encodings of an Accept header that are not refused by q=0, with their parameters."""
    found = {}
    for entry in header.lower().split(","):
        name, _, parameters = entry.partition(";")
        if not any(p.strip() in ("q=0", "q=0.0", "q=0.00", "q=0.000") for p in parameters.split(";")):
            found[name.strip()] = parameters
    return found


def wants_openmetrics(accept: str) -> bool:
    """Tell whether a scraper takes OpenMetrics and not the text format, which is far cheaper to make."""
    types = _accepted(accept)
    return "application/openmetrics-text" in types and not types.keys() & {"text/plain", "text/*"}


def scrape_limit(header: str | None) -> float:
    """Seconds for one scrape, from X-Prometheus-Scrape-Timeout-Seconds."""
    try:
        asked = float(header) if header else LIMIT
    except ValueError:
        asked = LIMIT
    if not 0 < asked <= LIMIT:  # also a NaN; nobody waits longer for us than we do for a source
        asked = LIMIT
    return max(asked - MARGIN, asked / 2)


class Server:
    """Listening sockets and the loop that serves them until SIGTERM or SIGINT."""

    def __init__(
        self, app: Application, sockets: Sequence[socket.socket], max_requests: int, door: Door | None = None
    ) -> None:
        self._map: dict[int, Any] = {}
        self._door = door
        guarded, more = (app, 0) if door is None else _guarded(app, door)
        self._server = create_server(
            guarded,
            map=self._map,
            sockets=list(sockets),
            threads=max_requests + SPARE_THREADS + more,
            ident="gpuwait",
            expose_tracebacks=False,
            clear_untrusted_proxy_headers=True,
            asyncore_use_poll=True,
            **LIMITS,
        )
        self._stopping = False
        dispatchers = {id(d): d for d in self._map.values() if hasattr(d, "task_dispatcher")}
        self._listeners = list(dispatchers.values())
        gate = None if door is None else door.gate()
        for listener in self._listeners:
            listener.channel_class = Channel if gate is None else _with_tls(gate)

    def run(self) -> None:
        """Serve until a signal; then finish the requests in hand and return within two seconds."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        # A lost terminal or `systemctl reload` must not end the monitoring; there is nothing to reload.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        while not self._stopping:
            patient = not any(channel.in_hand for channel in self._channels())
            wasyncore.loop(timeout=5.0 if patient else 1.0, use_poll=True, map=self._map, count=1)
            tidy(self._channels(), time.monotonic())
            if self._door is not None:
                self._door.mind()
        self._drain(time.monotonic() + GRACE)

    def _channels(self) -> list[Channel]:
        return [channel for listener in self._listeners for channel in listener.active_channels.values()]

    def _stop(self, *_: object) -> None:
        self._stopping = True
        for listener in self._listeners:
            listener.pull_trigger()  # wakes the loop

    def _drain(self, end: float) -> None:
        for listener in self._listeners:
            listener.del_channel()
            listener.socket.close()
        while time.monotonic() < end and any(c.in_hand for c in self._channels()):
            wasyncore.loop(timeout=0.05, use_poll=True, map=self._map, count=1)


def _guarded(app: Application, door: Door) -> tuple[Callable[..., list[bytes]], int]:
    """The application behind the door, and the threads that it needs for the checks of passwords."""
    from gpuwait.web_guard import THREADS, Guard  # noqa: PLC0415 - only those pay who have a door

    return Guard(app, lambda: door.config), THREADS


def _with_tls(gate: Gate) -> Callable[..., TlsChannel]:
    def channel(server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> TlsChannel:  # noqa: A002
        return TlsChannel(server, TlsSocket(sock, gate, str(addr[0])), addr, adj, map=map)

    return channel
