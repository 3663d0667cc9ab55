"""/proc/PID/mountstats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountstats import Transport, parse_mountstats, parse_nfs_statistics

OTHERS = "device rootfs mounted on / with fstype rootfs\nno device mounted on /x with fstype tmpfs\n"
BODY = """\
\topts:\trw,vers=4.2,rsize=1048576,wsize=524288,namlen=255,hard,proto=tcp,timeo=600,sec=sys
\tage:\t190112
\timpl_id:\tname='',domain='',date='0,0'
\tcaps:\tcaps=0x3fc7,wtmult=512,dtsize=131072,bsize=0,namlen=255
\tnfsv4:\tbm0=0xfdffbfff,acl=0x3,sessions,pnfs=not configured,lease_time=90,lease_expired=7
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t4100 90211 2 55 1311 902 120044 0 0 9300 3 520 88 12 1400 2 0 1311 0 0 501 0 0 0 0 0 0 \n\
\tbytes:\t944 525 1 2 945 526 230 128 \n\
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 903 1 2 0 4 30746 30744 3 91233 5 40 12011 45099
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 9022 9024 1 1515696 9441120256 310 48120 48990 2
\t       CLONE: 0 0 0 0 0 0 0 0 0

"""
NFS = "device filer:/vol mounted on /data with fstype nfs4 statvers=1.1\n"


def test_only_nfs_mounts():
    """Other file systems, also of similar types, are left out."""
    text = OTHERS + NFS + BODY + "device x mounted on /y with fstype nfsd\n"
    assert [(mount.export, mount.mountpoint) for mount in parse_mountstats(text)] == [("filer:/vol", "/data")]


def test_version_3_without_statvers():
    """The type may end the line, on kernels without statvers."""
    assert len(parse_mountstats("device a:/b mounted on /c with fstype nfs\n" + BODY)) == 1


def test_escapes():
    """Export and mount point are unescaped."""
    mount = parse_mountstats("device a:/x\\040y mounted on /m\\134n with fstype nfs statvers=1.1\n")[0]
    assert (mount.export, mount.mountpoint) == ("a:/x y", "/m\\n")


@pytest.mark.parametrize("text", ["", OTHERS, "no device mounted on / with fstype tmpfs\n"])
def test_no_nfs(text):
    """A host without NFS has no such mounts."""
    assert parse_mountstats(text) == []


def test_text_of_another_kind():
    """Where no line is a mount, the error names the file."""
    with pytest.raises(ParseError, match="mountstats"):
        parse_mountstats("nothing\n")


def test_statistics():
    """All that is read of a mount."""
    read = parse_nfs_statistics(BODY)
    assert read.options["vers"] == "4.2"
    assert "hard" in read.options
    assert (read.age, read.lease, read.lease_expired) == (190112, 90, 7)
    assert read.transferred == (944, 525, 1, 2, 945, 526, 230, 128)
    assert read.transports == (Transport("tcp", 903, 30746, 30744, 3, 2, 91233, 5, 12011, 45099),)
    assert read.transport_lines == 1


def test_operations_ever_used():
    """An operation that was never used is left out."""
    assert parse_nfs_statistics(BODY).operations == {
        "NULL": [1, 1, 0, 44, 24, 0, 0, 0, 0],
        "READ": [9022, 9024, 1, 1515696, 9441120256, 310, 48120, 48990, 2],
    }


def test_sent_and_never_answered():
    """Transmissions without a completed operation are use."""
    text = "\tper-op statistics\n\t  READ: 0 5 1 10 0 0 0 0\n"
    assert parse_nfs_statistics(text).operations == {"READ": [0, 5, 1, 10, 0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ("READ: 1 2 3 4 5 6 7 8", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("READ: 1 2 3 4 5 6 7 8 9 10 11", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("READ: 1 2 3 4 5 18446743919241604546 7 8 9", [1, 2, 3, 4, 5, None, 7, 8, 9]),
        ("READ: 1 2 3 4 5 -6 7 8 9", [1, 2, 3, 4, 5, None, 7, 8, 9]),
        ("READ: 1 2 3 4 5 x 7 8 9", [1, 2, 3, 4, 5, None, 7, 8, 9]),
        ("READ: 1 2", [1, 2]),
    ],
)
def test_rows_of_other_shapes(row, values):
    """More or fewer columns are read; a number that cannot be true costs itself, not the mount."""
    text = f"\tper-op statistics\n\t  NULL: 1 1 0 44 24 0 0 0 0\n\t  {row}\n"
    operations = parse_nfs_statistics(text).operations
    assert list(operations["READ"]) == values
    assert list(operations["NULL"]) == [1, 1, 0, 44, 24, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "bad", ["READ", "READ:", "READ: 1", "read: 1 1 1 1", "other: 1 1 1", "X" * 40 + ": 1 1", "1 2 3 4"]
)
def test_bad_row_costs_only_itself(bad):
    """A row without a name in capitals or without two numbers is skipped."""
    text = f"\tper-op statistics\n\t{bad}\n\t  NULL: 1 1 0 44 24 0 0 0 0\n"
    assert list(parse_nfs_statistics(text).operations) == ["NULL"]


@pytest.mark.parametrize(
    ("line", "transport"),
    [
        (
            "tcp 689 1 2 0 0 2830 2822 6 24990 7",
            Transport("tcp", 689, 2830, 2822, 6, 2, 24990, 7, None, None),
        ),
        ("udp 800 1 50 49 1 60 2", Transport("udp", 800, 50, 49, 1, None, 60, 2, None, None)),
        ("udp 800 1 50 49 1 60 2 16 3 4", Transport("udp", 800, 50, 49, 1, None, 60, 2, 3, 4)),
        ("local 1 2 0 5 50 49 1 60 2 16 3 4", Transport("local", None, 50, 49, 1, 2, 60, 2, 3, 4)),
        (
            "rdma 0 1 2 0 5 50 49 1 60 2 11 12 13 14 15 16 17 18 19 20 21 22",
            Transport("rdma", 0, 50, 49, 1, 2, 60, 2, None, None),
        ),
        (
            "tcp 689 1 2 0 0 18446744073709551615 2822 6 24990 7 8 9 10",
            Transport("tcp", 689, None, 2822, 6, 2, 24990, 7, 9, 10),
        ),
    ],
)
def test_transports(line, transport):
    """Each protocol has its columns; queues came with statvers 1.1."""
    assert parse_nfs_statistics(f"\txprt:\t{line}\n").transports == (transport,)


@pytest.mark.parametrize("line", ["carrier-pigeon 1 2 3 4 5 6 7 8", "", "tcp 1 2"])
def test_unknown_transport(line):
    """A transport of an unknown protocol or too short is counted, not read; the mount stays."""
    read = parse_nfs_statistics(f"\tage:\t5\n\txprt:\t{line}\n")
    assert (read.transports, read.transport_lines, read.age) == ((), 1, 5)


def test_one_line_for_each_connection():
    """nconnect gives several transports."""
    line = "\txprt:\ttcp 689 1 2 0 0 2830 2822 0 24990 0 10 0 22140\n"
    assert len(parse_nfs_statistics(line * 4).transports) == 4


def test_text_of_the_server():
    """Lines that the server's name brings in change nothing that came before."""
    text = "\tage:\t5\n\timpl_id:\tname='evil\nage: 7\nnonsense\n',domain=''\n\tbytes:\t1 2\n"
    read = parse_nfs_statistics(text)
    assert (read.age, read.transferred) == (5, (1, 2))


