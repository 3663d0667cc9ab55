"""Facts about disks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuwait.host import Host
from gpuwait.udev import DiskFacts, Facts, schedulers


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("", ()),
        ("none\n", (("none", True),)),
        ("[none] kyber\n", (("none", True), ("kyber", False))),
        ("none [none]\n", (("none", True),)),
    ],
)
def test_schedulers(text: str, offered: tuple[tuple[str, bool], ...]) -> None:
    """The name in brackets is in use, a single name always; each name counts once."""
    assert schedulers(text) == offered


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvme12n1", "nvme"),
        ("sdab", "scsi"),
        ("sr0", "scsi"),
        ("vdb", "virtio"),
        ("dm-12", "dm"),
        ("md127", "md"),
        ("md_d0", "md"),
        ("mmcblk0", "mmc"),
        ("xvda1", "xen"),
        ("rbd3", "network"),
        ("cciss!c0d0", "raid"),
        ("loop7", "virtual"),
        ("new0", "other"),
    ],
)
def test_kinds(tmp_path: Path, name: str, kind: str) -> None:
    """The driver's name decides the kind; an unknown one is other, and nothing else is known."""
    assert DiskFacts(Host(sysfs=str(tmp_path))).facts(name) == Facts(kind)


def test_captured_tree_asks_no_udev(tmp_path: Path) -> None:
    """A tree that is not this host's sysfs hears of no event."""
    assert DiskFacts(Host(sysfs=str(tmp_path))).changed() == set()


def _captured(root: Path) -> Host:
    """A host with one disk, 259:7, that its sysfs and its udev database know by two models."""
    for path, text in {
        "sys/block/nvme0n1/dev": "259:7\n",
        "sys/block/nvme0n1/device/model": "SHORT\n",
        "udev/b259:7": "S:disk/by-id/x\nE:ID_MODEL=LONG MODEL=1\nE:ID_BUS=nvme\nnot a line of it\n",
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Host(sysfs=f"{root}/sys", udev_data=f"{root}/udev")


def test_database(tmp_path: Path) -> None:
    """Where another host's database is named, its model goes before that of sysfs."""
    assert DiskFacts(_captured(tmp_path)).facts("nvme0n1").model == "LONG MODEL=1"


def test_database_of_this_host(tmp_path: Path) -> None:
    """The usual place belongs to this host, so a tree captured elsewhere does without."""
    host = _captured(tmp_path)
    assert DiskFacts(Host(sysfs=host.sysfs)).facts("nvme0n1").model == "SHORT"


def test_odd_number(tmp_path: Path) -> None:
    """A number that is none names no file, least of all one in another directory."""
    host = _captured(tmp_path)
    (tmp_path / "sys/block/nvme0n1/dev").write_text("9/../259:7\n")
    assert DiskFacts(host).facts("nvme0n1").model == "SHORT"


def test_real_host() -> None:
    """On a real host an unknown disk has no facts, a look at events does not block."""
    facts = DiskFacts(Host())
    assert isinstance(facts.changed(), set)
    assert facts.facts("vd-none") == Facts("other")


def test_without_libudev(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is missing, sysfs alone is asked."""
    monkeypatch.setitem(sys.modules, "pyudev", None)
    facts = DiskFacts(Host())
    assert facts.changed() == set()
    assert facts.facts("vd-none") == Facts("other")
