"""What is known about a disk besides its counters: from udev where it runs, else from sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwait.host import Host, label, maybe_text

if TYPE_CHECKING:
    import pyudev

MODEL_LENGTH = 64
NAME_LENGTH = 128
#: Events taken at one look; a storm of more would only say the same.
MOST_EVENTS = 500

#: The paths of the host that this program runs on.
THIS = Host()

_PROPERTIES = ("ID_MODEL", "DM_NAME")
_NUMBER = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_KINDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"nvme\d.*", "nvme"),
        (r"(sd|sr|st)[a-z0-9]+", "scsi"),
        (r"vd[a-z]+", "virtio"),
        (r"dm-\d+", "dm"),
        (r"md.*", "md"),
        (r"mmcblk.*", "mmc"),
        (r"xvd.*", "xen"),
        (r"pmem.*", "pmem"),
        (r"zd\d+", "zvol"),
        (r"(rbd|nbd|drbd)\d+", "network"),
        (r"bcache\d+", "bcache"),
        (r"(cciss|ida|rd)[/!].*", "raid"),
        (r"(loop|ram|zram|fd)\d+", "virtual"),
    )
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one disk; empty or None where nobody says.

    name:       of a device-mapper device, whose number changes from boot to boot.
    numa_node:  of the PCI device; empty where the firmware does not say.
    schedulers: those on offer, each with whether it is in use.
    requests:   size of the queue, in requests.
    hidden:     a path of a multipath device and no disk of its own.
    """

    kind: str
    model: str = ""
    rotational: str = ""
    numa_node: str = ""
    pci_address: str = ""
    name: str = ""
    schedulers: tuple[tuple[str, bool], ...] = ()
    requests: int | None = None
    hidden: bool = False


class DiskFacts:
    """Reads facts, and hears from udev which of them have changed.

    udev is asked on a real host only: it speaks of this host, not of a captured tree or
    of the one whose sysfs is mounted elsewhere. There its database is read where somebody
    says where it is, and no event is heard.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._context: pyudev.Context | None = None
        self._monitor: pyudev.Monitor | None = None
        if host.sysfs == THIS.sysfs:
            self._open()

    def _open(self) -> None:
        try:
            import pyudev  # noqa: PLC0415 - loads libudev, which a minimal image may lack

            self._context = pyudev.Context()
            monitor = pyudev.Monitor.from_netlink(self._context)
            monitor.filter_by("block")
            monitor.start()
        except (ImportError, OSError):
            return
        self._monitor = monitor

    def changed(self) -> set[str]:
        """Names (as in sysfs) of the block devices that udev has told of since the last call."""
        names: set[str] = set()
        if self._monitor is None:
            return names
        for _ in range(MOST_EVENTS):
            try:
                device = self._monitor.poll(timeout=0)
            except OSError:  # ENOBUFS: the kernel dropped events; the next walk of all rows catches up
                break
            if device is None:
                break
            names.add(device.sys_name)
        return names

    def facts(self, name: str, paths: Iterable[str] = ()) -> Facts:
        """Facts of the disk with this name in sysfs (`!` for `/`); never raises for a missing file.

        paths: names of the hidden devices that a multipath disk is reached by.
        """
        directory = f"block/{name}"
        properties = self._properties(name)
        address = next(filter(None, map(self._pci_address, (name, *paths))), "")
        requests = self._word(f"{directory}/queue/nr_requests")
        is_mapped = name.startswith("dm-")
        return Facts(
            kind=next((kind for pattern, kind in _KINDS if pattern.fullmatch(name)), "other"),
            model=label(properties.get("ID_MODEL") or self._word(f"{directory}/device/model"), MODEL_LENGTH),
            rotational=self._flag(f"{directory}/queue/rotational"),
            numa_node=self._numa_node(address),
            pci_address=address,
            name=label(properties.get("DM_NAME") or self._word(f"{directory}/dm/name"), NAME_LENGTH)
            if is_mapped
            else "",
            schedulers=schedulers(self._word(f"{directory}/queue/scheduler")),
            requests=int(requests) if requests.isdecimal() and len(requests) < 10 else None,
            hidden=not is_mapped and self._flag(f"{directory}/hidden") == "1",
        )

    def _properties(self, name: str) -> dict[str, str]:
        if self._context is None:
            return self._database(name)
        import pyudev  # noqa: PLC0415 - loaded in _open already

        try:
            properties = pyudev.Devices.from_name(self._context, "block", name).properties
            return {key: str(properties[key]) for key in _PROPERTIES if key in properties}
        except (pyudev.DeviceNotFoundError, OSError, UnicodeDecodeError):
            return {}

    def _database(self, name: str) -> dict[str, str]:
        """Properties of the disk in udev's database, `E:ID_MODEL=...` in a file named after its number."""
        host = self._host
        number = self._word(f"block/{name}/dev")
        # The usual place is this host's database, whose 8:0 is another disk than that of a captured tree.
        elsewhere = host.sysfs != THIS.sysfs and host.udev_data == THIS.udev_data
        if elsewhere or not _NUMBER.fullmatch(number):
            return {}
        try:
            text = maybe_text(f"{host.udev_data}/b{number}") or ""
        except OSError:  # EACCES: costs these facts only, sysfs knows most of them
            return {}
        lines = (line[2:].partition("=") for line in text.split("\n") if line.startswith("E:"))
        return {key: value for key, _, value in lines if key in _PROPERTIES}

    def _word(self, path: str) -> str:
        try:
            return (self._host.maybe_sys(path) or "").strip()
        except OSError:  # EINVAL, EIO, EACCES: a driver that does not answer costs this fact
            return ""

    def _flag(self, path: str) -> str:
        word = self._word(path)
        return word if word in {"0", "1"} else ""

    def _pci_address(self, name: str) -> str:
        """Address of the nearest PCI device above; empty for virtual disks."""
        addresses = _PCI.findall(self._host.sys_link(f"block/{name}") or "")
        return addresses[-1] if addresses else ""

    def _numa_node(self, address: str) -> str:
        node = self._word(f"bus/pci/devices/{address}/numa_node") if address else ""
        return node if node.isdecimal() and len(node) < 6 else ""  # -1: the firmware does not say


def schedulers(text: str) -> tuple[tuple[str, bool], ...]:
    """Schedulers of a queue, `[mq-deadline] kyber none`: each with whether it is in use.

    A single name without brackets is in use: a disk without a queue of its own says `none`.
    """
    words = text.split()[:16]
    in_use = {label(word.strip("[]"), 32): word.startswith("[") or len(words) == 1 for word in words}
    return tuple((word, used) for word, used in in_use.items() if word)
