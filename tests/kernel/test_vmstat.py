"""/proc/vmstat."""

import pytest

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.vmstat import parse_vmstat


def test_values_by_name():
    """Names are the kernel's, values are as written."""
    text = "nr_free_pages 351700\ncompact_stall 6560112\ncompact_free_scanned 666161900044\n"
    assert parse_vmstat(text) == {
        "nr_free_pages": 351700,
        "compact_stall": 6560112,
        "compact_free_scanned": 666161900044,
    }


def test_error_names_the_file():
    """A file of another kind is an error that says which file."""
    with pytest.raises(ParseError, match="vmstat"):
        parse_vmstat("<html>\n")
