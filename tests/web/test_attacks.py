"""Clients that mean harm, or behave as if: the daemon serves the others, says no, and stays as it was.

One daemon takes it all. Bounds on time are generous: they tell stuck from slow.
"""

import contextlib
import http.client
import os
import re
import socket
import threading
import time

import pytest

ASK = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
CLOSE = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def scrape(daemon, within=2.0):
    """One scrape, which must be whole and quick."""
    begin = time.monotonic()
    status, _, body = daemon.get()
    assert status == 200
    assert b"gpuwait_vmstat_compact_stall_total 7\n" in body
    took = time.monotonic() - begin
    assert took < within
    return took


def dial(daemon, small=False):
    s = socket.socket()
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.settimeout(10)
    s.connect(("127.0.0.1", daemon.port))
    return s


@pytest.mark.parametrize(
    "begin",
    [b"G", ASK[:-2], b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n", b""],
    ids=["first byte", "all but the last line", "body", "silence"],
)
def test_slow_clients(crowd, begin):
    """A hundred that send a byte now and then: scrapes go on, no thread is taken."""
    scrape(crowd)
    threads = crowd.usage()[1]
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(dial(crowd)) for _ in range(100)]
        for s in slow:
            s.sendall(begin)
        for _ in range(3):
            for s in slow:
                if begin:
                    s.sendall(b"a")
            scrape(crowd)
        assert crowd.usage()[1] == threads


def test_half_open_connections(crowd):
    """Clients that stop sending, or vanish with a reset, leave no descriptor behind."""
    scrape(crowd)
    before = crowd.usage()
    for number in range(100):
        s = dial(crowd)
        s.sendall(ASK[: number % len(ASK)])
        if number % 2:
            s.shutdown(socket.SHUT_WR)
        else:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
    scrape(crowd)
    assert crowd.usage()[1:] == before[1:]


BAD = {
    "header without end": (b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000, b"431"),
    "ten thousand headers": (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000 + b"\r\n", b"431"),
    "long path": (b"GET /" + b"a" * 30_000 + b" HTTP/1.1\r\n\r\n", b"431"),
    "no header": (b"GET / HTTP/1.1\r\nnonsense\r\n\r\n", b"400"),
    "space in a name": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"400"),
    "folded header": (b"GET / HTTP/1.1\r\nA: b\r\n\0\0\r\n\r\n", b"400"),
    "bare carriage return": (b"GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n", b"400"),
    "no method": (b"\r\n\r\n/ HTTP/1.1\r\n\r\n", b"400"),
    "small letters": (b"get /metrics HTTP/1.1\r\n\r\n", b"400"),
    "other protocol": (b"GET / XTTP/1.1\r\n\r\n", b"400"),
    "binary": (bytes(range(256)) + b"\r\n\r\n", b"400"),
    "length of letters": (b"GET / HTTP/1.1\r\nContent-Length: abc\r\n\r\n", b"400"),
    "negative length": (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
    "signed length": (b"GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\nhello", b"400"),
    "two lengths": (b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"400"),
    "length without measure": (b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"400"),
    "body too long": (b"POST / HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", b"413"),
    "chunk too long": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + b"a" * 9000, b"413"),
    "chunk of nonsense": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", b"400"),
    "other encoding": (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", b"501"),
    "both lengths": (
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    "hidden encoding": (b"POST / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", b"400"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_huge_and_malformed_requests(crowd, name):
    """Refused in one answer that repeats nothing of it, and the connection is closed."""
    request, status = BAD[name]
    found = crowd.raw(request + ASK * 3, seconds=2)
    assert found.startswith(b"HTTP/1.") or found == b""
    if found:
        assert found.split(b" ", 2)[1] == status
    assert found.count(b"HTTP/1.") <= 1
    assert b"healthy" not in found
    scrape(crowd)


SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "answers"),
    [
        (b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
         [b"405"]),
        (b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
         [b"200"]),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
         [b"400"]),
        (b"POST /x HTTP/1.1\r\nContent-Length: 5\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n" + CLOSE,
         [b"405", b"200"]),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED, [b"501"]),
        (b"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [b"405"]),
        (b"GET /-/healthy HTTP/1.1\r\nHost: x\nX: y\r\n\r\n" + SMUGGLED, [b"400"]),
    ],
)  # fmt: skip
def test_no_request_hides_in_another(crowd, request_bytes, answers):
    """Where two readings are possible, the connection ends; a body is never read as a request."""
    found = crowd.raw(request_bytes, seconds=1)
    assert re.findall(rb"HTTP/1\.[01] (\d+) ", found) == answers
    assert b"gpuwait_" not in found


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/../metrics", b"404"),
        (b"/%2e%2e/%2e%2e/etc/passwd", b"404"),
        (b"/metrics/../../etc/passwd", b"404"),
        (b"/metrics%00", b"404"),
        (b"/metrics%0d%0aSet-Cookie:%20a=b", b"404"),
        (b"/..%5c..%5cetc", b"404"),
        (b"/metrics/", b"404"),
        (b"//metrics", b"200"),
        (b"/%6detrics", b"200"),
        (b"http://elsewhere.example/metrics", b"200"),
        (b"http://169.254.169.254/latest/meta-data", b"404"),
        (b"//169.254.169.254/metrics", b"404"),
        (b"*", b"404"),
        (b"/metrics?collect[]=<script>alert(1)</script>", b"400"),
        (b"/metrics?" + b"collect[]=nfs&" * 200, b"400"),
        (b"/?refresh=%00%ff", b"200"),
    ],
)
def test_path_tricks(crowd, target, status):
    """Paths are compared, never opened or fetched, and nothing of them becomes a header or a page."""
    found = crowd.raw(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == status
    assert b"Set-Cookie" not in head
    assert b"root:" not in body
    if status == b"400":
        assert b"Content-Type: text/plain" in head
        assert b"X-Content-Type-Options: nosniff" in head
        assert body.count(b"\n") == 1


def test_a_raw_zero_byte_in_the_path(crowd):
    """It is a path like another: there is none of that name."""
    assert b" 200 " not in crowd.raw(b"GET /metrics\0 HTTP/1.1\r\nConnection: close\r\n\r\n")


def test_http_of_old(crowd):
    """HTTP/0.9 and 1.0 get one answer and the connection is closed."""
    for request in (b"GET /-/healthy\r\n\r\n", b"GET /-/healthy HTTP/1.0\r\n\r\n"):
        found = crowd.raw(request + ASK)
        assert found.count(b"gpuwait is healthy\n") == 1, request


def test_pipelined_requests(crowd):
    """A few are answered in order; hundreds end the connection, since their answers would add up."""
    found = crowd.raw(ASK * 20 + CLOSE.replace(b"/-/healthy", b"/nothing"))
    assert found.count(b"HTTP/1.1 200 OK") == 20
    assert found.rstrip().endswith(b"see /metrics and /")
    assert crowd.raw(ASK * 200, seconds=2).count(b"HTTP/1.1") <= 33
    scrape(crowd)


def test_five_hundred_connections_at_once(crowd):
    """Half of them ask, half say nothing; whoever asks next is served, and afterwards all is as before."""
    scrape(crowd)
    before = crowd.usage()
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(dial(crowd)) for _ in range(500)]
        for s in many[::2]:
            with contextlib.suppress(OSError):  # some have made room for others
                s.sendall(ASK)
        took = [scrape(crowd) for _ in range(5)]
        during = crowd.usage()
        assert during[2] - before[2] <= 400
        assert during[0] - before[0] < 16 * 1024
    scrape(crowd)
    after = crowd.usage()
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 16 * 1024
    print(f"worst scrape {max(took) * 1000:.0f} ms, RSS {before[0]} during {during[0]} after {after[0]} KiB")


