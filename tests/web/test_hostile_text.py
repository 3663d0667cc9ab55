r"""Names that attackers choose: of a mount, a cgroup, a process, and what an NFS server says of itself.

They reach the page, the verdict and the metrics as text, never as markup, a line or a command to a terminal.
"""

import html.parser
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuwait.collector import Collector
from gpuwait.explain import Recent
from gpuwait.gather import Gatherer
from gpuwait.host import Host
from gpuwait.metrics import Family
from gpuwait.pages import Pages
from gpuwait.sources import Sources
from gpuwait.wait.snapshot import Gpu, Snapshot, Thread, WaitClass, Workload
from gpuwait.wait.snapshot import Host as HostSignals
from gpuwait.wait.verdict import Cause, Evidence, GpuVerdict, Signal, State, Verdict
from gpuwait.web import Application

HGX = Path(__file__).resolve().parents[1] / "hosts" / "hgx-kubernetes"
#: Markup, quotes, what turns a terminal red or text around, a new line with a sample of its own.
EVIL = "<img src=x onerror=alert(1)>\"'\\{}\x1b[31m\u202e\ngpuwait_evil 1\n"
LONG = "x" * 10_000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")


class Tags(html.parser.HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)


def quiet(text):
    """Assert that no character of the text is a command to a terminal."""
    found = CONTROL.search(text)
    assert found is None, text[max(found.start() - 80, 0) : found.end() + 20]


def mount(text):
    """A mount line as the kernel escapes it: space, tab, new line and backslash in octal."""
    return text.translate({32: r"\040", 9: r"\011", 10: r"\012", 92: r"\134"})


@pytest.fixture
def hostile(tmp_path, start):
    """A daemon on a node whose mounts, cgroups, processes and NFS server were named by an attacker."""
    for part in ("proc", "sys"):
        shutil.copytree(HGX / part, tmp_path / part, symlinks=True)
    stats = tmp_path / "proc/1/mountstats"
    text = stats.read_text().replace("/data/train", mount(EVIL)).replace("10.20.0.6:/export/home", LONG)
    text = text.replace("\tnfsv4:", f"\timpl_id:\tname='{EVIL}',domain='x',date='0,0'\n\tnfsv4:")
    stats.write_text(text)
    info = tmp_path / "proc/1/mountinfo"
    info.write_text(info.read_text().replace("/data/train", mount(EVIL)))
    slices = tmp_path / "sys/fs/cgroup/system.slice"
    for name in (
        EVIL.replace("/", "") + ".service",
        "y" * 240 + ".service",
        os.fsdecode(b"\xff\xfe.service"),
    ):
        shutil.copytree(slices / "kubelet.service", slices / name)
    for comm in (tmp_path / "proc").glob("[0-9]*/stat"):
        comm.write_text(re.sub(r"\(.*\)", lambda _: f"({EVIL[:15]})", comm.read_text(), flags=re.DOTALL))
    return start()


def test_metrics_of_a_hostile_node(hostile):
    """The text parses, has no sample of theirs, no control character, and no label beyond its bound."""
    status, headers, body = hostile.get("/metrics")
    text = body.decode()
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert headers["x-content-type-options"] == "nosniff"
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert len(samples) > 300
    assert not [s for s in samples if "evil" in s.name]
    values = {value for s in samples for value in s.labels.values()}
    assert max(map(len, values)) <= 256  # a mount point; other names 128
    assert any("<img src=x onerror=alert(1)>\"'\\{}" in value for value in values)
    quiet(text)
    assert 'gpuwait_collector_success{collector="nfs"} 1' in text
    assert 'gpuwait_collector_success{collector="cgroup"} 1' in text


@pytest.mark.parametrize("path", ["/", "/api/v1/verdict", "/api/v1/verdict?format=text"])
def test_pages_of_a_hostile_node(hostile, path):
    """No tag of theirs, no control character, whatever the format."""
    status, headers, body = hostile.get(path)
    assert status == 200
    quiet(body.decode())
    if path == "/":
        tags = Tags()
        tags.feed(body.decode())
        assert not tags.tags & {"img", "script", "iframe"}
        assert not [name for name in tags.attributes if name.startswith("on")]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'none'" in policy


def incident(cause):
    """A GPU that waits, with every name in reach chosen by an attacker."""
    key = ("pod", EVIL, EVIL + LONG, EVIL)
    signals = (
        Signal(EVIL, 0.9, 0.1, EVIL, EVIL, True, "a"),
        Signal("blocked", 0.9, 0.1, "ratio", LONG, True, "b"),
    )
    evidence = (Evidence(cause, 0.9, True, signals, EVIL),) if cause else ()
    split = {State.BUSY: 0.1, State.WAITING: 0.9}
    gpu = GpuVerdict(0, EVIL, split, cause or Cause.UNEXPLAINED, 0.1, evidence, (key,))
    verdicts = [Verdict(100.0 + tick, 1.0, (gpu,)) for tick in range(60)]

    def snapshot(at):
        threads = {n: Thread(at * 0.9, 0.0, 0.0, 0, EVIL, "D", WaitClass.NFS) for n in range(3)}
        gpus = (Gpu(0, EVIL, in_use=True, model=EVIL, workloads=(key,)),)
        return Snapshot(at, HostSignals(settings={EVIL: EVIL}), gpus, {key: Workload(threads, 3)})

    return verdicts, [snapshot(150.0), snapshot(160.0)]


def answer(application, path, query=""):
    found = []
    environ = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}
    body = application(environ, lambda status, headers: found.append((status, dict(headers))))
    return *found[0], b"".join(body).decode()


@pytest.mark.parametrize("cause", [Cause.NFS, Cause.DISK, Cause.GPFS, Cause.UNEXPLAINED, None])
def test_a_verdict_on_a_hostile_workload(cause):
    """Its pod, its threads, the mount it hangs on and the collector's fault are text on the page."""
    verdicts, snapshots = incident(cause)
    recent = Recent()
    for verdict in verdicts:
        recent.add(verdict, snapshots[0])
    recent.add(verdicts[-1], snapshots[1])

    def fails(_):
        raise OSError(5, EVIL)
        yield

    bad = Collector("bad", "Bad.", (Family("gpuwait_bad", "gauge", "Bad.", "test"),), fails)
    gatherer = Gatherer([bad], Sources(host=Host()))
    reasons = {EVIL: EVIL}
    pages = Pages(recent, lambda: verdicts, gatherer.gather, reasons=lambda: reasons)
    application = Application(gatherer, ["bad"], pages=pages.routes())
    _, _, page = answer(application, "/")
    quiet(page.replace("\n", ""))
    tags = Tags()
    tags.feed(page)
    assert "img" not in tags.tags
    assert "onerror" not in tags.attributes
    assert "&lt;img src=x" in page
    assert "gpuwait_evil" not in page.splitlines()
    assert "x" * 200 not in page
    _, _, verdict = answer(application, "/api/v1/verdict")
    json.loads(verdict)
    quiet(verdict)
    for form in ("text", "markdown"):
        _, headers, text = answer(application, "/api/v1/verdict", f"format={form}")
        assert headers["X-Content-Type-Options"] == "nosniff"
        quiet(text)
        assert not [line for line in text.splitlines() if line.startswith("gpuwait_evil")]
    _, _, metrics = answer(application, "/metrics")
    assert 'gpuwait_collector_success{collector="bad"} 0' in metrics
    quiet(metrics)
