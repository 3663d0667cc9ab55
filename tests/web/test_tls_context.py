"""The TLS context that a configuration makes: client certificates, ciphers, and files that are no good."""

import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from gpuwait.strict_yaml import FileError
from gpuwait.web_config import parse
from gpuwait.web_door import Door
from gpuwait.web_tls import build, may_enter

TLS = "tls_server_config:\n  cert_file: {0}/server.crt\n  key_file: {0}/server.key\n"
VERIFY = TLS + "  client_ca_file: {0}/ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
IF_GIVEN = VERIFY.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
NAMED = VERIFY + '  client_allowed_sans: [prometheus.example, "2001:db8:0::7", "spiffe://site/prometheus"]\n'
ANY_OF_NAME = IF_GIVEN + "  client_allowed_sans: [prometheus.example]\n"


def files_of(tls):
    """Content of the files of a configuration, by path."""
    pems = (pem for pem in (tls.cert, tls.key, tls.client_ca) if pem and pem.path)
    return {pem.path: Path(pem.path).read_bytes() for pem in pems}


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
        (ANY_OF_NAME, None, "refused"),
        (ANY_OF_NAME, "client", 200),
        (ANY_OF_NAME, "nameless", "refused"),
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
    server = build(tls, "web.yml", files_of(tls))
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


def test_ciphers_and_curves(issued):
    """The context has the ciphers of the file for TLS 1.2, in its order, and no other."""
    text = TLS.format(issued) + (
        "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]\n"
        "  curve_preferences: [X25519]\n"
    )
    tls = parse(text, "f").tls
    context = build(tls, "f", files_of(tls))
    found = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert found == ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA"]
    assert context.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    theirs = parse(text + "  prefer_server_cipher_suites: false\n", "f").tls
    assert not build(theirs, "f", files_of(theirs)).options & ssl.OP_CIPHER_SERVER_PREFERENCE


def test_ciphers_by_default(issued):
    """Of TLS 1.2 only those with forward secrecy and authenticated encryption."""
    tls = parse(TLS.format(issued), "f").tls
    ciphers = build(tls, "f", files_of(tls)).get_ciphers()
    assert {cipher["name"] for cipher in ciphers if cipher["protocol"] != "TLSv1.3"} == {
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
    }


def test_a_chain_with_much_text(certificates):
    """A file of 300 KiB, as some tools write them with every certificate spelled out."""
    text = "some words\n" * 30_000 + (certificates / "server.crt").read_text()
    (certificates / "server.crt").write_text(text)
    tls = parse(TLS.format(certificates), "f").tls
    assert exchange(tls, certificates, None) == 200


def test_a_python_without_files_in_memory(certificates, monkeypatch):
    """Where glibc is older than 2.27 a pipe does, up to its size, and what is wrong is still one line."""
    monkeypatch.delattr("os.memfd_create")
    text = "some words\n" * 30_000 + (certificates / "server.crt").read_text()
    (certificates / "server.crt").write_text(text)
    tls = parse(TLS.format(certificates), "f").tls
    assert exchange(tls, certificates, None) == 200
    for words in (b"nothing", (certificates / "second.key").read_bytes()):
        with pytest.raises(FileError, match=r"^f: tls_server_config: cert_file .* in PEM form"):
            build(tls, "f", {**files_of(tls), tls.key.path: words})


@pytest.mark.skipif(hasattr(ssl.SSLContext, "set_groups"), reason="this Python sets several curves")
def test_several_curves_are_refused_where_they_cannot_be_had(issued):
    """Rather than taking the first and dropping the others."""
    text = TLS.format(issued) + "  curve_preferences: [X25519, CurveP256]\n"
    tls = parse(text, "f").tls
    with pytest.raises(FileError, match=r"^f: tls_server_config\.curve_preferences: "):
        build(tls, "f", files_of(tls))


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
