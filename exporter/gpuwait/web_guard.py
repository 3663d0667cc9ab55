"""Stands before every path of the web server: limit of requests, names and passwords, headers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from gpuwait.logs import Seldom
from gpuwait.web_auth import Answer, Passwords
from gpuwait.web_config import WebConfig
from gpuwait.web_queue import MOST

log = logging.getLogger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], object]
Environ = dict[str, Any]
App = Callable[[Environ, StartResponse], list[bytes]]

#: Worker threads for those who wait for the check of a password.
THREADS = MOST


class Guard:
    """A WSGI application around another one.

    config: the configuration in force at that moment.
    """

    def __init__(self, app: App, config: Callable[[], WebConfig], passwords: Passwords | None = None) -> None:
        self._app, self._config = app, config
        self._passwords, self._bucket = passwords or Passwords(), Bucket()
        self._seldom = Seldom(log)

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Answer, or pass the request on."""
        config = self._config()

        def start(status: str, headers: list[tuple[str, str]]) -> object:
            own = {name.lower() for name in config.headers}
            kept = [(name, value) for name, value in headers if name.lower() not in own]
            return start_response(status, [*kept, *config.headers.items()])

        if not self._bucket.take(config.interval, config.burst):
            return _refuse(start, "429 Too Many Requests", "rate_limit", ("Retry-After", "1"))
        if config.users:
            address = environ.get("REMOTE_ADDR", "")
            answer = self._passwords.ask(config.users, environ.get("HTTP_AUTHORIZATION"), address)
            if answer is Answer.BUSY:
                why = "too many passwords wait for their check"
                return _refuse(start, "429 Too Many Requests", why, ("Retry-After", "1"))
            if answer is Answer.WRONG:
                if "HTTP_AUTHORIZATION" in environ:
                    self._seldom.warning("wrong name or password from %s", address)
                challenge = ("WWW-Authenticate", 'Basic realm="gpuwait", charset="UTF-8"')
                return _refuse(start, "401 Unauthorized", "name and password, please", challenge)
        return self._app(environ, start)


def _refuse(start: StartResponse, status: str, why: str, header: tuple[str, str]) -> list[bytes]:
    body = f"{why}\n".encode()
    start(
        status,
        [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            header,
        ],
    )
    return [body]


class Bucket:
    """Tokens that come back at a steady rate; each request takes one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._terms: tuple[float, int] = (0.0, 1)
        self._tokens, self._at = 0.0, 0.0

    def take(self, interval: float, burst: int) -> bool:
        """Tell whether a request may pass. `interval`: seconds for a token, 0 for no limit."""
        if not interval:
            return True
        with self._lock:
            now = self._clock()
            if self._terms != (interval, burst):
                self._terms, self._tokens, self._at = (interval, burst), float(burst), now
            self._tokens = min(self._tokens + (now - self._at) / interval, float(burst))
            self._at = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True
