"""Settings of a node that are known to starve GPUs, found in the series the exporter exports.

Each rule reads the same samples that a fleet-wide query would, so `gpuwait
check` on one node and PromQL over a thousand say the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpuwait.gather import Outcome

#: Bytes a client asks for at once; below this an NFS read of a large file is many round trips.
NFS_IO_SIZE = 256 * 1024
#: RoCE carries 4096-byte packets only where the Ethernet frame has room for the headers as well.
ROCE_FRAME = 4200
#: Seconds of writing that may pile up in memory before writers are stopped.
DIRTY_SECONDS = 30
#: Bytes per second that a disk of this kind can be expected to write.
WRITE_RATE = {"nvme": 1_000_000_000, "scsi": 300_000_000, "virtio": 300_000_000, "rotational": 100_000_000}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to change: what is so, why that matters, and what changes it.

    command: whether `fix` can be pasted into a shell of root; else it is a sentence.
    """

    what: str
    why: str
    fix: str
    command: bool = True


class Facts:
    """Samples of one gathering, by metric name."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._rows: dict[str, list[tuple[dict[str, str], float]]] = {}
        for outcome in outcomes:
            for family, values in outcome.groups.items():
                rows = self._rows.setdefault(family.name, [])
                rows += [(dict(zip(family.labels, k, strict=True)), v) for k, v in values.items()]

    def rows(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and value of the series of this name that have these labels."""
        for found, value in self._rows.get(name, ()):
            if all(found.get(k) == v for k, v in labels.items()):
                yield found, value

    def value(self, name: str, **labels: str) -> float | None:
        """Value of the first such series, None where there is none."""
        return next((value for _, value in self.rows(name, **labels)), None)

    def chosen(self, name: str, label: str, **labels: str) -> str | None:
        """The value of `label` for which a state set is 1."""
        return next((found[label] for found, value in self.rows(name, **labels) if value == 1), None)


def _thp_enabled(facts: Facts) -> Iterator[Finding]:
    if facts.chosen("gpuwait_thp_setting", "value", file="enabled") == "always":
        yield Finding(
            "transparent huge pages are set to always",
            "every large allocation of every process may stop to compact memory",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )


def _thp_defrag(facts: Facts) -> Iterator[Finding]:
    value = facts.chosen("gpuwait_thp_setting", "value", file="defrag")
    enabled = facts.chosen("gpuwait_thp_setting", "value", file="enabled")
    if value in ("always", "madvise", "defer+madvise") and enabled != "never":
        who = "every process" if value == "always" else "programs that ask for huge pages, as NumPy does,"
        yield Finding(
            f"huge page defrag is set to {value}",
            f"page faults of {who} compact memory themselves when it is fragmented",
            "echo defer > /sys/kernel/mm/transparent_hugepage/defrag",
        )


def _numa_balancing(facts: Facts) -> Iterator[Finding]:
    value = facts.chosen("gpuwait_thp_setting", "value", file="numa_balancing")
    if value not in (None, "0"):
        yield Finding(
            "automatic NUMA balancing is on",
            "it unmaps and moves pages that were placed on purpose; each costs a fault and a copy",
            "sysctl -w kernel.numa_balancing=0",
        )


def _zone_reclaim(facts: Facts) -> Iterator[Finding]:
    value = facts.value("gpuwait_vm_setting", setting="zone_reclaim_mode")
    if value:
        yield Finding(
            f"vm.zone_reclaim_mode is {value:.0f}",
            "allocations reclaim the page cache of one NUMA node while another has free memory",
            "sysctl -w vm.zone_reclaim_mode=0",
        )


def _swap(facts: Facts) -> Iterator[Finding]:
    total, free = (
        facts.value("gpuwait_memory_swap_total_bytes"),
        facts.value("gpuwait_memory_swap_free_bytes"),
    )
    if total is not None and free is not None and total > free:
        yield Finding(
            f"{(total - free) / 2**20:.0f} MiB of swap are in use",
            "a loader that touches swapped pages waits for the disk page by page; bring them back only where "
            "`free -h` shows more available memory than swap in use, else programs are killed",
            "swapoff -a",
        )


def _scheduler(facts: Facts) -> Iterator[Finding]:
    for labels, value in facts.rows("gpuwait_disk_scheduler"):
        device = labels["device"]
        if value == 1 and device.startswith("nvme") and labels["scheduler"] != "none":
            yield Finding(
                f"the I/O scheduler of {device} is {labels['scheduler']}",
                "NVMe queues in hardware; a scheduler above it adds latency and a lock",
                f"echo none > {shlex.quote(f'/sys/block/{device}/queue/scheduler')}",
            )


