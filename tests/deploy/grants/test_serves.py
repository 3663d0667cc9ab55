"""The container's own command in its pod: it serves and stays small."""

import base64
import contextlib
import os
import re
import signal
import subprocess  # noqa: TID251 - nsenter
import time
from pathlib import Path

import bcrypt
import pytest
import yaml

pytestmark = [pytest.mark.root, pytest.mark.fake_nvml]


@contextlib.contextmanager
def running(like_pod, runner, pod, folder):
    """The container's own command in its pod."""
    with like_pod.cgroups(f"gpuwait-grants-{os.getpid()}") as groups, (folder / "log").open("w") as log:
        process = like_pod.start(pod, runner.text(pod, pod.command), groups, stderr=log)
        try:
            end = time.monotonic() + 10
            while os.readlink(f"/proc/{process.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                assert time.monotonic() < end
                time.sleep(0.05)
            yield process
        finally:
            process.kill()
            process.wait()


def memory(pid):
    """MiB that a process and its children have for themselves and share."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [
        re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{p}/smaps_rollup").read_text(), re.MULTILINE)
        for p in (pid, *children)
    ]
    return sum(int(match[1]) for match in found) / 1024


def ask(process, path, headers=None):
    """Status and text of an answer in the pod's network, 0 where nobody answers."""
    code = f"""
import urllib.error, urllib.request as r
try:
    answer = r.urlopen(r.Request("http://127.0.0.1:9410{path}", headers={headers or {}}), timeout=5)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status)
print(answer.read().decode())
"""
    words = ["nsenter", "-t", str(process.pid), "-n", "/usr/bin/python3", "-c", code]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    status, _, text = said.partition("\n")
    return int(status or 0), text


def wait_until_ready(process, headers=None):
    end = time.monotonic() + 20
    while ask(process, "/-/ready", headers)[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.3)


def test_the_daemon_serves_and_is_ready(like_pod, runner, granted, tmp_path):
    """The container's own command: probes answer, memory is far from the limit, SIGTERM ends it."""
    with running(like_pod, runner, granted(), tmp_path) as process:
        wait_until_ready(process)
        assert ask(process, "/-/healthy") == (200, "gpuwait is healthy\n\n")
        assert len(ask(process, "/metrics")[1].splitlines()) > 500
        used = memory(process.pid)
        assert 20 < used < 64, f"{used} MiB where 128 is the limit"
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert time.monotonic() - start < 4


def test_the_door_and_the_prices_are_those_of_the_values(like_pod, runner, granted, tmp_path, node):
    """The Secret's file locks every path, and the ConfigMap's file is read, where the chart mounts them."""
    folder = node[0] / "volumes"
    (folder / "web").mkdir(parents=True)
    (folder / "config").mkdir()
    secret = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode()
    (folder / "web/web.yaml").write_text(f"basic_auth_users: {{prometheus: '{secret}'}}\n")
    values = {"webConfig": {"existingSecret": "door"}, "config": {"prices": {"models": {"H100": 4.1}}}}
    (folder / "config/gpuwait.yaml").write_text(yaml.safe_dump(values["config"]))
    known = {"Authorization": "Basic " + base64.b64encode(b"prometheus:open sesame").decode()}
    with running(like_pod, runner, granted(values), tmp_path) as process:
        wait_until_ready(process, known)
        assert ask(process, "/-/healthy")[0] == 401
        assert ask(process, "/metrics")[0] == 401
        text, end = "", time.monotonic() + 10
        while "gpuwait_gpu_price_per_hour{" not in text and time.monotonic() < end:
            time.sleep(0.5)  # comes with the sampler's first look at the GPUs
            status, text = ask(process, "/metrics", known)
            assert status == 200
        assert re.search(r"^gpuwait_gpu_price_per_hour\{[^}]*\} 4.1$", text, re.MULTILINE)
