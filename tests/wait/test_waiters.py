"""GPFS's waiters, with scripts in the place of mmdiag."""

import time

import pytest

from gpuwait.kernel.mmdiag import oldest_waiter
from gpuwait.wait.waiters import Waiters

NEW = """
=== mmdiag: waiters ===
Waiting 0.0031 sec since 10:11:12, monitored, thread 4711 FsyncHandlerThread: for I/O completion
Waiting 25.7500 sec since 10:10:47, monitored, thread 4712 RdmaSend: on ThCond 0x1, reason 'RPC wait'
"""
OLD = "0x7F2F4002AE30 waiting 1.250000000 seconds, FileBlockReadFetchHandlerThread: for I/O completion\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(NEW, 25.75), (OLD, 1.25), ("=== mmdiag: waiters ===\n", 0.0), ("", 0.0), ("waiting - sec", 0.0)],
)
def test_oldest(text, seconds):
    """The longest of all waiters in either form; none is 0."""
    assert oldest_waiter(text) == seconds


def age_of(program, clock=time.monotonic):
    waiters = Waiters(str(program), clock, every=60)
    waiters.age()
    end = time.monotonic() + 5
    while not waiters.reason and waiters.age() is None and time.monotonic() < end:
        time.sleep(0.02)
    waiters.stop()
    return waiters


def test_asked_in_the_background(tmp_path):
    """The first look starts the question, a later one has the answer."""
    program = tmp_path / "mmdiag"
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{NEW}EOF\n")
    program.chmod(0o755)
    assert age_of(program).age() == 25.75


def test_an_old_answer_says_nothing(tmp_path):
    """Beyond 20 s an answer is none."""
    now = [100.0]
    program = tmp_path / "mmdiag"
    program.write_text("#!/bin/sh\necho 'Waiting 2.5 sec since'\n")
    program.chmod(0o755)
    waiters = age_of(program, lambda: now[0])
    assert waiters.age() == 2.5
    now[0] = 121.0
    assert waiters.age() is None


def test_no_program():
    """Where mmdiag is missing the reason says so."""
    waiters = age_of("/nonexistent/mmdiag")
    assert waiters.age() is None
    assert "/nonexistent/mmdiag" in waiters.reason
