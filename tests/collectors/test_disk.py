"""Samples of disks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwait.collector import NoData, Reason
from gpuwait.collectors.disk import COLLECTOR
from gpuwait.host import Host
from gpuwait.sources import CollectorOptions, Filter, Sources

Values = dict[tuple[str, ...], float]
PCI = "devices/pci0000:00/0000:00:01.0/0000:c1:00.0"


class Case:
    """A host under construction and what the collector says about it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 1000.0
        self.sources = Sources(Host(f"{root}/proc", f"{root}/sys"), clock=lambda: self.now)

    def file(self, path: str, text: str) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def rows(self, *rows: str) -> None:
        """Write diskstats: `8:0 sda` is completed with eleven numbers."""
        self.file(
            "proc/diskstats",
            "".join(row.replace(":", " ", 1) + " 1 0 2 3 0 0 0 0 0 0 0\n" for row in rows),
        )

    def device(self, path: str, name: str, **files: str) -> None:
        """Make a disk below sys/devices with its links, as the kernel does."""
        (self.root / f"sys/{path}/block/{name}").mkdir(parents=True, exist_ok=True)
        for link in ("block", "class/block"):
            self.link(f"{link}/{name}", f"{path}/block/{name}")
        for key, text in files.items():
            self.file(f"sys/{path}/block/{name}/{key.replace('__', '/')}", text + "\n")

    def partition(self, path: str, disk: str, name: str) -> None:
        self.file(f"sys/{path}/block/{disk}/{name}/partition", "1\n")
        self.link(f"class/block/{name}", f"{path}/block/{disk}/{name}")

    def link(self, where: str, target: str) -> None:
        link = self.root / "sys" / where
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / "sys" / target)

    def mounts(self, *lines: str) -> None:
        self.file("proc/1/mountinfo", "".join(f"{line}\n" for line in lines))

    def scrape(self) -> Values:
        samples = list(COLLECTOR.collect(self.sources))
        assert all(family in COLLECTOR.families for family, _, _ in samples)
        assert all(len(labels) == len(family.labels) for family, labels, _ in samples)
        samples = [sample for sample in samples if sample[2] == sample[2]]
        values = {(family.name, *labels): value for family, labels, value in samples}
        assert len(values) == len(samples)
        return values

    def devices(self) -> list[str]:
        return [key[1] for key in self.scrape() if key[0] == "gpuwait_disk_reads_completed_total"]

    def labels(self, name: str) -> list[tuple[str, ...]]:
        return [key[1:] for key in self.scrape() if key[0] == name]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_units(case: Case) -> None:
    """Sectors are 512 bytes, milliseconds become seconds, counts stay."""
    case.file("proc/diskstats", " 8 0 sda 1 2 3 4001 5 6 7 8 9 10 11 12 13 14 15 16 17\n")
    values = case.scrape()
    assert {key[0].removeprefix("gpuwait_disk_"): value for key, value in values.items()} == {
        "reads_completed_total": 1,
        "reads_merged_total": 2,
        "read_bytes_total": 1536,
        "read_time_seconds_total": 4.001,
        "writes_completed_total": 5,
        "writes_merged_total": 6,
        "written_bytes_total": 3584,
        "write_time_seconds_total": 0.008,
        "io_now": 9,
        "io_time_seconds_total": 0.01,
        "io_time_weighted_seconds_total": 0.011,
        "discards_completed_total": 12,
        "discards_merged_total": 13,
        "discarded_bytes_total": 7168,
        "discard_time_seconds_total": 0.015,
        "flush_requests_total": 16,
        "flush_time_seconds_total": 0.017,
        "info": 1,
    }


def test_old_kernel(case: Case) -> None:
    """A kernel without discard and flush columns has no such series."""
    case.rows("8:0 sda")
    assert not [key for key in case.scrape() if "discard" in key[0] or "flush" in key[0]]


def test_partitions_by_sysfs(case: Case) -> None:
    """sysfs says which rows are partitions, also against the look of the name."""
    case.device("devices/vbd-1", "xvda1")
    case.device(PCI + "/nvme", "nvme0n1")
    case.partition(PCI + "/nvme", "nvme0n1", "nvme0n1p1")
    case.device("devices/odd", "disk")
    case.device("devices/odd", "disk7")
    case.rows("202:1 xvda1", "259:0 nvme0n1", "259:1 nvme0n1p1", "9:0 disk", "9:7 disk7")
    assert case.devices() == ["xvda1", "nvme0n1", "disk", "disk7"]


def test_partitions_by_name(case: Case) -> None:
    """Without sysfs the rows themselves say which are partitions."""
    case.rows("202:1 xvda1", "8:0 sda", "8:1 sda1", "259:0 nvme0n1", "259:1 nvme0n1p1", "253:10 dm-10")
    assert case.devices() == ["xvda1", "sda", "nvme0n1", "dm-10"]


