"""The NFS client."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwait.collector import Reason
from gpuwait.collectors.nfs import COLLECTOR
from gpuwait.kernel.errors import ParseError
from gpuwait.sources import CollectorOptions, Filter

OPTIONS = "rw,vers=4.2,rsize=1048576,wsize=524288,hard,proto=tcp"


def _mount(export="filer:/vol", where="/data", kind="nfs4", reads=9022, options=OPTIONS, more=""):
    return (
        f"device {export} mounted on {where} with fstype {kind} statvers=1.1\n"
        f"\topts:\t{options}\n\tage:\t190112\n"
        "\tnfsv4:\tbm0=0xfdffbfff,pnfs=not configured,lease_time=90,lease_expired=7\n"
        "\tbytes:\t944 525 1 2 945 526 230 128 \n"
        "\txprt:\ttcp 903 1 2 0 4 30746 30700 3 91233 5 40 12011 45099\n"
        "\tper-op statistics\n"
        f"\t        READ: {reads} {reads + 6} 1 1515696 9441120256 310 48120 48990 2\n"
        f"\t       CLONE: 0 0 0 0 0 0 0 0 0\n{more}\n"
    )


def test_calls_of_the_node(tree):
    """The client's calls are read from process 1, so that a container sees the host's."""
    tree.write(
        {
            "proc/1/net/rpc/nfs": "rpc 2533373021 110 253\nproc4 69 4 7505\n",
            "proc/net/rpc/nfs": "rpc 1 1 1\n",
        }
    )
    assert tree.run(COLLECTOR) == (
        {
            ("nfs_rpc_calls_total",): 2533373021,
            ("nfs_rpc_retransmissions_total",): 110,
            ("nfs_rpc_authentication_refreshes_total",): 253,
            ("nfs_procedure_calls_total", "4", "null"): 4,
            ("nfs_procedure_calls_total", "4", "read"): 7505,
        },
        None,
    )


def test_calls_without_process_1(tree):
    """Where process 1 has no such file the own one is read."""
    tree.write({"proc/net/rpc/nfs": "rpc 5 0 0\n"})
    assert tree.run(COLLECTOR)[0]["nfs_rpc_calls_total",] == 5


def test_mount(tree):
    """Everything that one mount tells; an operation never used gives nothing."""
    tree.write({"proc/1/mountstats": "device proc mounted on /proc with fstype proc\n" + _mount()})
    key = ("filer:/vol", "/data", "4.2")
    read = (*key, "READ")
    assert tree.run(COLLECTOR) == (
        {
            ("nfs_mount_in_flight", *key): 40,
            ("nfs_mount_lease_expired_seconds", *key): 7,
            ("nfs_mount_lease_seconds", *key): 90,
            ("nfs_mount_age_seconds", *key): 190112,
            ("nfs_mount_transports", *key): 1,
            ("nfs_mount_info", *key, "tcp", "1048576", "524288", "hard"): 1,
            ("nfs_mount_transport_sends_total", *key): 30746,
            ("nfs_mount_transport_receives_total", *key): 30700,
            ("nfs_mount_transport_bad_transaction_ids_total", *key): 3,
            ("nfs_mount_transport_connects_total", *key): 2,
            ("nfs_mount_transport_slots_used_total", *key): 91233,
            ("nfs_mount_transport_backlog_total", *key): 5,
            ("nfs_mount_transport_sending_total", *key): 12011,
            ("nfs_mount_transport_pending_total", *key): 45099,
            ("nfs_mount_application_read_bytes_total", *key): 944,
            ("nfs_mount_application_written_bytes_total", *key): 525,
            ("nfs_mount_direct_read_bytes_total", *key): 1,
            ("nfs_mount_direct_written_bytes_total", *key): 2,
            ("nfs_mount_server_read_bytes_total", *key): 945,
            ("nfs_mount_server_written_bytes_total", *key): 526,
            ("nfs_mount_read_pages_total", *key): 230,
            ("nfs_mount_written_pages_total", *key): 128,
            ("nfs_mount_operations_total", *read): 9022,
            ("nfs_mount_transmissions_total", *read): 9028,
            ("nfs_mount_major_timeouts_total", *read): 1,
            ("nfs_mount_sent_bytes_total", *read): 1515696,
            ("nfs_mount_received_bytes_total", *read): 9441120256,
            ("nfs_mount_queue_time_seconds_total", *read): 0.31,
            ("nfs_mount_response_time_seconds_total", *read): 48.12,
            ("nfs_mount_request_time_seconds_total", *read): 48.99,
            ("nfs_mount_errors_total", *read): 2,
        },
        None,
    )


def _operations(samples):
    return {key[1:]: value for key, value in samples.items() if key[0] == "nfs_mount_operations_total"}


def test_version_3_and_4_at_one_mount_point(tree):
    """Of one export at one place as version 3 and 4 both are told, each with its own numbers."""
    three = OPTIONS.replace("4.2", "3")
    tree.write({"proc/1/mountstats": _mount(kind="nfs", reads=5, options=three) + _mount(reads=9)})
    assert _operations(tree.run(COLLECTOR)[0]) == {
        ("filer:/vol", "/data", "3", "READ"): 5,
        ("filer:/vol", "/data", "4.2", "READ"): 9,
    }


def test_version_without_the_option(tree):
    """Where the options tell no version the program's version does, and else none is told."""
    line = "\tRPC iostats version: 1.1  p/v: 100003/3 (nfs)\n\txprt:"
    old, odd = _mount(options="rw", where="/old"), _mount(options="rw", where="/odd")
    tree.write({"proc/1/mountstats": old.replace("\txprt:", line) + odd})
    assert [key[2] for key in _operations(tree.run(COLLECTOR)[0])] == ["3", ""]


