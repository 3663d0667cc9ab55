"""The tests of Alertmanager share `paging` with the tests of whole pages."""

import contextlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))


@pytest.fixture
def stack():
    """What is started on it ends with the test."""
    with contextlib.ExitStack() as opened:
        yield opened
