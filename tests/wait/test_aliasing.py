"""Short dips: the ledger counts them whole at any scrape interval, where a gauge sees them by chance."""

import pytest

from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.snapshot import Gpu, Host, Snapshot, Workload
from gpuwait.wait.verdict import State

SECONDS = 600
BUFFER = 6  # readings a second that the driver keeps

KEY = ("pod", "research", "train-0", "main")


def dips(period, length):
    """1 or 0 at a time: busy but for the last `length` seconds of each period."""
    return lambda at: 0.0 if at % period >= period - length else 1.0


def lost(period, length):
    """Seconds that a GPU with such dips truly waits in all."""
    return SECONDS / period * length


def judged(use, jitter):
    """Waiting and gap seconds of the ledger, sampled about once a second from a buffer of 6 Hz samples."""
    engine, ledger = Engine(Thresholds()), Ledger()
    step = 1 / (BUFFER * 40)
    busy = observed = 0.0
    buffered = 0
    window = []
    previous = None
    tick = 0
    for i in range(SECONDS * BUFFER * 40 + 1):
        at = i * step
        if tick <= SECONDS and at >= tick + jitter(tick) - step / 2:
            gpu = Gpu(
                0,
                "a",
                busy_seconds=busy,
                observed_seconds=observed,
                in_use=True,
                allocated=True,
                workloads=(KEY,),
            )
            shot = Snapshot(at, Host(), (gpu,), {KEY: Workload(cpu_seconds=at * 0.5)})
            if previous is not None:
                ledger.add(engine.judge(previous, shot))
            previous = shot
            tick += 1
        window.append(use(at))
        if len(window) == 40:  # the driver closes a sample: the share of it that was busy
            busy += sum(window) / 40 / BUFFER
            buffered += 1
            observed = buffered / BUFFER
            window = []
    ledger.settle()
    (account,) = ledger.sums().gpus.values()
    return account.states


def gauge(use, interval, phase):
    """Busy share that a gauge says: the last second's use, at each scrape."""
    scrapes = [phase + i * interval for i in range(int((SECONDS - phase) // interval))]
    return sum(sum(use(at - j / 20) for j in range(20)) / 20 for at in scrapes) / len(scrapes)


@pytest.mark.parametrize("jitter", [lambda i: 0.0, lambda i: (i * 37 % 11) * 0.01], ids=["even", "late"])
def test_dips_of_two_and_a_half_seconds(jitter, capsys):
    """50 s of dips in ten minutes are counted to 2 %, whether or not ticks come late."""
    use = dips(30, 2.5)
    states = judged(use, jitter)
    waited = states[State.WAITING]
    truth = lost(30, 2.5)
    assert waited == pytest.approx(truth, rel=0.02)
    with capsys.disabled():
        print(f"\ndips of 2.5 s every 30 s: truth {truth:.0f} s, ledger {waited:.1f} s", end="")
        print(f" of waiting, {states[State.GAP]:.1f} s of slack")
        for interval in (15, 30):
            said = [(1 - gauge(use, interval, phase)) * SECONDS for phase in range(1, interval, 2)]
            print(f"  a gauge scraped every {interval} s: {min(said):.0f} to {max(said):.0f} s by phase")


def test_dips_at_any_phase():
    """Wherever a dip falls between two ticks, all of it is waiting."""
    for tenths in range(10):
        whole = dips(30, 2.5)
        states = judged(lambda at, late=tenths / 10, use=whole: use(at - late), lambda i: 0.0)
        assert states[State.WAITING] == pytest.approx(50, rel=0.02)


def test_stalls_between_steps(capsys):
    """200 ms stalls between steps of 1 s: every one of them is in the ledger."""
    use = dips(1.2, 0.2)
    states = judged(use, lambda i: 0.0)
    total = states[State.WAITING] + states[State.GAP]
    truth = lost(1.2, 0.2)
    assert total == pytest.approx(truth, rel=0.02)
    with capsys.disabled():
        print(f"\nstalls of 0.2 s every 1.2 s: truth {truth:.0f} s, ledger {total:.1f} s", end="")
        print(f" (waiting {states[State.WAITING]:.1f}, gap {states[State.GAP]:.1f})")


def test_starving_stalls_between_steps(capsys):
    """200 ms stalls after steps of 300 ms, a use of 60 %: all of it is waiting."""
    use = dips(0.5, 0.2)
    states = judged(use, lambda i: 0.0)
    assert states[State.WAITING] == pytest.approx(lost(0.5, 0.2), rel=0.02)
