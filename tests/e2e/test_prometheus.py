"""The real Prometheus scrapes the real daemon."""

import json
import shutil
import socket
import subprocess  # noqa: TID251 - both run as processes of their own
import sys
import time
import urllib.parse
import urllib.request

import pytest

pytestmark = pytest.mark.e2e

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: gpuwait
    static_configs: [{{targets: ["127.0.0.1:{port}"], labels: {{node: here}}}}]
  - job_name: one
    params: {{"collect[]": [pressure, vmstat]}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def query(tmp_path_factory):
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("needs prometheus (Debian: prometheus)")
    folder, ours, port = tmp_path_factory.mktemp("prometheus"), free_port(), free_port()
    (folder / "p.yml").write_text(CONFIG.format(port=ours))
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "gpuwait", "serve", f"--web.listen-address=127.0.0.1:{ours}"]
        ),
        subprocess.Popen(
            [prometheus, f"--config.file={folder}/p.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        ),
    ]  # fmt: skip

    def ask(expression):
        path = urllib.parse.quote(expression)
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?query={path}", timeout=5
        ) as answer:
            result = json.load(answer)["data"]["result"]
        return {tuple(sorted(r["metric"].items())): float(r["value"][1]) for r in result}

    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if len(ask("count_over_time(up[1m]) >= 5")) == 2:
                break
        except OSError:
            pass
        time.sleep(0.5)
    yield ask
    for process in processes:
        process.terminate()
        process.wait(5)


def test_every_scrape_succeeds(query):
    """Both targets are up in every scrape, and nothing is dropped."""
    assert set(query("min_over_time(up[1m])").values()) == {1}
    assert set(query("max_over_time(scrape_duration_seconds[1m]) < bool 0.9").values()) == {1}
    assert set(query("max(gpuwait_series_dropped_total)").values()) == {0}


def test_labels_stay_ours(query):
    """No label of ours collides with one that the scrape adds."""
    assert query('count({__name__=~"gpuwait_.+", exported_node=~".+"})') == {}
    assert query('count({__name__=~"gpuwait_.+", exported_instance=~".+"})') == {}
    assert query('count({__name__=~"gpuwait_.+", exported_job=~".+"})') == {}


def test_a_selection_gives_these_collectors_alone(query):
    """collect[] from the scrape configuration."""
    names = query('count by (collector) (gpuwait_collector_success{job="one"})')
    assert set(names) == {(("collector", "pressure"),), (("collector", "vmstat"),)}


def test_rates_can_be_taken(query):
    """Counters are typed and grow: page faults happen all the time."""
    assert all(value > 0 for value in query("rate(gpuwait_vmstat_pgfault_total[1m])").values())
