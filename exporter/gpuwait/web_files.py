"""Reads the files of the door, which may be anything: a pipe, a device, a file on a server that is gone."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from gpuwait.host import read_ordinary
from gpuwait.strict_yaml import FileError

#: Seconds without an answer after which a file counts as hung, and a start is given up.
HUNG = 10.0
#: No configuration, certificate or key comes near this.
MOST = 1024 * 1024

Found = TypeVar("Found")


class Files:
    """Reads one file at a time, and knows which one does not answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reading: tuple[str, float] | None = None

    def read(self, path: str, where: str) -> bytes:
        """Content of the file, which `where` names in messages. Raises FileError; may take for ever."""
        self._reading = where, self._clock()
        try:
            return read_ordinary(path, MOST)
        except OSError as error:
            why = "is larger than 1 MiB" if error.errno == errno.EFBIG else error.strerror
            raise FileError(f"{where}: {why}") from error
        finally:
            self._reading = None

    @property
    def hung(self) -> str:
        """Which file has not answered for how long, "" where none hangs."""
        reading = self._reading
        return "" if reading is None else self._silent(*reading)

    def _silent(self, where: str, since: float) -> str:
        seconds = self._clock() - since
        return f"{where}: has not answered for {seconds:.0f} s" if seconds > HUNG else ""

    def in_time(self, work: Callable[[], Found]) -> Found:
        """What `work` gives, which reads files; raises what it raises, and FileError where one hangs."""
        found: list[Found] = []
        faults: list[Exception] = []

        def run() -> None:
            try:
                found.append(work())
            except Exception as fault:  # noqa: BLE001 - it is raised below
                faults.append(fault)

        thread = threading.Thread(target=run, name="web-config", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.1)
            if hung := self.hung:
                raise FileError(hung)
        if faults:
            raise faults[0]
        return found[0]
