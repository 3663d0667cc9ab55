"""Delays of processes by taskstats: the seconds that each lost to memory, swap and disk.

Needs CAP_NET_ADMIN in the initial user namespace and the host's process ids. All classes but cpu stay
0 for threads that were created before delay accounting was switched on, so `Coverage` tells who counts.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpuwait.host import Host, is_absent, write_setting
from gpuwait.kernel import taskstats
from gpuwait.kernel.errors import ParseError
from gpuwait.wait.snapshot import Delay

log = logging.getLogger(__name__)

_NETLINK_GENERIC = 16
_CLASSES = tuple(Delay(name) for name in taskstats.CLASSES)
_NANO = 1_000_000_000
#: Requests in the air: their answers fill a quarter of the usual receive buffer (212,992 bytes).
_BATCH = 64
#: Seconds for which the answers of a batch are waited for. The kernel answers while it takes the
#: request, so what is not there after this is lost.
_DEADLINE = 0.02
#: Seconds until an unavailable kernel is asked again.
_RETRY = 60.0
#: Largest answer known is 560 bytes and headers.
_LONGEST = 4096
SWITCH = "sys/kernel/task_delayacct"

Delays = Mapping[Delay, float]


def enable(host: Host) -> None:
    """Switch delay accounting on, for processes that start from now on. Logs what came of it."""
    try:
        write_setting(f"{host.procfs}/{SWITCH}", "1")
    except OSError as error:
        log.warning("delay accounting cannot be switched on: %s", error)
    else:
        log.info("delay accounting is on (kernel.task_delayacct=1) for processes that start from now on")


class DelayClient:
    """Asks for thread groups. Never waits longer than a few hundredths of a second.

    reason: why there are none, empty where there are.
    lost:   answers that did not come.
    """

    def __init__(
        self, host: Host, clock: Callable[[], float], connect: Callable[[], socket.socket] | None = None
    ) -> None:
        self._host = host
        self._clock = clock
        self._connect = connect or _connect
        self._socket: socket.socket | None = None
        self._family = 0
        self._sequence = 0
        self._again: float | None = None
        self.reason = "not asked yet"
        self.lost = 0

    @property
    def available(self) -> bool:
        """Whether the last question was answered."""
        return not self.reason

    def read(self, pids: Sequence[int]) -> dict[int, Delays]:
        """Seconds by class of each process that is there; empty where delays are not available."""
        found: dict[int, Delays] = {}
        if not self._ready():
            return found
        try:
            for start in range(0, len(pids), _BATCH):
                if not self._batch(pids[start : start + _BATCH], found):
                    break  # one deadline a tick is enough
        except OSError as error:
            if error.errno in {errno.EPERM, errno.EACCES}:
                self._give_up("needs CAP_NET_ADMIN in the initial user namespace")
            else:
                self._give_up(f"taskstats: {error.strerror or error}")
        except taskstats.UnsupportedVersion as error:
            self._give_up(str(error))
        return found

    def close(self) -> None:
        """Close the socket; the next reading opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ready(self) -> bool:
        if self._socket is not None:
            return True
        if self._again is not None and self._clock() < self._again:
            return False
        if not self._same_pids():
            self._give_up("process ids of the host are not visible here (hostPID)")
            return False
        try:
            self._socket = self._connect()
            self._family = self._ask_family()
        except (OSError, ParseError) as error:
            missing = isinstance(error, OSError) and error.errno == errno.ENOENT
            self._give_up("this kernel has no taskstats" if missing else f"taskstats: {error}")
            return False
        self.reason = ""
        return True

    def _same_pids(self) -> bool:
        """The kernel resolves ids as this process sees them: procfs must be of the same namespace."""
        try:
            text = self._host.maybe_proc("self/stat")
        except OSError:
            return False
        return text is not None and text.startswith(f"{os.getpid()} ")

    def _give_up(self, reason: str) -> None:
        self.close()
        self._again = self._clock() + _RETRY
        self.reason = reason

    def _ask_family(self) -> int:
        assert self._socket is not None
        self._socket.send(taskstats.family_request(self._next()))
        message = self._receive(self._clock() + 10 * _DEADLINE)
        if message is None:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        family, error = taskstats.parse_family(message)
        if error:
            raise OSError(error, os.strerror(error))
        return family

    def _next(self) -> int:
        self._sequence = self._sequence % 0x7FFFFFFF + 1
        return self._sequence

    def _batch(self, pids: Sequence[int], found: dict[int, Delays]) -> bool:
        """Send all, take the answers; False where some did not come. Raises OSError, UnsupportedVersion."""
        assert self._socket is not None
        waiting: dict[int, int] = {}
        for pid in pids:
            sequence = self._next()
            self._socket.send(taskstats.request(self._family, pid, sequence))
            waiting[sequence] = pid
        end = self._clock() + _DEADLINE
        while waiting:
            message = self._receive(end)
            if message is None:
                self.lost += len(waiting)
                return False
            try:
                reply = taskstats.parse_reply(message)
            except taskstats.UnsupportedVersion:
                raise
            except ParseError:
                continue
            pid = waiting.pop(reply.sequence, 0)  # of an earlier batch: came too late
            if pid and not reply.error:
                found[pid] = {c: n / _NANO for c, n in zip(_CLASSES, reply.nanoseconds, strict=False)}
            elif pid and reply.error in {errno.EPERM, errno.EACCES}:
                # A process that ended is ESRCH, or EINVAL for a group.
                raise OSError(reply.error, os.strerror(reply.error))
        return True

    def _receive(self, end: float) -> bytes | None:
        """One message, None where none comes in time. Raises OSError."""
        assert self._socket is not None
        while True:
            try:
                return self._socket.recv(_LONGEST, socket.MSG_DONTWAIT)
            except BlockingIOError:
                left = end - self._clock()
                # poll, for select knows no descriptor from 1024 on
                poller = select.poll()
                poller.register(self._socket, select.POLLIN)
                if left <= 0 or not poller.poll(left * 1000):
                    return None
            except OSError as error:
                # The buffer ran over: some answers are gone, the others can be read.
                if error.errno != errno.ENOBUFS:
                    raise