def test_slash_is_an_exclamation_mark_in_sysfs(case: Case) -> None:
    """The label keeps the kernel's name; sysfs is asked with `!` for `/`."""
    case.rows("104:0 cciss/c0d0", "104:1 cciss/c0d0p1")
    case.file("sys/block/cciss!c0d0/queue/rotational", "1\n")
    case.file("sys/block/cciss!c0d0/cciss!c0d0p1/partition", "1\n")
    assert case.devices() == ["cciss/c0d0"]
    assert case.labels("gpuwait_disk_info") == [("cciss/c0d0", "", "raid", "1", "", "", "")]


def test_names_never_leave_sysfs(case: Case) -> None:
    """A name that would climb out of sysfs opens nothing and keeps its counters."""
    case.file("secret/queue/rotational", "1\n")
    case.rows("8:0 ../../secret", "8:1 ..")
    assert case.labels("gpuwait_disk_info") == [
        ("../../secret", "", "other", "", "", "", ""),
        ("..", "", "other", "", "", "", ""),
    ]


def test_filter(case: Case) -> None:
    """Devices that the options exclude have no series at all."""
    options = CollectorOptions(disk_devices=Filter(exclude=re.compile(r"(loop|ram|zram|fd)\d+")))
    case.sources.options = options
    case.rows("7:0 loop0", "8:0 sda", "251:0 zram0")
    assert {key[1] for key in case.scrape()} == {"sda"}


def test_same_numbers_on_two_disks(case: Case) -> None:
    """Two rows with one major:minor are two disks: the name is the key."""
    case.rows("8:0 sda", "8:0 sdb")
    assert case.devices() == ["sda", "sdb"]


def test_paths_of_multipath_nvme(case: Case) -> None:
    """The hidden paths of a namespace are no disks; they tell where it is attached."""
    case.device(f"{PCI}/nvme/nvme0", "nvme0c0n1")
    case.device("devices/virtual/nvme-subsystem/nvme-subsys0", "nvme0n1", device__model="Big SSD  ")
    case.device("devices/other", "hid1", hidden="1")
    case.file("sys/bus/pci/devices/0000:c1:00.0/numa_node", "1\n")
    case.rows("259:1 nvme0c0n1", "259:2 nvme0n1", "259:3 hid1")
    assert case.labels("gpuwait_disk_info") == [
        ("nvme0n1", "Big SSD", "nvme", "", "1", "0000:c1:00.0", ""),
    ]


def test_facts(case: Case) -> None:
    """Model, kind, rotation, NUMA node, address, schedulers and queue come from sysfs."""
    case.device(
        f"{PCI}/host0/target0:0:0/0:0:0:0",
        "sda",
        device__model="M" * 200,
        queue__rotational="1",
        queue__scheduler="none [mq-deadline] kyber",
        queue__nr_requests="256",
    )
    case.file("sys/bus/pci/devices/0000:c1:00.0/numa_node", "-1\n")
    case.device("devices/virtual", "dm-0", dm__name="vg-data", queue__scheduler="none")
    case.rows("8:0 sda", "253:0 dm-0")
    assert case.labels("gpuwait_disk_info") == [
        ("sda", "M" * 64, "scsi", "1", "", "0000:c1:00.0", ""),
        ("dm-0", "", "dm", "", "", "", "vg-data"),
    ]
    values = case.scrape()
    assert {key[1:]: value for key, value in values.items() if key[0] == "gpuwait_disk_scheduler"} == {
        ("sda", "none"): 0,
        ("sda", "mq-deadline"): 1,
        ("sda", "kyber"): 0,
        ("dm-0", "none"): 1,
    }
    assert values["gpuwait_disk_queue_requests", "sda"] == 256


def test_facts_are_read_again(case: Case) -> None:
    """Facts are kept while nothing changes, and read again with a new row or after five minutes."""
    case.device("devices/a", "sda", device__model="old")
    case.rows("8:0 sda")
    assert case.labels("gpuwait_disk_info")[0][1] == "old"
    case.file("sys/devices/a/block/sda/device/model", "new\n")
    assert case.labels("gpuwait_disk_info")[0][1] == "old"
    case.now += 300
    assert case.labels("gpuwait_disk_info")[0][1] == "new"
    case.file("sys/devices/a/block/sda/device/model", "newer\n")
    case.rows("8:0 sda", "8:16 sdb")
    assert case.labels("gpuwait_disk_info")[0][1] == "newer"


def test_disk_that_left(case: Case) -> None:
    """A row that is gone leaves no series behind, and a new one appears."""
    case.rows("253:3 dm-3", "7:9 loop9")
    assert case.devices() == ["dm-3", "loop9"]
    case.rows("253:3 dm-3", "8:32 sdc")
    assert case.devices() == ["dm-3", "sdc"]