def test_same_labels_twice(tree):
    """Of two file systems with the same labels the first is told, and that one is left out."""
    tree.write({"proc/1/mountstats": _mount(reads=5) + _mount(reads=9)})
    assert _operations(tree.run(COLLECTOR)[0]) == {("filer:/vol", "/data", "4.2", "READ"): 5}
    assert tree.lost == 1


MOUNTINFO = (
    "20 1 0:5 / / rw - ext4 /dev/sda rw\n"
    "21 20 0:52 / /data rw shared:1 - nfs4 filer:/vol rw\n"
    "22 20 0:53 / /b rw shared:1 - nfs4 filer:/vol rw\n"
)


def _forging(block):
    """A mount whose server has given itself a name that holds these lines."""
    return _mount(reads=1).replace("\tbytes:", f"\timpl_id:\tname='x\n{block}',domain=''\n\tbytes:")


@pytest.mark.parametrize("where", ["/nowhere", "/b"])
def test_forged_mount(tree, where):
    """Lines of a server's making are nobody's: neither a mount that is not there nor one that is."""
    forged = f"device filer:/vol mounted on {where} with fstype nfs4 statvers=1.1\n\topts:\t{OPTIONS}"
    tree.write({"proc/1/mountstats": _forging(forged) + _mount(where="/b"), "proc/1/mountinfo": MOUNTINFO})
    samples, outcome = tree.run(COLLECTOR)
    expected = {("filer:/vol", "/b", "4.2", "READ"): 9022}
    assert _operations(samples) == (expected if where == "/nowhere" else {})
    assert samples["nfs_mount_info", "filer:/vol", "/data", "4.2", "tcp", "1048576", "524288", "hard"] == 1
    assert outcome is None


def test_mountinfo_without_nfs(tree):
    """A mountinfo that knows of no NFS mount at all, as in a captured tree, decides nothing."""
    tree.write({"proc/1/mountstats": _mount(), "proc/1/mountinfo": "20 1 0:5 / / rw - ext4 /dev/sda rw\n"})
    assert _operations(tree.run(COLLECTOR)[0]) == {("filer:/vol", "/data", "4.2", "READ"): 9022}


@pytest.mark.parametrize("bad", ["text", "directory"])
def test_bad_calls_of_the_node(tree, bad):
    """A bad file of the node's calls costs those alone, and is named."""
    tree.write({"proc/1/mountstats": _mount()})
    path = tree.root / "proc/1/net/rpc/nfs"
    if bad == "text":
        tree.write({"proc/1/net/rpc/nfs": "\x00nonsense\n"})
    else:
        path.mkdir(parents=True)
    samples, outcome = tree.run(COLLECTOR)
    assert _operations(samples) == {("filer:/vol", "/data", "4.2", "READ"): 9022}
    assert isinstance(outcome, ParseError if bad == "text" else OSError)
    assert str(path) in tree.detail


