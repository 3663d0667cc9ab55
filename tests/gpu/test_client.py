"""The parent of the reader, with scripted readers in place of the real one."""

from __future__ import annotations

import os
import signal
import subprocess  # noqa: TID251 - the test is about processes
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuwait.gpu.child import Child
from gpuwait.gpu.client import GpuClient
from gpuwait.gpu.state import Latest, Limits, State

Start = Callable[..., GpuClient]
Until = Callable[..., Latest]

#: A reader's means: say(GPU's temperature), and gone(seconds), true once the parent wants it to end.
HEAD = """
import json, os, select, sys, time
def say(celsius=40):
    print(json.dumps({"taken": time.monotonic(), "driver": "570", "count": 1, "xids": [], "notes": [],
        "errors": [], "devices": [{"index": 0, "up": True, "uuid": "A", "temperature_celsius": celsius}]}),
        flush=True)
def gone(seconds):
    return bool(select.select([0], [], [], seconds)[0])
"""
STEADY = HEAD + "say()\nwhile not gone(0.05): say()\n"


def temperature(latest: Latest) -> int | None:
    return latest.snapshot.devices[0].temperature_celsius if latest.snapshot else None


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def eventually(true: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_before_the_start() -> None:
    """A client that was not started knows nothing, and says so at once."""
    latest = GpuClient().latest()
    assert (latest.state, latest.snapshot, latest.age) == (State.STARTING, None, None)


def test_readings_arrive(start: Start) -> None:
    """The first snapshot is there when the first wait ends."""
    client = start(script=STEADY)
    client.wait_first(15)
    latest = client.latest()
    assert (latest.state, temperature(latest)) == (State.OK, 40)
    assert latest.age is not None
    assert latest.stuck_seconds == latest.restarts == 0


def test_the_first_wait_is_bounded(start: Start) -> None:
    """A reader that says nothing costs the first scrape its bound, and later ones nothing."""
    client = start(script=HEAD + "gone(60)")
    begin = time.monotonic()
    client.wait_first(0.2)
    assert 0.15 < time.monotonic() - begin < 2
    begin = time.monotonic()
    client.wait_first(0.2)
    assert time.monotonic() - begin < 0.1
    assert client.latest().state is State.STARTING


def test_a_silent_reader_is_stuck_and_its_readings_vanish(start: Start, until: Until, short: Limits) -> None:
    """After the time of grace no reading is shown; nobody waits for it."""
    client = start(replace(short, stale=0.2), script=HEAD + "say()\ngone(60)")
    until(client, lambda latest: latest.state is State.OK)
    latest = until(client, lambda latest: latest.state is State.STUCK)
    assert latest.snapshot is None
    assert latest.stuck_seconds > 0.2
    begin = time.monotonic()
    client.latest()
    client.wait_first(5)
    assert time.monotonic() - begin < 0.1


def test_a_reader_that_goes_on_is_believed_again(start: Start, until: Until, short: Limits) -> None:
    """The same reader's next line ends the state; no other reader was started."""
    script = HEAD + "say()\ngone(1)\nsay(41)\nwhile not gone(0.05): say(41)"
    client = start(replace(short, stale=0.2), script=script)
    until(client, lambda latest: latest.state is State.STUCK)
    pid = client.reader_pid
    latest = until(client, lambda latest: latest.state is State.OK)
    assert temperature(latest) == 41
    assert (client.reader_pid, latest.restarts) == (pid, 0)


def test_a_stuck_reader_is_killed_and_replaced(start: Start, until: Until, short: Limits) -> None:
    """After the long time of grace the reader is killed; the next one starts after it is gone."""
    limits = replace(short, stale=0.2, kill_after=0.4)
    client = start(limits, script=HEAD + "say()\ngone(60)")
    until(client, lambda latest: latest.state is State.OK)
    pid = client.reader_pid
    assert pid is not None
    until(client, lambda latest: latest.restarts == 1)
    eventually(lambda: client.reader_pid not in {pid, None})
    assert gone(pid)


def test_never_a_second_reader_beside_a_stuck_one(
    start: Start, until: Until, short: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a reader is in the kernel, where no signal reaches it, there is no other one."""
    monkeypatch.setattr(Child, "kill", lambda self: setattr(self, "killed", True))
    starts = tmp_path / "starts"
    script = f"open({str(starts)!r}, 'a').write('x')\n" + HEAD + "say()\nos.close(1)\ntime.sleep(60)"
    client = start(replace(short, stale=0.2, kill_after=0.3), script=script)
    until(client, lambda latest: latest.state is State.STUCK)
    time.sleep(1)
    assert client.latest().state is State.STUCK
    assert starts.read_text() == "x"


def test_a_crash_is_repaired(start: Start, until: Until) -> None:
    """A reader that dies is replaced; while its reading is young it is still shown."""
    client = start(script=HEAD + "say()\nos.kill(os.getpid(), 11)")
    latest = until(client, lambda latest: latest.restarts >= 2)
    assert latest.detail == "signal 11" or latest.state is State.OK


def test_restarts_back_off(start: Start, until: Until, short: Limits, tmp_path: Path) -> None:
    """A reader that always fails is started less and less often, not in a storm."""
    starts = tmp_path / "starts"
    script = f"open({str(starts)!r}, 'a').write('x')\nraise SystemExit(1)"
    client = start(replace(short, first_pause=0.2, longest_pause=10), script=script)
    until(client, lambda latest: latest.restarts == 1)
    time.sleep(1.2)
    assert 2 <= len(starts.read_text()) <= 3
    assert client.latest().state is State.RESTARTING


@pytest.mark.parametrize("nonsense", ["NVRM: hello", "{}", '{"taken": 1}', "\\xff\\xfe"])
def test_nonsense_ends_a_reader(start: Start, until: Until, nonsense: str) -> None:
    """A line that no reader writes is never shown; the reader is replaced."""
    script = HEAD + f"os.write(1, b'{nonsense}\\n')\ngone(60)"
    client = start(script=script)
    latest = until(client, lambda latest: latest.restarts >= 1)
    assert latest.snapshot is None
    assert latest.state is State.RESTARTING
    assert latest.detail.startswith("it wrote nonsense")


def test_lines_in_pieces(start: Start, until: Until) -> None:
    """A line may arrive in pieces, and several at once."""
    script = HEAD + (
        "import io\nreal = sys.stdout\nsys.stdout = io.StringIO()\nsay(1); say(2); say(3)\n"
        "text = sys.stdout.getvalue().encode()\n"
        "os.write(1, text[:50]); time.sleep(0.2); os.write(1, text[50:])\ngone(60)"
    )
    client = start(script=script)
    assert temperature(until(client, lambda latest: latest.snapshot)) == 3


@pytest.mark.parametrize(("status", "state"), [(3, State.NO_LIBRARY), (4, State.NO_DRIVER)])
def test_nothing_to_read(start: Start, until: Until, status: int, state: State) -> None:
    """No library or no driver is a state of its own, found out at once and no restart."""
    script = HEAD + f"print(json.dumps({{'end': 'not here'}}), flush=True)\nraise SystemExit({status})"
    client = start(script=script)
    client.wait_first(15)
    latest = client.latest()
    assert (latest.state, latest.detail, latest.restarts) == (state, "not here", 0)
    until(client, lambda latest: client.reader_pid is not None)  # it looks again by itself


def test_a_driver_that_appears_is_picked_up(start: Start, until: Until, tmp_path: Path) -> None:
    """Once there is something to read it is read, without a restart of the program."""
    flag = tmp_path / "driver"
    script = HEAD + f"if not os.path.exists({str(flag)!r}): raise SystemExit(4)\n" + STEADY
    client = start(script=script)
    until(client, lambda latest: latest.state is State.NO_DRIVER)
    flag.touch()
    until(client, lambda latest: latest.state is State.OK)


def test_release_and_return(start: Start, until: Until) -> None:
    """On request the reader ends, and comes back after a while."""
    client = start(script=STEADY)
    until(client, lambda latest: latest.state is State.OK)
    pid = client.reader_pid
    assert pid is not None
    client.release()
    latest = until(client, lambda latest: latest.state is State.RELEASED)
    assert latest.snapshot is None
    assert gone(pid)
    assert until(client, lambda latest: latest.state is State.OK).restarts == 0


def test_release_twice_takes_the_devices_back(start: Start, until: Until, short: Limits) -> None:
    """While the devices are released, the next request opens them at once."""
    client = start(replace(short, released=600), script=STEADY)
    until(client, lambda latest: latest.state is State.OK)
    client.release()
    until(client, lambda latest: latest.state is State.RELEASED)
    client.release()
    until(client, lambda latest: latest.state is State.OK)


def test_release_of_a_reader_that_does_not_listen(start: Start, until: Until) -> None:
    """A reader that does not end when asked is killed: the devices are free then as well."""
    client = start(script=HEAD + "while True: say(); time.sleep(0.05)")
    until(client, lambda latest: latest.state is State.OK)
    client.release()
    until(client, lambda latest: latest.state is State.RELEASED)


@pytest.mark.parametrize("script", [STEADY, HEAD + "say()\nwhile True: time.sleep(1)"])
def test_stop_is_quick(start: Start, until: Until, script: str) -> None:
    """The program ends within a second, with a reader that listens and one that does not."""
    client = start(script=script)
    until(client, lambda latest: latest.state is State.OK)
    pid = client.reader_pid
    assert pid is not None
    begin = time.monotonic()
    client.stop()
    assert time.monotonic() - begin < 1
    eventually(lambda: gone(pid), 2)


def test_stop_leaves_a_reader_in_the_kernel_alone(
    start: Start, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that not even SIGKILL reaches does not hold up the end."""
    monkeypatch.setattr(Child, "kill", lambda self: setattr(self, "killed", True))
    client = start(script=HEAD + "say()\ntime.sleep(60)")
    until(client, lambda latest: latest.state is State.OK)
    begin = time.monotonic()
    client.stop()
    assert time.monotonic() - begin < 1


def test_no_thread_and_no_descriptor_per_restart(start: Start, until: Until) -> None:
    """Readers that come and go leave nothing behind."""
    client = start(script="raise SystemExit(1)")
    until(client, lambda latest: latest.restarts >= 1)
    eventually(lambda: client.reader_pid is None)
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    until(client, lambda latest: latest.restarts >= 4)
    eventually(lambda: client.reader_pid is None)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) <= before


def test_a_reader_that_cannot_be_started() -> None:
    """A missing interpreter is a state, no exception."""
    client = GpuClient(argv=["/nonexistent/python"])
    client.start()
    client.wait_first(15)
    assert client.latest().state is State.RESTARTING
    client.stop()


def test_the_reader_dies_with_its_parent() -> None:
    """No orphan, even where the parent is killed."""
    code = (
        "import sys, time\nfrom gpuwait.gpu.client import GpuClient\n"
        f"c = GpuClient(argv=[sys.executable, '-S', '-E', '-c', {STEADY!r}])\n"
        "c.start(); c.wait_first(15); print(c.reader_pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        reader = int(parent.stdout.readline())
        assert not gone(reader)
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: gone(reader))
