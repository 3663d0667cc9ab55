"""The configuration file, right and wrong."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.settings import Settings, SettingsError, parse
from gpuwait.thresholds import DEFAULTS, Thresholds

GOOD = """
thresholds:
  compaction:
    stalls: 5
  nfs: {response: 0.1}
prices:
  default: 2.5
  models:
    NVIDIA H100 80GB HBM3: 4
"""


def test_values():
    """Thresholds in their units, prices by model with a default."""
    found = parse(GOOD, "f")
    assert found.thresholds == {("compaction", "stalls"): 5.0, ("nfs", "response"): 0.1}
    assert found.price_of("NVIDIA H100 80GB HBM3") == 4
    assert found.price_of("another") == 2.5
    limits = Thresholds(found.thresholds)
    assert limits("compaction", "stalls") == 5
    assert limits("disk", "busy") == 0.15


@pytest.mark.parametrize("text", ["", "---", "{}", "# nothing\n", "thresholds: {}\nprices: {}"])
def test_an_empty_file_changes_nothing(text):
    """No keys, no change, no price."""
    found = parse(text, "f")
    assert found == Settings()
    assert found.price_of("x") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("thresholdz: {}", "f: unknown key 'thresholdz'; there are thresholds, prices"),
        ("thresholds: {compactoin: {}}", "f: thresholds: unknown key 'compactoin'; there are "),
        (
            "thresholds: {disk: {bussy: 1}}",
            "f: thresholds.disk: unknown key 'bussy'; there are busy, latency",
        ),
        (
            "thresholds: {disk: {busy: 1.5}}",
            "f: thresholds.disk.busy: must be a ratio from 0.01 to 1, not 1.5",
        ),
        (
            "thresholds: {disk: {busy: 15%}}",
            "f: thresholds.disk.busy: must be a ratio from 0.01 to 1, not '15%'",
        ),
        (
            "thresholds: {disk: {busy: true}}",
            "f: thresholds.disk.busy: must be a ratio from 0.01 to 1, not True",
        ),
        (
            "thresholds: {disk: {latency: 5ms}}",
            "f: thresholds.disk.latency: must be a number of seconds from 0.0001 to 60, not '5ms'",
        ),
        (
            "thresholds: {disk: {busy: .nan}}",
            "f: thresholds.disk.busy: must be a ratio from 0.01 to 1, not nan",
        ),
        ("thresholds: [1]", "f: thresholds: must be a mapping"),
        ("thresholds:", "f: thresholds: must be a mapping"),
        ("prices: {default: -1}", "f: prices.default: must be a price per GPU and hour"),
        ("prices: {default: 2 USD}", "f: prices.default: must be a price per GPU and hour"),
        ("prices: {models: {A100: .inf}}", "f: prices.models.A100: must be a price"),
        ("a: [", "f line 1: "),
        ("- 1", "f: must be a mapping"),
        ("prices: {default: 1}\nprices: {default: 2}", "f: line 2: the key 'prices' stands here twice"),
        ("prices: {models: {1: 2}}", "f: line 1: 1 must be a text"),
        (
            "thresholds: {nfs: {response: " + "9" * 400 + "}}",
            "f: thresholds.nfs.response: must be a number of",
        ),
        ("[" * 3000, "f: RecursionError"),
    ],
)
def test_what_is_wrong_is_named(text, said):
    """One line with the key and what is right."""
    with pytest.raises(SettingsError) as caught:
        parse(text, "f")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    """Nothing but SettingsError leaves the reader."""
    with contextlib.suppress(SettingsError):
        parse(text, "f")


def test_defaults_lie_in_their_own_ranges():
    """Each default can be written into the file."""
    for threshold in DEFAULTS.values():
        assert threshold.low <= threshold.value <= threshold.high
        assert threshold.why
