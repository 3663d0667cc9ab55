"""/proc/net/rpc/nfs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.rpc_nfs import parse_rpc_nfs


def _calls(text, version="4"):
    return {name: calls for v, name, calls in parse_rpc_nfs(text).procedures if v == version}


def _line(columns):
    """A proc4 line in which every count is its own index."""
    return f"proc4 {columns} " + " ".join(str(index) for index in range(columns)) + "\n"


def test_rpc_line():
    """Calls, calls sent again, refreshed credentials; calls may be above 2^31."""
    rpc = parse_rpc_nfs("net 0 0 0 0\nrpc 2533373021 110 2536628201\n")
    assert (rpc.calls, rpc.retransmissions, rpc.authentication_refreshes) == (2533373021, 110, 2536628201)


def test_column_count_is_no_procedure():
    """The first number of a line is how many follow."""
    assert _calls("proc3 22 6 27 65 30 58\n", "3") == {
        "null": 6,
        "getattr": 27,
        "setattr": 65,
        "lookup": 30,
        "access": 58,
    }


def test_version_2():
    """Version 2 has 18 procedures of its own."""
    calls = _calls("proc2 18 " + " ".join(map(str, range(18))) + "\n", "2")
    assert len(calls) == 18
    assert (calls["root"], calls["wrcache"], calls["fsstat"]) == (3, 7, 17)


def test_version_3_order():
    """The 22 procedures of version 3 end with commit."""
    calls = _calls("proc3 22 " + " ".join(map(str, range(22))) + "\n", "3")
    assert (calls["read"], calls["readdirplus"], calls["fsinfo"], calls["commit"]) == (6, 17, 19, 21)


def test_version_4_order():
    """The order is that of the client's enum: 44 is layoutget, 45 getdeviceinfo."""
    calls = _calls(_line(69))
    assert len(calls) == 69
    assert (calls["read"], calls["getattr"], calls["lookup"]) == (1, 18, 19)
    assert (calls["fsid_present"], calls["sequence"]) == (37, 41)
    assert (calls["layoutget"], calls["getdeviceinfo"]) == (44, 45)
    assert (calls["layoutstats"], calls["clone"], calls["lookupp"], calls["read_plus"]) == (57, 58, 61, 68)


def test_old_client():
    """Before 3.13 only the first 36 names are known; the rest give nothing, not 0."""
    calls = _calls(_line(48))
    assert len(calls) == 36
    assert (calls["fs_locations"], calls["release_lockowner"]) == (34, 35)


def test_new_client():
    """With 71 columns zero_range stands before layoutstats, and what comes after moved by one."""
    calls = _calls(_line(71))
    assert (calls["deallocate"], calls["zero_range"], calls["layoutstats"]) == (56, 57, 58)
    assert (calls["read_plus"], calls["offload_status"]) == (69, 70)


def test_client_of_the_future():
    """Columns beyond the known names are ignored."""
    assert len(_calls(_line(90))) == 71


def test_fewer_numbers_than_announced():
    """What is not there gives nothing."""
    assert _calls("proc4 69 5 6\n") == {"null": 5, "read": 6}


def test_impossible_number_costs_itself():
    """A number of 2^63 and more, or no number, is skipped where it stands."""
    assert _calls("proc4 69 18446744073709551615 6 x 7\n") == {"read": 6, "commit": 7}


@pytest.mark.parametrize("bad", ["proc4", "proc4 x 1 2", "rpc", "proc9 2 1 1", "what 1"])
def test_bad_line_costs_only_itself(bad):
    """A line that cannot be read leaves the others."""
    rpc = parse_rpc_nfs(f"{bad}\nproc3 22 1 2\n")
    assert rpc.calls is None
    assert rpc.procedures == (("3", "null", 1), ("3", "getattr", 2))


def test_text_of_another_kind():
    """Where no line is known, the error names the file."""
    with pytest.raises(ParseError, match="rpc/nfs"):
        parse_rpc_nfs("nothing\n")


@given(
    st.text() | st.lists(st.sampled_from(["rpc ", "proc4 ", "proc3 ", "69 ", "-1 ", "\n", "x "])).map("".join)
)
def test_any_text(text):
    """Nothing but ParseError leaves; no call count is negative, no procedure there twice."""
    try:
        rpc = parse_rpc_nfs(text)
    except ParseError:
        return
    assert all(calls >= 0 for _, _, calls in rpc.procedures)
    assert len({(version, name) for version, name, _ in rpc.procedures}) == len(rpc.procedures)


def test_numbers_that_cannot_be_true_are_counted():
    """A number of 2^63 or more is left out, and counted."""
    rpc = parse_rpc_nfs("rpc 18446744073709551615 1 2\nproc3 2 5 18446744073709551615\n")
    assert (rpc.calls, rpc.retransmissions, rpc.procedures) == (None, 1, (("3", "null", 5),))
    assert rpc.untrue == 2