def test_mounts(case: Case) -> None:
    """A mount belongs to the whole disk of its partition; bind mounts and others' mounts are left out."""
    case.rows("8:0 sda", "8:1 sda1", "8:16 sdb", "253:0 dm-0")
    case.mounts(
        "21 1 0:5 / /proc rw - proc proc rw",
        "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw",
        "23 22 8:1 /var/lib /srv/lib rw - ext4 /dev/sda1 rw",
        "24 22 8:16 / /data\\040set rw - xfs /dev/sdb rw",
        "25 22 0:40 / /nfs rw - nfs4 filer:/x rw",
        "26 22 253:0 /sub /sub rw - ext4 /dev/mapper/vg rw",
        "27 22 253:0 /other /other rw - ext4 /dev/mapper/vg rw",
    )
    assert case.labels("gpuwait_disk_mount_info") == [
        ("sda", "/", "ext4"),
        ("sdb", "/data set", "xfs"),
        ("dm-0", "/sub", "ext4"),
    ]


def test_mounts_with_anonymous_devices(case: Case) -> None:
    """btrfs is found by its source, a plain device or a mapped one; an unknown source names nothing."""
    case.device("devices/virtual", "dm-0", dm__name="vg-data")
    case.rows("8:0 sda", "8:1 sda1", "253:0 dm-0")
    case.mounts(
        "22 1 0:30 /@ / rw - btrfs /dev/sda1 rw",
        "23 1 0:31 / /data rw - btrfs /dev/mapper/vg-data rw",
        "24 1 0:32 / /x rw - btrfs /dev/sdz rw",
        "25 1 0:33 / /tmp rw - tmpfs  rw",
    )
    assert case.labels("gpuwait_disk_mount_info") == [("sda", "/", "btrfs"), ("dm-0", "/data", "btrfs")]


def test_mounts_are_bounded(case: Case) -> None:
    """At most 64 mounts, and 256 characters of a mount point."""
    case.rows("8:0 sda")
    case.mounts(*(f"{30 + i} 1 8:0 / /{i:03}{'x' * 300} rw - ext4 /dev/sda rw" for i in range(100)))
    labels = case.labels("gpuwait_disk_mount_info")
    assert len(labels) == 64
    assert {len(mountpoint) for _, mountpoint, _ in labels} == {256}


def test_numbers_that_cannot_be_true_are_counted(case: Case) -> None:
    """A number of 2^63 or more leaves a sample that the gathering drops and counts."""
    case.file("proc/diskstats", "8 0 sda 1 0 18446744073709551615 3 0 0 0 0 4294967295 0 0\n")
    lost = [family.name for family, _, value in COLLECTOR.collect(case.sources) if value != value]
    assert lost == ["gpuwait_disk_read_bytes_total", "gpuwait_disk_io_now"]


def test_odd_name(case: Case) -> None:
    """A name of a disk is bounded in labels, and has no control characters there."""
    case.rows(f"8:0 sd\x1b[2J{'x' * 10000}")
    (name,) = case.devices()
    assert name.startswith("sd\N{REPLACEMENT CHARACTER}[2Jxxx")
    assert len(name) == 128


def test_mounts_follow_mountinfo(case: Case) -> None:
    """A mount that is gone has no series; a foreign mountinfo costs the mounts only."""
    case.rows("8:0 sda")
    case.mounts("22 1 8:0 / / rw - ext4 /dev/sda rw")
    assert case.labels("gpuwait_disk_mount_info") == [("sda", "/", "ext4")]
    case.mounts("nonsense")
    assert case.labels("gpuwait_disk_mount_info") == []
    case.mounts("22 1 8:0 / / rw - ext4 /dev/sda rw")
    assert case.labels("gpuwait_disk_mount_info") == [("sda", "/", "ext4")]
    (case.root / "proc/1/mountinfo").unlink()
    assert case.labels("gpuwait_disk_mount_info") == []


def test_own_mounts_where_the_hosts_are_hidden(case: Case) -> None:
    """Without process 1 the view of this process is taken."""
    case.rows("8:0 sda")
    case.file("proc/self/mountinfo", "22 1 8:0 / / rw - ext4 /dev/sda rw\n")
    assert case.labels("gpuwait_disk_mount_info") == [("sda", "/", "ext4")]


def test_no_diskstats(case: Case) -> None:
    """A host without the file is a named absence; an empty file is a host without disks."""
    with pytest.raises(NoData) as error:
        case.scrape()
    assert error.value.reason is Reason.ABSENT
    case.file("proc/diskstats", "")
    assert case.scrape() == {}


LINE = "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n"
MOUNT = "22 1 8:0 / / rw - ext4 /dev/sda rw\n"
TEXTS = st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass"))


def mutated(text: str) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda at, more: text.encode()[:at] + more + text.encode()[at:],
        st.integers(0, len(text)),
        st.binary(max_size=8),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(mutated(LINE), TEXTS | mutated(MOUNT))
def test_any_content(case: Case, diskstats: bytes, mountinfo: bytes) -> None:
    """Whatever the files hold, samples are not negative, finite and unique."""
    case.file("proc/diskstats", "")
    case.mounts()
    (case.root / "proc/diskstats").write_bytes(diskstats)
    (case.root / "proc/1/mountinfo").write_bytes(mountinfo)
    assert all(0 <= value < 2**73 for value in case.scrape().values())
