"""The real Prometheus comes in by TLS, its client certificate and its password, and not without."""

import contextlib
import json
import shutil
import socket
import subprocess  # noqa: TID251 - the real Prometheus
import time
import urllib.request

import pytest

pytestmark = pytest.mark.e2e

DOOR = """
tls_server_config:
  cert_file: {folder}/server.crt
  key_file: {folder}/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: {folder}/ca.crt
  client_allowed_sans: [prometheus.example]
"""
SCRAPES = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: right
    scheme: https
    tls_config: {{ca_file: ca.crt, cert_file: client.crt, key_file: client.key}}
    basic_auth: {{username: alice, password: opensesame}}
    static_configs: [{{targets: ["localhost:{port}"]}}]
  - job_name: wrong-name
    scheme: https
    tls_config: {{ca_file: ca.crt, cert_file: other-name.crt, key_file: other-name.key}}
    basic_auth: {{username: alice, password: opensesame}}
    static_configs: [{{targets: ["localhost:{port}"]}}]
  - job_name: no-password
    scheme: https
    tls_config: {{ca_file: ca.crt, cert_file: client.crt, key_file: client.key}}
    static_configs: [{{targets: ["localhost:{port}"]}}]
  - job_name: plain
    static_configs: [{{targets: ["localhost:{port}"]}}]
"""


def targets(port):
    """State and last error of every target, by job."""
    url = f"http://127.0.0.1:{port}/api/v1/targets"
    with urllib.request.urlopen(url, timeout=5) as answer:
        active = json.load(answer)["data"]["activeTargets"]
    return {t["labels"]["job"]: (t["health"], t["lastError"]) for t in active}


def test_prometheus_comes_in_with_all_three_keys_only(start, certificates, tmp_path, sesame):
    """TLS, a certificate of the right name and the password is up; without one of them it is down."""
    if shutil.which("prometheus") is None:
        pytest.skip("needs prometheus (Debian: prometheus)")
    daemon = start(config=DOOR.format(folder=certificates) + sesame[0], trust=certificates)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free_port = s.getsockname()[1]
    (certificates / "prometheus.yml").write_text(SCRAPES.format(port=daemon.port))
    words = [f"--config.file={certificates}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    address = f"--web.listen-address=127.0.0.1:{free_port}"
    with subprocess.Popen(["prometheus", *words, address, "--log.level=error"]) as prometheus:
        try:
            found = {}
            end = time.monotonic() + 30
            while time.monotonic() < end and {health for health, _ in found.values()} != {"up", "down"}:
                time.sleep(0.3)
                with contextlib.suppress(OSError):
                    found = targets(free_port)
            time.sleep(3)
            found = targets(free_port)
        finally:
            prometheus.terminate()
    assert found["right"] == ("up", "")
    assert {job for job, (health, _) in found.items() if health == "up"} == {"right"}
    assert "401" in found["no-password"][1]
    assert "400" in found["plain"][1]
