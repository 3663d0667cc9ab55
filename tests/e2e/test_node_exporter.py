"""Side by side with the real node_exporter: every counter both export says the same.

Ours is read just before and just after node_exporter's: a counter that only
grows must lie between the two.
"""

import re
import shutil
import socket
import subprocess  # noqa: TID251 - both exporters run as processes of their own
import sys
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.e2e

NODE_EXPORTER = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
DISK = (
    "reads_completed reads_merged read_bytes read_time_seconds writes_completed writes_merged written_bytes "
    "write_time_seconds io_time_seconds io_time_weighted_seconds discards_completed discards_merged "
    "discard_time_seconds flush_requests"
).split()
NUMA = {
    "numa_hit": "hit",
    "numa_miss": "miss",
    "numa_foreign": "foreign",
    "interleave_hit": "interleave_hit",
    "local_node": "local_node",
    "other_node": "other_node",
}
PRESSURE = {"waiting": "some", "stalled": "full"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (s.name, frozenset(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def wait_for(port):
    end = time.monotonic() + 15
    while time.monotonic() < end:
        try:
            return scrape(port)
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nothing answers on port {port}")


@pytest.fixture(scope="module")
def ports():
    if NODE_EXPORTER is None:
        pytest.skip("needs node_exporter (Debian: prometheus-node-exporter)")
    ours, theirs = free_port(), free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "gpuwait", "serve", f"--web.listen-address=127.0.0.1:{ours}"]
        ),
        subprocess.Popen(
            [NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{theirs}", "--log.level=error",
             "--collector.disable-defaults", "--collector.vmstat", "--collector.vmstat.fields=.*",
             "--collector.diskstats", "--collector.meminfo_numa", "--collector.pressure",
             "--collector.nfs", "--collector.meminfo"]
        ),
    ]  # fmt: skip
    try:
        wait_for(ours)
        wait_for(theirs)
        yield ours, theirs
    finally:
        for process in processes:
            process.terminate()
            process.wait(5)


def ours_for(name, labels):
    """Our series for a counter of node_exporter; None where we do not export it."""
    if match := re.fullmatch(r"node_vmstat_(\w+)", name):
        return f"gpuwait_vmstat_{match[1]}_total", {}
    if (match := re.fullmatch(r"node_disk_(\w+)_total", name)) and match[1] in DISK:
        return f"gpuwait_disk_{match[1]}_total", labels
    if (match := re.fullmatch(r"node_memory_numa_(\w+)_total", name)) and match[1] in NUMA:
        return f"gpuwait_numa_{NUMA[match[1]]}_total", {"numa_node": labels["node"]}
    if match := re.fullmatch(r"node_pressure_(\w+)_(waiting|stalled)_seconds_total", name):
        return f"gpuwait_pressure_{PRESSURE[match[2]]}_seconds_total", {"resource": match[1]}
    if match := re.fullmatch(r"node_nfs_rpcs_total", name):
        return "gpuwait_nfs_rpc_calls_total", {}
    return None


def test_counters_agree(ports):
    """Each shared counter of node_exporter lies between our reading before and after it."""
    ours, theirs = ports
    before, other, after = scrape(ours), scrape(theirs), scrape(ours)
    compared, wrong = {}, []
    for (name, labels), value in other.items():
        target = ours_for(name, dict(labels))
        if target is None:
            continue
        key = target[0], frozenset(target[1].items())
        if key not in before or key not in after:
            continue
        low, high = before[key], after[key]
        compared[target[0]] = compared.get(target[0], 0) + 1
        # float sums of microseconds may differ in the last digit
        if not low * (1 - 1e-12) <= value <= high * (1 + 1e-12):
            wrong.append(f"{name}{dict(labels)}: {low} <= {value} <= {high} does not hold")
    assert not wrong, "\n".join(wrong)
    for needed in ("gpuwait_vmstat_pgfault_total", "gpuwait_disk_read_bytes_total", "gpuwait_numa_hit_total"):
        assert needed in compared, f"{needed} was not compared: {sorted(compared)}"
    print(f"\n{sum(compared.values())} series of {len(compared)} metrics agree")


def test_sizes_agree(ports):
    """Total memory is the same figure."""
    ours, theirs = scrape(ports[0]), scrape(ports[1])
    none = frozenset()
    assert ours["gpuwait_memory_total_bytes", none] == theirs["node_memory_MemTotal_bytes", none]
