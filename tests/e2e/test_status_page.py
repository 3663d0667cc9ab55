"""The status page in a real browser: it fits on a phone and on a screen, and looks like something.

Set SCREENSHOTS to a folder to keep what was seen.
"""

import html
import json
import os
import re
import shutil
import subprocess  # noqa: TID251 - the browser is a process of its own
from pathlib import Path

import pytest

from gpuwait import demo
from gpuwait.explain import Recent, Report
from gpuwait.status_page import Page, Source, render
from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine

pytestmark = pytest.mark.e2e

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --virtual-time-budget=1000"
).split()
LONG = "no libnvidia-ml.so.1: neither /usr/lib/x86_64-linux-gnu/nvidia/current nor LD_LIBRARY_PATH has one"
SOURCES = [
    Source("buddyinfo", "ok", 46),
    Source("cgroup", "ok", 212),
    Source("gpu", "absent", 0, LONG),
    Source("infiniband", "absent", 0, "no /sys/class/infiniband"),
    Source(
        "nfs", "partly", 12, "/proc/1/mountstats: Permission denied: only the exporter's own mounts are seen"
    ),
    Source("vmstat", "ok", 131),
]
#: Measures the page in a frame of a given width, since a browser's window cannot be as narrow as a phone.
FRAME = """<!DOCTYPE html><html><body style="margin:0">
<iframe id="f" style="border:0;width:{width}px;height:{height}px"
srcdoc="{page}"></iframe><script>
f.onload = () => {{
  const d = f.contentDocument, wide = [];
  for (const e of d.querySelectorAll("body *"))
    if (e.getBoundingClientRect().right > {width} + 0.5) wide.push(e.tagName + "." + e.className);
  const s = d.documentElement;
  const found = {{scroll: s.scrollWidth, client: s.clientWidth, wide, height: s.scrollHeight}};
  const out = document.createElement("pre");
  out.id = "measured";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}};
</script></body></html>"""


@pytest.fixture(autouse=True)
def _browser():
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")


def incident(name="dataset-init", seconds=200):
    """The page as it is in the midst of an incident."""
    engine, recent, history, before = Engine(Thresholds()), Recent(), [], None
    for _, after in zip(range(seconds), demo.find(name).snapshots(), strict=False):
        verdict = engine.judge(before, after) if before else None
        recent.add(verdict, after)
        history += [verdict] if verdict else []
        before = after
    return Page(recent.report(history, simulated=name), recent.strips(), SOURCES, refresh=False)


def bare():
    """A host without a GPU."""
    return Page(Report(0.0, "No GPU is seen on this node."), (), SOURCES, refresh=False)


PAGES = {
    "incident": incident,
    "no-cause": lambda: incident("no-cause", 100),
    "quiet": lambda: incident("quiet", 240),
    "no-gpu": bare,
}


def chromium(tmp_path, *arguments):
    profile = tmp_path / "profile"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def framed(tmp_path, page, width, height=900):
    path = tmp_path / f"frame-{width}.html"
    path.write_text(FRAME.format(page=html.escape(render(page)), width=width, height=height), "utf-8")
    return path.as_uri()


def measure(tmp_path, page, width):
    dom = chromium(tmp_path, "--dump-dom", framed(tmp_path, page, width))
    return json.loads(html.unescape(re.search(r'<pre id="measured">(.*?)</pre>', dom)[1]))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_overflows(tmp_path, name, width):
    """No element reaches beyond the right edge, on a phone and on a screen; a picture can be taken."""
    page = PAGES[name]()
    found = measure(tmp_path, page, width)
    assert found["client"] == width
    assert found["scroll"] == width, found["wide"]
    assert found["wide"] == []
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    picture = folder / f"{name}-{width}.png"
    high = min(found["height"], 4000)
    size = f"--window-size={max(width, 500)},{high}"
    chromium(tmp_path, size, f"--screenshot={picture}", framed(tmp_path, page, width, high))
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_dark(tmp_path):
    """Who prefers dark gets dark: the corner of the picture is nearly black."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    shots = []
    for scheme in (0, 1):  # of blink: dark, light
        picture = folder / f"scheme-{scheme}.png"
        chromium(
            tmp_path,
            f"--blink-settings=preferredColorScheme={scheme}",
            "--window-size=1280,1700",
            f"--screenshot={picture}",
            framed(tmp_path, incident(), 1280, 1700),
        )
        shots.append(picture.read_bytes())
    assert shots[0] != shots[1]
