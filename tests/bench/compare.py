"""CPU, memory and latency of a scrape, beside the real node_exporter, in one run.

Both are scraped in turn as Prometheus does. CPU is the processor time of each
process tree, from its CPU clock; only the ratio is worth quoting, since the
machine's other load moves both.
"""

import argparse
import http.client
import os
import shutil
import socket
import statistics
import subprocess  # noqa: TID251 - both exporters run as processes of their own
import sys
import time

ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
COMPARABLE = "vmstat disk nfs numa pressure buddyinfo memory infiniband".split()
THEIRS = "vmstat diskstats nfs mountstats meminfo_numa pressure buddyinfo infiniband meminfo".split()


def tree(root):
    """Pids of a process and its descendants."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                parents[int(name)] = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_seconds(root):
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in tree(root))


def rss_mib(root):
    total = 0
    for pid in tree(root):
        with open(f"/proc/{pid}/status") as f:
            total += next((int(line.split()[1]) for line in f if line.startswith("VmRSS")), 0)
    return total / 1024


class Exporter:
    def __init__(self, name, command):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.name, self.seconds, self.samples = name, [], 0
        self.process = subprocess.Popen(
            [word.replace("PORT", str(self.port)) for word in command], stderr=subprocess.DEVNULL
        )
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def scrape(self):
        begin = time.perf_counter()
        self.connection.request("GET", "/metrics", headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
        body = self.connection.getresponse().read()
        self.seconds.append(time.perf_counter() - begin)
        return body

    def wait(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                return self.scrape()
            except OSError:
                self.connection.close()
                time.sleep(0.1)
        raise SystemExit(f"{self.name} does not answer")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scrapes", type=int, default=200)
    parser.add_argument("--interval", type=float, default=0.2)
    parser.add_argument("--root", default="", help="a tree with proc and sys instead of this machine's")
    parser.add_argument(
        "--everything", action="store_true", help="all collectors, not only the comparable ones"
    )
    options = parser.parse_args()
    other = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if other is None:
        raise SystemExit("needs node_exporter (Debian: apt-get install prometheus-node-exporter)")
    paths = [f"--path.procfs={options.root}/proc", f"--path.sysfs={options.root}/sys"]
    chosen = [] if options.everything else [f"--collector.{n}" for n in COMPARABLE]
    ours = [sys.executable, "-m", "gpuwait", "serve", "--web.listen-address=127.0.0.1:PORT", *paths, *chosen]
    ours += [] if options.everything else ["--collector.disable-defaults"]
    theirs = [other, "--web.listen-address=127.0.0.1:PORT", *paths, "--web.disable-exporter-metrics"]
    theirs += [
        "--collector.disable-defaults",
        "--collector.vmstat.fields=.*",
        *(f"--collector.{n}" for n in THEIRS),
    ]
    both = [Exporter("gpuwait", ours), Exporter("node_exporter", theirs)]
    try:
        run(both, options)
    finally:
        for exporter in both:
            exporter.process.terminate()


def run(both, options):
    for exporter in both:
        exporter.wait()
    for _ in range(30):
        for exporter in both:
            exporter.scrape()
    start = [cpu_seconds(e.process.pid) for e in both]
    for exporter in both:
        exporter.seconds.clear()
    for _ in range(options.scrapes):
        for exporter in both:
            exporter.scrape()
            time.sleep(options.interval / 2)
    used = [(cpu_seconds(e.process.pid) - s) / options.scrapes for e, s in zip(both, start, strict=True)]
    for exporter, cpu in zip(both, used, strict=True):
        print(
            f"{exporter.name:14} {cpu * 1e3:8.3f} ms CPU a scrape  {rss_mib(exporter.process.pid):6.1f} MiB  "
            f"{statistics.median(exporter.seconds) * 1e3:7.2f} ms latency"
        )
    print(f"ratio of CPU   {used[0] / used[1]:8.3f}")


if __name__ == "__main__":
    main()
