"""Sessions of TLS 1.2 are not resumed: they would take memory, and spare a client its certificate."""

import socket
import ssl

import pytest

from gpuwait import web_gate
from gpuwait.web_door import Door

TLS = "tls_server_config:\n  cert_file: {0}/server.crt\n  key_file: {0}/server.key\n"
VERIFY = TLS + "  client_ca_file: {0}/ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
IF_GIVEN = VERIFY.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")


def old(daemon, client=None):
    """A client's context that speaks TLS 1.2 only."""
    return daemon.context(client, maximum_version=ssl.TLSVersion.TLSv1_2)


def shake(daemon, context, session=None, name="localhost"):
    """One connection: its session, and whether it was resumed."""
    plain = socket.create_connection(("127.0.0.1", daemon.port), timeout=10)
    with context.wrap_socket(plain, server_hostname=name, session=session) as s:
        s.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := s.recv(4096):
            answer += piece
        assert b"200 OK" in answer
        return s.session, s.session_reused


def test_no_session_is_resumed(start, certificates):
    """A client that offers its session shakes hands in full, again and again."""
    daemon = start(config=VERIFY.format(certificates), trust=certificates)
    context = old(daemon, "client")
    session, _ = shake(daemon, context)
    assert session.id
    for _ in range(5):
        session, reused = shake(daemon, context, session)
        assert not reused


def test_sessions_take_no_memory(start, certificates):
    """Two thousand handshakes of TLS 1.2 leave nothing behind; 10 KiB each would be 19 MiB."""
    daemon = start(config=IF_GIVEN.format(certificates), trust=certificates)
    context, name = old(daemon, "client"), ".".join(["a" * 60] * 4)
    context.check_hostname = False
    for _ in range(300):
        shake(daemon, context, name=name)
    before = daemon.usage()
    for _ in range(2000):
        shake(daemon, context, name=name)
    after = daemon.usage()
    print(f"{(after[0] - before[0])} KiB")
    assert after[0] - before[0] < 4 * 1024


@pytest.fixture
def gate(certificates):
    """The gate of a door with TLS."""
    path = certificates / "web.yml"
    path.write_text(VERIFY.format(certificates))
    return Door(str(path)).gate()


def finish(gate, issued, version):
    """A handshake within this process; both ends, and the server's context."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    server, _ = gate.wrap(ours)
    context = ssl.create_default_context(cafile=issued / "ca.crt")
    context.maximum_version = version
    context.load_cert_chain(issued / "client.crt", issued / "client.key")
    client = context.wrap_socket(theirs, server_hostname="localhost", do_handshake_on_connect=False)
    left = [server, client]
    while left:
        for end in list(left):
            try:
                end.do_handshake()
                left.remove(end)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
    return server, client


@pytest.mark.parametrize(
    ("version", "again"), [(ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, False)]
)
def test_a_context_with_a_session_is_not_used_again(gate, issued, version, again):
    """TLS 1.3 leaves no session and shares one context; after one of TLS 1.2 the next has another."""
    first, *_ = ends = finish(gate, issued, version)
    second, *_ = more = finish(gate, issued, version)
    assert (second.context is first.context) == again
    for end in (*ends, *more):
        end.close()


def test_a_context_has_few_handshakes_at_a_time(gate):
    """Sessions of handshakes that end together would stay in one context as long as one connection does."""
    pairs, contexts = [], set()
    for _ in range(40):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        server, _ = gate.wrap(ours)
        with pytest.raises(ssl.SSLWantReadError):
            server.do_handshake()
        contexts.add(server.context)
        pairs += [server, theirs]
    assert len(contexts) == 40 // web_gate.AT_ONCE == 5
    for end in pairs:
        end.close()
