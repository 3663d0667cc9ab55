"""GPUs on the PCI bus, so that one that the driver lost or never had can be missed.

Source: `/sys/bus/pci/devices/<address>/{vendor,class,numa_node}`
(Documentation/ABI/testing/sysfs-bus-pci). The kernel answers from memory, it asks no device.

    vendor     0x10de
    class      0x030200        3D controller; 0x030000 with a display
    numa_node  1               -1: the firmware does not tell
"""

from __future__ import annotations

from gpuwait.host import Host, is_absent

#: Seconds for which a look at the bus is good: devices come and go by hot plug only.
FRESH = 60.0
_NVIDIA = "0x10de"
_CLASSES = ("0x0300", "0x0302")


class Bus:
    """What the last look found.

    nvidia: number of NVIDIA GPUs, None where the bus, or a device on it, cannot be read.
    """

    def __init__(self) -> None:
        self.nvidia: int | None = None
        self._nodes: dict[str, str] = {}
        self._looked: float | None = None

    def look(self, host: Host, now: float) -> None:
        """Look at the bus, if the last look is old. A device that vanishes meanwhile is not there."""
        if self._looked is not None and now - self._looked < FRESH:
            return
        self._looked, self._nodes, self.nvidia = now, {}, None
        unknown = 0
        try:
            addresses = host.list_sys("bus/pci/devices")
        except OSError:  # the count is an extra: it must not cost the readings of the GPUs
            return
        for address in addresses:
            try:
                self._device(host, address)
            except OSError as error:
                unknown += not is_absent(error)
        if addresses and not unknown:
            self.nvidia = len(self._nodes)

    def _device(self, host: Host, address: str) -> None:
        path = f"bus/pci/devices/{address}"
        if host.sys(f"{path}/vendor").strip() != _NVIDIA:
            return
        if not host.sys(f"{path}/class").startswith(_CLASSES):
            return
        # a virtual function is a part of a GPU that counts already
        if host.sys_link(f"{path}/physfn") is not None:
            return
        node = (host.maybe_sys(f"{path}/numa_node") or "").strip()
        self._nodes[address] = node if node.isdecimal() else ""

    def numa_node(self, address: str) -> str:
        """NUMA node of the GPU at this address, empty where it is not known."""
        return self._nodes.get(address, "")
