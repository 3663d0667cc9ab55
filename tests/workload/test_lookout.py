"""The thread for files that may hang."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from gpuwait.workload.lookout import Lookout


def test_settle_waits_for_a_whole_look() -> None:
    """After `settle` a look that began after the call is over, and nothing was left to do."""
    left = [True, True, False]
    seen: list[int] = []

    def look() -> bool:
        seen.append(1)
        return left.pop(0) if left else False

    lookout = Lookout((look,), every=60)
    lookout.start()
    assert lookout.settle(5) is True
    assert len(seen) >= 3
    lookout.stop()


def test_a_hung_file_holds_up_nobody() -> None:
    """A look that never returns is told, `settle` gives up in time, and so does `stop`."""
    release, begun = threading.Event(), threading.Event()

    def look() -> bool:
        begun.set()
        release.wait(30)
        return False

    now = [0.0]
    lookout = Lookout((look,), clock=lambda: now[0])
    lookout.start()
    assert begun.wait(5)
    start = time.monotonic()
    assert lookout.settle(0.2) is False
    assert lookout.hung == ""
    now[0] = 42.0
    assert lookout.hung == "a file has not answered for 42 s"
    lookout.stop()
    assert time.monotonic() - start < 2
    release.set()


def test_a_fault_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A look that raises does not end the thread, nor keep the other looks from theirs."""
    seen: list[int] = []

    def broken() -> bool:
        raise RuntimeError("odd")

    def good() -> bool:
        seen.append(1)
        return False

    lookout = Lookout((broken, good), every=60)
    with caplog.at_level(logging.WARNING):
        lookout.start()
        assert lookout.settle(5)
        assert lookout.settle(5)
    lookout.stop()
    assert len(seen) >= 2
    assert [record.getMessage() for record in caplog.records] == ["names: RuntimeError: odd"]


def test_stop_before_start() -> None:
    """A lookout that never ran can be stopped."""
    Lookout(()).stop()
