"""What the rules and dashboards cost one Prometheus for a fleet of 8-GPU nodes.

One server answers for every node with the captured scrape of an 8-GPU Kubernetes node and a ledger of its
own; a real Prometheus scrapes it and evaluates the shipped rules as they are. What looks back further than
the run lasts is filled in before (`--day`). Nodes are in jobs of 16; every tenth is sick.
Prints seconds for each rule group, series, memory, and the slowest queries of the dashboards.
"""

import argparse
import collections
import contextlib
import json
import re
import shutil
import statistics
import subprocess  # noqa: TID251 - the real Prometheus
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fleet_queries
from fleet_prometheus import Prometheus, free_port

ROOT = Path(__file__).resolve().parents[2]
SCRAPE_S = 30
GPUS, JOB = 8, 16
STATES = {"busy": 0.86, "gap": 0.04, "waiting": 0.1, "idle": 0.0, "free": 0.0, "unknown": 0.0}
CAUSES = (
    "compaction reclaim swap writeback nfs lustre gpfs disk cpu_throttling cpu_contention numa_remote fabric "
    "host_cpu host_kernel unexplained"
).split()
#: What a healthy GPU waits for a little.
USUAL = ("host_cpu", "unexplained")
#: Families of the capture that go on counting, by units a second.
MOVING = {
    "gpuwait_pressure_some_seconds_total": 0.02,
    "gpuwait_vmstat_compact_stall_total": 0.1,
    "gpuwait_vmstat_allocstall_total": 0.1,
    "gpuwait_vmstat_numa_hint_faults_total": 100,
    "gpuwait_vmstat_numa_hint_faults_local_total": 90,
    "gpuwait_disk_io_time_seconds_total": 0.3,
    "gpuwait_disk_reads_completed_total": 200,
    "gpuwait_disk_read_time_seconds_total": 0.1,
    "gpuwait_disk_writes_completed_total": 200,
    "gpuwait_disk_write_time_seconds_total": 0.1,
    "gpuwait_cgroup_cpu_periods_total": 10,
    "gpuwait_cgroup_cpu_throttled_periods_total": 4,
    "gpuwait_cgroup_cpu_throttled_seconds_total": 0.3,
    "gpuwait_sampler_ticks_total": 1,
    "process_cpu_seconds_total": 0.01,
}
REPLACED = (
    "gpuwait_gpu_time_seconds_total",
    "gpuwait_gpu_waiting_seconds_total",
    "gpuwait_gpu_workload_info",
)
POD = "11111111-aaaa-4bbb-8ccc-000000000001"


