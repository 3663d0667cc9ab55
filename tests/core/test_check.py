"""What `gpuwait check` says is risky and lost, from samples as collectors give them."""

import io

import pytest

from gpuwait.check import Inspection, _list, losses, report
from gpuwait.collector import Collector
from gpuwait.collectors import infiniband
from gpuwait.explain.wording import printable
from gpuwait.gather import Outcome, call
from gpuwait.host import Host
from gpuwait.metrics import Family
from gpuwait.risks import Finding, findings
from gpuwait.sources import Sources
from gpuwait.workload.readiness import Missing, Source


def outcome(name, *series, reason="", detail="", success=True):
    """An outcome with these (metric name, labels, value)."""
    groups = {}
    for metric, labels, value in series:
        family = Family(metric, "gauge", "A test.", "test", tuple(labels))
        groups[family] = {tuple(labels.values()): value}
    return Outcome(Collector(name, "A test.", tuple(groups), lambda _: ()), groups, success, reason, detail)


def thp(file, value, chosen=1):
    return "gpuwait_thp_setting", {"file": file, "value": value}, chosen


def disk(kind, rotational):
    return "gpuwait_disk_info", {"device": "d0", "kind": kind, "rotational": rotational}, 1


def nfs(**labels):
    labels = {
        "mountpoint": "/data",
        "version": "4.2",
        "rsize": "1048576",
        "wsize": "1048576",
        "recovery": "hard",
    } | labels
    return "gpuwait_nfs_mount_info", labels, 1


@pytest.mark.parametrize(
    ("series", "what", "fix"),
    [
        ([thp("enabled", "always")], "transparent huge pages", "echo madvise"),
        ([thp("defrag", "madvise")], "defrag is set to madvise", "echo defer"),
        ([thp("numa_balancing", "1")], "NUMA balancing", "kernel.numa_balancing=0"),
        ([("gpuwait_vm_setting", {"setting": "zone_reclaim_mode"}, 1)], "zone_reclaim_mode is 1", "sysctl"),
        (
            [("gpuwait_memory_swap_total_bytes", {}, 2**30), ("gpuwait_memory_swap_free_bytes", {}, 2**29)],
            "512 MiB of swap",
            "swapoff -a",
        ),
        (
            [("gpuwait_disk_scheduler", {"device": "nvme0n1", "scheduler": "kyber"}, 1)],
            "scheduler of nvme0n1 is kyber",
            "echo none > /sys/block/nvme0n1/queue/scheduler",
        ),
        ([nfs(version="3")], "NFS version 3 on /data", "vers=4.2"),
        ([nfs(rsize="65536")], "rsize=65536 on /data", "rsize=1048576"),
        ([nfs(recovery="soft")], "/data is soft", "hard"),
        (
            [("gpuwait_infiniband_netdev_mtu_bytes", {"device": "mlx5_0", "netdev": "eth4"}, 1500)],
            "MTU of eth4",
            "ip link set eth4 mtu 9000",
        ),
        ([("gpuwait_cpu_governor_cpus", {"governor": "powersave"}, 64)], "64 CPUs", "performance"),
        (
            [("gpuwait_memory_dirty_threshold_bytes", {}, 400 * 2**30), disk("nvme", "0")],
            "400 GiB may be dirty",
            "vm.dirty_bytes=10000000000",
        ),
        (
            [("gpuwait_gpu_persistence_mode", {"gpu": "3", "uuid": "u"}, 0)],
            "off on GPU 3",
            "nvidia-smi -pm 1",
        ),
    ],
)
def test_a_risky_setting_is_named_with_the_line_that_changes_it(series, what, fix):
    """Each risk gives one finding with a reason and a command."""
    found = findings([outcome("x", s) for s in series])
    assert len(found) == 1
    assert what in found[0].what
    assert found[0].why
    assert fix in found[0].fix


def test_a_well_kept_node_has_no_risks():
    """The same settings at their good values say nothing."""
    series = [
        thp("enabled", "madvise"),
        thp("defrag", "defer"),
        thp("numa_balancing", "0"),
        ("gpuwait_vm_setting", {"setting": "zone_reclaim_mode"}, 0),
        ("gpuwait_memory_swap_total_bytes", {}, 2**30),
        ("gpuwait_memory_swap_free_bytes", {}, 2**30),
        ("gpuwait_disk_scheduler", {"device": "nvme0n1", "scheduler": "none"}, 1),
        ("gpuwait_disk_scheduler", {"device": "sda", "scheduler": "mq-deadline"}, 1),
        nfs(),
        ("gpuwait_infiniband_netdev_mtu_bytes", {"device": "mlx5_0", "netdev": "eth4"}, 9000),
        ("gpuwait_cpu_governor_cpus", {"governor": "performance"}, 64),
        ("gpuwait_memory_dirty_threshold_bytes", {}, 8 * 2**30),
        disk("nvme", "0"),
        ("gpuwait_gpu_persistence_mode", {"gpu": "0", "uuid": "u"}, 1),
    ]
    assert findings([outcome("x", s) for s in series]) == []


