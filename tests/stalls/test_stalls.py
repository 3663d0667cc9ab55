"""Each real stall is named right, by the real daemon, on this kernel."""

import os

import pytest
from loads import LOADS
from verdicts import FAKE, named, provoke

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def possible():
    if os.geteuid() != 0:
        pytest.skip("needs root: it changes kernel settings, and puts them back")
    if not (FAKE / "libnvidia-ml.so.1").exists():
        pytest.skip("needs the fake NVML: make fake-nvml")


@pytest.mark.parametrize("name", LOADS)
def test_a_real_stall_is_named(name):
    """The cause provoked has most of the waiting seconds, and the waiting is most of the time."""
    try:
        seconds = provoke(name, 8)
    except LookupError as reason:
        pytest.skip(str(reason))
    assert named(seconds) == name, seconds
    assert seconds[name] >= 4, seconds


def test_a_busy_gpu_waits_for_nothing():
    """At 95 % the rest is slack, whatever the host does."""
    seconds = provoke("quiet", 8, per_cent=95)
    assert named(seconds) is None, seconds
    assert seconds["[busy]"] >= 6, seconds
