"""How long clients may take, and how much they may leave unread."""

import contextlib
import http.client
import socket
import subprocess  # noqa: TID251 - the server is a process of its own, as in life
import sys
import time

from gpuwait import web_channel
from gpuwait.web_channel import Channel, tidy

BIG = """
import resource
from gpuwait.gather import Gatherer
from gpuwait.host import Host
from gpuwait.listen import open_sockets
from gpuwait.sources import Sources
from gpuwait.web import Application, Server

big = {"/big": lambda environ: ("200 OK", "text/plain", b"a" * 2**20)}
app = Application(Gatherer([], Sources(host=Host())), [], max_requests=2, pages=big)
sockets = open_sockets(["127.0.0.1:0"])
print(sockets[0].getsockname()[1], flush=True)
Server(app, sockets, 2).run()
"""


def test_big_answers_that_nobody_reads_take_no_worker():
    """Twenty clients ask for 30 MiB each and read nothing: they are given up, and the workers are free."""
    process = subprocess.Popen(
        [sys.executable, "-c", BIG], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = int(process.stdout.readline())
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                s.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 30)
            time.sleep(2.5)
            begin = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/-/healthy")
            assert connection.getresponse().status == 200
            took = time.monotonic() - begin
            assert took < 12
            connection.close()
        with open(f"/proc/{process.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        assert peak < 200 * 1024
        print(f"answered after {took:.1f} s, peak {peak} KiB")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Fake(Channel):
    """A connection without a socket."""

    def __init__(self, *, unread=0, running=False, idle=0.0, asking=None):
        self.requests, self.total_outbufs_len = [1] if running else [], unread
        self.last_activity, self.opened, self.connected = 1000.0 - idle, 1000.0, True
        self._asking_since, self._telling_since = asking, None

    def handle_close(self):
        self.connected = False


def left(channels, *, now=1000.0):
    tidy(channels, now)
    return [channel.connected for channel in channels]


def test_a_request_has_its_time():
    """Twenty seconds from its first byte to its last, however often a byte comes."""
    channels = [Fake(asking=979.0), Fake(asking=981.0), Fake()]
    assert left(channels) == [False, True, True]


def test_an_answer_has_its_time():
    """A client has a minute to take an answer, also when it asks again; making one takes what it takes."""
    channels = [Fake(unread=5000), Fake(unread=5000, running=True), Fake(running=True), Fake()]
    assert left(channels, now=1000.0) == [True] * 4
    assert left(channels, now=1059.0) == [True] * 4
    assert left(channels, now=1061.0) == [False, False, True, True]


def test_a_client_that_holds_a_worker_has_less_time():
    """Five seconds with more than 4 MiB unread and more asked for."""
    channels = [Fake(unread=5 * 2**20, running=True), Fake(unread=5 * 2**20), Fake(unread=9, running=True)]
    assert left(channels, now=1000.0) == [True] * 3
    assert left(channels, now=1006.0) == [False, True, True]


def test_unread_answers_have_a_bound():
    """Beyond 16 MiB in all, those that wait longest are given up; within a second nobody is called slow."""
    channels = [Fake(unread=6 * 1024 * 1024) for _ in range(4)]
    assert left(channels, now=1000.0) == [True] * 4
    assert left(channels, now=1000.5) == [True] * 4
    assert sorted(left(channels, now=1002.0)) == [False, False, True, True]


def test_a_crowd_makes_room(monkeypatch):
    """The most silent go first, then those with an unread answer; a request in hand is never cut off."""
    monkeypatch.setattr(web_channel, "CROWDED", 3)
    channels = [
        Fake(idle=9),
        Fake(idle=99),
        Fake(unread=1, idle=50),
        Fake(running=True, idle=200),
        Fake(idle=1),
    ]
    assert left(channels) == [False, False, True, True, True]
    assert left([Fake(running=True) for _ in range(5)]) == [True] * 5
