"""Lustre client series."""

import pytest

from gpuwait.collectors.lustre import COLLECTOR
from gpuwait.gather import call
from gpuwait.host import Host
from gpuwait.kernel.lustre import filesystem_of, parse_stats
from gpuwait.sources import Sources

STATS = """snapshot_time             1700000000.123456789 secs.nsecs
start_time                1600000000.1 secs.nsecs
read_bytes                10 samples [bytes] 4096 1048576 5000000 12345678901
write_bytes               4 samples [bytes] 1 10 22
open                      70 samples [usec] 1 900 2500000 88
getattr                   31 samples [reqs]
broken                    x samples [reqs]
negative                  -3 samples [reqs]
huge                      18446744073709551615 samples [reqs]
short 3
"""


def groups(tmp_path):
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "sys").mkdir(exist_ok=True)
    outcome = call(COLLECTOR, Sources(host=Host(str(tmp_path / "proc"), str(tmp_path / "sys"))))
    return outcome, {
        (family.name, labels): value
        for family, values in outcome.groups.items()
        for labels, value in values.items()
    }


def write(tmp_path, base, directory, text=STATS):
    path = tmp_path / base / "lustre/llite" / directory
    path.mkdir(parents=True)
    (path / "stats").write_text(text)


@pytest.mark.parametrize("base", ["proc/fs", "sys/fs", "sys/kernel/debug"])
def test_values(tmp_path, base):
    """Bytes are the sum, operations the count, time the sum of [usec] rows, wherever the file lies."""
    write(tmp_path, base, "data1-ffff0001")
    outcome, found = groups(tmp_path)
    assert outcome.success
    assert found == {
        ("gpuwait_lustre_read_bytes_total", ("data1",)): 5000000,
        ("gpuwait_lustre_read_samples_total", ("data1",)): 10,
        ("gpuwait_lustre_written_bytes_total", ("data1",)): 22,
        ("gpuwait_lustre_write_samples_total", ("data1",)): 4,
        ("gpuwait_lustre_operations_total", ("data1", "open")): 70,
        ("gpuwait_lustre_operation_time_seconds_total", ("data1", "open")): 2.5,
        ("gpuwait_lustre_operations_total", ("data1", "getattr")): 31,
    }


def test_two_mounts_of_one_file_system_are_summed(tmp_path):
    """Each mount has its own counters; the series is the file system's."""
    write(tmp_path, "proc/fs", "a-b-ffff0001", "open 1 samples [reqs]\n")
    write(tmp_path, "proc/fs", "a-b-ffff0002", "open 2 samples [reqs]\n")
    assert groups(tmp_path)[1] == {("gpuwait_lustre_operations_total", ("a-b", "open")): 3}


def test_no_lustre_is_absence(tmp_path):
    """A node without Lustre works and has no series."""
    outcome, found = groups(tmp_path)
    assert (outcome.success, outcome.reason, found) == (True, "absent", {})


def test_a_directory_without_dash_is_its_own_name():
    """Never an empty file system."""
    assert filesystem_of("odd") == "odd"


def test_nothing_but_rows_is_read():
    """Text of another kind gives no rows."""
    assert parse_stats("<html>\n\x00\n1 2 3 4 5 6 7\n") == []
