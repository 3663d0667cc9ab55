"""Every query of every dashboard against a real Prometheus with the shipped rules.

It scrapes demonstrations of incidents, and the real daemon on captured machines.
"""

import json
import os
import re
import shutil
import socket
import subprocess  # noqa: TID251 - the exporters and Prometheus are processes of their own
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from itertools import product
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.e2e, pytest.mark.fake_nvml]

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "build" / "fake-nvml"
HOSTS = ROOT / "tests" / "hosts"
PAGES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}

#: Node -> incident and more options. The first two are nodes of one Slurm job.
DEMOS = {
    "slow": ("nfs-small-files", "--workload", "slurm/4711"),
    "peer": ("quiet", "--workload", "slurm/4711"),
    "throttled": ("throttled-loaders",),
    "disk": ("slow-disk",),
    "fabric": ("fabric-retransmits",),
    "lustre": ("lustre-metadata",),
    "numa": ("remote-numa",),
}
#: Captured machines: nothing moves on them, but everything is there.
CAPTURED = ("hgx-kubernetes", "slurm-v2")

#: Values that variables take besides "all": jobs, of which one runs on a captured machine.
JOBS = ("4711", "train", "4021")

#: The whole of it, in seconds; most is had when the incidents have begun, after 30.
PATIENCE = 90

