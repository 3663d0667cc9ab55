"""A host made of a few files, and what a collector says about it."""

import os

import pytest

from gpuwait.collector import NoData
from gpuwait.host import Host
from gpuwait.kernel.errors import ParseError
from gpuwait.sources import Sources


class Tree:
    """Files below `proc` and `sys` of an invented host."""

    def __init__(self, root):
        self.root = root
        self.lost = 0
        self.detail = ""

    def write(self, files):
        """Create or replace files, by path."""
        for path, text in files.items():
            full = self.root / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text)

    def refuse(self, monkeypatch, path):
        """Let the file be one that this user may not open: root may open any."""
        opened, refused = os.open, f"{self.root}/{path}"

        def refuse(path, *more):
            if path == refused:
                raise PermissionError(13, "Permission denied", path)
            return opened(path, *more)

        monkeypatch.setattr("os.open", refuse)

    def sources(self, **more):
        """Sources of this host; for several scrapes in a row keep one."""
        return Sources(Host(f"{self.root}/proc", f"{self.root}/sys", str(self.root)), **more)

    def run(self, collector, sources=None):
        """Samples by name and labels, and None, the reason of NoData, or the fault.

        `lost` is then the number of samples that are left out, but counted.
        """
        samples, outcome = {}, None
        self.lost, self.detail = 0, ""
        try:
            for family, labels, value in collector.collect(sources or self.sources()):
                assert family in collector.families
                assert len(labels) == len(family.labels)
                if value != value:
                    self.lost += 1
                    continue
                key = (family.name.removeprefix("gpuwait_"), *labels)
                assert key not in samples
                samples[key] = value
        except NoData as missing:
            outcome, self.detail = missing.reason, missing.detail
        except (OSError, ParseError) as fault:
            outcome, self.detail = fault, str(fault)
        return samples, outcome


@pytest.fixture
def tree(tmp_path):
    """A host without any file."""
    return Tree(tmp_path)
