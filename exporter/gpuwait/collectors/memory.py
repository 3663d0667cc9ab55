"""Memory of the node: in use, dirty, and how much of it may be dirty."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import maybe_text
from gpuwait.kernel.meminfo import parse_meminfo
from gpuwait.kernel.vmstat import parse_vmstat
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

#: Name, field of /proc/meminfo, help. A kernel without the field gives no series.
_TABLE = (
    ("gpuwait_memory_total_bytes", "MemTotal", "Memory that the kernel manages."),
    ("gpuwait_memory_free_bytes", "MemFree", "Memory that nothing uses."),
    ("gpuwait_memory_available_bytes", "MemAvailable", "Memory that programs could get without swapping."),
    ("gpuwait_memory_dirty_bytes", "Dirty", "Memory waiting to be written to a file."),
    ("gpuwait_memory_writeback_bytes", "Writeback", "Memory being written to a file now."),
    ("gpuwait_memory_nfs_unstable_bytes", "NFS_Unstable", "Memory sent to an NFS server, not yet committed."),
    ("gpuwait_memory_swap_total_bytes", "SwapTotal", "Size of all swap areas."),
    ("gpuwait_memory_swap_free_bytes", "SwapFree", "Unused part of all swap areas."),
    ("gpuwait_memory_swap_cached_bytes", "SwapCached", "Memory that was swapped in and is still in swap."),
    ("gpuwait_memory_buffers_bytes", "Buffers", "Page cache of block devices."),
    ("gpuwait_memory_cached_bytes", "Cached", "Page cache of files, with shared memory."),
    ("gpuwait_memory_shmem_bytes", "Shmem", "Shared memory and tmpfs, such as /dev/shm of data loaders."),
    ("gpuwait_memory_mapped_bytes", "Mapped", "Files mapped into processes."),
    ("gpuwait_memory_anon_bytes", "AnonPages", "Memory of processes without a file."),
    ("gpuwait_memory_anon_huge_pages_bytes", "AnonHugePages", "Memory of processes in huge pages."),
    ("gpuwait_memory_active_bytes", "Active", "Memory used recently."),
    ("gpuwait_memory_inactive_bytes", "Inactive", "Memory not used recently, reclaimed first."),
    ("gpuwait_memory_unevictable_bytes", "Unevictable", "Memory that cannot be reclaimed."),
    ("gpuwait_memory_mlocked_bytes", "Mlocked", "Memory that programs locked, such as pinned buffers."),
    ("gpuwait_memory_slab_reclaimable_bytes", "SReclaimable", "Kernel caches that can be reclaimed."),
    ("gpuwait_memory_slab_unreclaimable_bytes", "SUnreclaim", "Kernel objects that cannot be reclaimed."),
    ("gpuwait_memory_kernel_stack_bytes", "KernelStack", "Kernel stacks of threads."),
    ("gpuwait_memory_page_tables_bytes", "PageTables", "Page tables of processes."),
    ("gpuwait_memory_committed_bytes", "Committed_AS", "Memory that programs asked for."),
    ("gpuwait_memory_commit_limit_bytes", "CommitLimit", "Memory that programs may ask for in strict mode."),
    ("gpuwait_memory_hardware_corrupted_bytes", "HardwareCorrupted", "Memory taken out for hardware errors."),
    ("gpuwait_memory_huge_pages", "HugePages_Total", "Huge pages set aside, of the default size."),
    ("gpuwait_memory_huge_pages_free", "HugePages_Free", "Huge pages set aside and not in use."),
    ("gpuwait_memory_huge_page_size_bytes", "Hugepagesize", "Default size of huge pages set aside."),
)

_FIELDS = tuple(field for _, field, _ in _TABLE)
_FAMILIES = tuple(Family(name, "gauge", text, f"/proc/meminfo {field}") for name, field, text in _TABLE)

DIRTY_LIMIT = Family(
    "gpuwait_memory_dirty_threshold_bytes",
    "gauge",
    "Dirty memory at which a writing program is made to wait.",
    "/proc/vmstat nr_dirty_threshold",
)
DIRTY_BACKGROUND_LIMIT = Family(
    "gpuwait_memory_dirty_background_threshold_bytes",
    "gauge",
    "Dirty memory at which writing back begins in the background.",
    "/proc/vmstat nr_dirty_background_threshold",
)

_PAGE_LIMITS = (
    ("nr_dirty_threshold", DIRTY_LIMIT),
    ("nr_dirty_background_threshold", DIRTY_BACKGROUND_LIMIT),
)


def _dirty_limits(text: str, page_size: int) -> Iterator[Sample]:
    values = parse_vmstat(text)
    for field, family in _PAGE_LIMITS:
        if field in values:
            yield family, (), values[field] * page_size


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield sizes in bytes. Raises NoData, OSError, ParseError."""
    faults, procfs, text = Faults(), sources.host.procfs, None
    with faults.at(path := f"{procfs}/meminfo"):
        text = maybe_text(path)
        values = parse_meminfo(text or "")
        for field, family in zip(_FIELDS, _FAMILIES, strict=True):
            if field in values:
                yield family, (), values[field]
    with faults.at(path := f"{procfs}/vmstat"):
        yield from _dirty_limits(maybe_text(path) or "", resource.getpagesize())
    faults.finish()
    if text is None:
        raise NoData(Reason.ABSENT, "no meminfo in the proc file system")


COLLECTOR = Collector(
    name="memory",
    help="Memory of the node from /proc/meminfo, and the limits of dirty memory.",
    families=(*_FAMILIES, DIRTY_LIMIT, DIRTY_BACKGROUND_LIMIT),
    collect=collect,
)
