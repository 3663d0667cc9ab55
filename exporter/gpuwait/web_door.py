"""The door in front of the web server: what `--web.config.file` asks for, read again when its files change.

A thread of its own looks at the files every second, so a file system that
hangs holds up no request. A change counts once it looks the same twice: a file
half written is none. What cannot be used, and what would take away TLS,
client certificates or users, is not taken while the program runs: the last
good configuration stays in force and one line of the log says so.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwait import web_auth
from gpuwait.strict_yaml import FileError
from gpuwait.web_config import WebConfig, parse
from gpuwait.web_files import Files
from gpuwait.web_names import CLIENT_AUTH

if TYPE_CHECKING:
    from gpuwait.web_gate import Gate, Terms

log = logging.getLogger(__name__)

#: Seconds between two looks at the files.
EVERY = 1.0


@dataclass(frozen=True, slots=True)
class InForce:
    """A configuration that has proved usable. `seen`: digest of all its files."""

    config: WebConfig
    terms: Terms | None
    seen: bytes


class Door:
    """Holds the configuration in force. Raises FileError where the files cannot be used at the start."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._files = name, Files(clock)
        self._parsed: tuple[bytes, WebConfig | FileError] = (b"", WebConfig())
        self._now = self._take(*self._files.in_time(self._look))
        self._last = self._refused = self._now.seen
        self._complaint, self._told_that_it_hangs = "", False
        self._stop = threading.Event()
        for line in remarks(self.config):
            log.warning("%s: %s", name, line)

    @property
    def config(self) -> WebConfig:
        """The configuration in force."""
        return self._now.config

    @property
    def good(self) -> bool:
        """Whether the files can be read and what they say is in force, or will be in a moment."""
        return not self._complaint and not self._files.hung

    def gate(self) -> Gate | None:
        """The gate of TLS connections, None where they are plain."""
        if self._now.terms is None:
            return None
        from gpuwait.web_gate import Gate  # noqa: PLC0415 - only those pay who use TLS

        return Gate(self._terms)

    def _terms(self) -> Terms:
        assert self._now.terms is not None
        return self._now.terms

    def start(self) -> None:
        """Look at the files from now on."""
        threading.Thread(target=self._watch, name="web-config", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def mind(self) -> None:
        """Say once that a file hangs; for a thread that looks at none."""
        hung = self._files.hung
        if hung and not self._told_that_it_hangs:
            log.error("--web.config.file: %s; the last good configuration stays in force", hung)
        self._told_that_it_hangs = bool(hung)

    def _watch(self) -> None:
        while not self._stop.wait(EVERY):
            self.look_again()

    def look_again(self) -> None:
        """One look at the files; takes what changed before and has not changed since."""
        try:
            config, files = self._look()
            seen = _digest(files)
            steady, self._last = seen == self._last, seen
            if seen == self._now.seen:
                self._refused, self._complaint = seen, ""
            elif steady and seen != self._refused:
                self._refused = seen  # until it proves usable
                self._renew(config, files)
        except FileError as error:
            self._complain(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the door stays as it is
            self._complain(f"{self.name}: {type(error).__name__}: {error}")

    def _renew(self, config: WebConfig, files: Mapping[str, bytes]) -> None:
        why = weaker(self.config, config)
        if why:
            raise FileError(f"{self.name}: {why} takes a restart")
        self._now = self._take(config, files)
        self._complaint = ""
        log.info("%s: the new configuration is in force", self.name)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            log.error("--web.config.file: %s; the last good configuration stays in force", text)

    def _look(self) -> tuple[WebConfig, dict[str, bytes]]:
        """The configuration as the file has it now, and the content of all files. Raises FileError."""
        content = self._files.read(self.name, self.name)
        if self._parsed[0] != content:
            try:
                self._parsed = content, parse(_decode(content, self.name), self.name)
            except FileError as error:
                self._parsed = content, error
        config, files = self._parsed[1], {self.name: content}
        if isinstance(config, FileError):
            raise config
        if config.tls is not None:
            for pem in (config.tls.cert, config.tls.key, config.tls.client_ca):
                if pem is not None and pem.path:
                    where = f"{self.name}: tls_server_config.{pem.key}: {pem.path}"
                    files[pem.path] = self._files.read(pem.path, where)
        return config, files

    def _take(self, config: WebConfig, files: Mapping[str, bytes]) -> InForce:
        """The configuration, proved usable. Raises FileError."""
        web_auth.try_hashes(config.users, f"{self.name}: basic_auth_users")
        return InForce(config, _terms(config, files, self.name), _digest(files))


def _terms(config: WebConfig, files: Mapping[str, bytes], name: str) -> Terms | None:
    tls = config.tls
    if tls is None:
        return None
    from gpuwait import web_gate, web_tls  # noqa: PLC0415 - only those pay who use TLS

    authorities = files[tls.client_ca.path] if tls.client_ca is not None and tls.client_ca.path else b""
    clients = (tls.clients, tls.client_ca, authorities, tls.allowed_sans)
    try:
        return web_gate.Terms(lambda: web_tls.build(tls, name, files), tls.allowed_sans, clients)
    except OSError as error:
        raise FileError(f"{name}: tls_server_config: {error.strerror or error}") from error


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{name}: is not UTF-8") from error


def _digest(files: Mapping[str, bytes]) -> bytes:
    """What tells two states of the files apart."""
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
        found.update(hashlib.sha256(content).digest())
    return found.digest()


def weaker(old: WebConfig, new: WebConfig) -> str:
    """What the new configuration takes away of the door, "" for nothing.

    A file emptied by mistake looks the same as one that means it, so a program that runs does not follow.
    """
    if (old.tls is None) != (new.tls is None):
        return "turning TLS on or off"
    if old.users and not new.users:
        return "letting in who has no password"
    if old.tls is None or new.tls is None:
        return ""
    if CLIENT_AUTH.index(new.tls.clients) < CLIENT_AUTH.index(old.tls.clients):
        return "asking less of client certificates"
    if old.tls.allowed_sans and not new.tls.allowed_sans:
        return "letting in client certificates of any name"
    return "" if new.tls.min_version >= old.tls.min_version else "a lower min_version"


def remarks(config: WebConfig) -> list[str]:
    """What is worth a word at the start."""
    if config.tls is None and config.users:
        return ["passwords travel unencrypted: there is no tls_server_config"]
    asked = config.tls is not None and config.tls.clients == "RequireAndVerifyClientCert"
    if not config.users and not asked:
        return ["whoever reaches the port may read: there are no basic_auth_users and no client certificates"]
    return []