class Fleet:
    """The text of every node: what stands still, and what moves with its units a second."""

    def __init__(self, capture):
        self.still, self.moving = [], []
        self.begun = time.monotonic()
        for line in capture.splitlines():
            name = re.match(r"[a-zA-Z0-9_:]*", line)[0]
            if line.startswith("#") or name in REPLACED:
                continue
            if name in MOVING:
                series, value = line.rsplit(" ", 1)
                self.moving.append((series, float(value), MOVING[name]))
            else:
                self.still.append(line)
        self.series = len(self.still) + len(self.moving) + GPUS * (len(STATES) + len(CAUSES) + 2)

    def text(self, number):
        """One scrape of one node."""
        gone = time.monotonic() - self.begun
        lines = list(self.still)
        lines += [f"{series} {value + rate * gone:.3f}" for series, value, rate in self.moving]
        text = "\n".join(lines).replace("-aaaa-4bbb-8ccc-", f"-{number:04x}-4bbb-8ccc-")
        sick = number % 10 == 0
        cause = CAUSES[number // 10 % len(CAUSES)]
        waiting = 0.6 if sick else STATES["waiting"]
        more = []
        for gpu in range(GPUS):
            label = f'gpu="{gpu}",uuid="GPU-{gpu:08x}-{number:04x}-4bbb-8ccc-{gpu:012x}"'
            for state, share in STATES.items():
                now = waiting if state == "waiting" else 0.36 if sick and state == "busy" else share
                more.append(f'gpuwait_gpu_time_seconds_total{{{label},state="{state}"}} {now * gone:.3f}')
            for one in CAUSES:
                now = waiting if sick and one == cause else 0.05 if one in USUAL and not sick else 0
                more.append(f'gpuwait_gpu_waiting_seconds_total{{{label},cause="{one}"}} {now * gone:.3f}')
            more.append(f"gpuwait_gpu_price_per_hour{{{label}}} 2.5")
            workload = f'workload_kind="pod",workload_namespace="research",workload="{job(number)}",'
            more.append(f'gpuwait_gpu_workload_info{{{label},{workload}workload_container="main"}} 1')
        return f"{text}\n" + "\n".join(more) + "\n"


def job(number):
    """The pod of a node: one of a set of 16."""
    return f"train-{number // JOB}-worker-{number % JOB}"


def serve(fleet):
    """The server of all nodes, at /n/NUMBER; its port."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = fleet.text(int(self.path.rsplit("/", 1)[1])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 512
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def node(number):
    return f"gpu-{number:04d}"


def gpus(nodes):
    """The labels of every GPU."""
    for n in range(nodes):
        for gpu in range(GPUS):
            yield f'node="{node(n)}",gpu="{gpu}",uuid="GPU-{gpu:08x}-{n:04x}-4bbb-8ccc-{gpu:012x}"'


def past(nodes):
    """(name, labels of each series, minutes back, value, seconds between samples) that rules look back at."""
    names = [f'node="{node(n)}"' for n in range(nodes)]
    targets = [
        f'job="gpuwait",instance="{node(n)}:9410",node="{node(n)}",vendor="nvidia"' for n in range(nodes)
    ]
    each = list(gpus(nodes))
    day = 24 * 60
    yield "node:gpuwait_compact_stall:rate5m", [f'{n},exporter="gpuwait"' for n in names], day, 0.1, 60
    yield "node_state:gpuwait_time:gpus_rate5m", [f'{n},state="waiting"' for n in names], day, 0.8, 60
    yield "gpuwait_gpu_pci_devices", targets, day, 8, SCRAPE_S
    for name in ("gpu:gpuwait_utilization:ratio_avg5m", "gpu:gpuwait_held:bool"):
        yield name, [f'{label},exporter="gpuwait"' for label in each], 125, 1, 60
    yield "gpu:gpuwait_waiting:ratio_rate5m", each, 60, 0.1, 60
    causes = [f'{label},cause="{cause}"' for label in each for cause in USUAL]
    yield "gpu_cause:gpuwait_waiting:ratio_rate5m", causes, 60, 0.05, 60


def before(nodes, path, now):
    """The day until now as OpenMetrics."""
    with path.open("w") as out:
        for name, series, minutes, value, step in past(nodes):
            out.write(f"# TYPE {name} gauge\n")
            for label in series:
                for back in range(minutes * 60, 0, -step):
                    out.write(f"{name}{{{label}}} {value} {now - back}\n")
        out.write("# EOF\n")


def configure(folder, nodes, port):
    """Configuration of Prometheus with the shipped rules."""
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"__metrics_path__": f"/n/{n}", "node": node(n), "instance": f"{node(n)}:9410"},
        }
        for n in range(nodes)
    ]
    (folder / "targets.json").write_text(json.dumps(targets))
    config = {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": "1m"},
        "rule_files": [f"{ROOT}/alerts/rules/*.yaml"],
        "scrape_configs": [{"job_name": "gpuwait", "file_sd_configs": [{"files": ["targets.json"]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))


def watch(prometheus, seconds):
    """Seconds of every evaluation by group, from when all windows of five minutes are full."""
    taken = collections.defaultdict(dict)
    end = time.monotonic() + seconds
    full = time.monotonic() + min(seconds / 2, 330)
    while time.monotonic() < end:
        time.sleep(min(20, seconds / 4))
        if time.monotonic() > full:
            for group in prometheus.get("/api/v1/rules")["groups"]:
                taken[group["name"]][group["lastEvaluation"]] = group["evaluationTime"]
    return {name: list(times.values()) for name, times in taken.items()}


def report(prometheus, fleet, nodes, taken):
    """Print what was asked; whether every group stays below a tenth of its interval, in the median."""
    worst = 0.0
    rows = []
    total = 0.0
    for group in prometheus.get("/api/v1/rules")["groups"]:
        usual = statistics.median(taken[group["name"]])
        share = usual / group["interval"]
        total += usual * 60 / group["interval"]
        worst = max(worst, share)
        slow = max(group["rules"], key=lambda rule: rule["evaluationTime"])
        most = max(taken[group["name"]])
        rows.append((usual, group["name"], share, most, f"{slow['name']} {slow['evaluationTime']:.2f} s"))
        for rule in group["rules"]:
            if rule["health"] == "err":
                print(f"FAILED {rule['name']}: {rule.get('lastError')}")
                worst = 1.0
    print(f"{'group':28} {'median s':>8} {'of interval':>11} {'most s':>7}  slowest rule, last time")
    for seconds, name, share, most, rule in sorted(rows, reverse=True):
        print(f"{name:28} {seconds:8.2f} {share:11.1%} {most:7.2f}  {rule}")
    recorded = prometheus.value('count({__name__=~".+:.+"})') or 0
    firing = prometheus.value('count(ALERTS{alertstate="firing"})') or 0
    print(f"{total:.1f} s of evaluation a minute; {nodes} nodes, {fleet.series} series each")
    print(f"{recorded:.0f} series by recording rules ({recorded / nodes:.0f} a node)")
    print(f"{firing:.0f} alerts firing")
    print(f"series in the head: {prometheus.metric('prometheus_tsdb_head_series'):.0f}")
    rss = prometheus.metric("process_resident_memory_bytes")
    print(f"resident: {rss / 2**30:.1f} GiB")
    return worst < 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1500)
    parser.add_argument("--minutes", type=float, default=14)
    parser.add_argument("--day", action="store_true", help="fill in the day before the run (some minutes)")
    parser.add_argument("--keep", action="store_true", help="go on until interrupted")
    options = parser.parse_args()
    if not shutil.which("prometheus"):
        sys.exit("needs prometheus and promtool (Debian: apt-get install prometheus)")
    fleet = Fleet((ROOT / "tests/hosts/hgx-kubernetes/golden.txt").read_text())
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = serve(fleet)
        configure(folder, options.nodes, port)
        if options.day:
            start = time.monotonic()
            before(options.nodes, folder / "day.txt", int(time.time()))  # noqa: TID251 - timestamps of samples
            subprocess.run(
                [
                    "promtool",
                    *"tsdb create-blocks-from openmetrics --quiet".split(),
                    f"{folder}/day.txt",
                    f"{folder}/data",
                ],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            (folder / "day.txt").unlink()
            print(f"the day before: {time.monotonic() - start:.0f} s", flush=True)
        fleet.begun = time.monotonic()
        prometheus = Prometheus(stack, folder, free_port())
        print(f"{prometheus.url} for {options.minutes} minutes", flush=True)
        taken = watch(prometheus, options.minutes * 60)
        good = report(prometheus, fleet, options.nodes, taken)
        chosen = {"node": node(0), "kind": "pod", "namespace": "research", "workload": "train-0"}
        for took, *where in fleet_queries.measure(prometheus.get, time.time(), chosen)[:8]:  # noqa: TID251
            print(f"{took:6.2f} s  {' | '.join(where)}")
        while options.keep:
            time.sleep(60)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
