"""Who was given a GPU, held against what lives and who holds it."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from gpuwait.gpu.protocol import GpuReading, MigSlice
from gpuwait.kernel.gpu_claims import Device
from gpuwait.kernel.pod_resources import Grant
from gpuwait.workload.claims import Claims, Given
from gpuwait.workload.job_files import JobFiles
from gpuwait.workload.kubelet import Grants, Kubelet

U = "5a1b2c3d-0000-4111-8222-333344445555"
MIG = "MIG-aaaaaaaa-0000-4111-8222-333344445555"
UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
UID2 = "7e5d1c00-1234-4a3e-9f60-000000000002"
A, B, C = "a1" * 32, "b2" * 32, "c3" * 32
GPU = GpuReading(
    index=2,
    uuid=f"GPU-{U}",
    minor=5,
    pci_address="0000:83:00.0",
    slices=(MigSlice(MIG, 7, 0, None, None),),
)
WHOLE = Device("uuid", f"GPU-{U}")
SLICE = Device("uuid", f"GPU-{U}", shared=True)
NO_JOB: Any = None


class Site:
    """A node, its kubelet's last answer and its prolog's files."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.kubelet = Kubelet(node.host)
        self.jobs = JobFiles(node.host)
        self.claims = Claims(node.tree, self.kubelet, self.jobs, node.clock)

    def pods(self, *grants: Grant) -> None:
        self.kubelet.latest = Grants(grants, self.node.clock())

    def given(self, *holders: tuple[str, str, str, str]) -> Given:
        self.node.look()
        return self.claims.of(GPU, holders)


@pytest.fixture
def site(node: Any) -> Site:
    node.pod(UID, A, C)
    node.log("train-0", "ml", "main", A, UID)
    node.log("train-0", "ml", "side", C)
    return Site(node)


TRAIN = ("pod", "ml", "train-0", "main")


def test_nobody_tells(site: Site) -> None:
    """Without a kubelet and without a prolog it is not known whether a GPU is given."""
    assert site.given() == Given(None, ())
    assert site.claims.age is None


def test_given_and_not_used(site: Site) -> None:
    """A GPU of a pod without a process is given, and to whom is known."""
    site.pods(Grant("ml", "train-0", "main", WHOLE))
    site.node.clock.now += 30
    assert site.given() == Given(True, (TRAIN,))
    assert site.claims.age == 30


def test_given_and_used(site: Site) -> None:
    """The pod whose process holds the GPU is not told twice."""
    site.pods(Grant("ml", "train-0", "main", WHOLE))
    assert site.given(TRAIN) == Given(True, ())


def test_free(site: Site) -> None:
    """A kubelet that gave other GPUs says that this one is free."""
    site.pods(Grant("ml", "train-0", "main", Device("minor", "0")))
    assert site.given() == Given(False, ())


@pytest.mark.parametrize(
    "device",
    [
        WHOLE,
        SLICE,
        Device("uuid", f"GPU-{U.upper()}"),
        Device("mig", MIG),
        Device("minor", "5"),
        Device("index", "2"),
        Device("pci", "0000:83:00.0"),
    ],
)
def test_every_way_to_name_it(site: Site, device: Device) -> None:
    """Uuid, MIG slice, minor number (which is not the index), index and PCI address mean this GPU."""
    site.pods(Grant("ml", "train-0", "main", device))
    assert site.given().allocated is True


@pytest.mark.parametrize("device", [Device("minor", "2"), Device("index", "5"), Device("mig", "MIG-b")])
def test_other_gpus(site: Site, device: Device) -> None:
    """A minor number is no index and an index no minor number."""
    site.pods(Grant("ml", "train-0", "main", device))
    assert site.given() == Given(False, ())


def test_terminal_pod(site: Site) -> None:
    """A pod that the kubelet still lists and that has no cgroup any more is over."""
    site.pods(Grant("ml", "done-0", "main", WHOLE))
    assert site.given() == Given(False, ())


def test_terminal_pod_beside_its_successor(site: Site) -> None:
    """Of a finished pod and the one that has its device now, the living one has it; used or not."""
    site.pods(Grant("ml", "done-0", "main", WHOLE), Grant("ml", "train-0", "main", WHOLE))
    assert site.given() == Given(True, (TRAIN,))
    assert site.given(TRAIN) == Given(True, ())


