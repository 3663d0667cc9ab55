"""A demonstration served over a real socket."""

import http.client
import inspect
import signal
import socket
import subprocess  # noqa: TID251 - the server is a process of its own, as in life
import sys
import time

import pytest

from gpuwait.explain import ask
from gpuwait.web import Application

pytestmark = pytest.mark.skipif(
    "pages" not in inspect.signature(Application).parameters, reason="the web server takes no pages"
)

SERVER = "import sys; from gpuwait import demo_live; demo_live.serve('dataset-init', sys.argv[1], 50.0)"


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_serve():
    """Live metrics with their label, the page, the verdict; it ends within two seconds of SIGTERM."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVER, f"127.0.0.1:{port}"])
    try:
        report, end = None, time.monotonic() + 20
        while time.monotonic() < end and not (report and "compaction" in report.summary):
            time.sleep(0.2)
            report = ask(f"http://127.0.0.1:{port}/api/v1/verdict")
        assert report.simulated == "dataset-init"
        assert "memory compaction" in report.summary
        status, body = get(port, "/metrics")
        assert status == 200
        assert 'gpuwait_demo{scenario="dataset-init"} 1\n' in body
        assert 'gpuwait_collector_success{collector="ledger"} 1\n' in body
        status, body = get(port, "/")
        assert status == 200
        assert "<b>Simulated.</b>" in body
        assert get(port, "/-/ready")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=3) == 0
    finally:
        process.kill()
        process.wait()
