"""The evidence of causes in storage; see `evidence`."""

from __future__ import annotations

from dashboards.build.panels import graph
from dashboards.build.query import NODE, Query, rate
from dashboards.build.signals import BLOCKED, NO_PRESSURE, WHO, pressure, top

from gpuwait.thresholds import DEFAULTS

#: Below this rate the mean of a disk's operations says nothing.
_OPERATIONS = f"{DEFAULTS['disk', 'operations'].value:g}"

_MOUNT = "cluster, export, mountpoint"
_ANSWERS = f"sum by ({_MOUNT}) ({rate('gpuwait_nfs_mount_operations_total', NODE)})"
_RESPONSE = f"sum by ({_MOUNT}) ({rate('gpuwait_nfs_mount_response_time_seconds_total', NODE)})"
_NO_NFS, _NO_LUSTRE = "no NFS mount on this node", "no Lustre client on this node"

SHARED = (
    graph(
        "NFS: response time",
        "Mean time of an answer by mount. An outage has no answers and shows here as a gap: see answers "
        "received.",
        "s",
        Query(f"{_RESPONSE} / ({_ANSWERS} > 0)", "{{mountpoint}}"),
        absent=_NO_NFS,
        line=("nfs", "response"),
    ),
    graph(
        "NFS: requests on the way on average",
        "Seconds of response a second: 1 is one request at the server all the time. More means that they "
        "queue.",
        "short",
        Query(_RESPONSE, "{{mountpoint}}"),
        absent=_NO_NFS,
        line=("nfs", "busy"),
    ),
    graph(
        "NFS: requests in flight",
        "Sent and not answered at this moment, of all mounts that share the connection. 0 does not mean that "
        "all is well: where the connection is gone (NFSv4 in an outage) nothing is sent any more. Answers "
        "received say whether the server is there.",
        "short",
        Query(f"max by ({_MOUNT}) (gpuwait_nfs_mount_in_flight{{{NODE}}})", "{{mountpoint}}"),
        absent=_NO_NFS,
    ),
    graph(
        "NFS: answers received",
        "Of all mounts that share the connection. In an outage it falls to 0 and stays there. An idle "
        "mount of version 3 looks the same (version 4 renews its lease each minute): blocked threads tell "
        "the two apart.",
        "ops",
        Query(
            f"max by ({_MOUNT}) ({rate('gpuwait_nfs_mount_transport_receives_total', NODE)})",
            "{{mountpoint}}",
        ),
        absent=_NO_NFS,
    ),
    graph(
        "NFS: timeouts and requests sent again",
        "A healthy mount has none for days. NFSv4 sends nothing again in an outage.",
        "ops",
        Query(
            f"sum by ({_MOUNT}) ({rate('gpuwait_nfs_mount_major_timeouts_total', NODE)})",
            "{{mountpoint}} timeouts",
        ),
        Query(
            f"clamp_min(sum by ({_MOUNT}) ({rate('gpuwait_nfs_mount_transmissions_total', NODE)}) - "
            f"{_ANSWERS}, 0)",
            "{{mountpoint}} sent again",
        ),
        absent=_NO_NFS,
        line=("nfs", "lost"),
    ),
    graph(
        "Lustre: operations on the way on average",
        "Seconds of operations a second, by operation. Metadata (getattr, open) that piles up is a slow "
        "metadata server.",
        "short",
        Query(
            "sum by (cluster, filesystem, operation) "
            f"({rate('gpuwait_lustre_operation_time_seconds_total', NODE)}) > 0.01",
            "{{filesystem}} {{operation}}",
        ),
        absent=f"{_NO_LUSTRE}, or one that measures no times",
        line=("lustre", "busy"),
    ),
    graph(
        "GPFS: read and written",
        "Context only: the daemon judges GPFS by the age of its oldest waiter, which is no metric; "
        "gpuwait explain shows it.",
        "Bps",
        Query(
            f"sum by (cluster, filesystem) ({rate('gpuwait_gpfs_read_bytes_total', NODE)})",
            "{{filesystem}} read",
        ),
        Query(
            f"sum by (cluster, filesystem) ({rate('gpuwait_gpfs_written_bytes_total', NODE)})",
            "{{filesystem}} written",
        ),
        absent="no GPFS on this node, or --collector.gpfs is off",
    ),
)


def _both(what: str) -> str:
    return " + ".join(
        f"max by (cluster, device) ({rate(f'gpuwait_disk_{kind}_total', NODE)})" for kind in what.split()
    )


_NO_DISK = "no local disk on this node"
LOCAL = (
    graph(
        "Disk: busy",
        "Share of time with a request in hand. A flash disk at 100 % with short operations is not full: "
        "read it together with the latency.",
        "percentunit",
        Query(top("gpuwait_disk_io_time_seconds_total", "device"), "{{device}}"),
        absent=_NO_DISK,
        line=("disk", "busy"),
        top=1,
    ),
    graph(
        "Disk: time of an operation",
        "Mean of reads and writes, waiting in the queue included. Left out below "
        f"{_OPERATIONS} operations a second: a mean of few says nothing.",
        "s",
        Query(
            f"({_both('read_time_seconds write_time_seconds')})"
            f" / (({_both('reads_completed writes_completed')}) >= {_OPERATIONS})",
            "{{device}}",
        ),
        absent=f"{_NO_DISK}, or fewer than {_OPERATIONS} operations a second",
        line=("disk", "latency"),
    ),
    graph(
        "Disk: operations queued",
        "On average, those in service included.",
        "short",
        Query(top("gpuwait_disk_io_time_weighted_seconds_total", "device"), "{{device}}"),
        absent=_NO_DISK,
        line=("disk", "queue"),
    ),
    graph(
        "Disk, writeback: I/O pressure",
        "Share of time in which some task waited for I/O. The line is for workloads; of the whole node a "
        "workload may see nothing. O_DIRECT reads over NFS do not show.",
        "percentunit",
        *pressure("io"),
        absent=NO_PRESSURE,
        line=("disk", "pressure"),
    ),
    graph(
        "All storage: blocked threads",
        "Threads of workloads with a GPU that were in uninterruptible sleep at the last look. The daemon "
        "looks up to six times a second at those that starve, and by their wait channel tells NFS, "
        "Lustre, GPFS and disk apart.",
        "short",
        Query(BLOCKED, WHO),
        absent="no workload holds a GPU, or the daemon may not see its threads",
    ),
)
