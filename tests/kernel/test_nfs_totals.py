"""Sums over connections and operations of NFS mounts."""

import pytest

from gpuwait.kernel.mountstats import parse_nfs_statistics
from gpuwait.kernel.nfs_totals import bounded_operations, in_flight, total


def _mount(port, sends, receives, operations, transmissions):
    return parse_nfs_statistics(
        f"\txprt:\ttcp {port} 1 1 0 0 {sends} {receives} 0 0 0 0 0 0\n"
        f"\tper-op statistics\n\tREAD: {operations} {transmissions} 0 0 0 0 0 0 0\n"
    )


@pytest.mark.parametrize(("values", "result"), [([1, 2], 3), ([], None), ([1, None], None), ((0, 0), 0)])
def test_total(values, result):
    """A sum with a number missing would fall, so it is absent."""
    assert total(values) == result


def test_few_operations_keep_their_names():
    """At the limit nothing is summed."""
    operations = {"READ": [1, 1], "CLONE": [2, 2]}
    assert dict(bounded_operations(operations, 2)) == operations


def test_many_operations():
    """Beyond the limit the least important are one, and an impossible number makes its sum absent."""
    operations = {"CLONE": [1, None, 3], "UNKNOWN": [10, 20, 30], "WRITE": [5, 5, 5], "READ": [7, 7, 7]}
    assert list(bounded_operations(operations, 2)) == [
        ("READ", [7, 7, 7]),
        ("WRITE", [5, 5, 5]),
        ("other", [11, None, 33]),
    ]


def test_in_flight():
    """Sends less answers, less what was sent again."""
    assert in_flight([("a:/x", _mount(700, 100, 60, 50, 58))]) == [32]


def test_never_below_nothing():
    """More sent again than missing is nothing in flight."""
    assert in_flight([("a:/x", _mount(700, 100, 99, 50, 58))]) == [0]


def test_mounts_that_share_a_connection():
    """What another mount of the same connection sent again is taken off too."""
    mounts = [("a:/x", _mount(700, 100, 60, 50, 58)), ("a:/y", _mount(700, 100, 60, 40, 42))]
    assert in_flight(mounts) == [30, 30]


def test_one_file_system_in_two_places():
    """What was sent again is taken off once, however often the mount is there."""
    mount = ("a:/x", _mount(700, 100, 60, 50, 58))
    assert in_flight([mount, mount]) == [32, 32]


def test_other_connections_do_not_count():
    """Another port or another server is another connection."""
    mounts = [
        ("a:/x", _mount(700, 100, 60, 50, 58)),
        ("a:/y", _mount(701, 10, 10, 40, 90)),
        ("b:/x", _mount(700, 10, 10, 40, 90)),
    ]
    assert in_flight(mounts)[0] == 32


def test_unknown_transport():
    """Without a transport that can be read there is no number, not 0."""
    assert in_flight([("a:/x", parse_nfs_statistics("\txprt:\tpigeon 1 2 3\n"))]) == [None]
