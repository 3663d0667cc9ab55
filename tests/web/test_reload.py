"""Files of the web configuration that change while the daemon runs."""

import http.client
import shutil
import socket
import threading
import time

import pytest

from gpuwait.web_door import Door

TLS = "tls_server_config:\n  cert_file: {0}/server.crt\n  key_file: {0}/server.key\n"
VERIFY = TLS + "  client_ca_file: {0}/ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"


def serial(daemon):
    """Serial number of the certificate that the daemon shows now."""
    with daemon.context().wrap_socket(
        socket.create_connection(("127.0.0.1", daemon.port)), server_hostname="localhost"
    ) as s:
        return s.getpeercert()["serialNumber"]


def test_a_key_rotated_under_load_fails_no_request(start, certificates):
    """Certificate and key are replaced one after the other, twice, while clients come and stay."""
    daemon = start(config=TLS.format(certificates), trust=certificates)
    first, stop, failed, done = serial(daemon), threading.Event(), [], []

    def load(*, stay):
        connection = None
        while not stop.is_set():
            try:
                connection = connection or daemon.connect()
                connection.request("GET", "/metrics")
                answer = connection.getresponse()
                assert answer.status == 200
                assert answer.read().endswith(b"\n")
                done.append(1)
            except (OSError, http.client.HTTPException, AssertionError) as error:
                failed.append(error)
            if not stay:
                connection.close()
                connection = None
            time.sleep(0.01)
        if connection is not None:
            connection.close()

    threads = [threading.Thread(target=load, kwargs={"stay": n == 0}) for n in range(3)]
    for thread in threads:
        thread.start()
    shutil.copy(certificates / "second.crt", certificates / "server.crt")
    time.sleep(2.2)  # long enough that the pair, which does not fit, is looked at and refused
    shutil.copy(certificates / "second.key", certificates / "server.key")
    daemon.lines("the new configuration is in force")
    assert serial(daemon) != first
    stop.set()
    for thread in threads:
        thread.join(10)
    assert failed == []
    assert len(done) > 50
    assert len(daemon.lines("the key does not belong to the certificate; the last good configuration")) == 1


@pytest.fixture
def door(certificates):
    """A door on a file, a way to write it and look twice, and what it says of it."""
    path = certificates / "web.yml"

    def write(text, looks=2):
        path.write_text(text)
        for _ in range(looks):
            door.look_again()
        return door.config

    path.write_text(VERIFY.format(certificates))
    door = Door(str(path))
    return door, write


def test_a_change_counts_once_it_stands_still(door, certificates, sesame):
    """What is seen only once may be half of a file."""
    _, write = door
    better = VERIFY.format(certificates) + sesame[0]
    assert not write(better, looks=1).users
    assert write(better, looks=1).users


@pytest.mark.parametrize(
    "text",
    ["", "tls_server_config:\n  cert_f", "basic_auth_users:\n  alice: nonsense\n", "\0\xff", "[" * 50],
)
def test_a_broken_or_empty_file_opens_nothing(door, caplog, text):
    """Whatever stands there, the last good configuration stays in force, and the log says it once."""
    found, write = door
    before, terms = found.config, found.gate()
    for _ in range(4):
        assert write(text) is before
    assert terms is not None
    assert len([r for r in caplog.records if "stays in force" in r.getMessage()]) == 1


def test_a_vanished_file_opens_nothing(door, certificates, caplog):
    """Key or configuration removed: as before; back again: quiet, and the next trouble is told again."""
    found, _ = door
    before = found.config
    (certificates / "server.key").rename(certificates / "away")
    for _ in range(3):
        found.look_again()
    assert found.config is before
    (certificates / "away").rename(certificates / "server.key")
    found.look_again()
    (certificates / "web.yml").unlink()
    for _ in range(3):
        found.look_again()
    assert found.config is before
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 2
    assert "server.key: No such file" in told[0]
    assert "web.yml: No such file" in told[1]


def test_an_authority_taken_away_ends_what_it_let_in(start, certificates):
    """Connections made under the old list of authorities are good for nothing more, and new ones refused."""
    daemon = start(config=VERIFY.format(certificates), trust=certificates)
    connection = daemon.connect(client="client")
    connection.request("GET", "/-/healthy")
    assert connection.getresponse().read() == b"gpuwait is healthy\n"
    (certificates / "new-ca.crt").write_text((certificates / "other-ca.crt").read_text())
    (certificates.parent / "web.yml").write_text(
        VERIFY.format(certificates).replace("/ca.crt", "/new-ca.crt")
    )
    daemon.lines("the new configuration is in force")
    with pytest.raises((OSError, http.client.HTTPException)):  # noqa: PT012
        connection.request("GET", "/-/healthy")
        connection.getresponse()
    assert daemon.attempt("client") == "refused"
    assert daemon.attempt("foreign") == 200
