"""The web configuration, right and wrong: a wrong one is one line that names file, key and what is right."""

import subprocess  # noqa: TID251 - the refusal is seen as users see it
import sys

import pytest

from gpuwait.strict_yaml import FileError
from gpuwait.web_config import Pem, Tls, WebConfig, parse
from gpuwait.web_door import remarks, weaker

HASH = "$2b$04$XMrOIVNxvH8JNrYWqW86luH3R/YDUiOW3WRrvMThooh2KTzjFZsWK"
PAIR = "  cert_file: a.crt\n  key_file: /k/a.key\n"
TLS = f"tls_server_config:\n{PAIR}"
EVERYTHING = f"""
tls_server_config:
  cert_file: a.crt
  key_file: /k/a.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.example, 2001:db8::7]
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    - TLS_AES_128_GCM_SHA256
    - TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP256]
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: "default-src 'self'"
    X-Frame-Options: sameorigin
    X-Content-Type-Options: nosniff
    X-XSS-Protection: ""
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
rate_limit:
  interval: 1m30.5s
  burst: 20
"""


def test_every_key():
    """Each key of the format, with relative paths taken from the file's folder and names those of OpenSSL."""
    found = parse(EVERYTHING, "/etc/gpuwait/web.yml")
    assert found == WebConfig(
        tls=Tls(
            cert=Pem("cert_file", path="/etc/gpuwait/a.crt"),
            key=Pem("key_file", path="/k/a.key"),
            clients="RequireAndVerifyClientCert",
            client_ca=Pem("client_ca_file", path="/etc/gpuwait/ca.crt"),
            allowed_sans=("prometheus.example", "2001:db8::7"),
            min_version="TLS12",
            max_version="TLS13",
            ciphers=("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
            server_order=False,
            curves=("prime256v1",),
        ),
        headers={
            "Content-Security-Policy": "default-src 'self'",
            "X-Frame-Options": "sameorigin",
            "X-Content-Type-Options": "nosniff",
            "Strict-Transport-Security": "max-age=31536000",
        },
        users={b"alice": HASH.encode()},
        interval=90.5,
        burst=20,
    )


@pytest.mark.parametrize("text", ["", "{}", "basic_auth_users:\n", "http_server_config: {headers: {}}\n"])
def test_an_empty_file_is_an_open_door(text):
    """As in the format: no keys, no TLS, no users; the log says so at the start."""
    assert parse(text, "f") == WebConfig()
    assert "whoever reaches the port may read" in remarks(parse(text, "f"))[0]


def test_passwords_without_tls_are_worth_a_word():
    """They travel unencrypted; with TLS nothing is said."""
    users = f"basic_auth_users: {{alice: {HASH}}}\n"
    assert remarks(parse(users, "f")) == ["passwords travel unencrypted: there is no tls_server_config"]
    assert remarks(parse(TLS + users, "f")) == []


@pytest.mark.parametrize(("value", "sent"), [("0", "0"), ("1", "1"), ('"1; mode=block"', "1; mode=block")])
def test_a_number_as_a_header(value, sent):
    """X-XSS-Protection is a number in the examples of the format, and need not be quoted."""
    text = f"http_server_config: {{headers: {{X-XSS-Protection: {value}}}}}\n"
    assert parse(text, "f").headers == {"X-XSS-Protection": sent}


def test_inline_pem():
    """Certificate and key may stand in the file itself; the key does not show in a traceback."""
    found = parse("tls_server_config:\n  cert: AAA\n  key: SECRET\n", "f").tls
    assert (found.cert, found.key) == (Pem("cert", text="AAA"), Pem("key", text="SECRET"))
    assert "SECRET" not in repr(found)


@pytest.mark.parametrize(
    ("interval", "seconds"), [("0", 0.0), ("0s", 0.0), ("250ms", 0.25), ("2h45m", 9900.0), ("1us", 1e-6)]
)
def test_durations(interval, seconds):
    """Times as Go writes them."""
    assert parse(f"rate_limit: {{interval: {interval}, burst: 1}}", "f").interval == pytest.approx(seconds)


CA = "  client_ca_file: ca\n"
WRONG = [
    ("tls_server_confg: {}", "unknown key 'tls_server_confg'"),
    ("a: b: c", "line 1"),
    ("- a\n", "must be a mapping"),
    ("basic_auth_users: {}\nbasic_auth_users: {}\n", "stands here twice"),
    ("tls_server_config:\n", "tls_server_config: must be a mapping"),
    ("tls_server_config: {}\n", "tls_server_config: needs cert_file"),
    ("tls_server_config: {cert_file: a}\n", "tls_server_config: needs key_file"),
    ("tls_server_config: {key_file: a}\n", "tls_server_config: needs cert_file"),
    ('tls_server_config: {cert_file: "", key_file: k}\n', "tls_server_config.cert_file: must be the path"),
    ("tls_server_config: {cert_file: 1, key_file: k}\n", "tls_server_config.cert_file: must be the path"),
    (TLS + "  cert: x\n", "cert and cert_file exclude each other"),
    (TLS + "  client_ca: x\n" + CA, "client_ca and client_ca_file exclude each other"),
    (TLS + "  min_versoin: TLS12\n", "unknown key 'min_versoin'"),
    (TLS + "  min_version: TLS14\n", "min_version: 'TLS14' is not one of TLS12, TLS13"),
    (TLS + "  min_version: 1.2\n", "min_version: '1.2' is not one of TLS12, TLS13"),
    (TLS + "  min_version: TLS10\n", "RFC 8996"),
    (TLS + "  max_version: TLS11\n", "RFC 8996"),
    (TLS + "  min_version: TLS13\n  max_version: TLS12\n", "TLS13 is above max_version, TLS12"),
    (TLS + "  client_auth_type: Maybe\n", "client_auth_type: 'Maybe' is not one of NoClientCert,"),
    (TLS + "  client_auth_type: RequireAnyClientCert\n" + CA, "that nobody verifies protects nothing"),
    (TLS + "  client_auth_type: RequestClientCert\n", "that nobody verifies protects nothing"),
    (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", "needs client_ca_file or client_ca"),
    (TLS + "  client_auth_type: VerifyClientCertIfGiven\n", "needs client_ca_file or client_ca"),
    (TLS + CA, "client_ca_file without client_auth_type"),
    (TLS + "  client_allowed_sans: [a]\n", "client_allowed_sans without client_auth_type"),
    (TLS + CA + "  client_auth_type: VerifyClientCertIfGiven\n  client_allowed_sans: []\n",
     "not an empty one"),
    (TLS + "  client_allowed_sans: a\n", "client_allowed_sans: must be a list"),
    (TLS + "  client_allowed_sans: [7]\n", "client_allowed_sans: must be a list of texts"),
    (TLS + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n", "'TLS_RSA_WITH_RC4_128_SHA' is not one of"),
    (TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", "names no cipher of TLS 1.2"),
    (TLS + "  curve_preferences: [CurveP224]\n", "'CurveP224' is not one of CurveP256, CurveP384"),
    (TLS + "  prefer_server_cipher_suites: yes please\n", "must be true or false"),
    ("http_server_config: {http2: 2}\n", "http_server_config.http2: must be true or false"),
    ("http_server_config: {headers: {Server: x}}\n", "unknown key 'Server'"),
    ("http_server_config: {headers: {x-frame-options: deny}}\n", "unknown key 'x-frame-options'"),
    ("http_server_config: {headers: {X-Frame-Options: DENY}}\n", "'DENY' is not one of deny, sameorigin"),
    ('http_server_config: {headers: {X-XSS-Protection: "0\\r\\nSet-Cookie: a"}}\n', "printable ASCII"),
    ("http_server_config: {headers: {Content-Security-Policy: 5}}\n", "printable ASCII"),
    ("http_server_config: {headers: {X-XSS-Protection: true}}\n", "printable ASCII"),
    ("http_server_config: {headers: {X-XSS-Protection: 7}}\n", "printable ASCII"),
    ("rate_limit:\n  interval: \x01\n", "line 2: special characters are not allowed"),
    ("basic_auth_users: [alice]\n", "basic_auth_users: must be a mapping"),
    ("basic_auth_users: {alice: secret}\n", "basic_auth_users.alice: must be a bcrypt hash"),
    ("basic_auth_users: {alice: 5}\n", "basic_auth_users.alice: must be a bcrypt hash"),
    (f"basic_auth_users: {{alice: {HASH}x}}\n", "basic_auth_users.alice: must be a bcrypt hash"),
    (f"basic_auth_users: {{alice: {HASH.replace('04', '17')}}}\n", "cost of 17 is not from 4 to 16"),
    (f"basic_auth_users: {{'a:b': {HASH}}}\n", "'a:b' is no name"),
    (f"basic_auth_users: {{'': {HASH}}}\n", "'' is no name"),
    ("rate_limit: {interval: 1s}\n", "rate_limit.burst: must be 1 or more"),
    ("rate_limit: {interval: 5, burst: 1}\n", "rate_limit.interval: must be a time"),
    ("rate_limit: {interval: soon, burst: 1}\n", "rate_limit.interval: must be a time"),
    ("rate_limit: {burst: -1}\n", "rate_limit.burst: must be a whole number"),
    ("rate_limit: {brust: 1}\n", "unknown key 'brust'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_cannot_be_honoured_is_refused(text, words):
    """One line, with the file, the key and what is right, and never the secret."""
    with pytest.raises(FileError) as found:
        parse(text, "/etc/web.yml")
    assert words in str(found.value)
    assert str(found.value).startswith("/etc/web.yml")
    assert "\n" not in str(found.value)
    assert "secret" not in str(found.value)


USERS = f"basic_auth_users: {{alice: {HASH}}}\n"
VERIFY = TLS + CA + "  client_auth_type: RequireAndVerifyClientCert\n"
NAMED = VERIFY + "  client_allowed_sans: [a]\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (TLS, "", "turning TLS on or off"),
        ("", TLS, "turning TLS on or off"),
        (USERS, "", "letting in who has no password"),
        (VERIFY, TLS, "asking less of client certificates"),
        (VERIFY, TLS + CA + "  client_auth_type: VerifyClientCertIfGiven\n", "asking less"),
        (NAMED, VERIFY, "letting in client certificates of any name"),
        (TLS + "  min_version: TLS13\n", TLS, "a lower min_version"),
        ("", USERS, ""),
        (TLS, NAMED, ""),
        (NAMED, NAMED.replace("[a]", "[b, c]"), ""),
        (USERS, USERS.replace("alice", "bob"), ""),
    ],
)
def test_what_a_running_daemon_does_not_follow(old, new, words):
    """What would open the door needs a restart; what closes or changes it does not."""
    found = weaker(parse(old, "f"), parse(new, "f"))
    assert found.startswith(words)
    assert bool(found) == bool(words)


def refusal(*flags, **env):
    done = subprocess.run(
        [sys.executable, "-m", "gpuwait", "serve", "--no-collector.gpu", "--web.listen-address=127.0.0.1:0",
         *flags],
        capture_output=True, text=True, timeout=30, check=False, env={"PATH": "/usr/bin", **env},
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_wrong_file_is_one_line_and_status_2(tmp_path):
    """As every other option, also where the environment names the file."""
    path = tmp_path / "web.yml"
    path.write_text("tls_server_config: {cert_file: nowhere.crt, key_file: k}\n")
    line = (
        f"gpuwait: --web.config.file: {path}: tls_server_config.cert_file: {tmp_path}/nowhere.crt: "
        "No such file or directory\n"
    )
    assert refusal(f"--web.config.file={path}") == (2, line)
    assert refusal(GPUWAIT_WEB_CONFIG_FILE=str(path)) == (2, line)
    absent = (2, f"gpuwait: --web.config.file: {tmp_path}/none: No such file or directory\n")
    assert refusal(f"--web.config.file={tmp_path}/none") == absent


def test_users_without_bcrypt_are_refused(tmp_path):
    """Where the package is not installed, one line says so: the door does not stand open meanwhile."""
    (tmp_path / "bcrypt.py").write_text("raise ImportError('not here')\n")
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users: {{alice: {HASH}}}\n")
    status, line = refusal(f"--web.config.file={path}", PYTHONPATH=str(tmp_path))
    assert status == 2
    assert line == (
        f"gpuwait: --web.config.file: {path}: basic_auth_users: needs the Python package bcrypt: "
        "pip install bcrypt\n"
    )
