"""Files of a Slurm prolog, on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwait.host import Host
from gpuwait.kernel.gpu_claims import Device
from gpuwait.workload.job_files import JobFiles

ZERO, ONE = Device("index", "0"), Device("index", "1")


def read(files: JobFiles) -> object:
    files.look()
    return files.given


def test_a_site_without(tmp_path: Path) -> None:
    """Without a directory nothing is told and nothing is wrong."""
    files = JobFiles(Host(rootfs=str(tmp_path)))
    assert (read(files), files.reasons) == (None, {})


def test_the_usual_directory(tmp_path: Path) -> None:
    """AMD's directory is read wherever it is."""
    usual = tmp_path / "run/exporter"
    usual.mkdir(parents=True)
    files = JobFiles(Host(rootfs=str(tmp_path)))
    assert read(files) == ()
    (usual / "0").write_text('{"SLURM_JOB_ID": "742", "SLURM_JOB_PARTITION": "p"}')
    assert read(files) == ((ZERO, ("742",)),)


def test_jobs_come_and_go(tmp_path: Path) -> None:
    """A prolog adds a job, an epilog empties or removes the file."""
    files = JobFiles(Host(rootfs="/nonexistent"), [str(tmp_path)])
    (tmp_path / "0").write_text("4711\n")
    (tmp_path / "1").write_text("4711\n")
    assert read(files) == ((ZERO, ("4711",)), (ONE, ("4711",)))
    (tmp_path / "0").write_text("4711\n4712\n")
    (tmp_path / "1").unlink()
    assert read(files) == ((ZERO, ("4711", "4712")),)
    (tmp_path / "0").write_text("")
    assert read(files) == ((ZERO, ()),)


def test_a_change_within_one_tick_of_the_clock(tmp_path: Path) -> None:
    """A file that is written twice with the same time and size is read once more."""
    files = JobFiles(Host(rootfs="/nonexistent"), [str(tmp_path)])
    (tmp_path / "0").write_text("4711\n")
    os.utime(tmp_path / "0", ns=(5, 5))
    assert read(files) == ((ZERO, ("4711",)),)
    (tmp_path / "0").write_text("4799\n")
    os.utime(tmp_path / "0", ns=(5, 5))
    assert read(files) == ((ZERO, ("4799",)),)


def test_unchanged_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read twice, then not again until it changes."""
    files = JobFiles(Host(rootfs="/nonexistent"), [str(tmp_path)])
    (tmp_path / "0").write_text("4711\n")
    reads: list[str] = []
    monkeypatch.setattr(
        "gpuwait.workload.job_files.read_file", lambda path, _limit: reads.append(path) or "4711"
    )
    for _ in range(5):
        assert read(files) == ((ZERO, ("4711",)),)
    assert len(reads) == 2


def test_what_is_no_file(tmp_path: Path) -> None:
    """A pipe, a directory, a dangling link or a huge file costs itself only."""
    os.mkfifo(tmp_path / "1")
    (tmp_path / "2").mkdir()
    (tmp_path / "3").symlink_to("nowhere")
    (tmp_path / "4").write_text("1" * (65 * 1024))
    (tmp_path / "0").write_text("4711\n")
    files = JobFiles(Host(rootfs="/nonexistent"), [str(tmp_path)])
    assert read(files) == ((ZERO, ("4711",)),)


def test_a_directory_that_was_asked_for(tmp_path: Path) -> None:
    """One named by an option and missing is told; it may come later."""
    files = JobFiles(Host(rootfs="/nonexistent"), [f"{tmp_path}/jobs"])
    assert read(files) is None
    assert files.reasons == {f"{tmp_path}/jobs": f"{tmp_path}/jobs: no such directory"}
    (tmp_path / "jobs").mkdir()
    assert (read(files), files.reasons) == ((), {})
