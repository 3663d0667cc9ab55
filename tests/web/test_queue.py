"""Whose password is checked next: guessers stand behind who has not failed yet."""

import base64
import threading
import time

import pytest

from gpuwait.web_auth import Answer, Passwords
from gpuwait.web_queue import Queue, group

#: Of cost 10.
SESAME = "$2b$10$hzDvhHCHoMD5mx9faXAinuXNYKMDNnsDEqPiEmGayxQm0nO9q6Cy."


def header(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("2001:db8:1:3::9", "2001:db8:1:3::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("localhost", "localhost"),
    ],
)
def test_addresses_that_one_person_has_count_as_one(address, found):
    """A /64 of IPv6, which a single machine may have; IPv4 alike in both ways of writing it."""
    assert group(address) == found


class Race:
    """Threads that wait in a queue; who has come to its turn keeps it until told to leave."""

    def __init__(self, queue):
        self.queue, self.turns, self.sent_away, self.threads = queue, [], [], []
        self.gates = {}

    def come(self, name, address, *, right=False):
        self.gates[name] = threading.Event()

        def wait():
            if not self.queue.come(address):
                self.sent_away.append(name)
                return
            self.turns.append(name)
            self.gates[name].wait(10)
            self.queue.go(address, right=right)

        before = self.queue.waiting, len(self.sent_away), len(self.turns)
        self.threads.append(threading.Thread(target=wait))
        self.threads[-1].start()
        self.until(lambda: (self.queue.waiting, len(self.sent_away), len(self.turns)) != before)

    def leave(self, name):
        """Let this one go, and wait until the next has its turn."""
        turns, waits = len(self.turns), self.queue.waiting
        self.gates[name].set()
        self.until(lambda: len(self.turns) > turns or not waits)

    @staticmethod
    def until(true):
        end = time.monotonic() + 5
        while not true():
            assert time.monotonic() < end
            time.sleep(0.005)

    def end(self):
        for gate in self.gates.values():
            gate.set()
        for thread in self.threads:
            thread.join(10)


@pytest.fixture
def race():
    """A race in a queue whose clock stands still."""
    found = Race(Queue(clock=lambda: 100.0))
    yield found
    found.end()


def fail(queue, address, times=1):
    for _ in range(times):
        assert queue.come(address)
        queue.go(address, right=False)


def test_who_failed_least_goes_first(race):
    """Whatever the order in which they came; the one being checked is not disturbed."""
    fail(race.queue, "b", 2)
    fail(race.queue, "c", 1)
    race.come("first", "a")
    race.come("two failures", "b")
    race.come("one failure", "c")
    race.come("none", "d")
    for name in ("first", "none", "one failure"):
        race.leave(name)
    assert race.turns == ["first", "none", "one failure", "two failures"]


def test_who_failed_most_makes_room(race):
    """Four places are taken by guessers: who has not failed gets one, and the worst is sent away."""
    fail(race.queue, "b", 3)
    fail(race.queue, "c", 1)
    race.come("first", "a")
    race.come("c1", "c")
    race.come("b1", "b")
    race.come("c2", "c")
    race.come("clean", "d")
    assert race.sent_away == ["b1"]
    race.come("b2", "b")
    assert race.sent_away == ["b1", "b2"]
    race.leave("first")
    assert race.turns == ["first", "clean"]


def test_being_sent_away_counts(race):
    """Who asks without pause stands behind who asks now and then, also before a check has failed."""
    for n, address in enumerate("aabb"):
        race.come(f"{n}", address)
    race.come("5", "a")
    race.come("6", "b")
    assert race.sent_away == ["5", "6"]
    race.come("clean", "c")
    race.leave("0")
    assert race.turns == ["0", "clean"]


def test_two_of_one_address_wait_and_no_third(race):
    """Also where there is room."""
    for name in ("1", "2", "3"):
        race.come(name, "2001:db8::" + name)
    assert race.sent_away == ["3"]


def test_a_turn_is_not_waited_for_longer_than_a_scrape(monkeypatch):
    """Ten seconds; then the place is free again."""
    monkeypatch.setattr("gpuwait.web_queue.PATIENCE", 0.05)
    queue = Queue()
    assert queue.come("a")
    assert not queue.come("b")
    assert queue.waiting == 1
    queue.go("a", right=True)
    assert queue.come("b")


def test_failures_are_forgotten():
    """By the right password, and after a quarter of an hour."""
    now = 0.0
    queue = Queue(clock=lambda: now)
    fail(queue, "a", 3)
    assert queue.failures("a") == 3
    assert queue.come("a")
    queue.go("a", right=True)
    assert queue.failures("a") == 0
    fail(queue, "b", 2)
    now = 899.0
    assert queue.failures("b") == 2
    now = 901.0
    assert queue.failures("b") == 0


def test_few_addresses_are_remembered():
    """4096, the latest: a guesser with very many addresses takes no memory."""
    queue = Queue(clock=lambda: 0.0)
    for n in range(5000):
        fail(queue, f"10.0.{n // 256}.{n % 256}")
    assert queue.failures("10.0.0.0") == 0
    assert queue.failures("10.0.19.135") == 1
    assert len(queue._failed) == 4096


def test_the_right_password_gets_in_past_guessers():
    """Nine guessers at three addresses without pause: who is right at a fourth is in after a check or two."""
    passwords, stop = Passwords(), threading.Event()
    users = {b"alice": SESAME.encode()}

    def guess(number):
        attempt = 0
        while not stop.is_set():
            attempt += 1
            passwords.ask(users, header("alice", f"{number}-{attempt}"), f"198.51.100.{number % 3}")
            time.sleep(0.005)

    threads = [threading.Thread(target=guess, args=(n,)) for n in range(9)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    begin = time.monotonic()
    answer = passwords.ask(users, header("alice", "opensesame"), "192.0.2.1")
    took = time.monotonic() - begin
    stop.set()
    for thread in threads:
        thread.join(10)
    assert answer is Answer.IN
    assert took < 4
    print(f"in after {took:.2f} s")
