"""Compaction, huge pages, reclaim, swap and faults, counted by the memory management of the node."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import maybe_text
from gpuwait.kernel.vmstat import parse_vmstat
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

_PREFIX, _SUFFIX = "gpuwait_vmstat_", "_total"


ALLOCSTALL = Family(
    "gpuwait_vmstat_allocstall_total",
    "counter",
    "Direct reclaims in all zones: an allocating thread freed memory itself.",
    "/proc/vmstat allocstall, or the sum of allocstall_*",
)

#: All are sums since boot. Gauges of the same file, such as workingset_nodes, are left out.
_COUNTERS = (
    # Compaction. A stall is an allocation that compacted memory itself: it costs 0.06 ms to many ms.
    (
        "gpuwait_vmstat_compact_stall_total",
        "Direct compactions: an allocating thread compacted memory itself.",
    ),
    ("gpuwait_vmstat_compact_fail_total", "Direct compactions that freed no block of the wanted size."),
    ("gpuwait_vmstat_compact_success_total", "Direct compactions that freed a block of the wanted size."),
    ("gpuwait_vmstat_compact_migrate_scanned_total", "Pages that compaction scanned for pages to move."),
    ("gpuwait_vmstat_compact_free_scanned_total", "Pages that compaction scanned for free pages."),
    ("gpuwait_vmstat_compact_isolated_total", "Pages that compaction took off their lists to move them."),
    ("gpuwait_vmstat_compact_daemon_wake_total", "Times that kcompactd was woken."),
    (
        "gpuwait_vmstat_compact_daemon_migrate_scanned_total",
        "Pages that kcompactd scanned for pages to move.",
    ),
    ("gpuwait_vmstat_compact_daemon_free_scanned_total", "Pages that kcompactd scanned for free pages."),
    # Direct reclaim of the whole node; reclaim at the limit of a cgroup does not count here.
    # One counter before 4.10, one for each zone since; the sum is below.
    ("gpuwait_vmstat_allocstall_dma_total", "Direct reclaims for an allocation from zone DMA."),
    ("gpuwait_vmstat_allocstall_dma32_total", "Direct reclaims for an allocation from zone DMA32."),
    ("gpuwait_vmstat_allocstall_normal_total", "Direct reclaims for an allocation from zone Normal."),
    ("gpuwait_vmstat_allocstall_movable_total", "Direct reclaims for an allocation from zone Movable."),
    ("gpuwait_vmstat_allocstall_device_total", "Direct reclaims for an allocation from zone Device."),
    ("gpuwait_vmstat_pgscan_direct_total", "Pages scanned by direct reclaim."),
    (
        "gpuwait_vmstat_pgscan_direct_throttle_total",
        "Times that direct reclaim was held back until kswapd had freed memory.",
    ),
    ("gpuwait_vmstat_pgscan_kswapd_total", "Pages scanned by kswapd."),
    ("gpuwait_vmstat_pgscan_khugepaged_total", "Pages scanned by reclaim for khugepaged."),
    ("gpuwait_vmstat_pgscan_proactive_total", "Pages scanned by reclaim that a user asked for."),
    ("gpuwait_vmstat_pgscan_anon_total", "Anonymous pages scanned by reclaim, of cgroups too."),
    ("gpuwait_vmstat_pgscan_file_total", "File pages scanned by reclaim, of cgroups too."),
    ("gpuwait_vmstat_pgsteal_direct_total", "Pages freed by direct reclaim."),
    ("gpuwait_vmstat_pgsteal_kswapd_total", "Pages freed by kswapd."),
    ("gpuwait_vmstat_pgsteal_khugepaged_total", "Pages freed by reclaim for khugepaged."),
    ("gpuwait_vmstat_pgsteal_proactive_total", "Pages freed by reclaim that a user asked for."),
    ("gpuwait_vmstat_pgsteal_anon_total", "Anonymous pages freed by reclaim, of cgroups too."),
    ("gpuwait_vmstat_pgsteal_file_total", "File pages freed by reclaim, of cgroups too."),
    ("gpuwait_vmstat_pginodesteal_total", "Pages freed with the inode by direct reclaim."),
    ("gpuwait_vmstat_slabs_scanned_total", "Kernel objects scanned by reclaim."),
    ("gpuwait_vmstat_zone_reclaim_success_total", "Reclaims inside a NUMA node that freed enough."),
    ("gpuwait_vmstat_zone_reclaim_failed_total", "Reclaims inside a NUMA node that freed too little."),
    ("gpuwait_vmstat_kswapd_inodesteal_total", "Pages freed with the inode by kswapd."),
    (
        "gpuwait_vmstat_kswapd_low_wmark_hit_quickly_total",
        "Times that free memory was below the low mark soon after kswapd.",
    ),
    (
        "gpuwait_vmstat_kswapd_high_wmark_hit_quickly_total",
        "Times that free memory was below the high mark soon after kswapd.",
    ),
    ("gpuwait_vmstat_pageoutrun_total", "Runs of kswapd."),
    ("gpuwait_vmstat_pgrotated_total", "Pages put back to be reclaimed first."),
    ("gpuwait_vmstat_drop_pagecache_total", "Times that a user dropped the page cache."),
    ("gpuwait_vmstat_drop_slab_total", "Times that a user dropped kernel caches."),
    # Split by zone before 4.8.
    ("gpuwait_vmstat_pgscan_direct_dma_total", "Pages scanned by direct reclaim, zone DMA."),
    ("gpuwait_vmstat_pgscan_direct_dma32_total", "Pages scanned by direct reclaim, zone DMA32."),
    ("gpuwait_vmstat_pgscan_direct_normal_total", "Pages scanned by direct reclaim, zone Normal."),
    ("gpuwait_vmstat_pgscan_direct_movable_total", "Pages scanned by direct reclaim, zone Movable."),
    ("gpuwait_vmstat_pgscan_kswapd_dma_total", "Pages scanned by kswapd, zone DMA."),
    ("gpuwait_vmstat_pgscan_kswapd_dma32_total", "Pages scanned by kswapd, zone DMA32."),
    ("gpuwait_vmstat_pgscan_kswapd_normal_total", "Pages scanned by kswapd, zone Normal."),
    ("gpuwait_vmstat_pgscan_kswapd_movable_total", "Pages scanned by kswapd, zone Movable."),
    ("gpuwait_vmstat_pgsteal_direct_dma_total", "Pages freed by direct reclaim, zone DMA."),
    ("gpuwait_vmstat_pgsteal_direct_dma32_total", "Pages freed by direct reclaim, zone DMA32."),
    ("gpuwait_vmstat_pgsteal_direct_normal_total", "Pages freed by direct reclaim, zone Normal."),
    ("gpuwait_vmstat_pgsteal_direct_movable_total", "Pages freed by direct reclaim, zone Movable."),
    ("gpuwait_vmstat_pgsteal_kswapd_dma_total", "Pages freed by kswapd, zone DMA."),
    ("gpuwait_vmstat_pgsteal_kswapd_dma32_total", "Pages freed by kswapd, zone DMA32."),
    ("gpuwait_vmstat_pgsteal_kswapd_normal_total", "Pages freed by kswapd, zone Normal."),
    ("gpuwait_vmstat_pgsteal_kswapd_movable_total", "Pages freed by kswapd, zone Movable."),
    # Huge pages. thp_split became thp_split_page and others in 4.5: both go by their own name.
    ("gpuwait_vmstat_thp_fault_alloc_total", "Page faults that got a huge page."),
    ("gpuwait_vmstat_thp_fault_fallback_total", "Page faults that got small pages for want of a huge one."),
    ("gpuwait_vmstat_thp_fault_fallback_charge_total", "Huge pages refused by a cgroup at a fault."),
    ("gpuwait_vmstat_thp_collapse_alloc_total", "Huge pages that khugepaged made of small ones."),
    ("gpuwait_vmstat_thp_collapse_alloc_failed_total", "Huge pages that khugepaged could not get."),
    ("gpuwait_vmstat_thp_file_alloc_total", "Huge pages for files."),
    ("gpuwait_vmstat_thp_file_fallback_total", "Allocations for files that got small pages."),
    ("gpuwait_vmstat_thp_file_fallback_charge_total", "Huge pages for files refused by a cgroup."),
    ("gpuwait_vmstat_thp_file_mapped_total", "Huge pages of files that were mapped."),
    ("gpuwait_vmstat_thp_split_total", "Huge pages split, before 4.5."),
    ("gpuwait_vmstat_thp_split_page_total", "Huge pages split into small pages."),
    ("gpuwait_vmstat_thp_split_page_failed_total", "Huge pages that could not be split."),
    ("gpuwait_vmstat_thp_deferred_split_page_total", "Huge pages queued for splitting."),
    ("gpuwait_vmstat_thp_underused_split_page_total", "Huge pages split since most of them was zero."),
    ("gpuwait_vmstat_thp_split_pmd_total", "Mappings of a huge page split."),
    ("gpuwait_vmstat_thp_split_pud_total", "Mappings of a 1 GiB page split."),
    (
        "gpuwait_vmstat_thp_scan_exceed_none_pte_total",
        "Ranges khugepaged left since too many pages were unused.",
    ),
    (
        "gpuwait_vmstat_thp_scan_exceed_swap_pte_total",
        "Ranges khugepaged left since too many pages were in swap.",
    ),
    (
        "gpuwait_vmstat_thp_scan_exceed_share_pte_total",
        "Ranges khugepaged left since too many pages were shared.",
    ),
    ("gpuwait_vmstat_thp_zero_page_alloc_total", "Huge zero pages allocated."),
    ("gpuwait_vmstat_thp_zero_page_alloc_failed_total", "Huge zero pages that could not be allocated."),
    ("gpuwait_vmstat_thp_swpout_total", "Huge pages swapped out whole."),
    ("gpuwait_vmstat_thp_swpout_fallback_total", "Huge pages split to be swapped out."),
    ("gpuwait_vmstat_thp_migration_success_total", "Huge pages moved whole."),
    ("gpuwait_vmstat_thp_migration_fail_total", "Huge pages that could not be moved."),
    ("gpuwait_vmstat_thp_migration_split_total", "Huge pages split to be moved."),
    ("gpuwait_vmstat_htlb_buddy_alloc_success_total", "Pages of hugetlbfs got from free memory."),
    ("gpuwait_vmstat_htlb_buddy_alloc_fail_total", "Pages of hugetlbfs not got from free memory."),
    # Moves between NUMA nodes. Where allocations land is told per node by the collector numa.
    ("gpuwait_vmstat_numa_pte_updates_total", "Pages marked by NUMA balancing to see who uses them."),
    ("gpuwait_vmstat_numa_huge_pte_updates_total", "Huge pages marked by NUMA balancing."),
    ("gpuwait_vmstat_numa_hint_faults_total", "Faults on pages that NUMA balancing had marked."),
    (
        "gpuwait_vmstat_numa_hint_faults_local_total",
        "Faults on such pages by a CPU of the node that holds the page.",
    ),
    ("gpuwait_vmstat_numa_pages_migrated_total", "Pages that NUMA balancing moved."),
    ("gpuwait_vmstat_pgmigrate_success_total", "Pages moved, for any reason."),
    ("gpuwait_vmstat_pgmigrate_fail_total", "Pages that could not be moved."),
    ("gpuwait_vmstat_pgpromote_success_total", "Pages promoted to faster memory."),
    ("gpuwait_vmstat_pgpromote_candidate_total", "Pages considered for promotion."),
    (
        "gpuwait_vmstat_pgpromote_candidate_nrl_total",
        "Pages considered for promotion outside the rate limit.",
    ),
    ("gpuwait_vmstat_pgdemote_kswapd_total", "Pages demoted to slower memory by kswapd."),
    ("gpuwait_vmstat_pgdemote_direct_total", "Pages demoted to slower memory by direct reclaim."),
    ("gpuwait_vmstat_pgdemote_khugepaged_total", "Pages demoted to slower memory for khugepaged."),
    ("gpuwait_vmstat_pgdemote_proactive_total", "Pages demoted to slower memory as a user asked."),
    # Paging, swap, writeback and the page cache.
    ("gpuwait_vmstat_pgfault_total", "Page faults."),
    ("gpuwait_vmstat_pgmajfault_total", "Page faults that read from a device."),
    ("gpuwait_vmstat_pgpgin_total", "KiB read from block devices."),
    ("gpuwait_vmstat_pgpgout_total", "KiB written to block devices."),
    ("gpuwait_vmstat_pswpin_total", "Pages read from swap."),
    ("gpuwait_vmstat_pswpout_total", "Pages written to swap."),
    ("gpuwait_vmstat_swap_ra_total", "Pages read ahead from swap."),
    ("gpuwait_vmstat_swap_ra_hit_total", "Pages read ahead from swap that were used."),
    ("gpuwait_vmstat_swpin_zero_total", "Pages of zeros restored without reading swap."),
    ("gpuwait_vmstat_swpout_zero_total", "Pages of zeros swapped out without writing."),
    ("gpuwait_vmstat_zswpin_total", "Pages read from compressed swap in memory."),
    ("gpuwait_vmstat_zswpout_total", "Pages written to compressed swap in memory."),
    ("gpuwait_vmstat_zswpwb_total", "Pages moved from compressed swap to the swap device."),
    ("gpuwait_vmstat_oom_kill_total", "Processes killed for want of memory, in cgroups too."),
    ("gpuwait_vmstat_nr_dirtied_total", "Pages that became dirty."),
    ("gpuwait_vmstat_nr_written_total", "Pages written back."),
    ("gpuwait_vmstat_nr_throttled_written_total", "Pages written back while reclaim waited."),
    ("gpuwait_vmstat_nr_vmscan_write_total", "Pages written by reclaim."),
    ("gpuwait_vmstat_nr_vmscan_immediate_reclaim_total", "Pages under writeback that reclaim met again."),
    ("gpuwait_vmstat_workingset_refault_total", "Pages read again soon after eviction, before 5.9."),
    ("gpuwait_vmstat_workingset_refault_anon_total", "Anonymous pages read again soon after eviction."),
    ("gpuwait_vmstat_workingset_refault_file_total", "File pages read again soon after eviction."),
    ("gpuwait_vmstat_workingset_activate_total", "Refaulted pages taken as active, before 5.9."),
    ("gpuwait_vmstat_workingset_activate_anon_total", "Refaulted anonymous pages taken as active."),
    ("gpuwait_vmstat_workingset_activate_file_total", "Refaulted file pages taken as active."),
    ("gpuwait_vmstat_workingset_restore_total", "Refaulted pages that had been active, before 5.9."),
    ("gpuwait_vmstat_workingset_restore_anon_total", "Refaulted anonymous pages that had been active."),
    ("gpuwait_vmstat_workingset_restore_file_total", "Refaulted file pages that had been active."),
    ("gpuwait_vmstat_workingset_nodereclaim_total", "Kernel records of evicted pages that were reclaimed."),
    # Splits of the kernel's own mapping cost TLB misses for good.
    ("gpuwait_vmstat_direct_map_level2_splits_total", "2 MiB mappings of the kernel split."),
    ("gpuwait_vmstat_direct_map_level3_splits_total", "1 GiB mappings of the kernel split."),
    ("gpuwait_vmstat_direct_map_level2_collapses_total", "2 MiB mappings of the kernel restored."),
    ("gpuwait_vmstat_direct_map_level3_collapses_total", "1 GiB mappings of the kernel restored."),
)

_FIELDS = tuple(name.removeprefix(_PREFIX).removesuffix(_SUFFIX) for name, _ in _COUNTERS)
_FAMILIES = tuple(
    Family(name, "counter", text, f"/proc/vmstat {field}")
    for (name, text), field in zip(_COUNTERS, _FIELDS, strict=True)
)

#: Highmem exists on 32-bit kernels only.
_ZONES = ("dma", "dma32", "normal", "high", "movable", "device")


def _allocstall(values: dict[str, int]) -> int | None:
    """Direct reclaims: the one counter of kernels before 4.10, else the sum over zones."""
    if "allocstall" in values:
        return values["allocstall"]
    zones = [values[name] for zone in _ZONES if (name := f"allocstall_{zone}") in values]
    return sum(zones) if zones else None


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the counters that this kernel has. Raises NoData, OSError, ParseError."""
    faults = Faults()
    with faults.at(path := f"{sources.host.procfs}/vmstat"):
        text = maybe_text(path)
        if text is None:
            raise NoData(Reason.ABSENT, "no vmstat in the proc file system")
        values = parse_vmstat(text)
        stalls = _allocstall(values)
        if stalls is not None:
            yield ALLOCSTALL, (), stalls
        for field, family in zip(_FIELDS, _FAMILIES, strict=True):
            if field in values:
                yield family, (), values[field]
    faults.finish()


COLLECTOR = Collector(
    name="vmstat",
    help="Counters of compaction, huge pages, reclaim, swap and page faults from /proc/vmstat.",
    families=(ALLOCSTALL, *_FAMILIES),
    collect=collect,
)
