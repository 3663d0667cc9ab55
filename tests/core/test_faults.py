"""Faults that are kept until the rest is read, and names that are safe to show."""

import pytest

from gpuwait.collector import NoData, Reason
from gpuwait.faults import Faults, named
from gpuwait.host import label
from gpuwait.kernel.errors import ParseError


def met(*errors):
    """Faults that have met these, each at a file of its own."""
    faults = Faults()
    for number, error in enumerate(errors):
        with faults.at(f"/proc/{number}"):
            raise error
    return faults


def test_nothing():
    """Without a fault nothing is raised."""
    met().finish()


def test_refused_alone():
    """Files that may not be read, and nothing else, are an absence that names them."""
    with pytest.raises(NoData) as caught:
        met(PermissionError(13, "Permission denied"), PermissionError(1, "No")).finish()
    assert caught.value.reason == Reason.NO_PERMISSION
    assert caught.value.detail == "/proc/0: Permission denied; /proc/1: No"


def test_all_are_named():
    """A fault weighs more than an absence, and each file is named."""
    errors = (ParseError("bad"), PermissionError(13, "Permission denied"), OSError(5, "I/O error"))
    with pytest.raises(ParseError, match=r"^/proc/0: bad; /proc/2: I/O error; /proc/1: Permission denied$"):
        met(*errors).finish()


def test_errors_of_the_system():
    """Where no text was bad the fault is one of the system."""
    with pytest.raises(OSError, match=r"^/x: I/O error$"):
        met(OSError(5, "I/O error", "/x")).finish()


def test_other_exceptions_pass():
    """A defect, and an absence, are not taken in."""
    with pytest.raises(KeyError):
        met(KeyError())
    with pytest.raises(NoData):
        met(NoData(Reason.ABSENT, "x"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("nfs: no line", "/proc/1/net/rpc/nfs: no line"),
        ("rpc/nfs: no line", "/proc/1/net/rpc/nfs: no line"),
        ("fs: no line", "/proc/1/net/rpc/nfs: fs: no line"),
        ("no line", "/proc/1/net/rpc/nfs: no line"),
    ],
)
def test_named(message, expected):
    """The path stands for the part of it that the parser knows."""
    assert named("/proc/1/net/rpc/nfs", ParseError(message)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sda", "sda"),
        ("Müller GmbH 磁盘", "Müller GmbH 磁盘"),
        ("a\x1b[2J\nb\x9b", "a\ufffd[2J\ufffdb\ufffd"),
        ("a\u202eb\u2028", "a\ufffdb\ufffd"),
        ("a\udcffb\ud800", "a\\xffb\ufffd"),
        ("x" * 10000, "x" * 128),
    ],
)
def test_label(text, expected):
    """Control characters, line separators and turns of direction are replaced; long texts are cut."""
    assert label(text) == expected
