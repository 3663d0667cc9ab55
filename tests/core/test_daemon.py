"""The real daemon as a process: a source that hangs, signals, a port in use."""

import os
import signal
import socket
import subprocess  # noqa: TID251 - the daemon is a process
import sys
import time
import urllib.request

import pytest

VMSTAT = "nr_free_pages 100\ncompact_stall 7\nallocstall_normal 2\nallocstall_movable 3\n"
MOUNTSTATS = (
    "device 10.0.0.1:/export mounted on /data with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,hard\n\tage:\t5\n\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\tper-op statistics\n\t        READ: 5 5 0 500 600 1 20 22 0\n"
)


class Daemon:
    def __init__(self, root, *flags):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = root / "log"
        with self.log.open("wb") as log:
            paths = [f"--path.procfs={root}/proc", f"--path.sysfs={root}/sys", f"--path.rootfs={root}"]
            listen = (
                [] if any("listen" in f for f in flags) else [f"--web.listen-address=127.0.0.1:{self.port}"]
            )
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpuwait", "serve", "--no-collector.gpu", *paths, *listen, *flags],
                stderr=log,
            )

    def scrape(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def wait(self):
        end = time.monotonic() + 15
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return self.scrape()
            except OSError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def usage(self):
        """Threads and descriptors, the smallest seen: a connection takes a moment to go."""
        base, seen = f"/proc/{self.process.pid}", []
        for _ in range(20):
            seen.append((len(os.listdir(f"{base}/task")), len(os.listdir(f"{base}/fd"))))
            time.sleep(0.05)
        return tuple(map(min, zip(*seen, strict=True)))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "sys").mkdir()
    (tmp_path / "proc/vmstat").write_text(VMSTAT)
    return tmp_path


@pytest.fixture
def start(root):
    started = []

    def run(*flags):
        started.append(Daemon(root, *flags))
        return started[-1]

    yield run
    for daemon in started:
        daemon.process.kill()
        daemon.process.wait()


def test_a_source_that_hangs_costs_one_thread_and_comes_back(root, start):
    """mountstats hangs on open: 200 scrapes stay quick, nothing grows, and NFS comes back."""
    stuck = root / "proc/1/mountstats"
    os.mkfifo(stuck)
    daemon = start("--collector.timeout=0.5")
    daemon.wait()
    first = daemon.scrape()
    assert 'gpuwait_collector_success{collector="nfs"} 0' in first
    assert "gpuwait_vmstat_compact_stall_total 7" in first
    before, begin = daemon.usage(), time.monotonic()
    for _ in range(200):
        assert "gpuwait_vmstat_allocstall_total 5" in daemon.scrape()
    assert time.monotonic() - begin < 20
    threads, files = daemon.usage()
    assert threads <= before[0]
    assert files <= before[1]
    assert daemon.log.read_text().count("collector nfs failed") == 1
    with stuck.open("w") as writer:
        stuck.unlink()
        stuck.write_text(MOUNTSTATS)
        writer.write(MOUNTSTATS)
    end = time.monotonic() + 5
    while 'gpuwait_collector_success{collector="nfs"} 1' not in daemon.scrape():
        assert time.monotonic() < end
    series = (
        'gpuwait_nfs_mount_operations_total{export="10.0.0.1:/export",mountpoint="/data",'
        'version="4.2",operation="READ"} 5'
    )
    assert series in daemon.scrape()


def test_sigterm_with_a_stuck_source_ends_within_two_seconds(root, start):
    """A thread stuck in the kernel does not hold up the exit."""
    os.mkfifo(root / "proc/1/mountstats")
    daemon = start("--collector.timeout=0.3")
    daemon.wait()
    begin = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(5) == 0
    assert time.monotonic() - begin < 2


def test_a_file_that_vanishes_or_turns_to_garbage_costs_its_collector_alone(root, start):
    """vmstat replaced by text of another kind is success 0 and named in the log; removed, it is absence."""
    (root / "proc/pressure").mkdir()
    (root / "proc/pressure/io").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n")
    daemon = start()
    assert 'gpuwait_collector_success{collector="vmstat"} 1' in daemon.wait()
    (root / "proc/vmstat").write_text("<html>nothing of the kind</html>\n")
    text = daemon.scrape()
    assert 'gpuwait_collector_success{collector="vmstat"} 0' in text
    assert 'gpuwait_pressure_some_seconds_total{resource="io"} 1.5' in text
    assert "gpuwait_vmstat_compact_stall_total" not in text
    assert "vmstat" in daemon.log.read_text()
    (root / "proc/vmstat").unlink()
    text = daemon.scrape()
    assert 'gpuwait_collector_success{collector="vmstat"} 1' in text
    assert 'gpuwait_collector_available{collector="vmstat",reason="absent"} 0' in text


def test_a_port_in_use_is_one_line(root, start):
    """The second daemon on a port says so and ends with status 2."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        daemon = start(f"--web.listen-address=127.0.0.1:{taken.getsockname()[1]}")
        assert daemon.process.wait(10) == 2
    lines = daemon.log.read_text().splitlines()
    assert len(lines) == 1
    assert "--web.listen-address" in lines[0]
    assert "in use" in lines[0]
