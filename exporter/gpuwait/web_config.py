"""`--web.config.file`: TLS, client certificates, users, headers and a limit of requests.

The format is that of the exporters of the Prometheus world (exporter-toolkit,
docs/web-configuration.md). What cannot be honoured is refused: a line that is
read and then ignored would be a door that only looks locked.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuwait import web_names as names
from gpuwait.strict_yaml import FileError, load, mapping

#: 2^16 rounds take 4 s; beyond that a check outlasts the scrape that waits for it.
DEAREST_HASH = 16
_TOP = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_TLS = (
    "cert", "key", "client_ca", "cert_file", "key_file", "client_auth_type", "client_ca_file",
    "client_allowed_sans", "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites",
    "curve_preferences",
)  # fmt: skip
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|us|µs|ns|[smh]))+")
_PART = re.compile(r"([\d.]+)([a-zµ]+)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key: in a file, or as it stands in the configuration. `key` names it in messages."""

    key: str
    path: str = ""
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """`tls_server_config`, with the names of OpenSSL where the file has those of Go.

    clients: policy for client certificates, a key of `names.CLIENT_AUTH`.
    ciphers: of TLS 1.2; empty for `names.DEFAULT_CIPHERS`.
    """

    cert: Pem
    key: Pem
    clients: str = "NoClientCert"
    client_ca: Pem | None = None
    allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    server_order: bool = True
    curves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What the file says.

    headers:  set in every answer.
    users:    bcrypt hash by name; empty for no authentication.
    interval: seconds between two requests, 0 for no limit; `burst` of them may come at once.
    """

    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    interval: float = 0.0
    burst: int = 1


def parse(text: str, name: str) -> WebConfig:
    """The configuration in the text of the file `name`, which relative paths start from.

    Raises FileError.
    """
    data = load(text, name)
    top = mapping({} if data is None else data, name, _TOP)
    interval, burst = _rate(top.get("rate_limit"), f"{name}: rate_limit")
    tls = None
    if "tls_server_config" in top:
        where = f"{name}: tls_server_config"
        tls = _tls(mapping(top["tls_server_config"], where, _TLS), where, os.path.dirname(name))
    return WebConfig(
        tls=tls,
        headers=_http(top.get("http_server_config"), f"{name}: http_server_config"),
        users=_users(top.get("basic_auth_users"), f"{name}: basic_auth_users"),
        interval=interval,
        burst=burst,
    )


def _tls(section: Mapping[str, object], where: str, folder: str) -> Tls:
    cert, key = (_pem(section, k, where, folder) for k in ("cert", "key"))
    if cert is None or key is None:
        missing = "cert" if cert is None else "key"
        raise FileError(f"{where}: needs {missing}_file, or {missing} with the PEM text itself")
    low = _choice(section, "min_version", where, names.VERSIONS, "TLS12")
    high = _choice(section, "max_version", where, names.VERSIONS, "TLS13")
    if low > high:
        raise FileError(f"{where}.min_version: {low} is above max_version, {high}")
    ca = _pem(section, "client_ca", where, folder)
    clients = _choice(section, "client_auth_type", where, names.CLIENT_AUTH, "NoClientCert")
    sans = _list(section, "client_allowed_sans", where)
    if clients == "NoClientCert" and (ca or sans):
        given = ca.key if ca else "client_allowed_sans"
        raise FileError(
            f"{where}: {given} without client_auth_type, which must be RequireAndVerifyClientCert "
            "or VerifyClientCertIfGiven"
        )
    if clients != "NoClientCert" and ca is None:
        raise FileError(f"{where}: client_auth_type {clients} needs client_ca_file or client_ca")
    curves = [_named(v, f"{where}.curve_preferences", names.CURVES)
              for v in _list(section, "curve_preferences", where)]  # fmt: skip
    return Tls(
        cert=cert,
        key=key,
        clients=clients,
        client_ca=ca,
        allowed_sans=sans,
        min_version=low,
        max_version=high,
        ciphers=_ciphers(_list(section, "cipher_suites", where), f"{where}.cipher_suites", low),
        server_order=_boolean(section.get("prefer_server_cipher_suites", True),
                              f"{where}.prefer_server_cipher_suites"),
        curves=tuple(curves),
    )  # fmt: skip


def _ciphers(given: tuple[str, ...], where: str, low: str) -> tuple[str, ...]:
    """Those of TLS 1.2; the three of TLS 1.3 are always on, here as in Go, whether listed or not."""
    found = [_named(v, where, names.CIPHERS) for v in given if v not in names.CIPHERS_OF_13]
    if given and not found and low != "TLS13":
        raise FileError(f"{where}: names no cipher of TLS 1.2: add one, or set min_version: TLS13")
    return tuple(found)


def _pem(section: Mapping[str, object], key: str, where: str, folder: str) -> Pem | None:
    in_file = f"{key}_file"
    if key in section and in_file in section:
        raise FileError(f"{where}: {key} and {in_file} exclude each other: give one of them")
    if in_file in section:
        path = _text(section[in_file], f"{where}.{in_file}", "must be the path of a file")
        return Pem(in_file, path=os.path.join(folder, path))
    if key in section:
        return Pem(key, text=_text(section[key], f"{where}.{key}", "must be a text in PEM form"))
    return None


def _text(value: object, where: str, right: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise FileError(f"{where}: {right}")
    return value


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise FileError(f"{where}: must be true or false")
    return value


def _list(section: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    if key not in section:
        return ()
    value, right = section[key], "must be a list of texts, and not an empty one"
    if not isinstance(value, list) or not value:
        raise FileError(f"{where}.{key}: {right}")
    return tuple(_text(item, f"{where}.{key}", right) for item in value)


def _named(value: str, where: str, known: Mapping[str, str]) -> str:
    if value not in known:
        raise FileError(f"{where}: {value[:60]!r} is not one of {', '.join(known)}")
    return known[value]


def _choice(section: Mapping[str, object], key: str, where: str, known: tuple[str, ...], default: str) -> str:
    value = section.get(key, default)
    if isinstance(value, str) and value in known:
        return value
    why = names.REFUSED.get(value, "") if isinstance(value, str) else ""
    raise FileError(f"{where}.{key}: {str(value)[:60]!r} is not one of {', '.join(known)}{why}")


def _http(data: object, where: str) -> dict[str, str]:
    section = mapping({} if data is None else data, where, ("http2", "headers"))
    # HTTP/1.1 is what every client falls back to, so there is nothing to refuse in http2.
    _boolean(section.get("http2", True), f"{where}.http2")
    given = section.get("headers")
    found = {}
    for header, entry in mapping({} if given is None else given, f"{where}.headers", names.HEADERS).items():
        allowed = names.HEADERS[header]
        # 0 or 1 without quotes, as in the format's own examples; a boolean is no such number.
        number = header == "X-XSS-Protection" and type(entry) is int and entry in (0, 1)
        value = str(entry) if number else entry
        if not isinstance(value, str) or not re.fullmatch(r"[ -~]*", value):
            raise FileError(f"{where}.headers.{header}: must be a text of printable ASCII characters")
        if value and allowed and value not in allowed:
            raise FileError(f"{where}.headers.{header}: {value[:60]!r} is not one of {', '.join(allowed)}")
        if value:
            found[header] = value
    return found


def _users(data: object, where: str) -> dict[bytes, bytes]:
    found = {}
    for user, value in mapping({} if data is None else data, where).items():
        if not user or ":" in user or not user.isprintable():
            raise FileError(f"{where}: {user[:60]!r} is no name: it must be printable, without a colon")
        match = _HASH.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise FileError(
                f"{where}.{user[:60]}: must be a bcrypt hash, as `htpasswd -nBC 10 NAME` prints it"
            )
        if not 4 <= int(match[1]) <= DEAREST_HASH:
            raise FileError(
                f"{where}.{user[:60]}: a cost of {match[1]} is not from 4 to {DEAREST_HASH}: a check would "
                "outlast a scrape"
            )
        found[user.encode()] = match[0].encode()
    return found


def _rate(data: object, where: str) -> tuple[float, int]:
    section = mapping({} if data is None else data, where, ("interval", "burst"))
    burst, interval = section.get("burst", 0), section.get("interval", 0)
    if isinstance(burst, bool) or not isinstance(burst, int) or not 0 <= burst <= 1_000_000:
        raise FileError(f"{where}.burst: must be a whole number")
    text = "0s" if interval in (0, "0") and not isinstance(interval, bool) else interval
    if not isinstance(text, str) or not _DURATION.fullmatch(text):
        raise FileError(f"{where}.interval: must be a time such as 100ms or 1m30s, or 0 for no limit")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds and not burst:
        raise FileError(f"{where}.burst: must be 1 or more, or no request would ever be answered")
    return seconds, max(burst, 1)
