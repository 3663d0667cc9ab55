"""Once a second: a snapshot, a verdict, the ledger. One thread, which nothing but `stop` ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from gpuwait.sources import Sources
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.live import Live
from gpuwait.wait.observer import Observer
from gpuwait.wait.snapshot import Key, Snapshot
from gpuwait.wait.verdict import Verdict

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Looks at threads within a tick while a GPU waits, the one at its end included.
LOOKS = 4
#: Periods without a sign of life after which the sampler counts as stuck.
STUCK_AFTER = 5


class Sampler:
    """Fills `state` and `ledger`. Ticks lie on a grid of the monotonic clock; missed ones are left out.

    observer: makes the snapshots; without one and without a GPU reader there is nothing to do.
    pause:    waits for some seconds, or until it returns True, which ends the thread.
    after:    told of each tick: its verdict with all evidence, None where there was none, and its snapshot.
    """

    def __init__(
        self,
        sources: Sources,
        engine: Engine,
        ledger: Ledger,
        state: Live,
        *,
        period: float = 1.0,
        observer: Observer | None = None,
        pause: Callable[[float], bool] | None = None,
        after: Callable[[Verdict | None, Snapshot], None] = lambda _verdict, _snapshot: None,
    ) -> None:
        self._clock = sources.clock
        self._engine = engine
        self._ledger = ledger
        self._state = state
        self._period = period
        self._observer = observer or Observer(sources)
        self._needed = sources.gpu is not None or observer is not None
        self._stop = threading.Event()
        self._pause = pause or self._stop.wait
        self._after = after
        self._thread: threading.Thread | None = None
        self._starved: set[Key] = set()
        self._faults: dict[str, str] = {}

    def start(self) -> None:
        """Start the thread, where there are GPUs to watch; returns at once."""
        if self._thread is None and self._needed:
            self._state.watch = lambda: self.stuck
            self._state.overdue = lambda: max(0.0, self._silent() - self._period)
            self._thread = threading.Thread(target=self.run, name="sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread within a second. One that hangs in the kernel is left to its fate."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(1.0)
        if thread is None or not thread.is_alive():
            self._observer.stop()

    @property
    def stuck(self) -> str:
        """Where the sampler hangs, empty while it lives; from any thread."""
        silent = self._silent()
        if silent <= STUCK_AFTER * self._period:
            return ""
        return f"sampler stuck for {silent:.0f} s in {self._observer.at or 'its own code'}"

    def _silent(self) -> float:
        heartbeat = self._state.heartbeat
        return 0.0 if heartbeat is None else self._clock() - heartbeat

    def run(self) -> None:
        """Tick until stopped."""
        due = self._clock()
        while not self._stop.is_set():
            late = max(0.0, self._clock() - due)
            self._safely("tick", partial(self.tick, late))
            for look in range(1, LOOKS):
                if self._rest(due + self._period * look / LOOKS):
                    return
                self._safely("look", partial(self.look, due + self._period * (look + 1) / LOOKS))
            # What was missed is lost: ticks in a burst would say nothing new.
            due += self._period * max(1, -((due - self._clock()) // self._period))
            if self._rest(due):
                return

    def tick(self, late: float = 0.0) -> None:
        """One snapshot and its verdict; `late` is by how many seconds it began late."""
        state = self._state
        state.heartbeat = self._clock()
        before = state.snapshot
        after = self._observer.snapshot(self._starved)
        verdict = None
        if before is None:
            self._ledger.see(*((gpu.index, gpu.uuid) for gpu in after.gpus))
        else:
            verdict = self._safely("verdict", lambda: self._judge(before, after))
        self._safely("report", lambda: self._after(verdict, after))
        self._starved = self._below_line(after)
        state.snapshot = after
        state.ticks += 1
        state.last_lag = late
        state.cpu_seconds = time.thread_time()
        state.threads_skipped += self._observer.skipped
        state.reasons = self._observer.reasons

    def look(self, until: float) -> None:
        """Look at threads, where a GPU in use is below the line and there is time left."""
        if self._clock() < until:
            line = self._engine.limits("gpu", "utilization")
            starved = self._starved | self._observer.starved(line)
            if starved:
                self._observer.look(starved)

    def _rest(self, until: float) -> bool:
        left = until - self._clock()
        return self._pause(left) if left > 0 else self._stop.is_set()

    def _judge(self, before: Snapshot, after: Snapshot) -> Verdict:
        state = self._state
        verdict = self._engine.judge(before, after)
        self._ledger.add(verdict)
        state.add(verdict)
        state.dropped = self._engine.dropped
        return verdict

    def _safely(self, what: str, call: Callable[[], T]) -> T | None:
        """Call something that must not end the ledger; a fault is logged once per change."""
        try:
            value = call()
        except Exception as error:  # whatever it is, the next tick may do better
            text = f"{type(error).__name__}: {error}"[:200]
            if text != self._faults.get(what):
                log.error("sampler: no %s: %s", what, text, exc_info=True)
            self._faults[what] = text
            return None
        self._faults.pop(what, None)
        return value

    def _below_line(self, after: Snapshot) -> set[Key]:
        """Workloads of the GPUs in use that were below the line."""
        line = self._engine.limits("gpu", "utilization")
        in_use = {(gpu.index, gpu.uuid) for gpu in after.gpus if gpu.in_use}
        verdict = self._state.verdict
        found: set[Key] = set()
        for gpu in verdict.gpus if verdict else ():
            if gpu.utilization is not None and gpu.utilization < line and (gpu.index, gpu.uuid) in in_use:
                found.update(gpu.workloads)
        return found
