"""A daemon on a host of a few files, certificates made for the occasion, and clients good and bad."""

import datetime
import http.client
import ipaddress
import os
import shutil
import signal
import socket
import ssl
import subprocess  # noqa: TID251 - the daemon is a process of its own, as in life
import sys
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: bcrypt of "opensesame" at the lowest cost.
HASH = "$2b$04$XMrOIVNxvH8JNrYWqW86luH3R/YDUiOW3WRrvMThooh2KTzjFZsWK"


class Authority:
    """Signs certificates into a folder: NAME.crt and NAME.key."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._write(name, self.key, self._sign(self.name, self.key, ca=True))

    def issue(self, name, *sans, days=1):
        """A certificate that ends in so many days, with these alternative names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._write(name, key, self._sign(subject, key, sans=sans, days=days))

    def _sign(self, subject, key, *, ca=False, sans=(), days=1):
        now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - certificates are dated
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=9))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name, key, certificate):
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


@pytest.fixture(scope="session")
def issued(tmp_path_factory):
    """Certificates by name in one folder: two servers, and clients good and bad."""
    folder = tmp_path_factory.mktemp("certificates")
    ca, other = Authority(folder), Authority(folder, "other-ca")
    host = x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    ca.issue("server", *host)
    ca.issue("second", *host)
    ca.issue("client", x509.DNSName("prometheus.example"))
    ca.issue("by-uri", x509.UniformResourceIdentifier("spiffe://site/prometheus"))
    ca.issue("by-address", x509.IPAddress(ipaddress.ip_address("2001:db8::7")))
    ca.issue("by-mail", x509.RFC822Name("metrics@site.example"))
    ca.issue("other-name", x509.DNSName("prometheus.example.evil"))
    ca.issue("nameless")
    ca.issue("expired", x509.DNSName("prometheus.example"), days=-1)
    other.issue("foreign", x509.DNSName("prometheus.example"))
    return folder


@pytest.fixture
def certificates(issued, tmp_path):
    """A copy of the certificates that the test may change."""
    return shutil.copytree(issued, tmp_path / "certificates")


class Daemon:
    """`gpuwait serve` on a tree of a few files."""

    def __init__(self, root, *flags, trust=None, env=None):
        (root / "proc/1").mkdir(parents=True, exist_ok=True)
        (root / "sys").mkdir(exist_ok=True)
        (root / "proc/vmstat").write_text("nr_free_pages 100\ncompact_stall 7\n")
        self.trust, self.log = trust, root / "log"
        paths = [f"--path.procfs={root}/proc", f"--path.sysfs={root}/sys", f"--path.rootfs={root}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpuwait", "serve", "--no-collector.gpu", *paths, *flags,
                 "--web.listen-address=127.0.0.1:0"],
                stderr=log, env={**os.environ, **(env or {})},
            )  # fmt: skip
        self.port = self._port()

    def _port(self):
        end = time.monotonic() + 20
        while time.monotonic() < end and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if " listens on 127.0.0.1:" in line:
                    return int(line.rsplit(":", 1)[1].rstrip('"'))
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def connect(self, *, client=None, **options):
        """A connection: plain, or with TLS that trusts the authority and shows this client's certificate."""
        if self.trust is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        context = self.context(client, **options)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)

    def context(self, client=None, **options):
        context = ssl.create_default_context(cafile=self.trust / "ca.crt")
        if client is not None:
            context.load_cert_chain(self.trust / f"{client}.crt", self.trust / f"{client}.key")
        for name, value in options.items():
            setattr(context, name, value)
        return context

    def get(self, path="/metrics", *, headers=None, client=None, method="GET"):
        """Status, headers by name in small letters and body of one request on a connection of its own."""
        connection = self.connect(client=client)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def attempt(self, client=None, **options):
        """The status of a look at its health, "refused" where none comes."""
        connection = self.connect(client=client, **options)
        try:
            connection.request("GET", "/-/healthy")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return "refused"
        finally:
            connection.close()

    def raw(self, data, seconds=3.0, most=1_000_000):
        """What comes back for these bytes, until the daemon closes or is silent for so long."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            s.sendall(data)
            found = b""
            try:
                while len(found) < most and (piece := s.recv(65536)):
                    found += piece
            except (TimeoutError, ConnectionResetError):
                pass
            return found

    def lines(self, text, *, times=1, seconds=10.0):
        """Wait until the log has the text so many times; the lines that have it."""
        end = time.monotonic() + seconds
        while True:
            found = [line for line in self.log.read_text().splitlines() if text in line]
            if len(found) >= times:
                return found
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def usage(self):
        """Resident KiB, threads and descriptors, the smallest of some: a connection takes a moment to go."""
        base, seen = f"/proc/{self.process.pid}", []
        for _ in range(10):
            with open(f"{base}/status") as status:
                rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
            seen.append((rss, len(os.listdir(f"{base}/task")), len(os.listdir(f"{base}/fd"))))
            time.sleep(0.05)
        return tuple(map(min, zip(*seen, strict=True)))

    def end(self):
        """End it as systemd does; the status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(5)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def start(tmp_path):
    """Start a daemon with these flags and, where given, a web configuration; `trust`: folder of its CA."""
    started = []

    def run(*flags, config=None, trust=None, env=None):
        if config is not None:
            (tmp_path / "web.yml").write_text(config)
            flags = (*flags, f"--web.config.file={tmp_path / 'web.yml'}")
        started.append(Daemon(tmp_path, *flags, trust=trust, env=env))
        return started[-1]

    yield run
    for daemon in started:
        daemon.process.kill()
        daemon.process.wait()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A plain daemon for attacks; the tests of a module share it, and it must outlive them."""
    daemon = Daemon(tmp_path_factory.mktemp("crowd"))
    yield daemon
    log = daemon.log.read_text()
    assert daemon.end() == 0
    assert "Traceback" not in log
    assert "exception" not in log


@pytest.fixture
def sesame():
    """A line of `basic_auth_users` with the user alice, and the header that opens."""
    return f"basic_auth_users:\n  alice: {HASH}\n", {"Authorization": "Basic YWxpY2U6b3BlbnNlc2FtZQ=="}
