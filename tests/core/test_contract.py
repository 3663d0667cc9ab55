"""Rules of the public contract and of the house that a reader would otherwise have to watch over."""

import ast
import re
from pathlib import Path

import pytest

from gpuwait import reference
from gpuwait.collectors import ALL
from gpuwait.exposition import SELF_FAMILIES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "exporter" / "gpuwait"
FAMILIES = [f for c in ALL for f in c.families] + list(SELF_FAMILIES)
#: Labels that Prometheus, an operator or a site adds by itself; ours would become exported_*.
TAKEN = {
    "node",
    "cluster",
    "instance",
    "job",
    "pod",
    "namespace",
    "container",
    "service",
    "endpoint",
    "le",
    "quantile",
}
NOT_BASE_UNITS = re.compile(
    r"_(ms|milliseconds|microseconds|us|ns|usec|minutes|hours|percent|kib|mib|gib|kb|mb|gb|mhz|mw)(_|$)"
)
MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_names_and_labels(family):
    """Prefix, base units, _total on counters and only there, no label that a scrape adds, a help text."""
    assert re.fullmatch(r"gpuwait_[a-z0-9_]+[a-z0-9]", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert not NOT_BASE_UNITS.search(family.name)
    assert not TAKEN & set(family.labels)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in family.labels)
    assert family.help.endswith((".", ")"))
    assert family.source


def test_each_name_is_declared_once():
    """No two families share a name."""
    names = [f.name for f in FAMILIES]
    assert sorted(names) == sorted(set(names))


def test_collectors_are_named_after_their_files():
    """File, flag and label are one name."""
    files = {p.stem for p in (PACKAGE / "collectors").glob("*.py")} - {"__init__"}
    assert {c.name for c in ALL} == files
    for collector in ALL:
        assert re.fullmatch(r"[a-z_]+", collector.name)


def test_names_stand_whole_in_the_code():
    """A metric can be found with grep: its full name is a literal of its collector."""
    text = "".join(p.read_text() for p in MODULES)
    assert [f.name for f in FAMILIES if f'"{f.name}"' not in text] == []


def test_the_reference_is_fresh():
    """exporter/METRICS.md is what `make generate` writes."""
    assert (ROOT / "exporter" / "METRICS.md").read_text() == reference.markdown(ALL)


def test_risks_read_series_that_exist():
    """What `check` calls risky rests on families that collectors declare."""
    text = (PACKAGE / "risks.py").read_text() + (PACKAGE / "check.py").read_text()
    used = set(re.findall(r'"(gpuwait_[a-z0-9_]+)"', text))
    assert used
    assert used - {f.name for f in FAMILIES} == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_and_functions_stay_small(path):
    """A file of 300 lines or a function of 40 is two rooms."""
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    for item in ast.walk(ast.parse(text)):
        if isinstance(item, ast.FunctionDef):
            assert item.end_lineno - item.lineno < 40, item.name


CALLS_THAT_TOUCH_A_MOUNT = {
    "stat",
    "statvfs",
    "lstat",
    "walk",
    "disk_usage",
    "is_mount",
    "ismount",
    "glob",
    "iterdir",
}
FORBIDDEN_FILES = re.compile(r"/(cmdline|environ|maps|smaps|smaps_rollup|numa_maps)\b")
#: Modules that may open files or list directories themselves, each with its reason.
OPENERS = {
    "host.py": "the opener",
    "cli.py": "opens the null device when the reader of its output is gone",
    "config.py": "looks once at the configured paths",
    "gpu/reader.py": "gives its standard output to the null device",
    "gpu/nvml.py": "looks for the driver's library",
}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_touches_a_mount(path):
    """No stat, no walk, no open outside the opener; no file of /proc/PID that takes its memory map's lock."""
    tree = ast.parse(path.read_text())
    opens = {"open", "listdir", "scandir", "read_text", "read_bytes"}
    for item in ast.walk(tree):
        if isinstance(item, ast.Call):
            f = item.func
            module = f.value.id if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) else ""
            name = f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")
            assert name not in CALLS_THAT_TOUCH_A_MOUNT, f"line {item.lineno}: {name}"
            if str(path.relative_to(PACKAGE)) not in OPENERS:
                assert not (module in ("os", "Path", "io") and name in opens), f"line {item.lineno}: {name}"
                assert not (isinstance(f, ast.Name) and name == "open"), f"line {item.lineno}: open"
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and not _is_docstring(tree, item):
            assert not FORBIDDEN_FILES.search(item.value), f"line {item.lineno}: {item.value}"


def _is_docstring(tree, constant):
    return any(
        isinstance(item, ast.Module | ast.FunctionDef | ast.ClassDef)
        and item.body
        and isinstance(item.body[0], ast.Expr)
        and item.body[0].value is constant
        for item in ast.walk(tree)
    )
