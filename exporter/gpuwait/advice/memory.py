"""Advice on causes that lie in memory: compaction, reclaim, swap, writeback."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwait.advice.model import Advice, Step, Verify, runbook
from gpuwait.wait.verdict import Cause

ADVICE: Mapping[Cause, Advice] = {
    Cause.COMPACTION: Advice(
        "direct compaction",
        "a page fault asks for a 2 MiB page, no free block of that size is left, and the faulting thread "
        "itself moves memory about until there is one; this is system time, so it looks like computing",
        (
            Step(
                "stop page faults from compacting; kcompactd does it in the background instead",
                "echo defer > /sys/kernel/mm/transparent_hugepage/defrag",
            ),
            Step(
                "where that is not enough, stop new huge pages (running arrays keep theirs)",
                "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
            ),
            Step(
                "once, between jobs: rebuild free blocks (takes seconds of one CPU)",
                "echo 1 > /proc/sys/vm/compact_memory",
            ),
        ),
        (
            Step(
                "keep the setting over a reboot",
                "echo 'w /sys/kernel/mm/transparent_hugepage/defrag - - - - defer' "
                "> /etc/tmpfiles.d/gpuwait-thp.conf",
            ),
            Step(
                "let kcompactd keep blocks ready (20 is the default; kernel 5.9 or newer)",
                "echo 'vm.compaction_proactiveness = 50' > /etc/sysctl.d/90-gpuwait-compaction.conf "
                "&& sysctl --system",
            ),
            Step(
                "in the job's environment: NumPy asks for huge pages unless told not to",
                "export NUMPY_MADVISE_HUGEPAGE=0",
            ),
        ),
        Verify(
            "compact_stall must stop rising: below {compaction.stalls}, on a healthy node 0; "
            "the workload's compaction delay goes with it",
            "grep compact_stall /proc/vmstat; sleep 10; grep compact_stall /proc/vmstat",
            "rate(gpuwait_vmstat_compact_stall_total[5m])",
        ),
        runbook(Cause.COMPACTION),
    ),
    Cause.RECLAIM: Advice(
        "direct reclaim",
        "memory is full (of the node, or of the workload's cgroup), and the thread that wants a page must "
        "first free some itself, most often page cache that a checkpoint or the data set left behind",
        (
            Step(
                "wake kswapd earlier, so that it frees pages before threads must (unit: 1/10000 of memory)",
                "sysctl -w vm.watermark_scale_factor=200",
            ),
            Step("once, between steps: give up clean page cache", "sync; echo 1 > /proc/sys/vm/drop_caches"),
            Step(
                "see how near the pod is to its limit: page cache counts towards it",
                "kubectl -n {namespace} top pod {owner} --containers",
                ("pod",),
            ),
            Step(
                "see how near the job is to its limit",
                "sstat -a -j {owner} --format=JobID,MaxRSS,AveRSS",
                ("slurm",),
            ),
            Step(
                "raise the unit's limit", "systemctl set-property {owner} MemoryHigh=infinity", ("service",)
            ),
        ),
        (
            Step(
                "keep the setting over a reboot",
                "echo 'vm.watermark_scale_factor = 200' > /etc/sysctl.d/90-gpuwait-reclaim.conf "
                "&& sysctl --system",
            ),
            Step(
                "write checkpoints with O_DIRECT, or drop their pages with "
                "posix_fadvise(POSIX_FADV_DONTNEED) once they are written"
            ),
            Step("allocate the host buffer of a checkpoint once, pinned, and use it again each time"),
            Step("raise resources.limits.memory in the pod's template to what it needs", "", ("pod",)),
            Step("ask for more memory in the job script", "#SBATCH --mem=SIZE", ("slurm",)),
        ),
        Verify(
            "entries into direct reclaim (allocstall) must fall below {reclaim.stalls}; at a cgroup's limit, "
            "which node counters do not show, its memory pressure below {reclaim.pressure}",
            "grep allocstall /proc/vmstat; sleep 10; grep allocstall /proc/vmstat",
            "rate(gpuwait_vmstat_allocstall_total[5m])",
        ),
        runbook(Cause.RECLAIM),
    ),
    Cause.SWAP: Advice(
        "reading pages back from swap",
        "pages of the workload were swapped out, and each touch of one waits for the disk",
        (
            Step("see who holds swap", "grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail"),
            Step(
                "only where `free -h` shows more available memory than swap in use (else programs are "
                "killed): bring everything back at once",
                "swapoff -a && swapon -a",
            ),
        ),
        (
            Step(
                "no swap on GPU nodes from the next boot on: take it out of /etc/fstab",
                "sed -i.bak -E '/^[^#]+[[:space:]]swap[[:space:]]/ s/^/#/' /etc/fstab",
            ),
            Step(
                "request the memory that the pod needs, so that it is not placed where that is short: "
                "resources.requests.memory, equal to the limit",
                "",
                ("pod",),
            ),
            Step("ask for the memory that the job needs", "#SBATCH --mem=SIZE", ("slurm",)),
            Step(
                "fewer loader workers, and the data set's index in NumPy or Arrow arrays: lists of Python "
                "objects are copied page by page after fork, since counting references writes to them"
            ),
        ),
        Verify(
            "pages read back from swap (pswpin) must fall to 0",
            "vmstat 1 10",
            "rate(gpuwait_vmstat_pswpin_total[5m])",
        ),
        runbook(Cause.SWAP),
    ),
    Cause.WRITEBACK: Advice(
        "waiting for dirty pages to be written",
        "more was written into the page cache than the disks take; at the dirty limit the kernel stops "
        "every writer, and readers queue behind the flush",
        (
            Step(
                "start writing early, so that the limit is not reached (bytes; the ratio is then ignored)",
                "sysctl -w vm.dirty_background_bytes=268435456",
            ),
            Step("see what is written where", "iostat -x 5 3"),
        ),
        (
            Step("write checkpoints with O_DIRECT, or call fsync piece by piece while writing"),
            Step("let ranks write one after another, or to a disk that the loaders do not read from"),
            Step(
                "where the node is far below its limit: on cgroup v2 a workload at its memory limit has a "
                "dirty limit of its own; give it more memory",
                "grep -E '^file_(dirty|writeback) ' /sys/fs/cgroup/GROUP/memory.stat",
            ),
            Step(
                "keep the setting over a reboot",
                "echo 'vm.dirty_background_bytes = 268435456' > /etc/sysctl.d/90-gpuwait-writeback.conf "
                "&& sysctl --system",
            ),
        ),
        Verify(
            "dirty and writeback memory must stay below {writeback.dirty} of the limit, at best below "
            "half of it",
            "grep -E '^(Dirty|Writeback):' /proc/meminfo",
            "(gpuwait_memory_dirty_bytes + gpuwait_memory_writeback_bytes) "
            "/ gpuwait_memory_dirty_threshold_bytes",
        ),
        runbook(Cause.WRITEBACK),
    ),
}
