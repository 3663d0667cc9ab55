"""Asks a running daemon for its verdict."""

from __future__ import annotations

import http.client
import re
from urllib.parse import urlsplit

from gpuwait.explain.model import Report
from gpuwait.explain.payload import from_json

#: Where the daemon listens unless told otherwise.
DEFAULT_URL = "http://127.0.0.1:9410/api/v1/verdict"
_PATH = "/api/v1/verdict"
#: What a daemon with TLS says to who asks without, see web_gate.
_HTTPS = b"this port speaks https, not http\n"
#: No report comes near this.
_MOST = 16 * 1024 * 1024
#: A name, or an address of either kind (with a zone); Unicode names are left to the resolver.
_HOST = re.compile(r"[\w.:%-]+")
_TARGET = re.compile(r"[!-~]+")
_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)(ms|s|))?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


class LockedError(Exception):
    """The daemon is there and does not answer; the text says why, or how to ask it."""


def ask(url: str = DEFAULT_URL, timeout: float = 2.0) -> Report | None:
    """The verdict of the daemon at this address; None where none answers with one.

    url: with or without the path. Raises ValueError for one that is none of http, LockedError where the
    daemon has a `--web.config.file`.
    """
    host, port, path = _address(url)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read(_MOST + 1)
        _say_if_locked(answer.status, body, f"{host}:{port}{path}".split("?", 1)[0])
        if answer.status != 200 or len(body) > _MOST:
            return None
        return from_json(body)
    except (OSError, http.client.HTTPException, ValueError):
        return None  # nobody there, or something else listens on that port: the caller samples itself
    finally:
        connection.close()


def _say_if_locked(status: int, body: bytes, where: str) -> None:
    if status == 401:
        raise LockedError(f"the daemon asks for a password: curl -u NAME 'http://{where}?format=text'")
    if status == 400 and body == _HTTPS:
        asked = "with -u NAME where it asks for a password"
        raise LockedError(f"the daemon speaks https: curl 'https://{where}?format=text', {asked}")
    if status == 429:
        why = body[:100].decode("ascii", "replace").strip()
        why = why if why.isprintable() else "no reason"
        raise LockedError(f"the daemon answers 429 Too Many Requests ({why}): ask again later")


def _address(url: str) -> tuple[str, int, str]:
    """Host, port and path. Raises ValueError in one line that names the option."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as error:
        raise _no_address(url, str(error).split("\n", 1)[0]) from error
    if parts.scheme != "http":
        raise _no_address(url, "it must begin with http://")
    if not _HOST.fullmatch(host):
        raise _no_address(url, "it has no host" if not host else f"{host!r} is no host")
    if port == 0:
        raise _no_address(url, "0 is no port")
    path = parts.path if parts.path not in ("", "/") else _PATH
    if parts.query:
        path += f"?{parts.query}"
    if not _TARGET.fullmatch(path):
        raise _no_address(url, "its path has characters that must be encoded")
    return host, port or 80, path


def _no_address(url: str, why: str) -> ValueError:
    return ValueError(f"--url: {url!r} is no address such as {DEFAULT_URL}: {why}")


def parse_duration(text: str) -> float:
    """Seconds in `10s`, `1m30s`, `500ms` or `10`; from 1 s to 1 h. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is no time such as 10s or 1m30s")
    hours, minutes, rest, unit = found.groups()
    seconds = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(rest or 0) * _UNITS[unit or ""]
    if not 1 <= seconds <= 3600:
        raise ValueError(f"{text!r} is not between 1s and 1h")
    return seconds
