"""Age of the oldest GPFS waiter, asked of `mmdiag` now and then on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpuwait.collector import NoData
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mmdiag import oldest_waiter
from gpuwait.programs import Running, ask

#: Seconds between two questions: mmdiag is a script, and each run costs about 0.1 s of a CPU.
EVERY = 10.0
TIMEOUT = 3.0
#: Seconds after which an answer says nothing of now.
STALE = 20.0


class Waiters:
    """Asks in the background; `age` never waits.

    reason: why there is no age, empty where there is.
    """

    def __init__(self, program: str, clock: Callable[[], float], every: float = EVERY) -> None:
        self._command = [program, "--waiters"]
        self._clock, self._every = clock, every
        self._running = Running()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._answer: tuple[float, float] | None = None
        self.reason = ""

    def age(self) -> float | None:
        """Seconds that the oldest waiter has waited; None without a recent answer."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="waiters", daemon=True)
            self._thread.start()
        answer = self._answer
        if answer is None or self._clock() - answer[0] > STALE:
            return None
        return answer[1]

    def stop(self) -> None:
        """End the thread; one that waits for a program ends with it."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.is_set():
            at = self._clock()
            try:
                self._answer = at, oldest_waiter(ask(self._command, b"", self._running, TIMEOUT))
                self.reason = ""
            except (NoData, ParseError, OSError) as error:
                self.reason = str(error)
            self._stop.wait(self._every)
