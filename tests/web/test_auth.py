"""Names and passwords: what is right, what it costs, and how little of it can be had at once."""

import base64
import subprocess  # noqa: TID251 - the command is run as users run it
import sys
import threading
import time

import pytest

from gpuwait.explain import LockedError, ask
from gpuwait.strict_yaml import FileError
from gpuwait.web_auth import Answer, Passwords, credentials, try_hashes
from gpuwait.web_config import WebConfig
from gpuwait.web_guard import Bucket, Guard

SESAME = b"$2b$04$XMrOIVNxvH8JNrYWqW86luH3R/YDUiOW3WRrvMThooh2KTzjFZsWK"
SESAME_2A = b"$2a$04$MPB2gjc8Y5NUSsxhmKS26u65f2vaeBhdQKqHwURx9M67Mf4Eow7i."
SESAME_COST_10 = "$2b$10$hzDvhHCHoMD5mx9faXAinuXNYKMDNnsDEqPiEmGayxQm0nO9q6Cy."
#: Of 72 times the letter x.
LONG = b"$2b$04$/d.dPRsMpXEw61TD/Dm35uOU2F.UzZc4p6H5VLsS2EyiTnYgMm/Be"


def header(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize("value", [SESAME, SESAME_2A, SESAME.replace(b"$2b", b"$2y")])
def test_the_right_password_of_each_kind_of_hash(value):
    """$2a$, $2b$ and $2y$, as different programs write them."""
    users, passwords = {b"alice": value}, Passwords()
    assert passwords.ask(users, header("alice", "opensesame"), "a") is Answer.IN
    for name, password in (("alice", "Opensesame"), ("alice", ""), ("bob", "opensesame"), ("", "opensesame")):
        assert passwords.ask(users, header(name, password), "a") is Answer.WRONG


def test_only_the_first_72_bytes_count():
    """As in Go: the rest of a long password is not looked at, one byte less is another password."""
    passwords = Passwords()
    for password, answer in (("x" * 72, "in"), ("x" * 100, "in"), ("x" * 71, "wrong"), ("x\0" * 40, "wrong")):
        assert passwords.ask({b"alice": LONG}, header("alice", password), "a") is Answer(answer)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("", None),
        ("Basic", None),
        ("Basic ", None),
        ("Basic YTpi", (b"a", b"b")),
        ("bAsIc YTpiOmM=", (b"a", b"b:c")),
        ("Basic YTo=", (b"a", b"")),
        ("Basic YWI=", None),
        ("Basic YTpi, Basic YTpi", None),
        ("Basic \xff\xfe", None),
        ("Basic %%%", None),
        ("Bearer YTpi", None),
        ("Basic " + "A" * 16_000, None),
    ],
)
def test_headers(text, found):
    """Basic with name, colon and password; anything else is no credentials."""
    assert credentials(text) == found


class Counting:
    """A check that takes some time of a clock that does not run, and counts."""

    def __init__(self, takes=0.1):
        self.asked, self.takes, self.now = [], takes, 100.0

    def __call__(self, password, against):
        self.asked.append((password, against))
        self.now += self.takes
        return password == b"right"


def test_the_right_password_is_checked_once():
    """Then it is known, until the hash in the file is another one."""
    check = Counting()
    passwords = Passwords(check, lambda: check.now)
    for _ in range(5):
        assert passwords.ask({b"alice": b"h1"}, header("alice", "right"), "a") is Answer.IN
    assert check.asked == [(b"right", b"h1")]
    assert passwords.ask({b"alice": b"h2"}, header("alice", "right"), "a") is Answer.IN
    assert len(check.asked) == 2
    assert passwords.ask({b"bob": b"h1"}, header("alice", "right"), "a") is Answer.WRONG


