"""Advice on causes that lie in storage: NFS, Lustre, GPFS, local disks."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwait.advice.model import Advice, Step, Verify, runbook
from gpuwait.wait.verdict import Cause

_SHARDS = Step(
    "pack small files into large ones (tar shards of WebDataset, Parquet, LMDB): "
    "one request then brings thousands of samples"
)
_STAGE = Step("copy the data set to a local NVMe disk at the start of the job, and read from there")

ADVICE: Mapping[Cause, Advice] = {
    Cause.NFS: Advice(
        "waiting for replies of the NFS server",
        "loader threads sleep until the server answers; with small files each read costs several round "
        "trips, whatever the bandwidth, and a server that is away stops them altogether",
        (
            Step("see response times and retransmissions of the mount", "nfsiostat 5 3 {it}"),
            Step(
                "see whether the server answers at all, and how soon",
                "rpcinfo -T tcp SERVER nfs; ping -c 5 SERVER",
            ),
            Step(
                "short stops at a steady rhythm: the renewal of the lease hangs; on a Linux server see its "
                "lease time, and its load at these moments",
                "cat /proc/fs/nfsd/nfsv4leasetime",
            ),
            Step(
                "more requests at once hide round trips: raise num_workers and prefetch_factor of the "
                "data loader (where the server itself is slow this does not help)"
            ),
        ),
        (
            _SHARDS,
            Step(
                "several connections to the server and large requests (a new mount, not a remount)",
                "mount -t nfs -o vers=4.2,hard,nconnect=8,rsize=1048576,wsize=1048576 SERVER:EXPORT {it}",
            ),
            Step("for data that never changes, ask the server less often: add nocto,actimeo=3600 to these"),
            _STAGE,
        ),
        Verify(
            "the mean response must fall below {nfs.response}, towards 1 ms, and threads blocked on NFS "
            "towards 0",
            "nfsiostat 5 3 {it}",
            "rate(gpuwait_nfs_mount_response_time_seconds_total[5m]) "
            "/ rate(gpuwait_nfs_mount_operations_total[5m])",
        ),
        runbook(Cause.NFS),
    ),
    Cause.LUSTRE: Advice(
        "waiting for Lustre",
        "threads wait for a Lustre server; when each of many ranks looks at millions of files, the "
        "metadata server is the narrow place, and the storage servers stay idle",
        (
            Step("see which operations and how many", "lctl get_param llite.*.stats"),
            Step(
                "more requests in flight to servers that have room",
                "lctl set_param mdc.*.max_rpcs_in_flight=64 osc.*.max_rpcs_in_flight=64",
            ),
        ),
        (
            Step(
                "list the files once, store the list, and let every rank read that instead of walking "
                "the directories"
            ),
            _SHARDS,
            Step(
                "where small files must stay: keep their data on the metadata server (new files only)",
                "lfs setstripe -E 64K -L mdt -E -1 DIRECTORY",
            ),
        ),
        Verify(
            "operations a second, and the seconds spent in them, must fall",
            "lctl get_param llite.*.stats",
            "sum by (operation) (rate(gpuwait_lustre_operation_time_seconds_total[5m]))",
        ),
        runbook(Cause.LUSTRE),
    ),
    Cause.GPFS: Advice(
        "waiting for GPFS",
        "threads wait in the GPFS client for a server, a token or a disk behind it; the oldest waiter "
        "says for how long",
        (
            Step("what is waited for, and at which server", "mmdiag --waiters"),
            Step("the waiters of the whole cluster", "mmlsnode -N waiters -L"),
            Step("whether a server or disk is ill", "mmhealth cluster show; mmdiag --iohist"),
        ),
        (
            Step("take the slow server or disk that the waiters name out of service, or repair it"),
            Step("a page pool that holds what is read often", "mmchconfig pagepool=16G -i -N NODECLASS"),
            _SHARDS,
        ),
        Verify(
            "the oldest waiter must stay below {gpfs.waiter}; healthy ones end within milliseconds",
            "mmdiag --waiters",
            'rate(gpuwait_gpu_waiting_seconds_total{cause="gpfs"}[5m])',
        ),
        runbook(Cause.GPFS),
    ),
    Cause.DISK: Advice(
        "waiting for a local disk",
        "reads queue at a disk that does as many operations a second as it can; many small random reads "
        "reach that limit long before the bandwidth",
        (
            Step("see which disk, its latency and its queue", "iostat -x {it} 5 3"),
            Step("see which process reads or writes", "pidstat -d 5 3"),
            Step(
                "for files that are read from front to back: read ahead 4 MiB",
                "blockdev --setra 8192 /dev/{it}",
            ),
        ),
        (
            _SHARDS,
            Step("move the data set to NVMe, or stripe it over several disks"),
            Step("where it fits into memory: read it once before the first epoch", "vmtouch -t DIRECTORY"),
        ),
        Verify(
            "the mean time of an operation must fall below {disk.latency} (flash: 0.1 ms) and the queue "
            "below {disk.queue}",
            "iostat -x {it} 5 3",
            "rate(gpuwait_disk_read_time_seconds_total[5m]) / rate(gpuwait_disk_reads_completed_total[5m])",
        ),
        runbook(Cause.DISK),
    ),
}
