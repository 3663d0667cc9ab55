"""TLS and client certificates, over real sockets, and what happens while certificates change."""

import socket
import ssl
import time
import warnings

import pytest

from gpuwait.explain import LockedError, ask

TLS = "tls_server_config:\n  cert_file: {0}/server.crt\n  key_file: {0}/server.key\n"
VERIFY = TLS + "  client_ca_file: {0}/ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
NAMED = VERIFY + '  client_allowed_sans: [prometheus.example, "2001:db8:0::7", "spiffe://site/prometheus"]\n'


def test_scrapes_over_tls(start, certificates):
    """The whole answer, several on one connection, and the shortest of all."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    connection = daemon.connect()
    for _ in range(3):
        connection.request("GET", "/metrics")
        body = connection.getresponse().read()
        assert b"gpuwait_vmstat_compact_stall_total 7\n" in body
    connection.request("HEAD", "/")
    assert connection.getresponse().read() == b""
    assert connection.sock.version() == "TLSv1.3"
    connection.close()
    assert daemon.end() == 0
    assert "Traceback" not in daemon.log.read_text()


def test_http_on_the_port_of_https_is_told_so(start, certificates):
    """400 in plain text for who forgot the s; other bytes get nothing, and both cost one connection."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    found = daemon.raw(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert found.endswith(b"\r\n\r\nthis port speaks https, not http\n")
    assert b"gpuwait_" not in found
    assert b"HTTP" not in daemon.raw(b"\x16\x03\x01\x00\x05hello")
    assert daemon.get("/-/healthy")[0] == 200
    assert len(daemon.lines("TLS handshake of 127.0.0.1 failed")) == 1


def test_client_certificates_of_a_daemon(start, certificates):
    """The same with the program: refused before a byte of HTTP is read, and the log says why."""
    daemon = start(config=NAMED.format(certificates), trust=certificates)
    assert daemon.attempt("client") == 200
    for client in (None, "foreign", "expired", "other-name", "by-mail"):
        assert daemon.attempt(client) == "refused"
    assert daemon.attempt("by-address") == 200
    line = daemon.lines("source=web_gate")[0]
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in line or "required" in line


@pytest.mark.parametrize(("config", "spoken"), [("TLS13", "TLSv1.3"), ("TLS12", "TLSv1.2")])
def test_versions(start, certificates, config, spoken):
    """Only what min_version and max_version allow; TLS 1.1 never."""
    text = TLS.format(certificates) + f"  min_version: {config}\n  max_version: {config}\n"
    daemon = start(config=text, trust=certificates)
    other = ssl.TLSVersion.TLSv1_2 if config == "TLS13" else ssl.TLSVersion.TLSv1_3
    assert daemon.attempt() == 200
    assert daemon.attempt(minimum_version=other, maximum_version=other) == "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = daemon.context()
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", daemon.port)) as plain,
        pytest.raises(ssl.SSLError, match=r"(?i)protocol|alert|version"),
    ):
        old.wrap_socket(plain, server_hostname="localhost")
    with daemon.context().wrap_socket(
        socket.create_connection(("127.0.0.1", daemon.port)), server_hostname="localhost"
    ) as s:
        assert s.version() == spoken


def test_a_handshake_that_stalls_holds_up_nobody(start, certificates):
    """Silent, half a greeting, or gone in the middle: others are served, and the daemon stays as it was."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    daemon.get()
    before, stalled = daemon.usage(), []
    for number in range(120):
        s = socket.create_connection(("127.0.0.1", daemon.port))
        if number % 3:
            s.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * (number % 7))
        stalled.append(s)
    begin = time.monotonic()
    assert daemon.get()[0] == 200
    assert time.monotonic() - begin < 2
    during = daemon.usage()
    assert during[0] - before[0] < 20 * 1024
    for s in stalled:
        s.close()
    after = daemon.usage()
    assert (after[1], after[2]) == (before[1], before[2])


def test_a_thousand_handshakes_leave_nothing_behind(start, certificates):
    """Complete ones and broken ones: memory, threads and descriptors stay."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    context = daemon.context()

    def storm(count):
        for number in range(count):
            with socket.create_connection(("127.0.0.1", daemon.port)) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if number % 4 == 0:
                    s.sendall(b"\x16\x03\x01\x00\x05hello")
                else:
                    with context.wrap_socket(s, server_hostname="localhost") as t:
                        t.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
                        assert b"200 OK" in t.recv(4096)

    storm(200)
    before = daemon.usage()
    storm(800)
    after = daemon.usage()
    assert after[0] - before[0] < 4 * 1024
    assert after[1:] == before[1:]


def test_explain_says_that_the_daemon_speaks_https(start, certificates):
    """One line with the command that asks it, and what it may need besides."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    with pytest.raises(LockedError, match=f"curl 'https://127.0.0.1:{daemon.port}/api/v1/verdict") as found:
        ask(f"http://127.0.0.1:{daemon.port}")
    assert str(found.value).endswith(", with -u NAME where it asks for a password")
