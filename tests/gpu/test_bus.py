"""GPUs on the PCI bus."""

from __future__ import annotations

from pathlib import Path

from gpuwait.gpu.bus import Bus
from gpuwait.host import Host


def pci(sysfs: Path, address: str, vendor: str, kind: str, node: str | None = None) -> Path:
    directory = sysfs / "bus/pci/devices" / address
    directory.mkdir(parents=True)
    (directory / "vendor").write_text(vendor + "\n")
    (directory / "class").write_text(kind + "\n")
    if node is not None:
        (directory / "numa_node").write_text(node + "\n")
    return directory


def look(sysfs: Path) -> Bus:
    bus = Bus()
    bus.look(Host(sysfs=str(sysfs)), 0.0)
    return bus


def test_gpus_on_the_bus(tmp_path: Path) -> None:
    """GPUs by vendor and class: no audio function, no other vendor, no virtual function."""
    pci(tmp_path, "0000:18:00.0", "0x10de", "0x030200", "1")
    pci(tmp_path, "0000:2a:00.0", "0x10de", "0x030000", "-1")
    pci(tmp_path, "0000:2a:00.1", "0x10de", "0x040300")
    pci(tmp_path, "0000:03:00.0", "0x1a03", "0x030000")
    pci(tmp_path, "0000:18:00.4", "0x10de", "0x030200").joinpath("physfn").symlink_to("../0000:18:00.0")
    (tmp_path / "bus/pci/devices/0000:99:00.0").mkdir()
    assert look(tmp_path).nvidia == 2


def test_a_bus_without_gpus(tmp_path: Path) -> None:
    """A bus that can be read and has no GPU is 0; no bus is unknown."""
    pci(tmp_path, "0000:03:00.0", "0x1a03", "0x030000")
    assert look(tmp_path).nvidia == 0
    assert look(tmp_path / "none").nvidia is None


def test_a_device_that_cannot_be_read(tmp_path: Path) -> None:
    """A count that may be short is no count; what was found keeps its node."""
    pci(tmp_path, "0000:18:00.0", "0x10de", "0x030200", "1")
    (tmp_path / "bus/pci/devices/0000:99:00.0/vendor").mkdir(parents=True)
    bus = look(tmp_path)
    assert bus.nvidia is None
    assert bus.numa_node("0000:18:00.0") == "1"


def test_numa_node(tmp_path: Path) -> None:
    """The node by the address; empty where the platform does not tell."""
    pci(tmp_path, "0000:18:00.0", "0x10de", "0x030200", "1")
    pci(tmp_path, "0000:2a:00.0", "0x10de", "0x030200", "-1")
    pci(tmp_path, "0000:3a:00.0", "0x10de", "0x030200")
    bus = look(tmp_path)
    found = [bus.numa_node(f"0000:{slot}:00.0") for slot in ("18", "2a", "3a", "77")]
    assert found == ["1", "", "", ""]


def test_a_look_is_good_for_a_minute(tmp_path: Path) -> None:
    """The bus is looked at once a minute."""
    pci(tmp_path, "0000:18:00.0", "0x10de", "0x030200")
    bus, host = Bus(), Host(sysfs=str(tmp_path))
    bus.look(host, 100.0)
    pci(tmp_path, "0000:2a:00.0", "0x10de", "0x030200")
    bus.look(host, 159.0)
    assert bus.nvidia == 1
    bus.look(host, 161.0)
    assert bus.nvidia == 2
