"""NFS mounts once a second: sums from mountstats, read on a thread of its own.

The kernel gathers mountstats mount by mount; should it ever wait for one, the
sampler goes on without and says so.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuwait.host import Host, is_absent
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountstats import NfsStatistics, parse_mountstats, parse_nfs_statistics
from gpuwait.kernel.nfs_totals import in_flight, total
from gpuwait.wait.snapshot import Nfs

log = logging.getLogger(__name__)

#: Seconds for which a tick waits for the file.
DEADLINE = 0.1
#: Age in seconds of the oldest answer that is taken.
LATEST = 2.0
#: Seconds between two looks whether there is any NFS mount.
NONE_EVERY = 10.0
#: Mounts that are followed. Each costs 20 us when idle and 80 us when in use.
MOST = 64
_CONNECTION = "xprt:"
_PER_OPERATION = "per-op statistics\n"


@dataclass(slots=True, eq=False)
class _Known:
    """A mount's operations as of their last change."""

    text: str
    statistics: NfsStatistics


class Mounts:
    """Sums by mount point; the file is read by one thread, at most one reading at a time.

    reason: why there is nothing, empty where there is, or there are no NFS mounts.
    """

    def __init__(self, host: Host, clock: Callable[[], float]) -> None:
        self._host = host
        self._clock = clock
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._out_since: float | None = None
        self._next = 0.0
        self._known: dict[str, _Known] = {}
        self.reason = ""
        self.skipped = 0

    def read(self, deadline: float = DEADLINE) -> Mapping[str, Nfs]:
        """Sums of now; empty without NFS mounts and where the file does not come in time."""
        now = self._clock()
        if now < self._next:
            return {}
        text = self._text(now, deadline)
        if text is None:
            return {}
        try:
            found = self._sums(text)
        except ParseError as error:
            self.reason = str(error)
            return {}
        self._next = 0.0 if found else now + NONE_EVERY
        return found

    def stop(self) -> None:
        """End the thread, unless it is stuck."""
        if self._thread is not None:
            self._asked.put(False)
            self._thread = None

    def _text(self, now: float, deadline: float) -> str | None:
        """The file as of now. Where that takes too long, as of the tick before, one reading a tick."""
        asked = self._out_since
        if asked is None:
            asked = self._ask(now)
        try:
            text = self._answers.get(timeout=deadline)
        except queue.Empty:
            self.reason = f"mountstats has not answered for {now - asked:.0f} s"
            return None
        self._out_since = None
        if now > asked:
            self._ask(now)
        return text if now - asked <= LATEST else None

    def _ask(self, now: float) -> float:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="mountstats", daemon=True)
            self._thread.start()
        self._asked.put(True)
        self._out_since = now
        return now

    def _work(self) -> None:
        while self._asked.get():
            text = ""
            try:
                text = self._read()
            except OSError as error:
                self.reason = f"{error.filename or 'mountstats'}: {error.strerror}"
            self._answers.put(text)

    def _read(self) -> str:
        """Mounts of process 1, the host's view, else our own. Raises OSError."""
        self.reason = ""
        try:
            text = self._host.maybe_proc("1/mountstats")
        except PermissionError:
            text, self.reason = None, "1/mountstats needs CAP_DAC_READ_SEARCH; own mounts only"
        except OSError as error:
            if not is_absent(error):
                raise
            text = None
        return (self._host.maybe_proc("self/mountstats") or "") if text is None else text

    def _sums(self, text: str) -> dict[str, Nfs]:
        rows: dict[str, tuple[str, NfsStatistics]] = {}
        seen: set[tuple[str, str]] = set()
        connections: dict[str, NfsStatistics] = {}
        self.skipped = 0
        for mount in parse_mountstats(text):
            head, _, operations = mount.statistics.partition(_PER_OPERATION)
            # One file system that is bound to many places, as into pods, counts once.
            if mount.mountpoint in rows or (mount.export, operations) in seen:
                continue
            if len(rows) == MOST:
                self.skipped += 1
                continue
            seen.add((mount.export, operations))
            # Mounts of one server share their connections, up to 16 lines each.
            lines = head[head.find(_CONNECTION) :]
            shared = connections.get(lines)
            if shared is None:
                shared = connections[lines] = parse_nfs_statistics(lines)
            rows[mount.mountpoint] = mount.export, self._statistics(mount.mountpoint, shared, operations)
        self._known = {point: known for point, known in self._known.items() if point in rows}
        waiting = in_flight(list(rows.values()))
        found = {}
        for (point, (_, statistics)), flying in zip(rows.items(), waiting, strict=True):
            sums = _sum(statistics, flying)
            if sums is not None:
                found[point] = sums
        return found

    def _statistics(self, point: str, shared: NfsStatistics, operations: str) -> NfsStatistics:
        """The connections with the operations, which are read again only where they changed."""
        known = self._known.get(point)
        if known is None or known.text != operations:
            statistics = parse_nfs_statistics(f"{_PER_OPERATION}{operations}")
            known = self._known[point] = _Known(operations, statistics)
        return replace(shared, operations=known.statistics.operations)


def _sum(statistics: NfsStatistics, flying: int | None) -> Nfs | None:
    """Sums of one mount; None where a number is missing, since a sum without it would fall.

    The time is that of the whole operation: an outage of version 3 shows in the queue, of 4 in the answer.
    """
    sends = total([transport.sends for transport in statistics.transports])
    receives = total([transport.receives for transport in statistics.transports])
    if sends is None or receives is None or flying is None:
        return None
    operations = transmissions = timeouts = milliseconds = 0
    for row in statistics.operations.values():
        if len(row) < 8:
            continue
        count, sent, late, took = row[0], row[1], row[2], row[7]
        if count is None or sent is None or late is None or took is None:
            return None
        operations, transmissions = operations + count, transmissions + sent
        timeouts, milliseconds = timeouts + late, milliseconds + took
    return Nfs(sends, receives, flying, operations, transmissions, timeouts, milliseconds / 1000)