NOTHING = "shows only when something is wrong, and nothing is"
STILL = "grows only on a machine that runs"
EXCEPTIONS = {
    ("gpuwait-node", "GPFS: read and written A"): "needs GPFS",
    ("gpuwait-node", "GPFS: read and written B"): "needs GPFS",
    ("gpuwait-node", "Fabric: errors of ports B"): f"link error recoveries: {STILL}",
    ("gpuwait-node", "Fabric: errors of ports C"): f"link downed: {STILL}",
    ("gpuwait-node", "Fabric: errors of ports D"): f"receive errors: {STILL}",
    ("gpuwait-node", "Fabric: packets sent again B"): f"out of sequence: {STILL}",
    ("gpuwait-node", "Fabric: packets sent again C"): f"acknowledge timeouts: {STILL}",
    ("gpuwait-node", "Fabric: packets sent again D"): f"receiver not ready: {STILL}",
    ("gpuwait-node", "Errors A"): f"XIDs: {NOTHING}",
    ("gpuwait-node", "Errors B"): f"memory errors: {NOTHING}",
    ("gpuwait-node", "Errors C"): f"PCIe replays: {NOTHING}",
    ("gpuwait-job", "Killed for lack of memory A"): NOTHING,
    ("gpuwait-exporter", "What fails A"): NOTHING,
    ("gpuwait-exporter", "GPU reader: ended A"): NOTHING,
    ("gpuwait-exporter", "Exporter: restarts A"): NOTHING,
    ("gpuwait-exporter", "Dropped: samples and threads A"): NOTHING,
    ("gpuwait-exporter", "Dropped: samples and threads B"): NOTHING,
    ("gpuwait-exporter", "Alerts"): "fires only where an exporter is slow or over its budget",
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def quick(rules):
    """The same rules with windows and intervals of seconds."""
    for pattern, short in (
        (r"\[5m\]", "[12s]"),
        (r"\[(10m|15m|1h|2h|1d)\]", "[20s]"),
        (r"offset \d+[mhd]", "offset 5s"),
        (r"interval: [15]m", "interval: 2s"),
        (r" for: \d+m", " for: 2s"),
    ):
        rules = re.sub(pattern, short, rules)
    return rules


def exporters(folder):
    """Command and environment of each target by node."""
    us = [sys.executable, "-m", "gpuwait"]
    changed = folder / "changed.yml"
    changed.write_text("thresholds: {disk: {latency: 0.005}}\n")
    for node, (name, *more) in DEMOS.items():
        yield node, [*us, "demo", name, "--serve", "--price", "2.5", *more], {}
    for name in CAPTURED:
        host = HOSTS / name
        paths = [f"--path.procfs={host}/proc", f"--path.sysfs={host}/sys", f"--path.rootfs={host}"]
        env = {"LD_LIBRARY_PATH": str(FAKE), "FAKE_NVML_STATE": str(host / "nvml.json")}
        yield name, [*us, "serve", *paths, f"--path.udev.data={host}/none", f"--config.file={changed}"], env


def targets(folder):
    """Start all exporters; their processes and the targets of Prometheus."""
    processes, found = [], []
    for node, command, env in exporters(folder):
        port = free_port()
        with (folder / f"{node}.log").open("w") as log:
            address = f"--web.listen-address=127.0.0.1:{port}"
            processes.append(subprocess.Popen([*command, address], env=os.environ | env, stderr=log))
        found.append({"targets": [f"127.0.0.1:{port}"], "labels": {"cluster": "one", "node": node}})
    return processes, found


class Server:
    """Asks the HTTP interface of Prometheus."""

    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def ready(self):
        try:
            with urllib.request.urlopen(f"{self.base}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, query, *, instant):
        """Number of series, or the error."""
        now = time.time()  # noqa: TID251 - Prometheus wants the wall clock
        when = {"time": now} if instant else {"start": now - 10, "end": now, "step": 2}
        path = "query" if instant else "query_range"
        data = urllib.parse.urlencode({"query": query, **when}).encode()
        try:
            with urllib.request.urlopen(f"{self.base}/api/v1/{path}", data, timeout=20) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            return json.load(error)["error"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("needs prometheus (Debian: prometheus)")
    if not (FAKE / "libnvidia-ml.so.1").exists():
        pytest.skip("needs the fake NVML: make fake-nvml")
    folder, port = tmp_path_factory.mktemp("live"), free_port()
    for path in (ROOT / "alerts" / "rules").glob("*.yaml"):
        (folder / f"rules-{path.name}").write_text(quick(path.read_text()))
    processes, found = targets(folder)
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": ["rules-*.yaml"],
        "scrape_configs": [{"job_name": "gpuwait", "static_configs": found}],
    }
    (folder / "p.yml").write_text(yaml.safe_dump(config))
    command = [program, f"--config.file={folder}/p.yml", f"--storage.tsdb.path={folder}/data"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    processes.append(subprocess.Popen(command))
    server, end = Server(port), time.monotonic() + 30
    try:
        while not server.ready() and time.monotonic() < end:
            time.sleep(0.2)
        yield server
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=10)


def values(page):
    """Every choice of the page's variables: all, and single ones."""
    single = {"node": [*DEMOS, *CAPTURED], "workload": JOBS}
    names = [variable["name"] for variable in page["templating"]["list"]]
    pattern = {"cluster": ["one"], "gpu": ["0"], "kind": [".*"], "namespace": [".*"]}
    if "workload" not in names:
        yield dict.fromkeys(names, ".*")
    chosen = {name: single.get(name) or pattern.get(name) for name in names if name != "datasource"}
    for combination in product(*chosen.values()):
        yield dict(zip(chosen, combination, strict=True))


def filled(query, chosen):
    query = query.replace("$__rate_interval", "12s").replace("[1d]", "[20s]").replace("[1h]", "[20s]")
    return re.sub(r"\$(\w+)", lambda m: chosen[m[1]] if m[1] in chosen else m[0], query)


def asked():
    """(uid, name, query, instant) of panels, annotations and variables."""
    for uid, page in PAGES.items():
        for panel in page["panels"]:
            for target in panel.get("targets", ()):
                yield uid, f"{panel['title']} {target['refId']}", target["expr"], bool(target.get("instant"))
        for note in page["annotations"]["list"]:
            yield uid, note["name"], note["expr"], False
        for variable in page["templating"]["list"][1:]:
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            yield uid, f"${variable['name']}", f"count by ({label}) ({series})", True


def look(server, open_queries):
    """Ask what has had no answer yet, with every choice. Returns what still has none; raises for an error."""
    left = []
    for uid, name, query, instant in open_queries:
        some = False
        for chosen in values(PAGES[uid]):
            result = server.ask(filled(query, chosen), instant=instant)
            assert not isinstance(result, str), (uid, name, filled(query, chosen), result)
            some = some or bool(result)
        if not some:
            left.append((uid, name, query, instant))
    return left


def test_every_query_has_an_answer(prometheus):
    """With every choice of the variables no query fails, and each finds something but the exceptions."""
    everything = list(asked())
    known = {(uid, name) for uid, name, _, _ in everything}
    assert set(EXCEPTIONS) <= known, "an exception for a query that is no more"
    left, end = everything, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        left = look(prometheus, left)
        missing = sorted({(uid, name) for uid, name, _, _ in left} - set(EXCEPTIONS))
        if not missing:
            break
        time.sleep(2)
    assert missing == []
    look(prometheus, everything)  # nor does one fail when there is more to join


def number(server, query):
    (result,) = server.ask(query, instant=True)
    return result["metric"], float(result["value"][1])


def test_the_straggler_is_named(prometheus):
    """The job's page: of two nodes of Slurm job 4711 the one that waits stands out, its peer does not."""
    chosen = {"cluster": "one", "kind": ".*", "namespace": ".*", "workload": "4711"}
    query = next(q for uid, name, q, _ in asked() if (uid, name[:12]) == ("gpuwait-job", "Who straggle"))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = prometheus.ask(filled(query, chosen), instant=True)
        shares = {r["metric"]["node"]: float(r["value"][1]) for r in found}
        if shares.get("slow", 0) > 0.5:
            break
        time.sleep(1)
    assert shares.keys() == {"slow"}
    assert 0.5 < shares["slow"] <= 1


def test_money_follows_time(prometheus):
    """At a price of 2.5 a lost GPU costs 2.5 an hour: the two figures of the fleet's page agree."""
    _, gpus = number(prometheus, "sum(cluster_cause:gpuwait_waiting:gpus_rate5m)")
    _, money = number(prometheus, "sum(cluster_cause:gpuwait_lost:money_per_hour)")
    assert gpus > 1
    assert money == pytest.approx(2.5 * gpus, rel=0.25)