def test_conflict_of_two_that_live(site: Site) -> None:
    """Two living pods with one whole device: the one whose process holds it is right."""
    site.node.pod(UID2, B)
    site.node.log("other-0", "ml", "main", B, UID2)
    site.pods(Grant("ml", "other-0", "main", WHOLE), Grant("ml", "train-0", "main", WHOLE))
    assert site.given(TRAIN) == Given(True, ())
    assert site.given() == Given(True, (("pod", "ml", "other-0", "main"), TRAIN))


def test_pods_without_names(site: Site) -> None:
    """Where a pod's name is not known, a pod that cannot be found may be that one."""
    site.node.pod(UID2, B)
    site.pods(Grant("ml", "other-0", "main", WHOLE))
    assert site.given() == Given(True, (("pod", "ml", "other-0", "main"),))
    assert site.given(("pod", "", UID2, "b2b2b2b2b2b2")) == Given(True, ())


def test_conflict_with_a_pod_that_cannot_be_found(site: Site) -> None:
    """Of two pods with one whole device, the one that is seen to live has it."""
    site.node.pod(UID2, B)
    site.pods(Grant("ml", "other-0", "main", WHOLE), Grant("ml", "train-0", "main", WHOLE))
    assert site.given() == Given(True, (TRAIN,))


def test_two_living_pods_of_one_name(site: Site) -> None:
    """Of two pods with one name one has its uid: it revives no stale grant; what it holds is told once."""
    site.node.pod(UID2, B)
    site.node.log("train-0", "ml", "main", B, UID2)
    site.node.look()
    (refused,) = {g.labels[2] for g in site.node.tree.groups()} - {"train-0"}
    assert refused in {UID, UID2}
    site.pods(Grant("ml", "done-0", "main", WHOLE))
    assert site.given() == Given(False, ())
    site.pods(Grant("ml", "train-0", "main", WHOLE))
    assert site.given(("pod", "ml", refused, "main")) == Given(True, ())


def test_pods_of_one_resource_claim(site: Site) -> None:
    """Two pods may share a claim of a whole GPU: the one that idles has it too. Two claims are a conflict."""
    site.node.pod(UID2, B)
    site.node.log("other-0", "ml", "main", B, UID2)
    both = (
        Grant("ml", "other-0", "main", WHOLE, claim="ml/shared"),
        Grant("ml", "train-0", "main", WHOLE, claim="ml/shared"),
    )
    site.pods(*both)
    assert site.given(TRAIN) == Given(True, (("pod", "ml", "other-0", "main"),))
    site.pods(both[0], Grant("ml", "train-0", "main", WHOLE, claim="ml/another"))
    assert site.given(TRAIN) == Given(True, ())


def test_long_names(site: Site) -> None:
    """Two pods whose names differ in the last of 253 letters are two."""
    long = "p" * 252
    site.pods(Grant("ml", f"{long}a", "main", SLICE), Grant("ml", f"{long}b", "main", SLICE))
    site.node.pod(UID2, B)
    assert [labels[2] for labels in site.given().others] == [f"{long}a", f"{long}b"]


def test_time_slices(site: Site) -> None:
    """Those who share a GPU all have it, whoever runs."""
    site.node.pod(UID2, B)
    site.node.log("other-0", "ml", "main", B, UID2)
    site.pods(Grant("ml", "other-0", "main", SLICE), Grant("ml", "train-0", "main", SLICE))
    assert site.given(TRAIN) == Given(True, (("pod", "ml", "other-0", "main"),))


def test_two_containers_of_a_pod(site: Site) -> None:
    """Two containers may share a GPU; the one without a process is told beside the other."""
    site.pods(Grant("ml", "train-0", "main", SLICE), Grant("ml", "train-0", "side", SLICE))
    assert site.given(TRAIN) == Given(True, (("pod", "ml", "train-0", "side"),))
    assert site.given(TRAIN, ("pod", "ml", "train-0", "side")) == Given(True, ())


def test_a_container_without_its_name(site: Site) -> None:
    """A holder that is known by its id is the container that the GPU was given to."""
    shutil.rmtree(site.node.root / "root/var/log/containers")
    site.pods(Grant("ml", "train-0", "main", WHOLE))
    assert site.given(("pod", "ml", "train-0", "a1a1a1a1a1a1")) == Given(True, ())


def test_a_process_that_nobody_gave_it_to(site: Site) -> None:
    """A monitoring agent that opens every GPU takes none from the pod that it was given to."""
    site.pods(Grant("ml", "train-0", "main", WHOLE))
    assert site.given(("service", "", "dcgm.service", "")) == Given(True, (TRAIN,))


