"""Programs that are asked because there is no file to read: GPFS's own, and no other.

A program that does not answer in time is killed, and never started while an
earlier one is still there.
"""

from __future__ import annotations

import os
import signal
import subprocess  # noqa: TID251 - GPFS has no file to read: its programs are its one interface
from collections.abc import Sequence

from gpuwait.collector import NoData, Reason
from gpuwait.kernel.errors import ParseError


class Running:
    """The last child that did not end when it was killed; None mostly."""

    child: subprocess.Popen[bytes] | None = None


def ask(command: Sequence[str], request: bytes, running: Running, timeout: float) -> str:
    """What a program answers on standard output.

    Raises NoData where it is not installed or may not be run, ParseError for a bad exit status, and
    TimeoutError where it does not answer within `timeout` seconds.
    """
    program = command[0]
    if running.child is not None and running.child.poll() is None:
        raise TimeoutError(f"{program}: an earlier call does not end (pid {running.child.pid})")
    running.child = None
    try:
        child = subprocess.Popen(  # noqa: S603 - the program is the operator's own flag
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NoData(Reason.ABSENT, f"no {program}") from error
    except PermissionError as error:
        raise NoData(Reason.NO_PERMISSION, f"{program} may not be run by this user") from error
    try:
        output, _ = child.communicate(request, timeout)
    except subprocess.TimeoutExpired as error:
        _kill(child, running)
        raise TimeoutError(f"{program}: no answer within {timeout} s") from error
    if child.returncode != 0:
        raise ParseError(f"{program}: exit status {child.returncode}")
    return output.decode("utf-8", "backslashreplace")


def _kill(child: subprocess.Popen[bytes], running: Running) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(0.2)
    except ProcessLookupError:
        child.wait(0.2)
    except subprocess.TimeoutExpired:
        running.child = child  # in the kernel, unkillable: looked at again before the next call
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