def _nfs(facts: Facts) -> Iterator[Finding]:
    for labels, _ in facts.rows("gpuwait_nfs_mount_info"):
        where = labels["mountpoint"]
        remount = (
            f"umount {shlex.quote(where)} && mount -t nfs -o vers=4.2,hard,rsize=1048576,wsize=1048576 "
            f"{shlex.quote(labels.get('export', ''))} {shlex.quote(where)}"
        )
        if labels.get("version", "").startswith("3"):
            yield Finding(
                f"NFS version 3 on {where}", "no sessions, no delegations: more round trips", remount
            )
        small = [
            k for k in ("rsize", "wsize") if (labels.get(k) or "x").isdigit() and int(labels[k]) < NFS_IO_SIZE
        ]
        for key in small:
            yield Finding(
                f"{key}={labels[key]} on {where}", "large files are read in many small requests", remount
            )
        if labels.get("recovery", "").startswith("soft"):
            yield Finding(
                f"the NFS mount {where} is {labels['recovery']}",
                "a slow server becomes an I/O error, or silently short data, in the training run",
                remount,
            )


def _roce(facts: Facts) -> Iterator[Finding]:
    for labels, mtu in facts.rows("gpuwait_infiniband_netdev_mtu_bytes"):
        if mtu < ROCE_FRAME:
            yield Finding(
                f"the MTU of {labels['netdev']} (RDMA device {labels['device']}) is {mtu:.0f}",
                "RDMA packets are smaller than 4096 bytes: more of them, lower bandwidth. The switch and all "
                "peers must take the same MTU first, else large transfers stop",
                f"ip link set {shlex.quote(labels['netdev'])} mtu 9000",
            )


def _governor(facts: Facts) -> Iterator[Finding]:
    cpus = facts.value("gpuwait_cpu_governor_cpus", governor="powersave")
    if cpus:
        yield Finding(
            f"{cpus:.0f} CPUs run with the governor powersave",
            "loader threads wake on slow cores and take milliseconds to speed up",
            "cpupower frequency-set -g performance",
        )


def _dirty(facts: Facts) -> Iterator[Finding]:
    limit = facts.value("gpuwait_memory_dirty_threshold_bytes")
    rates = []
    for labels, _ in facts.rows("gpuwait_disk_info"):
        kind = labels.get("kind", "")
        if kind == "scsi" and labels.get("rotational") == "1":  # virtual disks call themselves rotational too
            kind = "rotational"
        if kind in WRITE_RATE:
            rates.append((WRITE_RATE[kind], labels["device"]))
    if limit is None or not rates:
        return
    rate, device = max(rates)
    if limit / rate > DIRTY_SECONDS:
        yield Finding(
            f"{limit / 2**30:.0f} GiB may be dirty before writers are stopped",
            f"about {limit / rate:.0f} s of writing for {device}, the fastest disk here, at an assumed "
            f"{rate / 1_000_000:.0f} MB/s: a checkpoint fills it, then every writer waits",
            f"sysctl -w vm.dirty_bytes={rate * 10} vm.dirty_background_bytes={rate * 2}",
        )


def _persistence(facts: Facts) -> Iterator[Finding]:
    off = sorted(labels["gpu"] for labels, value in facts.rows("gpuwait_gpu_persistence_mode") if value == 0)
    if off:
        yield Finding(
            f"persistence mode is off on GPU {', '.join(off)}",
            "the driver unloads when the last process ends; the next one waits seconds to start",
            "nvidia-smi -pm 1",
        )


def _sluid(facts: Facts) -> Iterator[Finding]:
    jobs = facts.value("gpuwait_cgroup_slurm_jobs_without_id")
    if jobs:
        yield Finding(
            f"{jobs:.0f} Slurm jobs are known by their SLUID only",
            "Slurm 26.05 names the cgroups of jobs so; squeue and sacct go by the id of the job",
            "set CgroupJobIdPaths=yes in cgroup.conf, from Slurm 26.05.2 on",
            command=False,
        )


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _thp_enabled,
    _thp_defrag,
    _numa_balancing,
    _zone_reclaim,
    _swap,
    _scheduler,
    _nfs,
    _roce,
    _governor,
    _dirty,
    _persistence,
    _sluid,
)


def findings(outcomes: Iterable[Outcome]) -> list[Finding]:
    """Everything risky that these samples show, in the order of the rules."""
    facts = Facts(outcomes)
    return [finding for rule in RULES for finding in rule(facts)]
