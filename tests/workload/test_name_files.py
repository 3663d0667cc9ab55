"""When files of the runtimes are read: first those that matter, and again where they may come late."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

A, B = "a1" * 32, "b2" * 32
DOCKER = "root/var/lib/docker/containers"


def called(node: Any, identity: str, name: str) -> None:
    node.file(f"{DOCKER}/{identity}/config.v2.json", json.dumps({"Name": f"/{name}"}))


@pytest.fixture
def reads(node: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the containers whose Docker file was read, in order."""
    found: list[str] = []
    from gpuwait.workload import name_files

    real = name_files.read_file

    def read(path: str, limit: int) -> str | None:
        if "docker" in path:
            found.append(path.split("/")[-2])
        return real(path, limit)

    monkeypatch.setattr(name_files, "read_file", read)
    return found


def test_a_file_that_comes_late(node: Any) -> None:
    """A file that appears after three looks is read within a minute."""
    node.group(f"docker/{A}")
    for _ in range(10):
        node.look()
    called(node, A, "train")
    node.clock.now += 59
    node.look()
    assert [labels[2] for labels in node.labels()] == ["a1a1a1a1a1a1"]
    node.clock.now += 1
    assert [labels[2] for labels in node.labels()] == ["train"]


def test_a_closed_file(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may not be read is no try: it is read ten seconds after it was opened to us, however late."""
    from gpuwait.workload import name_files

    real, closed = name_files.read_file, [True]

    def read(path: str, limit: int) -> str | None:
        if closed and "docker" in path:
            raise PermissionError(13, "Permission denied", path)
        return real(path, limit)

    monkeypatch.setattr(name_files, "read_file", read)
    node.group(f"docker/{A}")
    called(node, A, "train")
    for _ in range(10):
        node.clock.now += 10
        node.look()
    assert [labels[2] for labels in node.labels()] == ["a1a1a1a1a1a1"]
    closed.clear()
    node.clock.now += 10
    assert [labels[2] for labels in node.labels()] == ["train"]
    assert node.names.reasons == {}


def test_closed_files_are_left_alone_for_a_while(node: Any, reads: list[str]) -> None:
    """What fails is tried again every ten seconds, not at each look, and leaves nothing to do."""
    node.group(f"docker/{A}")
    (node.root / DOCKER / A).mkdir(parents=True)
    os.mkfifo(node.root / DOCKER / A / "config.v2.json")
    node.tree.groups(fresh=True)
    assert [node.names.look() for _ in range(10)] == [False] * 10
    assert reads == [A]
    node.clock.now += 10
    node.names.look()
    assert reads == [A, A]


def test_every_container_once_before_any_twice(node: Any, reads: list[str]) -> None:
    """With many that no file names, the last is read in its turn; then nothing is left to do."""
    ids = [f"{n:064x}" for n in range(1, 201)]
    for identity in ids:
        node.group(f"docker/{identity}")
    called(node, ids[-1], "train")
    node.tree.groups(fresh=True)
    assert [node.names.look() for _ in range(4)] == [True, True, True, False]
    assert sorted(reads[:200]) == ids
    assert ("container", "", "train", "train") in node.labels()


def test_those_who_were_asked_for_come_first(node: Any, reads: list[str]) -> None:
    """A container whose process was asked for, as those that hold a GPU are, is read before all others."""
    for n in range(1, 201):
        node.group(f"docker/{n:064x}")
    last = "f" * 64
    node.group(f"docker/{last}", 7)
    node.tree.groups(fresh=True)
    node.tree.owner_of_pid(7)
    node.names.look()
    assert reads[0] == last


def test_a_minute_later_all_have_their_turn(node: Any, reads: list[str]) -> None:
    """Each look reads a few; of more than that none is passed over."""
    ids = [f"{n:064x}" for n in range(1, 101)]
    for identity in ids:
        node.group(f"docker/{identity}")
    for _ in range(20):
        node.look()
    assert len(reads) == 300
    reads.clear()
    node.clock.now += 60
    node.look()
    node.look()
    assert sorted(reads) == ids
