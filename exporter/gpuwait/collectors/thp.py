"""Settings of the kernel that decide how memory is compacted, reclaimed and moved."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import label, maybe_text
from gpuwait.kernel.settings import parse_choice, parse_number
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

THP_SETTING = Family(
    "gpuwait_thp_setting",
    "gauge",
    "Setting of huge pages or NUMA balancing: 1 for the value in force, 0 for the others.",
    "/sys/kernel/mm/transparent_hugepage/*, /proc/sys/kernel/numa_balancing",
    ("file", "value"),
)
VM_SETTING = Family(
    "gpuwait_vm_setting",
    "gauge",
    "Number that the kernel's memory management is set to; bytes and seconds where the name says so.",
    "/proc/sys/vm/*, /proc/sys/kernel/task_delayacct, /sys/kernel/mm/transparent_hugepage/khugepaged/*",
    ("setting",),
)

_THP = "kernel/mm/transparent_hugepage"


def _words(file: str, text: str) -> Iterator[Sample]:
    """State set of a setting with its words in the file."""
    choice = parse_choice(text)
    for word in choice.words:
        yield THP_SETTING, (file, label(word)), int(word == choice.chosen)


def _modes(file: str, known: int, text: str) -> Iterator[Sample]:
    """State set of a setting that is a number from 0 to below `known`, or one not known yet."""
    chosen = parse_number(text)
    for mode in sorted({*range(known), chosen}):
        yield THP_SETTING, (file, str(mode)), int(mode == chosen)


def _number(setting: str, text: str) -> Iterator[Sample]:
    yield VM_SETTING, (setting,), parse_number(text)


def _kibibytes(setting: str, text: str) -> Iterator[Sample]:
    yield VM_SETTING, (setting,), parse_number(text) * 1024


def _milliseconds(setting: str, text: str) -> Iterator[Sample]:
    yield VM_SETTING, (setting,), parse_number(text) / 1000


#: Path below the sys or proc file system, and what makes samples of its text.
_SYS = (
    (f"{_THP}/enabled", partial(_words, "enabled")),
    (f"{_THP}/defrag", partial(_words, "defrag")),
    (f"{_THP}/shmem_enabled", partial(_words, "shmem_enabled")),
    (f"{_THP}/khugepaged/defrag", partial(_modes, "khugepaged_defrag", 2)),
    (f"{_THP}/khugepaged/pages_to_scan", partial(_number, "khugepaged_pages_to_scan")),
    (f"{_THP}/khugepaged/scan_sleep_millisecs", partial(_milliseconds, "khugepaged_scan_sleep_seconds")),
)
_PROC = (
    ("sys/kernel/numa_balancing", partial(_modes, "numa_balancing", 3)),
    ("sys/kernel/task_delayacct", partial(_number, "task_delayacct")),
    ("sys/vm/compaction_proactiveness", partial(_number, "compaction_proactiveness")),
    ("sys/vm/compact_unevictable_allowed", partial(_number, "compact_unevictable_allowed")),
    ("sys/vm/defrag_mode", partial(_number, "defrag_mode")),
    ("sys/vm/extfrag_threshold", partial(_number, "extfrag_threshold")),
    ("sys/vm/min_free_kbytes", partial(_kibibytes, "min_free_bytes")),
    ("sys/vm/swappiness", partial(_number, "swappiness")),
    ("sys/vm/watermark_boost_factor", partial(_number, "watermark_boost_factor")),
    ("sys/vm/watermark_scale_factor", partial(_number, "watermark_scale_factor")),
    ("sys/vm/zone_reclaim_mode", partial(_number, "zone_reclaim_mode")),
)


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield the settings that this kernel has. Raises NoData, OSError, ParseError."""
    host = sources.host
    faults = Faults()
    found = False
    files = [(f"{host.sysfs}/{path}", make) for path, make in _SYS]
    files += [(f"{host.procfs}/{path}", make) for path, make in _PROC]
    for path, make in files:
        # One bad file costs that setting only; the fault is reported after the others.
        with faults.at(path):
            text = maybe_text(path)
            if text is not None:
                found = True
                yield from make(text)
    faults.finish()
    if not found:
        raise NoData(Reason.ABSENT, "no setting of huge pages or of memory management")


COLLECTOR = Collector(
    name="thp",
    help="Settings of huge pages, NUMA balancing, compaction and reclaim.",
    families=(THP_SETTING, VM_SETTING),
    collect=collect,
)
