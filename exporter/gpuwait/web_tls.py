"""The TLS context of a web configuration, and whether a client's certificate has a name that may come in.

Only a daemon with `tls_server_config` imports this.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import ssl
from collections.abc import Mapping
from typing import Any

from gpuwait.strict_yaml import FileError
from gpuwait.web_config import Pem, Tls
from gpuwait.web_names import DEFAULT_CIPHERS

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_MODES = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
#: No tickets: a resumed session would outlive a change of the certificates that may come in.
#: For sessions that the server itself keeps, see `web_gate.Terms`.
_OPTIONS = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET


def build(tls: Tls, name: str, files: Mapping[str, bytes]) -> ssl.SSLContext:
    """A server's context, in about a millisecond; raises FileError, OSError.

    name:  of the configuration file, for messages.
    files: content of the files that `tls` names, by path; none is opened here.
    """
    where = f"{name}: tls_server_config"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    context.options |= _OPTIONS
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    if tls.server_order:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_pair(context, tls, files, where)
    _set_ciphers(context, tls, where)
    _set_curves(context, tls, where)
    if tls.client_ca is not None:
        _set_authorities(context, tls.client_ca, _content(tls.client_ca, files), where)
    context.verify_mode = _MODES[tls.clients]
    return context


def _content(pem: Pem, files: Mapping[str, bytes]) -> bytes:
    return files[pem.path] if pem.path else pem.text.encode()


def _load_pair(context: ssl.SSLContext, tls: Tls, files: Mapping[str, bytes], where: str) -> None:
    opened: list[int] = []

    def path(pem: Pem) -> str:
        # What was read and compared is what counts, whatever stands in the file by now.
        opened.append(in_memory(_content(pem, files)))
        return f"/proc/self/fd/{opened[-1]}"

    def no_passphrase() -> str:
        raise FileError(f"{where}.{tls.key.key}: the key is encrypted; it must not be")

    try:
        context.load_cert_chain(path(tls.cert), path(tls.key), no_passphrase)
    except OSError as error:
        if not isinstance(error, ssl.SSLError) and error.errno != errno.ESPIPE:
            raise
        why = "the key does not belong to the certificate"
        reason = getattr(error, "reason", None)
        if reason != "KEY_VALUES_MISMATCH":  # ESPIPE: a pipe hides which of the two it is
            why = f"not a certificate chain and its private key in PEM form ({reason or 'no reason'})"
        both = " and ".join(f"{p.key} {p.path}".strip() for p in (tls.cert, tls.key))
        raise FileError(f"{where}: {both}: {why}") from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


def in_memory(content: bytes) -> int:
    """A descriptor to read the content from, without a file: Python's ssl takes certificates by path only.

    Raises OSError.
    """
    try:
        reader = writer = os.memfd_create("pem")
    except (AttributeError, OSError):  # before glibc 2.27 and Linux 3.17, or forbidden
        reader, writer = os.pipe()
    try:
        if reader != writer:
            os.set_blocking(writer, False)
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, max(len(content), 1))
        if os.write(writer, content) < len(content):
            raise OSError(errno.ENOSPC, "a certificate or key is too long for this system")
    except OSError:
        os.close(reader)
        raise
    finally:
        if reader != writer:
            os.close(writer)
    return reader


def _set_ciphers(context: ssl.SSLContext, tls: Tls, where: str) -> None:
    try:
        context.set_ciphers(":".join(tls.ciphers or DEFAULT_CIPHERS))
    except ssl.SSLError as error:
        raise FileError(f"{where}.cipher_suites: {ssl.OPENSSL_VERSION} knows none of them") from error
    known = {cipher["name"] for cipher in context.get_ciphers()}
    for cipher in tls.ciphers:
        if cipher not in known:
            raise FileError(f"{where}.cipher_suites: {ssl.OPENSSL_VERSION} does not know {cipher}")


def _set_curves(context: Any, tls: Tls, where: str) -> None:
    if not tls.curves:
        return
    if hasattr(context, "set_groups"):  # Python 3.15
        context.set_groups(":".join(tls.curves))
    elif len(tls.curves) == 1:
        context.set_ecdh_curve(tls.curves[0])
    else:
        raise FileError(
            f"{where}.curve_preferences: this version of Python sets one curve or leaves all to OpenSSL: "
            "name one, or leave the key out"
        )


def _set_authorities(context: ssl.SSLContext, pem: Pem, content: bytes, where: str) -> None:
    # The text around the certificates is free, and need not be ASCII.
    text = content.decode("ascii", "ignore")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        what = pem.path or "the text"
        raise FileError(f"{where}.{pem.key}: {what} holds no certificates in PEM form") from error
    # As in Go: who is on the list is trusted, also where an authority above it is not on it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def may_enter(certificate: Mapping[str, Any] | None, allowed: tuple[str, ...]) -> bool:
    """Tell whether a verified certificate has one of these alternative names, where there are any.

    Who shows no certificate has none. Names are compared as they are, addresses by value.
    """
    if not allowed:
        return True
    wanted = {_plain(name) for name in allowed}
    return any(
        (_plain(value) if kind == "IP Address" else value) in wanted
        for kind, value in (certificate or {}).get("subjectAltName", ())
        if kind in ("DNS", "email", "URI", "IP Address")
    )


def _plain(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name
