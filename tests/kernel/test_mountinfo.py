"""The mounts of a process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountinfo import Mount, parse_mountinfo, unescape

ROOT = "28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n"
NFS = "97 28 0:52 / /data/set rw,noatime shared:53 master:2 propagate_from:1 - nfs4 filer:/vol rw,vers=4.2\n"


def test_line_with_one_optional_field():
    """Every column of an ordinary line is kept."""
    assert parse_mountinfo(ROOT) == [
        Mount(28, "259:2", "/", "/", "rw,relatime", "ext4", "/dev/nvme0n1p2", "rw,errors=remount-ro")
    ]


def test_line_without_optional_field():
    """A private mount has its hyphen right after the options."""
    assert parse_mountinfo("30 28 0:5 / /dev rw - devtmpfs udev rw\n") == [
        Mount(30, "0:5", "/", "/dev", "rw", "devtmpfs", "udev", "rw")
    ]


def test_many_optional_fields():
    """Any number of optional fields may come before the hyphen."""
    assert parse_mountinfo(ROOT + NFS)[1] == Mount(
        97, "0:52", "/", "/data/set", "rw,noatime", "nfs4", "filer:/vol", "rw,vers=4.2"
    )


def test_empty_source():
    """An empty source leaves two spaces in a row and moves no column."""
    assert parse_mountinfo("99 28 0:61 / /run/doc rw - fuse.portal  rw,user_id=1000\n") == [
        Mount(99, "0:61", "/", "/run/doc", "rw", "fuse.portal", "", "rw,user_id=1000")
    ]


def test_escaped_mount_point():
    """Space, tab, newline and backslash of a mount point are unescaped once."""
    line = "99 28 0:61 / /a\\040b\\011c\\012d\\134040 rw - nfs filer:/x\\043y rw\n"
    mount = parse_mountinfo(line)[0]
    assert mount.mountpoint == "/a b\tc\nd\\040"
    assert mount.source == "filer:/x#y"


def test_undecodable_byte_stays():
    """A byte that is no UTF-8 arrives as a backslash, x and two digits and is no octal escape."""
    assert unescape("/a\\xff") == "/a\\xff"


def test_control_characters_are_no_line_ends():
    """The kernel escapes only the newline, so other line separators belong to the path."""
    mounts = parse_mountinfo("99 28 0:61 / /a\x0bb\x85c\u2028d rw - nfs filer:/x rw\n")
    assert [mount.mountpoint for mount in mounts] == ["/a\x0bb\x85c\u2028d"]


@pytest.mark.parametrize(
    "bad",
    [
        "x 28 0:61 / /m rw - nfs filer:/x rw",
        "99 28 0:61 / /m rw nfs filer:/x rw more",
        "99 28 0:61 / /m rw shared:1 more - nfs",
        "99 28 0:61",
        "\u00b2 28 0:61 / /m rw - nfs filer:/x rw",
    ],
)
def test_malformed_line_costs_only_itself(bad):
    """A line without a number, a hyphen or its tail is skipped."""
    assert [mount.mount_id for mount in parse_mountinfo(f"{bad}\n{ROOT}")] == [28]


def test_empty_file_has_no_mounts():
    """A process without mounts is no error."""
    assert parse_mountinfo("") == []


def test_text_of_another_kind():
    """A file without one mount names itself in the error."""
    with pytest.raises(ParseError, match="mountinfo"):
        parse_mountinfo("garbage\n")


@given(st.text() | st.lists(st.sampled_from([*ROOT.split(" "), *NFS.split(" "), "", "\n"])).map(" ".join))
def test_any_text(text):
    """Nothing but ParseError leaves the parser."""
    try:
        mounts = parse_mountinfo(text)
    except ParseError:
        return
    assert all(mount.mount_id >= 0 for mount in mounts)
