"""Pressure of the node."""

import errno

from gpuwait.collector import Reason
from gpuwait.collectors.pressure import COLLECTOR
from gpuwait.kernel.errors import ParseError

CPU = "some avg10=2.71 avg60=2.80 avg300=2.95 total=111802447190\nfull avg10=0.00 total=5\n"
IO = "some avg10=0.00 avg60=0.11 avg300=0.40 total=2500000\nfull avg10=0.00 total=1000001\n"
IRQ = "full avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n"


def test_seconds(tree):
    """Totals are in seconds; of the cpu there is no `full`, of interrupts nothing else."""
    tree.write({"proc/pressure/cpu": CPU, "proc/pressure/io": IO, "proc/pressure/irq": IRQ})
    assert tree.run(COLLECTOR) == (
        {
            ("pressure_some_seconds_total", "cpu"): 111802.44719,
            ("pressure_some_seconds_total", "io"): 2.5,
            ("pressure_full_seconds_total", "io"): 1.000001,
            ("pressure_full_seconds_total", "irq"): 0.25,
        },
        None,
    )


def test_no_pressure(tree):
    """A kernel without the files does not support it."""
    assert tree.run(COLLECTOR) == ({}, Reason.UNSUPPORTED)


def test_off_by_default(tree, monkeypatch):
    """Files that open and cannot be read are the same as none."""

    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    tree.write({"proc/pressure/cpu": CPU, "proc/pressure/io": IO})
    monkeypatch.setattr("os.read", refuse)
    assert tree.run(COLLECTOR) == ({}, Reason.UNSUPPORTED)


def test_one_broken_file(tree):
    """A file that is no pressure file is a fault, after the others have been told."""
    tree.write({"proc/pressure/memory": "garbage\n", "proc/pressure/io": IO})
    samples, outcome = tree.run(COLLECTOR)
    assert isinstance(outcome, ParseError)
    assert set(samples) == {("pressure_some_seconds_total", "io"), ("pressure_full_seconds_total", "io")}


def test_may_not_be_read(tree, monkeypatch):
    """A file that may not be read is said to need a permission."""

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    tree.write({"proc/pressure/io": IO})
    monkeypatch.setattr("os.open", refuse)
    assert tree.run(COLLECTOR) == ({}, Reason.NO_PERMISSION)