def test_small_frames_under_roce(tmp_path):
    """The MTU that the collector reads from the sys file system is what the rule looks at."""
    device = tmp_path / "class/infiniband/mlx5_1"
    for path, text in (("ports/1/link_layer", "Ethernet\n"), ("device/net/eth4/mtu", "1500\n")):
        (device / path).parent.mkdir(parents=True)
        (device / path).write_text(text)
    sources = Sources(Host(procfs=str(tmp_path), sysfs=str(tmp_path)))
    (found,) = findings([call(infiniband.COLLECTOR, sources)])
    assert found.what == "the MTU of eth4 (RDMA device mlx5_1) is 1500"
    assert found.fix == "ip link set eth4 mtu 9000"


def test_no_samples_no_findings():
    """A setting that the kernel does not show is no risk."""
    assert findings([]) == []


def test_names_from_outside_are_quoted_in_commands():
    """A mount point with shell characters does not become a command when the line is pasted."""
    found = findings([outcome("nfs", nfs(version="3", mountpoint="/d; rm -rf x"))])
    assert "'/d; rm -rf x'" in found[0].fix


def test_remount_is_a_whole_command():
    """The options of an NFS mount are changed with one line that can be pasted."""
    found = findings([outcome("nfs", nfs(rsize="65536", export="filer:/vol"))])
    assert found[0].fix == (
        "umount /data && mount -t nfs -o vers=4.2,hard,rsize=1048576,wsize=1048576 filer:/vol /data"
    )


def test_only_commands_have_a_prompt():
    """A sentence is no command, and neither is a line with a name that cannot be shown."""
    out = io.StringIO()
    items = (
        Finding("a", "b", "echo 1"),
        Finding("a", "b", "boot it", command=False),
        Finding("a", "b", "x\x1b"),
    )
    _list("T", items, out)
    lines = [line for line in out.getvalue().splitlines() if line.startswith("      ")]
    assert lines[1::2] == ["      $ echo 1", "      boot it", "      x\N{REPLACEMENT CHARACTER}"]


def test_the_rate_of_writing_is_said_to_be_assumed():
    """How long writers wait rests on a rate that nobody measured."""
    dirty = ("gpuwait_memory_dirty_threshold_bytes", {}, 60 * 2**30)
    (found,) = findings([outcome("x", s) for s in (dirty, disk("scsi", "0"))])
    assert "about 215 s of writing for d0, the fastest disk here, at an assumed 300 MB/s" in found.why


def test_a_driver_that_does_not_answer():
    """No reading within the time that the command waits is a loss, and where to look is said."""
    (found,) = losses([outcome("gpu", reason="starting", detail="the first reading is under way")])
    assert "no reading within 3 s, so the driver may be stuck" in found.why
    assert found.fix == "dmesg | grep -i -e nvrm -e xid"


def test_control_characters_do_not_reach_the_terminal():
    """An escape sequence in a name is shown as a replacement character."""
    out = io.StringIO()
    _list("T", [Finding("a\x1b[2Jb", "why\x07", "fix\n; x")], out)
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()
    assert printable("a\tb") == "a\N{REPLACEMENT CHARACTER}b"


def test_losses():
    """A failing collector and a missing privilege are losses; a node without NFS or GPU is none."""
    found = list(
        losses(
            [
                outcome("disk", success=False, detail="proc/diskstats: line 3"),
                outcome("nfs", reason="no_permission", detail="/proc/1/mountstats"),
                outcome("pressure", reason="unsupported", detail="/proc/pressure"),
                outcome("gpu", reason="no_library", detail="libnvidia-ml.so.1"),
                outcome("infiniband", reason="absent", detail="/sys/class/infiniband"),
            ]
        )
    )
    assert [f.what.split()[0] + " " + f.what.split()[1] for f in found] == [
        "collector disk",
        "nfs: /proc/1/mountstats",
        "pressure: /proc/pressure",
    ]
    assert "CAP_DAC_READ_SEARCH" in found[1].fix
    assert "psi=1" in found[2].fix
    assert [f.command for f in found] == [True, True, False]


def test_jobs_without_an_id_are_a_risk():
    """Jobs that are known by their SLUID only are told with the option that changes it."""
    found = findings([outcome("cgroup", ("gpuwait_cgroup_slurm_jobs_without_id", {}, 3))])
    assert [f.what for f in found] == ["3 Slurm jobs are known by their SLUID only"]
    assert "CgroupJobIdPaths=yes" in found[0].fix
    assert findings([outcome("cgroup", ("gpuwait_cgroup_slurm_jobs_without_id", {}, 0))]) == []


def test_names_and_owners_in_the_report():
    """Each source has a line; what is not known is lost."""
    out = io.StringIO()
    source = Source("docker", "fails", "/var/lib/docker/containers: Permission denied")
    lacks = Missing("names: 2 of 3 containers are known by their id only", "closed", "run gpuwait as root")
    assert report(Inspection([], (), (source,), (lacks,)), out) == 1
    assert "  docker          fails   /var/lib/docker/containers: Permission denied\n" in out.getvalue()
    assert "  names: 2 of 3 containers are known by their id only\n      closed\n" in out.getvalue()
    assert out.getvalue().endswith("\n1 lost, 0 risky\n")


def test_a_gpu_on_the_bus_without_library_is_a_loss():
    """The library is missed only where a GPU is."""
    gpu = outcome(
        "gpu",
        ("gpuwait_gpu_pci_devices", {"vendor": "nvidia"}, 8),
        reason="no_library",
        detail="libnvidia-ml.so.1",
    )
    assert [f.what for f in losses([gpu])] == ["gpu: libnvidia-ml.so.1"]
