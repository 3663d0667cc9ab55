"""GPFS series from mmpmon, with scripts in its place."""

import time

import pytest

from gpuwait import programs
from gpuwait.collectors import gpfs
from gpuwait.gather import call
from gpuwait.host import Host
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mmpmon import parse_fs_io
from gpuwait.sources import CollectorOptions, Sources

ANSWER = (
    "_fs_io_s_ _n_ 10.1.2.3 _nn_ n1 _rc_ 0 _t_ 1 _tu_ 2 _cl_ one.example _fs_ work _d_ 2 "
    "_br_ 9007199254740993 _bw_ 7 _oc_ 1 _cc_ 2 _rdc_ 3 _wc_ 4 _dir_ 5 _iu_ 6"
)


def script(tmp_path, body):
    path = tmp_path / "mmpmon"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Sources(host=Host(), options=CollectorOptions(gpfs_mmpmon=str(path)))


def values(outcome):
    return {(f.name, labels): v for f, group in outcome.groups.items() for labels, v in group.items()}


def test_values_by_cluster_and_file_system(tmp_path):
    """Two file systems of one name in two clusters stay apart, beyond 2^53 too."""
    other = ANSWER.replace("one.example", "two.example").replace("9007199254740993", "5")
    sources = script(tmp_path, f"read line; echo; echo '{ANSWER}'; echo '{other}'")
    outcome = call(gpfs.COLLECTOR, sources)
    assert outcome.success
    found = values(outcome)
    assert found["gpuwait_gpfs_read_bytes_total", ("one.example", "work")] == 9007199254740993
    assert found["gpuwait_gpfs_read_bytes_total", ("two.example", "work")] == 5
    assert found["gpuwait_gpfs_inode_updates_total", ("one.example", "work")] == 6
    assert len(found) == 16


def test_a_program_that_hangs_is_killed(tmp_path, monkeypatch):
    """It costs its time-out, leaves no child, and the next call starts afresh."""
    monkeypatch.setattr(gpfs, "TIMEOUT", 0.2)
    sources = script(tmp_path, f"echo $$ >{tmp_path}/pid; exec sleep 60")
    begin = time.monotonic()
    outcome = call(gpfs.COLLECTOR, sources)
    assert time.monotonic() - begin < 2
    assert not outcome.success
    assert "no answer" in outcome.detail
    assert sources.kept(programs.Running).child is None


def test_a_child_that_does_not_die_is_not_joined_by_another():
    """While an unkillable call is there no second one is started."""

    class Stuck:
        pid = 7

        def poll(self):
            return None

    running = programs.Running()
    running.child = Stuck()
    with pytest.raises(TimeoutError, match="does not end"):
        programs.ask(["/nonexistent"], b"", running, 1.0)


@pytest.mark.parametrize(("body", "word"), [("exit 3", "exit status 3"), ("echo nonsense", "_fs_io_s_")])
def test_wrong_answers_are_faults(tmp_path, body, word):
    """A bad status or another text is success 0 with a reason."""
    outcome = call(gpfs.COLLECTOR, script(tmp_path, body))
    assert not outcome.success
    assert word in outcome.detail


def test_no_program_is_absence():
    """Where mmpmon is not installed there is no GPFS."""
    sources = Sources(host=Host(), options=CollectorOptions(gpfs_mmpmon="/nonexistent/mmpmon"))
    outcome = call(gpfs.COLLECTOR, sources)
    assert (outcome.success, outcome.reason) == (True, "absent")


def test_lines_with_errors_and_missing_fields():
    """A file system that reports an error is left out; a missing counter is no sample."""
    found = parse_fs_io("_fs_io_s_ _rc_ 1 _fs_ bad\n_fs_io_s_ _rc_ 0 _cl_ c _fs_ good _br_ 1 _bw_ -2 _oc_\n")
    assert [(f.cluster, f.name, f.counters) for f in found] == [("c", "good", {"read_bytes": 1})]
    assert parse_fs_io("") == []
    with pytest.raises(ParseError):
        parse_fs_io("something else")
