"""The page at `/`."""

import time
from html.parser import HTMLParser

import pytest

from gpuwait.explain import Recent, Report, Strip, build
from gpuwait.status_page import Page, Source, render
from gpuwait.wait.snapshot import Host, Snapshot
from gpuwait.wait.verdict import Cause, Evidence, GpuVerdict, Signal, State, Verdict

VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Notes tags and attributes; complains of tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.attributes, self.words = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def strips(count=2):
    return [
        Strip(i, f"u{i}", (None, {"busy": 2.0}, {"busy": 1.0, "compaction": 3.0, "gap": 1.0}))
        for i in range(count)
    ]


def test_page_of_an_incident(incident):
    """Sentence, bars, legend, evidence, fixes, what is missing, links; well-formed."""
    page = Page(build(*incident), strips(), [Source("vmstat", "ok", 120)], "/metrics")
    found = Checker(render(page))
    told = " ".join(found.words).replace("\xa0", " ")
    for words in (
        "GPU 0-7 waited 62 % of the last 60 s: memory compaction.",
        "busy 43 %",
        "Direct compaction took 58 % of the ranks' time",
        "$ echo defer > /sys/kernel/mm/transparent_hugepage/defrag",
        "Not available on this node",
        "rate(gpuwait_vmstat_compact_stall_total[5m])",
    ):
        assert words in told, words
    links = {value for tag, name, value in found.attributes if (tag, name) == ("a", "href")}
    assert {"/metrics", "/api/v1/verdict", "/-/healthy", "/metrics?collect[]=vmstat"} <= links
    assert found.tags.count("svg") == 2


def test_bars_stack_to_the_whole():
    """Three of five seconds lost are 60 % of the column's height, above the busy fifth."""
    html = render(Page(Report(60.0, "x"), strips(1)))
    assert '<path class="c-busy" d="M1 0.0h1v100.0h-1zM2 80.0h1v20.0h-1z"/>' in html
    assert '<path class="c-compaction" d="M2 0.0h1v60.0h-1z"/>' in html
    assert '<path class="c-gap" d="M2 60.0h1v20.0h-1z"/>' in html


def test_nothing_foreign(incident):
    """No script, no foreign address, no event handler: the policy in the page would refuse them."""
    html = render(Page(build(*incident), strips()))
    found = Checker(html)
    assert not {"script", "img", "link", "iframe"} & set(found.tags)
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in html
    assert not [a for a in found.attributes if a[1].startswith("on") or a[1] == "style"]
    policy = next(
        value for _, name, value in found.attributes if name == "content" and "default-src" in value
    )
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_refresh_can_be_stopped():
    """Every 5 s, unless the reader wants the page to stand still."""
    report = Report(60.0, "x")
    assert '<meta http-equiv="refresh" content="5">' in render(Page(report))
    assert 'http-equiv="refresh"' not in render(Page(report, refresh=False))


def test_no_gpu_and_no_sampler():
    """A host without a GPU still says what it offers."""
    sources = [Source("disk", "ok", 40), Source("gpu", "absent", 0, "no libnvidia-ml.so.1")]
    html = render(Page(Report(0.0, "No GPU is seen on this node."), (), sources))
    told = " ".join(Checker(html).words).replace("\xa0", " ")
    assert "No GPU is seen on this node." in told
    assert "40 series" in told
    assert "no libnvidia-ml.so.1" in told
    assert "<svg" not in html


def test_simulated_is_said():
    """A demonstration says so above everything else."""
    assert "<b>Simulated.</b>" in render(Page(Report(60.0, "x", simulated="nfs")))


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "a'b&c"])
def test_everything_from_outside_is_escaped(evil):
    """Names of workloads, mounts, signals, collectors, paths and scenarios are text, wherever they appear."""
    found = Evidence(Cause.NFS, 0.9, True, (Signal(evil, 0.9, 0.1, evil, evil, True, "g"),), evil)
    tick = GpuVerdict(0, evil, {State.WAITING: 1.0}, Cause.NFS, 0.1, (found,), ((evil, evil, evil, evil),))
    report = build(
        [Verdict(1.0, 1.0, (tick,))], Snapshot(1.0, Host()), simulated=evil, reasons={"wchan": evil}
    )
    page = Page(report, [Strip(0, evil, ({"busy": 1.0},))], [Source(evil, evil, 1, evil)], evil)
    html = render(page)
    assert "<script" not in html
    assert "<img" not in html
    found = Checker(html)
    assert not [a for a in found.attributes if a[1].startswith("on")]


def test_cost_with_sixteen_gpus():
    """16 GPUs over 300 ticks: 2 to 3 ms of CPU, as columns are kept ready; 20 ms allow for a busy machine."""
    recent = Recent()
    for at in range(300):
        split = {State.BUSY: 0.4, State.GAP: 0.1, State.WAITING: 0.5}
        gpus = tuple(GpuVerdict(i, f"u{i}", split, Cause.NFS, 0.4) for i in range(16))
        recent.add(Verdict(float(at), 1.0, gpus), Snapshot(float(at), Host()))
    best = 1.0
    for _ in range(20):
        start = time.thread_time()
        html = render(Page(Report(60.0, "x"), recent.strips()))
        best = min(best, time.thread_time() - start)
    assert html.count("<svg") == 16
    assert len(html) < 200_000
    assert best < 0.02
