"""The unit under a real systemd: a manager of our own, in namespaces of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess  # noqa: TID251 - unshare, nsenter, systemd
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

import gpuwait

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "gpuwait.service"
NVML = ROOT / "build" / "fake-nvml"
STATE = ROOT / "tests" / "fakes" / "nvml" / "states" / "eight-h100.json"
SYSTEMD = Path("/lib/systemd/systemd")
PYTHON = "/usr/bin/python3"
TARGETS = "sysinit basic shutdown umount final multi-user network rescue emergency".split()
BOOT = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
export container=unshare SYSTEMD_UNIT_PATH={units}
exec {systemd} --system --unit=go.target --show-status=0
"""

pytestmark = [pytest.mark.root, pytest.mark.fake_nvml]


class Manager:
    """systemd as process 1 of its own, with no units but ours."""

    def __init__(self, folder):
        self.boot = subprocess.Popen(
            [
                "unshare",
                *"--fork --pid --mount --uts --ipc --cgroup --kill-child bash".split(),
                folder / "boot",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        children = Path(f"/proc/{self.boot.pid}/task/{self.boot.pid}/children")
        end = time.monotonic() + 10
        while not children.read_text().split() and time.monotonic() < end:
            time.sleep(0.05)
        self.pid = children.read_text().split()[0]

    def systemctl(self, *words):
        return subprocess.run(
            ["nsenter", "-t", self.pid, "-m", "-p", "-u", "-i", "systemctl", *words],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        ).stdout.strip()

    def end(self):
        os.kill(int(self.pid), signal.SIGKILL)
        self.boot.wait(10)


def python_fit():
    """Whether the system's Python can run what is installed here: the unit's user cannot enter a home."""
    version = subprocess.run(
        [PYTHON, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=False
    ).stdout
    ours = f"{tuple(__import__('sys').version_info[:2])}\n"
    return version == ours


def groups():
    """The cgroups that systemd makes at the top of each hierarchy."""
    return {
        path
        for top in Path("/sys/fs/cgroup").iterdir()
        for path in (top / "init.scope", top / "system.slice")
        if path.is_dir()
    }


@pytest.fixture
def manager(tmp_path):
    """A manager with the shipped unit, on a port of its own: (manager, URL, log)."""
    if not SYSTEMD.exists() or not shutil.which("nsenter"):
        pytest.skip("no systemd here")
    if not python_fit():
        pytest.skip(f"{PYTHON} is another version than the Python of the tests")
    if ROOT.is_relative_to("/tmp"):  # PrivateTmp, which DynamicUser implies
        pytest.skip("the unit cannot see a checkout below /tmp")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    units = tmp_path / "units"
    (units / "gpuwait.service.d").mkdir(parents=True)
    for name in TARGETS:
        (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (units / "go.target").write_text("[Unit]\nDefaultDependencies=no\nWants=gpuwait.service\n")
    (units / UNIT.name).write_text(UNIT.read_text())
    path = f"{Path(yaml.__file__).parents[1]}:{Path(gpuwait.__file__).parents[1]}"
    log = tmp_path / "log"
    (units / "gpuwait.service.d" / "here.conf").write_text(
        f"[Service]\nExecStart=\nExecStart={PYTHON} -m gpuwait serve --web.listen-address=127.0.0.1:{port}\n"
        f"Environment=PYTHONPATH={path} LD_LIBRARY_PATH={NVML} FAKE_NVML_STATE={STATE}\n"
        f"StandardError=file:{log}\n"
    )
    (tmp_path / "boot").write_text(BOOT.format(units=units, systemd=SYSTEMD))
    before = groups()
    running = Manager(tmp_path)
    yield running, f"http://127.0.0.1:{port}", log
    running.end()
    for path in groups() - before:
        for child in (*path.glob("*/"), path):
            with contextlib.suppress(OSError):
                child.rmdir()


def scrape(url):
    """The first scrape that comes."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            return answer.read().decode()
        time.sleep(0.2)
    return ""


def status(systemd, pid):
    """Fields of /proc/PID/status of a process of the manager's."""
    words = ["nsenter", "-t", systemd.pid, "-m", "-p", "cat", f"/proc/{pid}/status"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return dict(line.split(":\t", 1) for line in shown.splitlines() if ":\t" in line)


def children(systemd, pid):
    """The children of a process of the manager's."""
    code = f"grep -l '^PPid:.{pid}$' /proc/[0-9]*/status"
    words = ["nsenter", "-t", systemd.pid, "-m", "-p", "bash", "-c", code]
    found = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return [path.split("/")[2] for path in found.split()]


def test_the_unit_starts_the_daemon_with_no_more_than_it_names(manager):
    """A user of its own, three capabilities, none for the GPU reader, sources answer, and SIGTERM ends it."""
    systemd, url, log = manager
    text = scrape(url)
    assert 'gpuwait_collector_success{collector="vmstat"} 1' in text, log.read_text() if log.exists() else ""
    assert 'gpuwait_collector_success{collector="pressure"} 1' in text
    assert "gpuwait_sampler_ticks_total" in text
    assert systemd.systemctl("is-active", "gpuwait") == "active"
    pid = systemd.systemctl("show", "-P", "MainPID", "gpuwait")
    fields = status(systemd, pid)
    # CAP_DAC_READ_SEARCH 2, CAP_NET_ADMIN 12, CAP_SYS_PTRACE 19
    assert fields["CapEff"] == fields["CapBnd"] == "0000000000081004"
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert fields["Uid"].split()[0] != "0"
    (reader,) = children(systemd, pid)
    end = time.monotonic() + 10
    while "gpuwait_gpu_reader_up 1" not in scrape(url) and time.monotonic() < end:
        time.sleep(0.2)
    assert "gpuwait_gpu_devices 8" in scrape(url)
    assert status(systemd, reader)["CapPrm"] == "0000000000000000"
    start = time.monotonic()
    systemd.systemctl("stop", "gpuwait")
    assert time.monotonic() - start < 4
    assert systemd.systemctl("show", "-P", "Result", "gpuwait") == "success"
