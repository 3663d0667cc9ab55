"""The report as text, Markdown and JSON."""

import contextlib
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.explain import Report, as_json, build, from_json, markdown, text, wants_color
from gpuwait.explain.markdown import escape
from gpuwait.explain.model import Explanation, Whereabouts
from gpuwait.explain.wording import amount, duration, percent, ranges, size


def test_text_keeps_its_width(incident):
    """No line is longer than 96 columns but commands and queries, which must be copied whole."""
    for line in text(build(*incident)).splitlines():
        assert len(line) <= 96 or line.lstrip().startswith(("$ ", "PromQL", "to have it")), line


def test_text_without_color_has_no_escape(incident):
    """Colour only where asked for."""
    report = build(*incident)
    assert "\x1b" not in text(report)
    assert "\x1b[1m" in text(report, color=True)
    bare = text(report, color=True)
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m"):
        bare = bare.replace(code, "")
    assert bare == text(report)


def test_color_needs_a_terminal_and_no_no_color():
    """NO_COLOR, a dumb terminal or a file: no colour."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert wants_color(Terminal(), {})
    assert not wants_color(Terminal(), {"NO_COLOR": "1"})
    assert not wants_color(Terminal(), {"TERM": "dumb"})
    assert not wants_color(io.StringIO(), {})


def test_columns_are_aligned(incident):
    """The limits of all signals begin in one column."""
    lines = [line for line in text(build(*incident)).splitlines() if "over" in line and "[" in line]
    assert len({line.index("over") for line in lines}) == 1


def test_simulated_is_said_first(incident):
    """A demonstration can never be taken for a real node."""
    report = build(*incident, simulated="dataset-init")
    assert text(report).startswith("SIMULATED: the scenario dataset-init, not this node\n")
    assert "**Simulated**" in markdown(report)
    assert json.loads(as_json(report))["simulated"] == "dataset-init"


def test_markdown(incident):
    """Headings, a table of the evidence, commands in fences."""
    told = markdown(build(*incident))
    assert told.startswith("# GPU 0-7 waited 62 % of the last 60 s: memory compaction.\n")
    assert "| direct compactions on the node | 1,240/s | 2/s | /proc/vmstat compact\\_stall |" in told
    assert "  ```sh\n  echo defer > /sys/kernel/mm/transparent_hugepage/defrag\n  ```" in told


def test_threads_beyond_those_looked_at(incident):
    """Text and Markdown say how many threads were left out, and whose sleep was read."""
    row = build(*incident).explanations[0]
    where = {"sleeping: lock": 1024, "sleeping": 2048, "not looked at": 905}
    threads = Whereabouts(3977, where, (), "what 1,024 of the 3,072 sleepers sleep in was read")
    report = Report(60.0, "x", (replace(row, cause="unexplained", threads=threads),))
    assert "    not looked at      905 of 3,977\n" in text(report)
    assert "    what 1,024 of the 3,072 sleepers sleep in was read\n" in text(report)
    assert "- not looked at: 905 of 3,977\n- what 1,024 of" in markdown(report)
    assert from_json(as_json(report)) == report


def test_markdown_escapes():
    """Names cannot make links, tables or HTML."""
    assert escape("a|b<c>[d](e)*_`&") == "a\\|b\\<c\\>\\[d\\](e)\\*\\_\\`&amp;"


def test_json_has_the_documented_keys(incident):
    """The keys of the docstring and no other."""
    found = json.loads(as_json(build(*incident)))
    assert list(found) == [
        "version", "gpuwait", "window_seconds", "summary", "explanations", "unavailable", "simulated",
    ]  # fmt: skip
    assert found["version"] == 1
    row = found["explanations"][0]
    assert sorted(row) == sorted(
        "gpus uuids workloads verdict cause detail symptom meaning observed_seconds seconds waiting_seconds "
        "utilization share evidence fix_now fix_for_good verify considered ruled_out threads runbook".split()
    )
    assert row["workloads"] == [{"kind": "slurm", "namespace": "", "workload": "4711", "container": "0"}]
    assert row["evidence"][0]["source"] == "taskstats compact_delay"


def test_json_and_back(incident):
    """What a daemon sends is what the client prints."""
    report = build(*incident)
    assert from_json(as_json(report)) == report


def test_json_of_another_version_is_read():
    """Keys that this version does not know are ignored, those that are missing have their defaults."""
    assert from_json('{"window_seconds": 60, "summary": "x", "new": [1]}') == Report(60.0, "x")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "1",
        "{}",
        '{"summary": 1}',
        '{"window_seconds": "x", "summary": ""}',
        '{"window_seconds": 1, "summary": "", "explanations": [1]}',
        '{"window_seconds": 1, "summary": "", "explanations": [{"gpus": ["a"]}]}',
        b"\xff",
        "[" * 100_000,
    ],
)
def test_what_is_no_verdict_is_refused(body):
    """Anything else that answers on that port is told apart."""
    with pytest.raises(ValueError, match=r"no verdict|Expecting|decode"):
        from_json(body)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([*Report.__dataclass_fields__, *Explanation.__dataclass_fields__]), inner
        )
    ),
    max_leaves=15,
)


@given(values)
def test_any_json_is_read_or_refused(value):
    """Never another error than ValueError."""
    with contextlib.suppress(ValueError):
        from_json(json.dumps(value))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 %"), (0.004, "0.4 %"), (0.0996, "10 %"), (0.58, "58 %"), (1, "100 %"), (12, "1,200 %")],
)
def test_percent(value, shown):
    """Two digits where they say something."""
    assert percent(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.00004, "40 µs"),
        (0.187, "187 ms"),
        (1.5, "1.5 s"),
        (60, "60 s"),
        (300, "5 min"),
        (36000, "10 h"),
        (0, "0 µs"),
    ],
)
def test_duration(seconds, shown):
    """The unit that suits."""
    assert duration(seconds) == shown


def test_amounts():
    """Values in the words of their unit."""
    assert amount(1240, "per_second") == "1,240/s"
    assert amount(4.25, "count") == "4.2"
    assert amount(3.2, "ratio", "nfs", "busy") == "3.2 at a time"
    assert size(9.5 * 2**30) == "9.5 GiB"
    assert ranges([7, 0, 1, 2, 5]) == "0-2, 5, 7"
