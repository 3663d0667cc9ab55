"""How fragmented the free memory is."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import label, maybe_text
from gpuwait.kernel.buddyinfo import FreeBlocks, parse_buddyinfo
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

UNUSABLE = Family(
    "gpuwait_fragmentation_unusable_ratio",
    "gauge",
    "Share of the free memory in blocks too small for a huge page, whose order is the label, 0 to 1.",
    "/proc/buddyinfo, /sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
    ("numa_node", "zone", "order"),
)
FREE_BLOCKS = Family(
    "gpuwait_buddyinfo_free_blocks",
    "gauge",
    "Free blocks of 2^order pages.",
    "/proc/buddyinfo",
    ("numa_node", "zone", "order"),
)

_SIZE = "kernel/mm/transparent_hugepage/hpage_pmd_size"
#: Order of a huge page by its size: 2 MiB in pages of 4 KiB; arm64 also has pages of 16 KiB and,
#: usual with Grace, 64 KiB.
_ORDERS = {"2097152": 9, "33554432": 11, "536870912": 13}
#: Older kernels lack the file, and so do kernels without huge pages.
_USUAL_ORDER = 9


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield free blocks and what of them a huge page cannot use. Raises NoData, OSError, ParseError."""
    faults, size = Faults(), ""
    with faults.at(path := f"{sources.host.sysfs}/{_SIZE}"):
        size = (maybe_text(path) or "").strip()
    with faults.at(path := f"{sources.host.procfs}/buddyinfo"):
        text = maybe_text(path)
        if text is None:
            raise NoData(Reason.ABSENT, "no buddyinfo in the proc file system")
        yield from _samples(parse_buddyinfo(text), _ORDERS.get(size, _USUAL_ORDER))
    faults.finish()


def _samples(zones: list[FreeBlocks], order_of_huge_page: int) -> Iterator[Sample]:
    for zone in zones:
        ratio = zone.unusable_ratio(order_of_huge_page)
        if ratio is not None:
            yield UNUSABLE, (zone.node, label(zone.zone), str(order_of_huge_page)), ratio
    for zone in zones:
        for order, blocks in enumerate(zone.blocks):
            if blocks is not None:
                yield FREE_BLOCKS, (zone.node, label(zone.zone), str(order)), blocks


COLLECTOR = Collector(
    name="buddyinfo",
    help="Free blocks of memory by size, and the share that a huge page cannot use.",
    families=(UNUSABLE, FREE_BLOCKS),
    collect=collect,
)