def test_answers_that_nobody_reads(crowd):
    """Two hundred that ask for the page and do not read it: memory has a bound and others are served."""
    scrape(crowd)
    before = crowd.usage()
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            s = stack.enter_context(dial(crowd, small=True))
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 40)
        for _ in range(5):
            scrape(crowd, within=5.0)
        during = crowd.usage()
        assert during[0] - before[0] < 48 * 1024
    print(f"RSS {before[0]} during {during[0]} KiB")


def test_a_storm_leaves_nothing_behind(crowd):
    """Two seconds of everything from eight clients: scrapes stay quick, memory, threads and files stay."""
    scrape(crowd)
    before, end = crowd.usage(), time.monotonic() + 2.0
    requests = [request for request, _ in BAD.values()] + [ASK, SMUGGLED, b"", b"\x16\x03\x01"]

    def storm(offset):
        number = offset
        while time.monotonic() < end:
            number += 1
            with contextlib.suppress(OSError), dial(crowd) as s:
                s.sendall(requests[number % len(requests)])
                if number % 3:
                    s.settimeout(0.2)
                    s.recv(100)

    threads = [threading.Thread(target=storm, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    took = []
    while time.monotonic() < end:
        took.append(scrape(crowd, within=5.0))
        time.sleep(0.05)
    for thread in threads:
        thread.join(10)
    after = crowd.usage()
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 16 * 1024
    took.sort()
    print(f"scrapes: median {took[len(took) // 2] * 1000:.0f} ms, worst {took[-1] * 1000:.0f} ms")


def test_a_connection_that_dies_while_its_answer_is_made(crowd):
    """The worker's answer finds nobody, and that is all."""
    for _ in range(50):
        s = dial(crowd)
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
    scrape(crowd)
    connection = http.client.HTTPConnection("127.0.0.1", crowd.port, timeout=5)
    connection.request("GET", "/-/healthy")
    assert connection.getresponse().read() == b"gpuwait is healthy\n"
    connection.close()
    assert os.path.exists(f"/proc/{crowd.process.pid}")