def test_an_unknown_name_costs_a_check(monkeypatch):
    """Against the hash of one that exists, so that time tells nothing; right by chance, it is still wrong."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    check = Counting()
    assert Passwords(check).ask({b"alice": b"h1"}, header("mallory", "right"), "a") is Answer.WRONG
    assert check.asked == [(b"right", b"h1")]


def test_after_a_failure_the_next_check_waits(monkeypatch):
    """Four times as long as the check took, one second at most: a fifth of a core for who guesses."""
    check, slept = Counting(), []
    monkeypatch.setattr("time.sleep", slept.append)
    passwords = Passwords(check, lambda: check.now)
    for password in ("1", "2", "right", "3"):
        passwords.ask({b"alice": b"h"}, header("alice", password), "a")
    assert slept == pytest.approx([0.4, 0.4, 0.4])
    check.takes, slept[:] = 0.9, []
    passwords.ask({b"alice": b"h"}, header("alice", "4"), "a")
    assert slept == pytest.approx([1.0])


def test_few_of_one_address_may_wait():
    """Two of an address; the third is sent away at once, but who is known comes in."""
    go, asked = threading.Event(), []

    def check(password, _):
        asked.append(password)
        if password != b"right":
            go.wait(10)
        return password == b"right"

    passwords, answers = Passwords(check), []
    users = {b"alice": b"h"}

    def ask(password, address):
        answers.append(passwords.ask(users, header("alice", password), address))

    ask("right", "a")
    threads = [threading.Thread(target=ask, args=(f"w{n}", a)) for n, a in enumerate("aabbc")]
    for thread in threads[:3]:
        thread.start()
    end = time.monotonic() + 5
    while passwords.waiting < 3 and time.monotonic() < end:
        time.sleep(0.01)
    assert passwords.ask(users, header("alice", "w9"), "a") is Answer.BUSY
    threads[3].start()
    while passwords.waiting < 4 and time.monotonic() < end:
        time.sleep(0.01)
    assert passwords.ask(users, header("alice", "w9"), "b") is Answer.BUSY
    assert passwords.ask(users, header("alice", "right"), "a") is Answer.IN
    assert (asked[0], len(asked)) == (b"right", 2)
    go.set()
    for thread in threads[:4]:
        thread.join(10)
    assert answers == [Answer.IN, *[Answer.WRONG] * 4]
    assert passwords.waiting == 0


def test_a_hash_that_bcrypt_cannot_use_is_refused():
    """Named by its user, at the start and not at the first request."""
    with pytest.raises(FileError, match=r"^f: basic_auth_users\.alice: "):
        try_hashes({b"alice": SESAME[:7] + b"." * 21 + b"/" + SESAME[29:]}, "f: basic_auth_users")


def test_a_bucket_gives_a_burst_and_then_a_steady_rate():
    """Three at once, then one every two seconds; none is saved beyond the burst."""
    now = 50.0
    bucket = Bucket(lambda: now)
    assert [bucket.take(2.0, 3) for _ in range(5)] == [True, True, True, False, False]
    now = 53.9
    assert [bucket.take(2.0, 3) for _ in range(2)] == [True, False]
    now = 1000.0
    assert [bucket.take(2.0, 3) for _ in range(4)] == [True, True, True, False]
    assert bucket.take(0.0, 1)


def test_headers_of_the_file_replace_our_own():
    """Each header is sent once, also with an answer of the guard itself."""
    config = WebConfig(headers={"X-Frame-Options": "sameorigin"}, users={b"alice": SESAME})

    def app(_, start):
        start("200 OK", [("Content-Type", "text/plain"), ("X-Frame-Options", "deny")])
        return [b"in"]

    guard, seen = Guard(app, lambda: config), []
    environ = {"REMOTE_ADDR": "a", "HTTP_AUTHORIZATION": header("alice", "opensesame")}
    assert guard(environ, lambda status, headers: seen.append((status, headers))) == [b"in"]
    assert seen[0] == ("200 OK", [("Content-Type", "text/plain"), ("X-Frame-Options", "sameorigin")])
    guard({}, lambda status, headers: seen.append((status, headers)))
    assert seen[1][0] == "401 Unauthorized"
    assert ("WWW-Authenticate", 'Basic realm="gpuwait", charset="UTF-8"') in seen[1][1]
    assert ("X-Frame-Options", "sameorigin") in seen[1][1]


PATHS = [
    "/",
    "/metrics",
    "/api/v1/verdict",
    "/-/healthy",
    "/-/ready",
    "/nowhere",
    "//metrics",
    "/%2e%2e/metrics",
]


def test_every_path_is_behind_the_door(start, sesame):
    """401 without or with wrong credentials, whatever the path or method; the answers as ever with them."""
    config, key = sesame
    daemon = start(config=config)
    daemon.lines("passwords travel unencrypted")
    for path in PATHS:
        for method in ("GET", "POST"):
            status, headers, body = daemon.get(path, method=method)
            assert (status, body) == (401, b"name and password, please\n"), path
            assert headers["www-authenticate"] == 'Basic realm="gpuwait", charset="UTF-8"'
    assert daemon.get(headers={"Authorization": "Basic YWxpY2U6bm8="})[0] == 401
    found = [daemon.get(path, headers=key)[0] for path in PATHS if path != "/-/ready"]
    assert found == [200, 200, 200, 200, 404, 200, 404]  # //metrics is /metrics


def test_a_limit_of_requests(start):
    """429 beyond the burst, for everybody."""
    daemon = start(config="rate_limit: {interval: 1h, burst: 3}\n")
    found = [daemon.get("/-/healthy") for _ in range(5)]
    assert [status for status, _, _ in found] == [200, 200, 200, 429, 429]
    assert found[-1][1]["retry-after"] == "1"


def test_wrong_passwords_at_speed_hold_up_no_scrape(start):
    """Eight clients guess for two seconds: who is known is answered in milliseconds all the same."""
    daemon = start(config=f"basic_auth_users:\n  alice: {SESAME_COST_10}\n")
    right = {"Authorization": header("alice", "opensesame")}
    assert daemon.get(headers=right)[0] == 200
    end, statuses = time.monotonic() + 2.0, []

    def guess(number):
        connection = daemon.connect()
        for attempt in range(10_000):
            if time.monotonic() > end:
                break
            wrong = {"Authorization": header(f"user{attempt % 3}", f"{number}-{attempt}")}
            connection.request("GET", "/metrics", headers=wrong)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
            time.sleep(0.002)
        connection.close()

    threads = [threading.Thread(target=guess, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    connection, took = daemon.connect(), []
    while time.monotonic() < end:
        begin = time.monotonic()
        connection.request("GET", "/-/healthy", headers=right)
        answer = connection.getresponse()
        answer.read()
        took.append(time.monotonic() - begin)
        assert answer.status == 200
        time.sleep(0.05)
    connection.close()
    for thread in threads:
        thread.join(10)
    assert set(statuses) <= {401, 429}
    assert statuses.count(401) < 30  # checks: a few a second
    assert statuses.count(429) > 100
    took.sort()
    assert took[len(took) // 2] < 0.1
    assert took[-1] < 1.0
    assert len(daemon.lines("wrong name or password from 127.0.0.1")) == 1
    print(f"median {took[len(took) // 2]:.4f} s, worst {took[-1]:.4f} s, {len(statuses)} guesses")


def test_explain_says_that_the_daemon_limits_requests(start):
    """429 and why, rather than that there is no verdict."""
    daemon = start(config="rate_limit: {interval: 1h, burst: 1}\n")
    assert daemon.get("/-/healthy")[0] == 200
    with pytest.raises(LockedError, match=r"answers 429 Too Many Requests \(rate_limit\): ask again later"):
        ask(f"http://127.0.0.1:{daemon.port}")


def test_explain_says_that_the_door_is_locked(start, sesame):
    """It names the command that asks with a password, which then answers the same in text."""
    config, key = sesame
    daemon = start(config=config)
    asked = f"--url=http://127.0.0.1:{daemon.port}"
    done = subprocess.run(
        [sys.executable, "-m", "gpuwait", "explain", asked], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"curl -u NAME 'http://127.0.0.1:{daemon.port}/api/v1/verdict?format=text'" in done.stderr
    status, headers, _ = daemon.get("/api/v1/verdict?format=text", headers=key)
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