def test_job_in_a_pod(site: Site) -> None:
    """A Slurm job in the pod that was given the GPU: the job holds it, the pod is not told beside it."""
    top = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{A}.scope"
    site.node.group(f"{top}/system.slice/slurmstepd.scope/job_77/step_0")
    site.pods(Grant("ml", "train-0", "main", WHOLE))
    assert site.given(("slurm", "", "77", "0")) == Given(True, ())


def test_slurm_job(site: Site) -> None:
    """A job that lives and runs nothing on its GPU is told; its step that does is told once."""
    site.node.group("system.slice/slurmstepd.scope/job_4711/step_0")
    site.jobs.given = ((Device("index", "2"), ("4711",)),)
    assert site.given() == Given(True, (("slurm", "", "4711", ""),))
    assert site.given(("slurm", "", "4711", "0")) == Given(True, ())


def test_job_that_is_over(site: Site) -> None:
    """A file that an epilog left behind gives the GPU to nobody."""
    site.node.group("system.slice/slurmstepd.scope")
    site.jobs.given = ((Device("index", "2"), ("4710",)),)
    assert site.given() == Given(False, ())


def test_slurm_without_cgroups(site: Site) -> None:
    """Where Slurm makes no cgroups, the prolog's word is all there is."""
    site.jobs.given = ((Device("index", "2"), ("4711", "4712")),)
    assert site.given() == Given(True, (("slurm", "", "4711", ""), ("slurm", "", "4712", "")))


def test_jobs_by_sluid(site: Site) -> None:
    """Slurm 26.05 names cgroups by SLUID: any such job may be the one that the prolog gives a number."""
    site.node.group("system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0")
    site.jobs.given = ((Device("index", "2"), ("742",)),)
    assert site.given() == Given(True, (("slurm", "", "742", ""),))
    assert site.given(("slurm", "", "sEKNKTV3WPV500", "0")) == Given(True, ())


def test_no_job_by_sluid_lives(site: Site) -> None:
    """Without any job, and with jobs that are known by their numbers, a left file gives nothing."""
    site.node.group("system.slice/slurmstepd.scope/system")
    site.jobs.given = ((Device("index", "2"), ("742",)),)
    assert site.given() == Given(False, ())
    site.node.group("system.slice/slurmstepd.scope/job_750/step_0")
    assert site.given() == Given(False, ())


def test_a_prolog_that_writes_sluids(site: Site) -> None:
    """Where the prolog writes them too, each job is itself: the other one is over, and holds nothing."""
    site.node.group("system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0")
    site.jobs.given = ((Device("index", "2"), ("sEKNKTV3WPV500", "742", "s5K1KKYAYG5D00")),)
    assert site.given() == Given(True, (("slurm", "", "sEKNKTV3WPV500", ""),))
    assert site.given(("slurm", "", "sEKNKTV3WPV500", "0")) == Given(True, ())


def test_element_of_a_job_array(site: Site) -> None:
    """`4711_3` has a cgroup by another number: a job that no file names may be it."""
    site.node.group("system.slice/slurmstepd.scope/job_4720/step_0")
    site.jobs.given = ((Device("index", "2"), ("4711_3",)),)
    assert site.given() == Given(True, (("slurm", "", "4711_3", ""),))
    assert site.given(("slurm", "", "4720", "0")) == Given(True, ())


def test_element_of_a_job_array_that_is_over(site: Site) -> None:
    """It is over where no job lives, or only such as other files name by their numbers."""
    site.node.group("system.slice/slurmstepd.scope")
    site.jobs.given = ((Device("index", "2"), ("4711_3",)), (Device("index", "0"), ("4720",)))
    assert site.given() == Given(False, ())
    site.node.group("system.slice/slurmstepd.scope/job_4720/step_0")
    assert site.given() == Given(False, ())


def test_hostile_names(site: Site) -> None:
    """What the kubelet says is bounded and printable."""
    site.node.pod(UID2, B)
    site.pods(Grant("n\n", "p" * 1000, '"}\x1b', WHOLE))
    ((_, namespace, workload, container),) = site.given().others
    assert (namespace.isprintable(), len(workload), container.isprintable()) == (True, 253, True)


def test_unreadable_hierarchy(site: Site) -> None:
    """Without any cgroup hierarchy both sources are believed."""
    shutil.rmtree(site.node.root / "sys")
    site.pods(Grant("ml", "gone-0", "main", WHOLE))
    site.node.clock.now += 60
    assert site.claims.of(GPU, ()).allocated is True
