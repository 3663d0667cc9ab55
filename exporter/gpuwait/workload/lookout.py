"""A thread of its own for what may hang: files of the host that are no kernel files."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

#: Seconds between two looks, at least after one that was asked for, and after one that left something to do.
EVERY = 5.0
SOONEST = 0.2
REST = 0.05
#: Seconds in one look after which it counts as hung.
HUNG = 10.0


class Lookout:
    """Calls its looks every few seconds, or sooner when woken. Nobody waits for it but in `settle`.

    looks: each tells whether it left something to do; what they raise is logged once.
    """

    def __init__(
        self,
        looks: Sequence[Callable[[], bool]],
        *,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._looks = looks
        self._every = every
        self._clock = clock
        self._wake = threading.Event()
        self._changed = threading.Condition()
        self._begun = self._settled = 0
        self._ended = threading.Event()
        self._since: float | None = None
        self._faults: dict[int, str] = {}
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        """End it within a tenth of a second; one that hangs is left to its fate."""
        self._ended.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(0.1)

    def wake(self) -> None:
        """Ask for a look soon."""
        self._wake.set()

    def settle(self, timeout: float) -> bool:
        """Wait until a look that begins from now on left nothing to do; tell whether that was so."""
        with self._changed:
            wanted = self._begun + 1
            self._wake.set()
            return self._changed.wait_for(lambda: self._settled >= wanted, timeout)

    @property
    def hung(self) -> str:
        """For how long a look has hung, empty where none does."""
        since = self._since
        seconds = 0.0 if since is None else self._clock() - since
        return f"a file has not answered for {seconds:.0f} s" if seconds > HUNG else ""

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            with self._changed:
                self._begun += 1
            self._since = self._clock()
            more = [self._safely(number, look) for number, look in enumerate(self._looks)]
            self._since = None
            if not any(more):
                with self._changed:
                    self._settled = self._begun
                    self._changed.notify_all()
                self._wake.wait(self._every)
            self._ended.wait(REST if any(more) else SOONEST)

    def _safely(self, number: int, look: Callable[[], bool]) -> bool:
        try:
            more = look()
        except Exception as error:  # the next look may do better
            text = f"{type(error).__name__}: {error}"[:200]
            if self._faults.get(number) != text:
                log.warning("names: %s", text, exc_info=True)
            self._faults[number] = text
            return False
        self._faults.pop(number, None)
        return more
