"""TLS and client certificates, over real sockets, and what happens while certificates change."""

import http.client
import shutil
import socket
import ssl
import threading
import time
import warnings

import pytest
from cryptography.hazmat.primitives import serialization

from gpuwait.explain import LockedError, ask
from gpuwait.strict_yaml import FileError
from gpuwait.web_config import parse
from gpuwait.web_door import Door
from gpuwait.web_tls import build, may_enter

TLS = "tls_server_config:\n  cert_file: {0}/server.crt\n  key_file: {0}/server.key\n"
VERIFY = TLS + "  client_ca_file: {0}/ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
IF_GIVEN = VERIFY.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
NAMED = VERIFY + '  client_allowed_sans: [prometheus.example, "2001:db8:0::7", "spiffe://site/prometheus"]\n'


def attempt(daemon, client=None, **options):
    """200 where the daemon answers, else "refused"."""
    connection = daemon.connect(client=client, **options)
    try:
        connection.request("GET", "/-/healthy")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return "refused"
    finally:
        connection.close()


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


@pytest.mark.parametrize(
    ("config", "client", "answer"),
    [
        (VERIFY, None, "refused"),
        (VERIFY, "client", 200),
        (VERIFY, "nameless", 200),
        (VERIFY, "foreign", "refused"),
        (VERIFY, "expired", "refused"),
        (IF_GIVEN, None, 200),
        (IF_GIVEN, "client", 200),
        (IF_GIVEN, "foreign", "refused"),
        (NAMED, None, "refused"),
        (NAMED, "client", 200),
        (NAMED, "by-address", 200),
        (NAMED, "by-uri", 200),
        (NAMED, "by-mail", "refused"),
        (NAMED, "other-name", "refused"),
        (NAMED, "nameless", "refused"),
        (NAMED, "foreign", "refused"),
    ],
)
def test_client_certificates(config, client, answer, issued):
    """Who comes in with which certificate: missing, of another authority, expired, of another name."""
    found = exchange(parse(config.format(issued), str(issued / "web.yml")).tls, issued, client)
    assert found == answer


def exchange(tls, issued, client):
    """One handshake within this process, with the checks that the gate makes."""
    server = build(tls, "web.yml", (issued / "ca.crt").read_bytes())
    context = ssl.create_default_context(cafile=issued / "ca.crt")
    if client:
        context.load_cert_chain(issued / f"{client}.crt", issued / f"{client}.key")
    ours, theirs = socket.socketpair()
    outcome = []

    def serve():
        try:
            with server.wrap_socket(ours, server_side=True) as s:
                ok = may_enter(s.getpeercert(), tls.allowed_sans) if tls.allowed_sans else True
                s.sendall(b"200" if ok else b"no!")
        except OSError:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context.wrap_socket(theirs, server_hostname="localhost") as s:
            outcome.append(s.recv(3))
    except OSError:
        pass
    thread.join(10)
    return 200 if outcome == [b"200"] else "refused"


def test_client_certificates_of_a_daemon(start, certificates):
    """The same with the program: refused before a byte of HTTP is read, and the log says why."""
    daemon = start(config=NAMED.format(certificates), trust=certificates)
    assert attempt(daemon, "client") == 200
    for client in (None, "foreign", "expired", "other-name", "by-mail"):
        assert attempt(daemon, client) == "refused"
    assert attempt(daemon, "by-address") == 200
    line = daemon.lines("source=web_gate")[0]
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in line or "required" in line


@pytest.mark.parametrize(("config", "spoken"), [("TLS13", "TLSv1.3"), ("TLS12", "TLSv1.2")])
def test_versions(start, certificates, config, spoken):
    """Only what min_version and max_version allow; TLS 1.1 never."""
    text = TLS.format(certificates) + f"  min_version: {config}\n  max_version: {config}\n"
    daemon = start(config=text, trust=certificates)
    other = ssl.TLSVersion.TLSv1_2 if config == "TLS13" else ssl.TLSVersion.TLSv1_3
    assert attempt(daemon) == 200
    assert attempt(daemon, minimum_version=other, maximum_version=other) == "refused"
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


def test_ciphers_and_curves(issued):
    """The context has the ciphers of the file for TLS 1.2, in its order, and no other."""
    text = TLS.format(issued) + (
        "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]\n"
        "  curve_preferences: [X25519]\n"
    )
    context = build(parse(text, "f").tls, "f")
    found = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert found == ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA"]
    assert context.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    theirs = parse(text + "  prefer_server_cipher_suites: false\n", "f").tls
    assert not build(theirs, "f").options & ssl.OP_CIPHER_SERVER_PREFERENCE


@pytest.mark.skipif(hasattr(ssl.SSLContext, "set_groups"), reason="this Python sets several curves")
def test_several_curves_are_refused_where_they_cannot_be_had(issued):
    """Rather than taking the first and dropping the others."""
    text = TLS.format(issued) + "  curve_preferences: [X25519, CurveP256]\n"
    with pytest.raises(FileError, match=r"^f: tls_server_config\.curve_preferences: "):
        build(parse(text, "f").tls, "f")


def test_inline_certificates(issued):
    """PEM text in the configuration itself makes the same context, without a file."""

    def indented(name):
        return "".join(f"    {line}\n" for line in (issued / name).read_text().splitlines())

    text = (
        f"tls_server_config:\n  cert: |\n{indented('server.crt')}  key: |\n{indented('server.key')}"
        f"  client_ca: |\n{indented('ca.crt')}  client_auth_type: RequireAndVerifyClientCert\n"
    )
    tls = parse(text, "f").tls
    assert exchange(tls, issued, "client") == 200
    assert exchange(tls, issued, "foreign") == "refused"


def broken(folder, what):
    """Spoil one file; the words of the refusal."""
    if what == "other key":
        shutil.copy(folder / "second.key", folder / "server.key")
        return "the key does not belong to the certificate"
    if what == "encrypted":
        key = serialization.load_pem_private_key((folder / "server.key").read_bytes(), None)
        secret = serialization.BestAvailableEncryption(b"passphrase")
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / "server.key").write_bytes(key.private_bytes(*form, secret))
        return "the key is encrypted"
    name = {"no key": "server.key", "no cert": "server.crt", "no authority": "ca.crt"}[what]
    (folder / name).write_text("nothing of the kind\n")
    return "in PEM form"


@pytest.mark.parametrize("what", ["other key", "no key", "no cert", "no authority", "encrypted"])
def test_a_broken_file_is_refused_in_one_line(certificates, what):
    """With the path of the file and what is wrong, and no word of its content."""
    words = broken(certificates, what)
    path = certificates / "web.yml"
    path.write_text(VERIFY.format(certificates))
    with pytest.raises(FileError) as found:
        Door(str(path))
    assert words in str(found.value)
    assert str(found.value).startswith(f"{path}: tls_server_config")
    assert "\n" not in str(found.value)
    assert "nothing of the kind" not in str(found.value)


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
    """One line with the command that asks it."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    with pytest.raises(LockedError, match=f"curl 'https://127.0.0.1:{daemon.port}/api/v1/verdict"):
        ask(f"http://127.0.0.1:{daemon.port}")
