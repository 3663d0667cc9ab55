"""The HTTP side over a real socket."""

import gzip
import http.client
import os
import signal
import socket
import subprocess  # noqa: TID251 - the server is a process of its own, as in life
import sys
import time

import pytest

from gpuwait.web import scrape_limit, wants_openmetrics

SERVER = """
import sys, time
from gpuwait.collector import Collector
from gpuwait.gather import Gatherer
from gpuwait.host import Host
from gpuwait.listen import open_sockets
from gpuwait.metrics import Family
from gpuwait.sources import Sources
from gpuwait.web import Application, Server

FAST = Family("gpuwait_fast", "gauge", "Fast.", "test", ("n",))
SLOW = Family("gpuwait_slow", "gauge", "Slow.", "test")

def fast(_):
    yield from ((FAST, (str(n),), n) for n in range(100))

def slow(_):
    time.sleep(1.0)
    yield SLOW, (), 1

collectors = [Collector("fast", "Fast.", (FAST,), fast), Collector("slow", "Slow.", (SLOW,), slow)]
page = {"/": lambda environ: ("200 OK", "text/html; charset=utf-8", b"see /metrics")}
app = Application(
    Gatherer(collectors, Sources(host=Host())), ["fast", "slow", "off"], max_requests=2, pages=page)
sockets = open_sockets(["127.0.0.1:0"])
print(sockets[0].getsockname()[1], flush=True)
Server(app, sockets, 2).run()
"""


class Client:
    def __init__(self, process, port):
        self.process, self.port = process, port

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body


@pytest.fixture
def client():
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    yield Client(process, int(process.stdout.readline()))
    process.kill()
    process.wait()
    process.stdout.close()


def test_formats_and_compression(client):
    """Text by default, OpenMetrics where only that is taken, gzip where it is taken."""
    answer, body = client.get("/metrics?collect[]=fast")
    assert (answer.status, answer.getheader("Content-Type")) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    assert b'gpuwait_fast{n="42"} 42\n' in body
    answer, body = client.get("/metrics?collect[]=fast", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.getheader("Content-Type").startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    answer, body = client.get("/metrics?collect[]=fast", Accept_Encoding="gzip")
    assert answer.getheader("Content-Encoding") == "gzip"
    assert b"gpuwait_fast" in gzip.decompress(body)


def test_selection(client):
    """collect[] and exclude[] choose; together, unknown or disabled names are a 400 that says so."""
    assert b"gpuwait_slow" not in client.get("/metrics?exclude[]=slow")[1]
    for query, word in [
        ("collect[]=fast&exclude[]=slow", b"exclude each other"),
        ("collect[]=nonsense", b"'nonsense'"),
        ("collect[]=off", b"not enabled"),
        ("exclude%5B%5D=nonsense", b"'nonsense'"),
    ]:
        answer, body = client.get(f"/metrics?{query}")
        assert answer.status == 400
        assert word in body
        assert body.count(b"\n") == 1


def test_other_paths_and_methods(client):
    """A further page, health and readiness, 404 and 405."""
    answer, body = client.get("/")
    assert (answer.status, answer.getheader("X-Content-Type-Options")) == (200, "nosniff")
    assert b"/metrics" in body
    assert client.get("/-/healthy")[0].status == 200
    assert client.get("/-/ready")[0].status == 503
    assert client.get("/nothing")[0].status == 404
    assert client.get("/../../etc/passwd")[0].status == 404
    assert client.get("/metrics", method="POST")[0].status == 405
    answer, body = client.get("/metrics?collect[]=fast", method="HEAD")
    assert (answer.status, body) == (200, b"")


def test_the_scrapers_time_out_is_kept(client):
    """With a time-out below what a collector takes, the rest arrives before it."""
    begin = time.monotonic()
    answer, body = client.get("/metrics", X_Prometheus_Scrape_Timeout_Seconds="0.6")
    assert time.monotonic() - begin < 0.6
    assert answer.status == 200
    assert b"gpuwait_fast" in body
    assert b'gpuwait_collector_success{collector="slow"} 0' in body


def test_too_many_scrapes_are_refused_and_health_goes_on(client):
    """Beyond --web.max-requests a scrape gets 503 at once; health checks still answer."""
    busy = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
        connection.request("GET", "/metrics")
        busy.append(connection)
    time.sleep(0.3)
    begin = time.monotonic()
    assert client.get("/metrics")[0].status == 503
    assert client.get("/-/healthy")[0].status == 200
    assert time.monotonic() - begin < 0.5
    for connection in busy:
        assert connection.getresponse().status == 200
        connection.close()


def test_silent_and_slow_clients_hold_up_nobody(client):
    """Many connections that say nothing, or half a request, leave scrapes as they are."""
    idle = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(50)]
    for s in idle[::2]:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x")
    begin = time.monotonic()
    assert client.get("/metrics?collect[]=fast")[0].status == 200
    assert time.monotonic() - begin < 1
    for s in idle:
        s.close()


def test_a_crowd_of_silent_clients_locks_nobody_out(client):
    """Beyond the limit of connections the longest silent ones make room, at once."""
    idle = []
    for number in range(450):
        s = socket.create_connection(("127.0.0.1", client.port))
        if number % 2:
            s.sendall(b"GET /metr")
        idle.append(s)
    begin = time.monotonic()
    assert client.get("/metrics?collect[]=fast")[0].status == 200
    assert client.get("/-/healthy")[0].status == 200
    assert time.monotonic() - begin < 2
    for s in idle:
        s.close()


def test_huge_headers_are_refused(client):
    """A header block beyond the limit is an error of the client and the server lives."""
    with socket.create_connection(("127.0.0.1", client.port)) as s:
        s.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n")
        assert b" 431 " in s.recv(100)
    assert client.get("/-/healthy")[0].status == 200


def test_sigterm_finishes_the_request_in_hand(client):
    """A scrape under way is answered, and the process ends within two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.request("GET", "/metrics")
    time.sleep(0.2)
    begin = time.monotonic()
    os.kill(client.process.pid, signal.SIGTERM)
    answer = connection.getresponse()
    assert answer.status == 200
    assert b"gpuwait_slow 1" in answer.read()
    assert client.process.wait(3) == 0
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.5", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text, text/plain;q=0", True),
    ],
)
def test_negotiation(accept, wanted):
    """OpenMetrics only where the text format is not taken."""
    assert wants_openmetrics(accept) is wanted


@pytest.mark.parametrize(
    ("header", "limit"),
    [(None, 9.5), ("10", 9.5), ("3", 2.5), ("0.6", 0.3), ("nan", 9.5), ("-1", 9.5), ("x", 9.5), ("1e9", 9.5)],
)
def test_scrape_limit(header, limit):
    """Half a second before the scraper gives up, at most half of a short time-out."""
    assert scrape_limit(header) == limit