def test_nothing_known():
    """Without any known line everything is absent."""
    read = parse_nfs_statistics("")
    assert (read.age, read.lease, read.lease_expired, read.transferred) == (None, None, None, ())
    assert (read.transports, read.transport_lines, read.operations) == ((), 0, {})


_PIECES = [*(OTHERS + NFS + BODY).split(" "), "\n", "device ", "xprt: ", "-1 ", "18446744073709551615 ", ":"]


@given(st.text() | st.lists(st.sampled_from(_PIECES)).map(" ".join))
def test_any_text(text):
    """Nothing but ParseError leaves, and no number is negative."""
    try:
        bodies = [mount.statistics for mount in parse_mountstats(text)]
    except ParseError:
        bodies = []
    for body in [*bodies, text, f"\tper-op statistics\n{text}"]:
        read = parse_nfs_statistics(body)
        numbers = [*read.transferred, read.age, read.lease, read.lease_expired]
        for row in read.operations.values():
            numbers += row
        for transport in read.transports:
            numbers += [transport.sends, transport.receives, transport.pending]
        assert all(number is None or 0 <= number < 2**63 for number in numbers)


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        ("\topts:\trw,vers=4.1\n\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n", "4.1"),
        ("\topts:\trw\n\tRPC iostats version: 1.0  p/v: 100003/3 (nfs)\n", "3"),
        ("\topts:\trw\n\tRPC iostats version: 1.1  p/v: 100003/x (nfs)\n", ""),
        ("\topts:\trw\n\tRPC iostats version: 1.1  p/v: 100005/3 (mountd)\n", ""),
        ("", ""),
    ],
)
def test_version(lines, version):
    """The options tell the version, else the program does."""
    assert parse_nfs_statistics(lines).version == version


def test_numbers_that_cannot_be_true_are_counted():
    """What is negative, no number or too large is absent and counted; an unknown protocol is not."""
    read = parse_nfs_statistics(
        "\tage:\t18446744073709551615\n\tnfsv4:\tlease_time=90,lease_expired=-1\n"
        "\txprt:\ttcp 903 1 2 0 4 18446744073709551615 30744 3 91233 5 40 12011 45099\n\txprt:\tquic a b c\n"
    )
    assert (read.age, read.lease, read.lease_expired) == (None, 90, None)
    assert read.untrue == 3


def test_operation_with_control_characters():
    """A name that would move the cursor of a terminal is none of the kernel's."""
    assert parse_nfs_statistics("\tper-op statistics\n\t \x1b[2J: 1 1 0 0 0 0 0 0\n").operations == {}
