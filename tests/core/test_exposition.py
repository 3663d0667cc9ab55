"""The text renderer, held against prometheus_client."""

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gpuwait.collector import Collector
from gpuwait.exposition import Exposition, TextRenderer
from gpuwait.gather import Outcome
from gpuwait.metrics import Family

GAUGE = Family("gpuwait_test_level", "gauge", 'A "level"\nof \\ things.', "the test", ("a", "b"))
COUNTER = Family("gpuwait_test_events_total", "counter", "Events.", "the test", ("a",))
PLAIN = Family("gpuwait_test_plain", "gauge", "No labels.", "the test")

texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)


def samples(text):
    return sorted(
        (s.name, tuple(sorted(s.labels.items())), float(s.value))
        for family in text_string_to_metric_families(text)
        for s in family.samples
    )


def by_library(groups):
    class Given:
        def collect(self):
            for family, values in groups.items():
                metric = Metric(family.name, family.help, family.kind)
                for labels, value in values.items():
                    metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), value)
                yield metric

    registry = CollectorRegistry()
    registry.register(Given())
    return generate_latest(registry).decode()


@given(
    st.dictionaries(st.tuples(texts, texts), numbers, max_size=6),
    st.dictionaries(st.tuples(texts), numbers, max_size=6),
    numbers,
)
def test_text_equals_what_the_library_renders(gauges, counters, plain):
    """Whatever the label text and the value, both renderers say the same samples."""
    groups = {GAUGE: gauges, COUNTER: counters, PLAIN: {(): plain}}
    assert samples(TextRenderer().render([groups])) == samples(by_library(groups))


def test_text_is_what_prometheus_documents():
    """Escapes, help and type lines, integers without a decimal point."""
    groups = {GAUGE: {('x"\\\n', "é"): 2**53 + 1}, PLAIN: {(): 0.25}}
    assert TextRenderer().render([groups]) == (
        '# HELP gpuwait_test_level A "level"\\nof \\\\ things.\n'
        "# TYPE gpuwait_test_level gauge\n"
        'gpuwait_test_level{a="x\\"\\\\\\n",b="é"} 9007199254740993\n'
        "# HELP gpuwait_test_plain No labels.\n"
        "# TYPE gpuwait_test_plain gauge\n"
        "gpuwait_test_plain 0.25\n"
    )


def test_a_family_without_samples_leaves_no_trace():
    """No help and type line where there is no series."""
    assert TextRenderer().render([{GAUGE: {}}]) == ""


def test_label_sets_long_gone_are_forgotten():
    """The renderer's memory of series stays near the number of live ones."""
    renderer = TextRenderer()
    for turn in range(200):
        renderer.render([{COUNTER: {(f"{turn}-{i}",): 1 for i in range(10)}}])
    assert len(renderer._prefixes[COUNTER]) <= 2 * 10 + 64 + 10


def test_openmetrics_holds_the_same_samples():
    """Counters keep their value and name in OpenMetrics, which wants the family without _total."""
    outcome = Outcome(
        Collector("t", "A test.", (COUNTER, PLAIN), lambda _: ()), {COUNTER: {("x",): 7}, PLAIN: {(): 1.5}}
    )
    body = Exposition().openmetrics([outcome], {"t": 2}).decode()
    found = {(s.name, s.labels.get("a")): s.value for f in parse_openmetrics(body) for s in f.samples}
    assert found["gpuwait_test_events_total", "x"] == 7
    assert found["gpuwait_test_plain", None] == 1.5
    assert body.endswith("# EOF\n")


def test_a_scrape_says_what_became_of_each_collector():
    """Success, duration, availability with its reason, and what was dropped."""
    ok = Outcome(Collector("ok", "A test.", (), lambda _: ()), seconds=0.5)
    gone = Outcome(Collector("gone", "A test.", (), lambda _: ()), reason="absent", seconds=0.25)
    sick = Outcome(Collector("sick", "A test.", (), lambda _: ()), success=False)
    text = Exposition().text([ok, gone, sick], {"ok": 3}).decode()
    found = {
        (n, dict(labels).get("collector"), dict(labels).get("reason")): v for n, labels, v in samples(text)
    }
    assert found["gpuwait_collector_success", "ok", None] == 1
    assert found["gpuwait_collector_success", "gone", None] == 1
    assert found["gpuwait_collector_success", "sick", None] == 0
    assert found["gpuwait_collector_available", "ok", ""] == 1
    assert found["gpuwait_collector_available", "gone", "absent"] == 0
    assert ("gpuwait_collector_available", "sick", "") not in found
    assert found["gpuwait_collector_duration_seconds", "gone", None] == 0.25
    assert ("gpuwait_collector_duration_seconds", "sick", None) not in found
    assert found["gpuwait_series_dropped_total", "ok", None] == 3
    assert all(math.isfinite(v) for v in found.values())