def test_bad_mountstats(tree):
    """A bad mountstats costs the mounts alone, and is named."""
    tree.write({"proc/1/mountstats": "nonsense\n", "proc/1/net/rpc/nfs": "rpc 5 0 0\n"})
    samples, outcome = tree.run(COLLECTOR)
    assert samples["nfs_rpc_calls_total",] == 5
    assert isinstance(outcome, ParseError)
    assert tree.detail == f"{tree.root}/proc/1/mountstats: no line is a mount"


def test_both_bad(tree):
    """Of two bad files both are named."""
    tree.write({"proc/1/mountstats": "nonsense\n", "proc/net/rpc/nfs": "nonsense\n"})
    samples, outcome = tree.run(COLLECTOR)
    assert samples == {}
    assert isinstance(outcome, ParseError)
    assert "/proc/net/rpc/nfs: no line" in tree.detail
    assert "/proc/1/mountstats: no line" in tree.detail


def test_numbers_that_cannot_be_true(tree):
    """A number of 2^63 or more is left out, and counted."""
    huge = "18446744073709551615"
    text = (
        _mount()
        .replace(" 48120 ", f" {huge} ")
        .replace("\t944 ", f"\t{huge} ")
        .replace(" 30746 ", f" {huge} ")
    )
    tree.write({"proc/1/mountstats": text, "proc/1/net/rpc/nfs": f"rpc {huge} 0 0\nproc3 2 {huge} 1\n"})
    samples, outcome = tree.run(COLLECTOR)
    assert outcome is None
    assert tree.lost == 5
    names = {key[0] for key in samples}
    assert "nfs_mount_response_time_seconds_total" not in names
    assert "nfs_mount_application_read_bytes_total" not in names
    assert "nfs_mount_transport_sends_total" not in names
    assert "nfs_rpc_calls_total" not in names


def test_control_characters(tree):
    """What would move the cursor of a terminal is replaced in labels."""
    tree.write({"proc/1/mountstats": _mount(where="/a\\033[2J\\012b")})
    (key,) = _operations(tree.run(COLLECTOR)[0])
    assert key[1] == "/a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}b"


def test_file_system_bound_to_many_places(tree):
    """One file system counts once, at its first mount point; another one of the same export counts too."""
    tree.write(
        {
            "proc/1/mountstats": _mount() + _mount(where="/pod\\0401") + _mount(where="/pod2", reads=3),
            "proc/1/mountinfo": "20 1 0:5 / / rw - ext4 /dev/sda rw\n"
            "21 20 0:52 / /data rw shared:1 - nfs4 filer:/vol rw\n"
            "22 20 0:52 / /pod\\0401 rw shared:1 - nfs4 filer:/vol rw\n"
            "23 20 0:53 / /pod2 rw shared:1 - nfs4 filer:/vol rw\n",
        }
    )
    assert _operations(tree.run(COLLECTOR)[0]) == {
        ("filer:/vol", "/data", "4.2", "READ"): 9022,
        ("filer:/vol", "/pod2", "4.2", "READ"): 3,
    }


def test_without_mountinfo(tree):
    """Where mountinfo is missing each mount point is told, with its own number and never a sum."""
    tree.write({"proc/1/mountstats": _mount() + _mount(where="/b") + _mount(where="/b")})
    samples, _ = tree.run(COLLECTOR)
    assert _operations(samples) == {
        ("filer:/vol", "/data", "4.2", "READ"): 9022,
        ("filer:/vol", "/b", "4.2", "READ"): 9022,
    }
    assert samples["nfs_mount_in_flight", "filer:/vol", "/b", "4.2"] == 40