def _connect() -> socket.socket:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_GENERIC)
    try:
        netlink.setblocking(False)
        netlink.bind((0, 0))
    except OSError:
        netlink.close()
        raise
    return netlink


class Coverage:
    """Which processes have their delays accounted.

    The kernel does not tell. The rule:

    - while kernel.task_delayacct is 0, none;
    - a process that has ever shown a delay other than cpu is;
    - one that started after the switch was seen to go on is;
    - where it was on when this program started: with the boot parameter `delayacct` all are (before 5.14
      without `nodelayacct`, when there was no switch), else only those that started since.
    """

    def __init__(self, host: Host, boot_seconds: Callable[[], float]) -> None:
        self._host = host
        self._boot_seconds = boot_seconds
        self._on_since: float | None = None
        self._looked = False
        self._shown: set[int] = set()
        self.on = False

    def look(self) -> None:
        """Look at the switch."""
        text = _maybe(self._host, SWITCH)
        words = (_maybe(self._host, "cmdline") or "").split() if not self._looked or text is None else []
        on = text.strip() == "1" if text is not None else "nodelayacct" not in words
        if on and not self.on:
            everyone = text is None or (not self._looked and "delayacct" in words)
            self._on_since = 0.0 if everyone else self._boot_seconds()
            self._shown.clear()
        self.on, self._looked = on, True

    def add(self, delays: Mapping[int, Delays]) -> None:
        """Take in what was read: who shows a delay is accounted."""
        for pid, classes in delays.items():
            if pid not in self._shown and any(s for c, s in classes.items() if c is not Delay.CPU):
                self._shown.add(pid)

    def keep(self, pids: set[int]) -> None:
        """Forget processes that are no more."""
        self._shown &= pids

    def covered(self, starts: Iterable[tuple[int, float]]) -> set[int]:
        """Those of these processes that are accounted.

        starts: pid and seconds after boot.
        """
        since = self._on_since
        if not self.on or since is None:
            return set()
        return {pid for pid, start in starts if start >= since or pid in self._shown}


def _maybe(host: Host, path: str) -> str | None:
    try:
        return host.maybe_proc(path)
    except OSError as error:
        return None if is_absent(error) else ""
