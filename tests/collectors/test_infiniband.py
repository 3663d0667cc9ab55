"""Ports of InfiniBand and RoCE adapters."""

import errno

from gpuwait import host
from gpuwait.collector import Reason
from gpuwait.collectors.infiniband import COLLECTOR

IB = "sys/class/infiniband"


def test_port(tree):
    """Data counts words of 4 bytes; packets, errors and ticks are not scaled."""
    port = f"{IB}/mlx5_0/ports/1"
    tree.write(
        {
            f"{port}/state": "4: ACTIVE\n",
            f"{port}/rate": "400 Gb/sec (4X NDR)\n",
            f"{port}/link_layer": "InfiniBand\n",
            f"{port}/counters/port_rcv_data": "900112233\n",
            f"{port}/counters/port_xmit_data": "700112200\n",
            f"{port}/counters/port_rcv_packets": "41007\n",
            f"{port}/counters/port_xmit_wait": "12\n",
            f"{port}/counters/link_downed": "0\n",
            f"{port}/hw_counters/out_of_sequence": "3\n",
        }
    )
    assert tree.run(COLLECTOR) == (
        {
            ("infiniband_port_up", "mlx5_0", "1"): 1,
            ("infiniband_rate_bytes_per_second", "mlx5_0", "1"): 50_000_000_000,
            ("infiniband_info", "mlx5_0", "1", "InfiniBand"): 1,
            ("infiniband_received_bytes_total", "mlx5_0", "1"): 3600448932,
            ("infiniband_transmitted_bytes_total", "mlx5_0", "1"): 2800448800,
            ("infiniband_received_packets_total", "mlx5_0", "1"): 41007,
            ("infiniband_transmit_wait_ticks_total", "mlx5_0", "1"): 12,
            ("infiniband_link_downed_total", "mlx5_0", "1"): 0,
            ("infiniband_out_of_sequence_total", "mlx5_0", "1"): 3,
        },
        None,
    )


def test_counters_that_are_not_offered(tree):
    """Text for a number, or no directory of counters, gives nothing and costs no other device."""
    tree.write(
        {
            f"{IB}/a/ports/1/state": "1: DOWN\n",
            f"{IB}/a/ports/1/counters/link_downed": "N/A (no PMA)\n",
            f"{IB}/b/fw_ver": "1\n",
            f"{IB}/c/ports/2/counters/link_downed": "5\n",
        }
    )
    assert tree.run(COLLECTOR) == (
        {("infiniband_port_up", "a", "1"): 0, ("infiniband_link_downed_total", "c", "2"): 5},
        None,
    )


def test_refused_counter(tree, monkeypatch):
    """A counter that the driver refuses costs itself only."""
    read = host.read_bytes

    def refuse(path):
        if path.endswith("symbol_error"):
            raise OSError(errno.EINVAL, "Invalid argument", path)
        return read(path)

    monkeypatch.setattr(host, "read_bytes", refuse)
    counters = f"{IB}/a/ports/1/counters"
    tree.write({f"{counters}/symbol_error": "1\n", f"{counters}/link_downed": "5\n"})
    assert tree.run(COLLECTOR) == ({("infiniband_link_downed_total", "a", "1"): 5}, None)


def test_no_adapter(tree):
    """Without an adapter there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)


def test_mtu_of_roce(tree):
    """The Ethernet interface of a RoCE device tells its MTU; InfiniBand and IP over it do not."""
    roce, both, fast = (f"{IB}/{name}" for name in ("roce", "both", "fast"))
    tree.write(
        {
            f"{roce}/ports/1/link_layer": "Ethernet\n",
            f"{roce}/device/net/eth4/mtu": "1500\n",
            f"{both}/ports/1/link_layer": "InfiniBand\n",
            f"{both}/ports/2/link_layer": "Ethernet\n",
            f"{both}/device/net/eth5/mtu": "9000\n",
            f"{both}/device/net/eth5/type": "1\n",
            f"{both}/device/net/ib1/mtu": "2044\n",
            f"{both}/device/net/ib1/type": "32\n",
            f"{fast}/ports/1/link_layer": "InfiniBand\n",
            f"{fast}/device/net/ib0/mtu": "2044\n",
        }
    )
    samples, outcome = tree.run(COLLECTOR)
    assert outcome is None
    assert {key[1:]: value for key, value in samples.items() if key[0] == "infiniband_netdev_mtu_bytes"} == {
        ("roce", "eth4"): 1500,
        ("both", "eth5"): 9000,
    }


def test_mtu_is_read_once_a_minute(tree):
    """A changed MTU is seen a minute later."""
    now = [100.0]
    sources = tree.sources(clock=lambda: now[0])
    mtu = f"{IB}/a/device/net/eth0/mtu"
    tree.write({f"{IB}/a/ports/1/link_layer": "Ethernet\n", mtu: "1500\n"})
    key = ("infiniband_netdev_mtu_bytes", "a", "eth0")
    assert tree.run(COLLECTOR, sources)[0][key] == 1500
    tree.write({mtu: "9000\n"})
    assert tree.run(COLLECTOR, sources)[0][key] == 1500
    now[0] += 60
    assert tree.run(COLLECTOR, sources)[0][key] == 9000


def test_odd_link_layer(tree):
    """Control characters do not reach labels."""
    tree.write({f"{IB}/a/ports/1/link_layer": "Infi\x1b[2J\n"})
    assert list(tree.run(COLLECTOR)[0]) == [("infiniband_info", "a", "1", "Infi\N{REPLACEMENT CHARACTER}[2J")]