def test_several_connections(tree):
    """The connections of a mount are summed."""
    line = "\txprt:\ttcp 903 1 2 0 4 30746 30700 3 91233 5 40 12011 45099\n"
    tree.write({"proc/1/mountstats": _mount().replace(line, line + line.replace("903", "904"))})
    samples, _ = tree.run(COLLECTOR)
    assert samples["nfs_mount_transports", "filer:/vol", "/data", "4.2"] == 2
    assert samples["nfs_mount_transport_sends_total", "filer:/vol", "/data", "4.2"] == 61492
    assert samples["nfs_mount_in_flight", "filer:/vol", "/data", "4.2"] == 86


def test_many_operations(tree):
    """Beyond 24 operations the least important ones are one."""
    names = [f"UNKNOWN_{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    rows = "".join(f"\t {name}: 1 1 0 0 0 0 0 0 0\n" for name in names)
    tree.write({"proc/1/mountstats": _mount(more=rows)})
    operations = _operations(tree.run(COLLECTOR)[0])
    assert len(operations) == 25
    assert operations["filer:/vol", "/data", "4.2", "READ"] == 9022
    assert operations["filer:/vol", "/data", "4.2", "other"] == 3


def test_old_kernel(tree):
    """Rows without a column of errors give no errors, not 0."""
    row = "\tper-op statistics\n\t READ: 1 1 0 10 20 18446743919241604546 5 6\n"
    tree.write({"proc/1/mountstats": "device a:/b mounted on /c with fstype nfs\n" + row})
    samples, _ = tree.run(COLLECTOR)
    assert samples["nfs_mount_request_time_seconds_total", "a:/b", "/c", "", "READ"] == 0.006
    assert not [key for key in samples if key[0] in {"nfs_mount_errors_total", "nfs_mount_in_flight"}]
    assert ("nfs_mount_queue_time_seconds_total", "a:/b", "/c", "", "READ") not in samples


@pytest.mark.parametrize(
    ("options", "recovery"),
    [("rw,soft", "soft"), ("rw,softerr", "softerr"), ("hard,softreval", "hard"), ("rw", "")],
)
def test_recovery(tree, options, recovery):
    """Whether a mount gives up is told by one of three words."""
    tree.write({"proc/1/mountstats": _mount(options=options)})
    info = [key for key in tree.run(COLLECTOR)[0] if key[0] == "nfs_mount_info"]
    assert info == [("nfs_mount_info", "filer:/vol", "/data", "", "tcp", "", "", recovery)]


def test_chosen_mounts(tree):
    """A pattern chooses mount points."""
    tree.write({"proc/1/mountstats": _mount() + _mount(where="/home")})
    options = CollectorOptions(nfs_mounts=Filter(exclude=re.compile("/home")))
    samples, _ = tree.run(COLLECTOR, tree.sources(options=options))
    assert _operations(samples) == {("filer:/vol", "/data", "4.2", "READ"): 9022}


def test_may_not_read_process_1(tree, monkeypatch):
    """Without the permission for process 1 the own mounts are told, and that they are."""
    tree.write({"proc/self/mountstats": _mount(), "proc/net/rpc/nfs": "rpc 1 0 0\n"})
    tree.refuse(monkeypatch, "proc/1/mountstats")
    samples, outcome = tree.run(COLLECTOR)
    assert _operations(samples) == {("filer:/vol", "/data", "4.2", "READ"): 9022}
    assert outcome == Reason.NO_PERMISSION


@pytest.mark.parametrize(
    "files", [{}, {"proc/1/mountstats": "device proc mounted on /proc with fstype proc\n"}]
)
def test_no_client(tree, files):
    """A host without an NFS client has no data, and no fault."""
    tree.write(files)
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)


_PIECES = [*(_mount() + _mount(where="/b")).split(" "), "\n", "device ", "-1", "18446744073709551615"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(_PIECES)).map(" ".join), st.integers(0, 600))
def test_any_text(tree, text, position):
    """Whatever a mount shows, no sample appears twice and none is negative."""
    valid = _mount() + _mount(where="/b")
    tree.write(
        {"proc/1/mountstats": valid[:position] + text + valid[position:], "proc/1/net/rpc/nfs": "rpc 1"}
    )
    samples, _ = tree.run(COLLECTOR)
    assert all(value >= 0 for value in samples.values())
