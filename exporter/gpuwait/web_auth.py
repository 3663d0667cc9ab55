"""Names and passwords. A check costs 60 ms to 4 s of a core on purpose, so it must not be had for nothing.

One check runs at a time and rests after a failure, so that guessing takes a
fifth of a core at most; `web_queue` says who is next. Who was let in before is
known at once and never waits: scrapes go on while somebody guesses.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from gpuwait.strict_yaml import FileError
from gpuwait.web_queue import Queue

#: bcrypt looks at no more of a password; Go compares these and ignores the rest.
LENGTH = 72
#: After a check that failed none runs for so many times as long as that one took, or so many seconds.
REST = 4.0
LONGEST_REST = 1.0
#: Users that are remembered; each has one password.
REMEMBERED = 256

Check = Callable[[bytes, bytes], bool]


class Answer(enum.Enum):
    """What becomes of a request."""

    IN = "in"
    WRONG = "wrong"
    BUSY = "busy"


def bcrypt_check() -> Check:
    """The check of a password against a hash; raises ImportError where bcrypt is not installed."""
    import bcrypt  # noqa: PLC0415 - only those pay who have users

    return bcrypt.checkpw


def try_hashes(users: Mapping[bytes, bytes], where: str) -> None:
    """Raise FileError for a hash that bcrypt cannot use, or where it is not installed. Takes 1 ms a user."""
    if not users:
        return
    try:
        check = bcrypt_check()
    except ImportError as error:
        raise FileError(f"{where}: needs the Python package bcrypt: pip install bcrypt") from error
    for user, value in users.items():
        try:
            check(b"", value[:4] + b"04" + value[6:])  # the same salt at the lowest cost
        except ValueError as error:
            raise FileError(f"{where}.{user.decode()}: bcrypt cannot use this hash: {error}") from error


def credentials(header: str | None) -> tuple[bytes, bytes] | None:
    """Name and password of an Authorization header as WSGI gives it, None for none of Basic."""
    scheme, _, rest = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(rest.strip().encode("latin-1"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    name, colon, password = text.partition(b":")
    return (name, password) if colon else None


class Passwords:
    """Checks credentials; may be asked from many threads at once."""

    def __init__(self, check: Check | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._check, self._clock = check, clock
        self._secret = os.urandom(32)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._queue = Queue(clock)

    @property
    def waiting(self) -> int:
        """Requests that wait for a check or are being checked."""
        return self._queue.waiting

    def ask(self, users: Mapping[bytes, bytes], header: str | None, address: str) -> Answer:
        """Tell whether these credentials are those of one of the users. May take seconds.

        users:   bcrypt hash by name; not empty.
        address: the client's, which has a bound of its own.
        """
        given = credentials(header)
        if given is None:
            return Answer.WRONG
        name, password = given[0], given[1][:LENGTH]
        # An unknown name is checked against the hash of one that exists, so time tells nothing about names.
        known = name in users
        against = users[name] if known else self._another(users, name)
        key = self._digest(name, against, password)
        if known and self._remembers(key):
            return Answer.IN
        if not self._queue.come(address):
            return Answer.BUSY
        right = False
        try:
            # Of several at once with the same password the first is checked.
            right = known and self._remembers(key)
            right = right or self._checked(key, password, against, known=known)
        finally:
            self._queue.go(address, right=right)
        return Answer.IN if right else Answer.WRONG

    def _checked(self, key: bytes, password: bytes, against: bytes, *, known: bool) -> bool:
        begin = self._clock()
        if not (self._matches(password, against) and known):
            # Within the turn, so that who comes meanwhile and has not failed is next.
            time.sleep(min((self._clock() - begin) * REST, LONGEST_REST))
            return False
        with self._lock:
            self._known[key] = None
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return True

    def _matches(self, password: bytes, against: bytes) -> bool:
        if self._check is None:
            self._check = bcrypt_check()
        try:
            return self._check(password, against)
        except ValueError:  # older versions of bcrypt refuse a zero byte
            return False

    def _remembers(self, key: bytes) -> bool:
        with self._lock:
            if key not in self._known:
                return False
            self._known.move_to_end(key)
            return True

    def _another(self, users: Mapping[bytes, bytes], name: bytes) -> bytes:
        hashes = sorted(users.values())
        return hashes[self._digest(name)[0] % len(hashes)]

    def _digest(self, *parts: bytes) -> bytes:
        """A keyed digest: a memory dump holds no password, and an attacker cannot aim at the look-up."""
        joined = b"".join(hashlib.sha256(part).digest() for part in parts)
        return hmac.digest(self._secret, joined, "sha256")
