"""A gpuwait daemon of our own, and what it exports over some time."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess  # noqa: TID251 - the daemon under test
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

START_S = 30
LEAVE_S = 5

#: (metric without suffix rules, labels without gpu) -> value
Scrape = dict[tuple[str, frozenset[tuple[str, str]]], float]


class ExporterError(Exception):
    """The daemon did not start, or does not answer."""


def command() -> list[str]:
    """The program beside this Python, else the module."""
    program = Path(sys.executable).parent / "gpuwait"
    return [str(program)] if program.exists() else [sys.executable, "-m", "gpuwait"]


class Daemon:
    """A running daemon."""

    def __init__(self, port: int, pid: int) -> None:
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.pid = pid
        self.scrapes: list[Scrape] = []

    def cost(self) -> dict[str, tuple[float, float]]:
        """CPU seconds and MiB by name of the process: the daemon and its children."""
        tree = [psutil.Process(self.pid)]
        tree += tree[0].children(recursive=True)
        found = {}
        for process in tree:
            times = process.cpu_times()
            found[f"{process.name()} {process.pid}"] = (
                times.user + times.system,
                process.memory_info().rss / 2**20,
            )
        return found

    def scrape(self) -> Scrape:
        """One scrape; it is kept as well."""
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            text = answer.read().decode()
        found: Scrape = {}
        for family in text_string_to_metric_families(text):
            if family.name.startswith("gpuwait_gpu"):
                for sample in family.samples:
                    labels = frozenset((k, v) for k, v in sample.labels.items() if k != "gpu")
                    found[sample.name, labels] = sample.value
        self.scrapes.append(found)
        return found

    def values(self, name: str, uuid: str, **labels: str) -> list[float]:
        """This series over all scrapes."""
        key = (name, frozenset({"uuid": uuid, **labels}.items()))
        return [scrape[key] for scrape in self.scrapes if key in scrape]

    def sum_last(self, name: str, uuid: str) -> float | None:
        """The sum of all series of this GPU in the last scrape."""
        last = self.scrapes[-1]
        found = [v for (n, labels), v in last.items() if n == name and ("uuid", uuid) in labels]
        return sum(found) if found else None


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(daemon: Daemon, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the daemon exports GPUs. Raises ExporterError with the end of its log."""
    limit, why = time.monotonic() + START_S, "no answer"
    while time.monotonic() < limit and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if any(name == "gpuwait_gpu_up" for name, _ in daemon.scrape()):
                daemon.scrapes.clear()
                return
            why = "answers, but without gpuwait_gpu_up"
        time.sleep(0.5)
    end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise ExporterError(f"gpuwait after {START_S} s: {why}, exit status {process.poll()}\n{end}")


@contextlib.contextmanager
def running(given: str | None, log: Path) -> Iterator[Daemon]:
    """A daemon on a port of its own, ended by SIGTERM. Raises ExporterError if it does not start."""
    port = free_port()
    words = [
        *(shlex.split(given) if given else [*command(), "serve"]),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=dict(os.environ))
    daemon = Daemon(port, process.pid)
    try:
        wait_until_ready(daemon, process, log)
        yield daemon
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            print(f"DIFF  gpuwait did not leave within {LEAVE_S} s of SIGTERM")
            process.kill()
            process.wait()
