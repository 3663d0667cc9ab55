"""The parent's side of the GPU reader: starts it, listens to it, and never waits for it.

The driver of a sick GPU blocks its callers in the kernel, where no signal
reaches them. So the library is used by a child process only. What the child
says arrives on a thread here; everybody else gets the last snapshot, or none
once that is too old. There is never a second child while the first is alive.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwait.gpu import wire
from gpuwait.gpu.child import Child, command
from gpuwait.gpu.news import News
from gpuwait.gpu.protocol import BadLine, Message
from gpuwait.gpu.state import Latest, Limits, State
from gpuwait.gpu.totals import Snapshot, Totals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _View:
    """What the thread tells the others: replaced as a whole, never changed."""

    state: State = State.STARTING
    snapshot: Snapshot | None = None
    heard: float | None = None
    restarts: int = 0
    detail: str = "the first reading is under way"


class GpuClient:
    """Readings of all GPUs, at most a few seconds old.

    argv: the command line of the reader instead of the real one, for tests.
    """

    def __init__(
        self,
        rootfs: str = "/",
        *,
        argv: Sequence[str] | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or Limits()
        self._argv = argv
        self._rootfs = rootfs
        self._clock = clock
        self._totals, self._news = Totals(), News()
        self._view = _View()
        self._child: Child | None = None
        self._begun = clock()
        self._first = threading.Event()
        self._stopping = self._releasing = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="gpu", daemon=True)

    def start(self) -> None:
        """Start the reader; returns at once."""
        self._begun = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """End the reader within a second. One that is stuck in the driver is left to its fate."""
        self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(0.9)
        self._first.set()

    def release(self) -> None:
        """Let go of the devices for a while, so that a driver can be unloaded or a GPU reset.

        While they are released, or a reader is waited for, start it at once instead.
        May be called from a signal handler: takes no lock.
        """
        self._releasing = True
        self._wake()

    @property
    def reader_pid(self) -> int | None:
        """Process id of the reader, None while there is none."""
        child = self._child
        return None if child is None else child.pid

    def wait_first(self, timeout: float) -> None:
        """Wait for the first snapshot, or the reason why there is none, until `timeout` after the start."""
        left = self._begun + timeout - self._clock()
        if left > 0:
            self._first.wait(left)

    def latest(self) -> Latest:
        """What is known now; never waits."""
        view, now, limits = self._view, self._clock(), self._limits
        state, detail, stuck, call = view.state, view.detail, 0.0, ""
        if view.heard is not None and now - view.heard > limits.stale:
            state, stuck = State.STUCK, now - view.heard
            call = self._call()
            detail = f"the GPU reader has been silent in {call or 'its own code'}"
        snapshot, age = view.snapshot, None
        if snapshot is not None:
            age = max(now - snapshot.taken_at, 0.0)
            if age > limits.stale:
                snapshot = None
        return Latest(state, snapshot, age, stuck, call, view.restarts, detail)

    def _call(self) -> str:
        child = self._child
        name, gpu = child.call() if child is not None else ("", "")
        return f"{name} of GPU {gpu}" if gpu else name

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # enough wake-ups are waiting already
            os.write(self._wake_write, b".")

    # What follows runs on the thread.

    def _run(self) -> None:
        pause = self._limits.first_pause
        while not self._stopping:
            begun = self._clock()
            status, detail = self._attend()
            if self._clock() - begun >= self._limits.longest_pause:
                pause = self._limits.first_pause
            wait = self._ended(status, detail)
            if wait is None:
                wait, pause = pause, min(pause * 2, self._limits.longest_pause)
            self._wait(wait)

    def _wait(self, seconds: float) -> None:
        """Sleep until then, or until someone wants something."""
        end = self._clock() + seconds
        while not (self._stopping or self._releasing) and (left := end - self._clock()) > 0:
            select.select([self._wake_read], [], [], left)
            self._drain()
        self._releasing = False

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _attend(self) -> tuple[int, str]:
        """One reader from its start to its end: (exit status, negative for a signal; why it ended)."""
        argv = self._argv or command(self._rootfs, self._limits.interval)
        try:
            child = Child(argv, self._clock)
        except OSError as error:
            return wire.FAULT, f"cannot start: {error}"
        self._child = child
        self._set(heard=child.heard)
        why = ""
        poller = select.poll()
        poller.register(child.output, select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        # never longer than a second, so that a deadline is seen soon
        step = max(min(self._limits.stale / 5, 1.0), 0.01) * 1000
        while True:
            ready = {descriptor for descriptor, _ in poller.poll(step)}
            if self._wake_read in ready:
                self._drain()
            try:
                open_ = child.output not in ready or self._listen(child)
            except BadLine as error:
                why, open_ = f"it wrote nonsense: {error}", False
                child.kill()
            if not open_:
                break
            if not self._in_time(child):
                return wire.ASKED, ""
        return self._bury(child, why)

    def _listen(self, child: Child) -> bool:
        """Take what the child wrote; False at its end. Raises BadLine."""
        silent = self._clock() - child.heard
        messages = child.read()
        if messages is None:
            return False
        if messages and child.reported:
            child.reported = False
            log.info("GPU reader answers again after %.0f s", silent)
        for message in messages:
            if message.end is not None:
                child.last_words = message.end
            else:
                self._take(message)
        self._set(heard=child.heard)
        return True

    def _take(self, message: Message) -> None:
        self._news.tell(message)
        self._set(State.OK, snapshot=self._totals.add(message), detail="")
        self._first.set()

    def _in_time(self, child: Child) -> bool:
        """Ask, kill or give up the child where it is time to; False to leave it alone for good."""
        now, limits = self._clock(), self._limits
        if self._stopping:
            # a second is all that there is: asking and killing share it
            if child.ask_to_end():
                return True
            if now - child.asked > 0.3 and not child.killed:
                child.kill()
            return now - child.asked < 0.6
        if self._releasing and not child.ask_to_end() and now - child.asked > limits.leave:
            child.kill()
        silent = now - child.heard
        if silent > limits.stale and not child.reported:
            child.reported = True
            log.warning("GPU reader is stuck in %s", self._call() or "its own code")
        if silent > (limits.kill_after if child.spoke else limits.start_limit) and not child.killed:
            log.warning("GPU reader killed after %.0f s in %s", silent, self._call() or "its own code")
            child.kill()
        return True

    def _bury(self, child: Child, why: str) -> tuple[int, str]:
        """Wait until the process has really gone: it closed its pipe, but may still be in the driver."""
        closed = self._clock()
        while (status := child.status()) is None:
            if self._stopping and self._clock() - closed > 0.5:
                break
            if self._clock() - closed > self._limits.leave and not child.killed:
                child.kill()
            time.sleep(0.01 if self._clock() - closed < 0.2 else 0.2)
        text = (
            why or child.last_words or (f"signal {-status}" if status and status < 0 else f"status {status}")
        )
        child.close()
        self._child = None
        return wire.ASKED if status is None else status, text

    def _ended(self, status: int, detail: str) -> float | None:
        """Say what an end means; seconds until the next start, None to back off."""
        if self._stopping:
            return 0.0
        if self._releasing:
            self._releasing = False
            self._totals.forget()
            log.info("GPU devices released for %.0f s", self._limits.released)
            self._set(State.RELEASED, snapshot=None, detail="devices released on request", ended=True)
            return self._limits.released
        if status in {wire.NO_LIBRARY, wire.NO_DRIVER}:
            state = State.NO_LIBRARY if status == wire.NO_LIBRARY else State.NO_DRIVER
            log.debug("no GPU reader: %s", detail)
            self._set(state, detail=detail, ended=True)
            return self._limits.retry
        state = State.NO_DRIVER if status == wire.DRIVER_CHANGED else State.RESTARTING
        if detail != self._view.detail:
            level = (
                logging.DEBUG if self._view.snapshot is None and state is State.NO_DRIVER else logging.WARNING
            )
            log.log(level, "GPU reader ended: %s", detail)
        self._set(state, detail=detail, ended=True, restarts=self._view.restarts + 1)
        return None

    def _set(
        self,
        state: State | None = None,
        *,
        snapshot: Snapshot | None = None,
        heard: float | None = None,
        restarts: int | None = None,
        detail: str | None = None,
        ended: bool = False,
    ) -> None:
        old = self._view
        self._view = _View(
            old.state if state is None else state,
            None if state is State.RELEASED else snapshot or old.snapshot,
            None if ended else heard or old.heard,
            old.restarts if restarts is None else restarts,
            old.detail if detail is None else detail,
        )
        if ended:
            self._first.set()
