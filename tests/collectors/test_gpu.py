"""GPU families from snapshots, and the GPUs on the bus."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.collector import NoData, Reason
from gpuwait.collectors.gpu import COLLECTOR
from gpuwait.gpu.protocol import GpuReading, MigSlice, Process
from gpuwait.gpu.state import Latest, State
from gpuwait.gpu.totals import Snapshot
from gpuwait.host import Host
from gpuwait.sources import Sources
from gpuwait.workload.claims import Given
from gpuwait.workload.identity import Owner

Values = dict[tuple[str, tuple[str, ...]], int | float]
POD = Owner(kind="pod", namespace="ml", workload="train-0", container="main")


class Client:
    """A reader that knows this."""

    def __init__(self, latest: Latest) -> None:
        self.waits: list[float] = []
        self._latest = latest

    def wait_first(self, timeout: float) -> None:
        self.waits.append(timeout)

    def latest(self) -> Latest:
        return self._latest


class Workloads:
    """Owners of processes."""

    def __init__(self, owners: dict[int, Owner]) -> None:
        self._owners = owners

    def holder_of_pid(self, pid: int) -> Owner | None:
        return self._owners.get(pid)


def scrape(
    latest: Latest | None = None, host: Host | None = None, owners: dict[int, Owner] | None = None
) -> tuple[Values, Reason | None]:
    """Values by (name, label values), and why the source is not available."""
    sources = Sources(host=host or Host(sysfs="/nonexistent"))
    made: Any = sources
    made.gpu = None if latest is None else Client(latest)
    made.workloads = None if owners is None else Workloads(owners)
    values: Values = {}
    try:
        for family, labels, value in COLLECTOR.collect(sources):
            assert len(labels) == len(family.labels), family.name
            assert family in COLLECTOR.families
            assert (family.name, labels) not in values
            values[family.name, labels] = value
    except NoData as absence:
        return values, absence.reason
    return values, None


def ok(*devices: GpuReading, **more: Any) -> Latest:
    """A reader that works and has these devices."""
    facts: dict[str, Any] = {"count": len(devices), "xids": {}, "errors": {}, **more}
    return Latest(State.OK, Snapshot(taken_at=1.0, driver="570.86.15", devices=devices, **facts), age=0.5)


def of(values: Values, name: str) -> dict[tuple[str, ...], int | float]:
    """The series of one family."""
    return {labels: value for (found, labels), value in values.items() if found == name}


def test_plain_values() -> None:
    """Each value under its name, labelled with index and uuid."""
    gpu = GpuReading(
        index=3,
        up=True,
        uuid="GPU-a",
        utilization_ratio=0.41,
        busy_seconds=12.5,
        observed_seconds=20.0,
        memory_used_bytes=400,
        memory_total_bytes=1000,
        power_watts=187.3,
        power_limit_watts=400.0,
        energy_joules=901223445.566,
        temperature_celsius=55,
        pcie_generation=4,
        pcie_width=8,
        pcie_max_generation=5,
        pcie_max_width=16,
        pcie_replays=3,
        persistence=True,
        mig=False,
    )
    values, reason = scrape(ok(gpu))
    assert reason is None
    labels = ("3", "GPU-a")
    expected = {
        "up": 1,
        "utilization_ratio": 0.41,
        "busy_seconds_total": 12.5,
        "observed_seconds_total": 20.0,
        "memory_used_bytes": 400,
        "memory_total_bytes": 1000,
        "power_watts": 187.3,
        "power_limit_watts": 400.0,
        "energy_joules_total": 901223445.566,
        "temperature_celsius": 55,
        "pcie_link_generation": 4,
        "pcie_link_width": 8,
        "pcie_link_max_generation": 5,
        "pcie_link_max_width": 16,
        "pcie_replays_total": 3,
        "persistence_mode": 1,
        "mig_mode": 0,
    }
    for name, value in expected.items():
        assert values[f"gpuwait_gpu_{name}", labels] == value
    assert not any(type(value) is bool for value in values.values())
    assert values["gpuwait_gpu_devices", ()] == 1


def test_unknown_is_no_series() -> None:
    """A GPU that offers nothing has its health and its facts, nothing else."""
    values, _ = scrape(ok(GpuReading(index=0, up=True, uuid="A")))
    assert {name for name, labels in values if labels[:1] == ("0",)} == {"gpuwait_gpu_up", "gpuwait_gpu_info"}


def test_reader_state() -> None:
    """A reader that works is up, not stuck, and tells its restarts."""
    latest = ok()
    values, reason = scrape(Latest(State.OK, latest.snapshot, 0.1, restarts=2))
    assert reason is None
    assert values["gpuwait_gpu_reader_up", ()] == 1
    assert values["gpuwait_gpu_reader_stuck_seconds", ()] == 0
    assert values["gpuwait_gpu_reader_restarts_total", ()] == 2


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State.STARTING, Reason.STARTING),
        (State.NO_LIBRARY, Reason.NO_LIBRARY),
        (State.NO_DRIVER, Reason.NO_DRIVER),
        (State.STUCK, Reason.READER_STUCK),
    ],
)
def test_no_readings(state: State, reason: Reason) -> None:
    """Without readings there is no series of a GPU, but those of the reader, and the reason."""
    stuck = 7.5 if state is State.STUCK else 0.0
    values, found = scrape(Latest(state, stuck_seconds=stuck, detail="why"))
    assert found is reason
    assert values == {
        ("gpuwait_gpu_reader_up", ()): 0,
        ("gpuwait_gpu_reader_stuck_seconds", ()): stuck,
        ("gpuwait_gpu_reader_restarts_total", ()): 0,
    }


def test_a_reader_that_keeps_failing_is_a_fault() -> None:
    """A reader that crashes is no missing source."""
    with pytest.raises(OSError, match="signal 11"):
        scrape(Latest(State.RESTARTING, detail="signal 11"))


def test_young_readings_outlive_their_reader() -> None:
    """While a reader is replaced, what is a second old is still true."""
    latest = ok(GpuReading(index=0, up=True, uuid="A", temperature_celsius=50))
    values, reason = scrape(Latest(State.RESTARTING, latest.snapshot, 1.0, restarts=1))
    assert reason is None
    assert values["gpuwait_gpu_reader_up", ()] == 0
    assert values["gpuwait_gpu_temperature_celsius", ("0", "A")] == 50


def test_lost_gpu() -> None:
    """A lost GPU has nothing but its health; one that is not ours has not even that."""
    devices = (
        GpuReading(index=0, up=True, uuid="A", temperature_celsius=50),
        GpuReading(index=1, up=False, uuid="B", temperature_celsius=50),
        GpuReading(index=2, up=False),
        GpuReading(index=3, up=None),
    )
    values, reason = scrape(ok(*devices))
    assert reason is None
    assert values["gpuwait_gpu_devices", ()] == 4
    assert of(values, "gpuwait_gpu_up") == {("0", "A"): 1, ("1", "B"): 0, ("2", ""): 0}
    assert of(values, "gpuwait_gpu_temperature_celsius") == {("0", "A"): 50}
    assert list(of(values, "gpuwait_gpu_info")) == [("0", "A", "nvidia", "", "570.86.15", "", "")]


def test_clocks() -> None:
    """Clocks by kind; each reason that can limit them is 0 or 1."""
    gpu = GpuReading(
        index=0,
        up=True,
        uuid="A",
        clocks=(("sm", 1_410_000_000),),
        clocks_max=(("sm", 1_980_000_000), ("memory", 2_619_000_000)),
        clock_limits=0x44,
    )
    values, _ = scrape(ok(gpu))
    assert of(values, "gpuwait_gpu_clock_hertz") == {("0", "A", "sm"): 1_410_000_000}
    assert of(values, "gpuwait_gpu_clock_max_hertz")["0", "A", "memory"] == 2_619_000_000
    limited = {labels[2]: value for labels, value in of(values, "gpuwait_gpu_clocks_limited").items()}
    assert limited == {
        "idle": 0,
        "application_clocks": 0,
        "software_power_cap": 1,
        "hardware_slowdown": 0,
        "sync_boost": 0,
        "software_thermal": 0,
        "hardware_thermal": 1,
        "power_brake": 0,
        "display": 0,
    }


def test_errors() -> None:
    """ECC by kind, XID by code, failed calls by error; only what occurred."""
    gpu = GpuReading(index=1, up=True, uuid="B", ecc_corrected=2, ecc_uncorrected=0)
    values, _ = scrape(ok(gpu, xids={("B", 79): 1, ("gone", 31): 2}, errors={(1, "B", "timeout"): 4}))
    assert of(values, "gpuwait_gpu_ecc_errors_total") == {
        ("1", "B", "corrected"): 2,
        ("1", "B", "uncorrected"): 0,
    }
    assert of(values, "gpuwait_gpu_xid_errors_total") == {("1", "B", "79"): 1, ("", "gone", "31"): 2}
    assert of(values, "gpuwait_gpu_read_errors_total") == {("1", "B", "timeout"): 4}


def test_mig() -> None:
    """Slices have their own memory and are not added to the GPU, which has no utilisation."""
    parts = (MigSlice("MIG-1", 1, 0, 100, 500), MigSlice("MIG-2", None, None, None, 500))
    gpu = GpuReading(index=0, up=True, uuid="A", mig=True, memory_used_bytes=300, slices=parts)
    values, _ = scrape(ok(gpu))
    assert of(values, "gpuwait_gpu_memory_used_bytes") == {("0", "A"): 300}
    assert of(values, "gpuwait_gpu_utilization_ratio") == {}
    assert of(values, "gpuwait_gpu_mig_memory_used_bytes") == {("0", "A", "MIG-1", "1", "0"): 100}
    assert of(values, "gpuwait_gpu_mig_memory_total_bytes") == {
        ("0", "A", "MIG-1", "1", "0"): 500,
        ("0", "A", "MIG-2", "", ""): 500,
    }


def test_workloads() -> None:
    """Processes of one workload are summed; one without an owner is only counted."""
    service = Owner(kind="service", workload="sshd.service")
    processes = (Process(1, 10), Process(2, 20), Process(3, 40), Process(4, 80), Process(0, 1))
    gpu = GpuReading(index=0, up=True, uuid="A", processes=processes)
    values, _ = scrape(ok(gpu), owners={1: POD, 2: POD, 3: service, 0: service})
    assert of(values, "gpuwait_gpu_processes") == {("0", "A"): 5}
    pod, other = ("0", "A", "pod", "ml", "train-0", "main"), ("0", "A", "service", "", "sshd.service", "")
    assert of(values, "gpuwait_gpu_workload_info") == {pod: 1, other: 1}
    assert of(values, "gpuwait_gpu_workload_memory_bytes") == {pod: 30, other: 40}


def test_memory_that_is_not_available() -> None:
    """A workload with one process whose memory is unknown has no sum, but holds the GPU."""
    gpu = GpuReading(index=0, up=True, uuid="A", processes=(Process(1, 10), Process(2, None), Process(1, 5)))
    values, _ = scrape(ok(gpu), owners={1: POD, 2: POD})
    assert list(of(values, "gpuwait_gpu_workload_info")) == [("0", "A", "pod", "ml", "train-0", "main")]
    assert of(values, "gpuwait_gpu_workload_memory_bytes") == {}


def test_processes_unknown() -> None:
    """Where the driver gives no list there is no count, not 0; an empty list is 0."""
    devices = GpuReading(index=0, up=True, uuid="A"), GpuReading(index=1, up=True, uuid="B", processes=())
    values, _ = scrape(ok(*devices), owners={})
    assert of(values, "gpuwait_gpu_processes") == {("1", "B"): 0}


def test_the_bus(tmp_path: Path) -> None:
    """GPUs on the bus are counted without a reader; a GPU's NUMA node comes from the bus."""
    device = tmp_path / "bus/pci/devices/0000:18:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", "1")):
        (device / name).write_text(text + "\n")
    host = Host(sysfs=str(tmp_path))
    values, reason = scrape(host=host)
    assert values == {("gpuwait_gpu_pci_devices", ("nvidia",)): 1}
    assert reason is Reason.ABSENT
    values, _ = scrape(
        ok(GpuReading(index=0, up=True, uuid="A", name="H100", pci_address="0000:18:00.0")), host
    )
    facts = ("0", "A", "nvidia", "H100", "570.86.15", "0000:18:00.0", "1")
    assert of(values, "gpuwait_gpu_info") == {facts: 1}


READING = st.builds(
    GpuReading,
    index=st.integers(0, 7),
    up=st.sampled_from([True, False, None]),
    uuid=st.sampled_from(["", "A", "B"]),
    utilization_ratio=st.none() | st.floats(0, 1),
    clock_limits=st.none() | st.integers(0, 2**63 - 1),
    slices=st.lists(
        st.builds(MigSlice, st.sampled_from("MN"), *[st.none() | st.integers(0, 9)] * 4), max_size=2
    ).map(lambda parts: tuple({part.uuid: part for part in parts}.values())),
    processes=st.none()
    | st.lists(st.builds(Process, st.integers(0, 4), st.none() | st.integers(0, 99))).map(tuple),
)


@given(st.lists(READING, max_size=4, unique_by=lambda gpu: gpu.index))
def test_any_snapshot(devices: list[GpuReading]) -> None:
    """Whatever the GPUs are: no series twice, no negative value, no NaN."""
    values, reason = scrape(ok(*devices), owners={1: POD, 2: POD, 3: Owner(kind="other")})
    assert reason is None
    assert all(value >= 0 for value in values.values())


def test_names() -> None:
    """Names are unique, carry the prefix, and counters end in `_total`."""
    names = Counter(family.name for family in COLLECTOR.families)
    assert max(names.values()) == 1
    for family in COLLECTOR.families:
        assert family.name.startswith("gpuwait_gpu_")
        assert (family.kind == "counter") == family.name.endswith("_total")


class Claims:
    """Who was given which GPU, by index."""

    age: float | None = 7.5

    def __init__(self, given: dict[int, Given]) -> None:
        self._given = given
        self.asked: dict[int, tuple[tuple[str, ...], ...]] = {}

    def of(self, gpu: GpuReading, holders: tuple[tuple[str, ...], ...]) -> Given:
        self.asked[gpu.index] = holders
        return self._given.get(gpu.index, Given())


def test_given_gpus() -> None:
    """A GPU that was given and is not used has its owner; whether it is given is a series of its own."""
    sources = Sources(host=Host(sysfs="/nonexistent"))
    made: Any = sources
    made.gpu = Client(
        ok(
            GpuReading(index=0, up=True, uuid="GPU-a", processes=(Process(1, 5),)),
            GpuReading(index=1, up=True, uuid="GPU-b", processes=()),
            GpuReading(index=2, up=True, uuid="GPU-c"),
            GpuReading(index=3, up=True, uuid="GPU-d", processes=()),
        )
    )
    made.workloads = Workloads({1: POD})
    given = ("pod", "ml", "idle-0", "main")
    made.claims = claims = Claims(
        {0: Given(True), 1: Given(True, (given,)), 2: Given(True, (given,)), 3: Given(False)}
    )
    values = {(family.name, labels): value for family, labels, value in COLLECTOR.collect(sources)}
    assert of(values, "gpuwait_gpu_workload_info") == {
        ("0", "GPU-a", "pod", "ml", "train-0", "main"): 1,
        ("1", "GPU-b", *given): 1,
        ("2", "GPU-c", *given): 1,
    }
    assert of(values, "gpuwait_gpu_allocated") == {
        ("0", "GPU-a"): 1,
        ("1", "GPU-b"): 1,
        ("2", "GPU-c"): 1,
        ("3", "GPU-d"): 0,
    }
    assert of(values, "gpuwait_gpu_allocation_age_seconds") == {(): 7.5}
    assert claims.asked == {0: (POD.labels,), 1: (), 2: (), 3: ()}


def test_nobody_tells_who_was_given_what() -> None:
    """Without a kubelet and without a prolog there is no series, rather than a 0."""
    sources = Sources(host=Host(sysfs="/nonexistent"))
    made: Any = sources
    made.gpu = Client(ok(GpuReading(index=0, up=True, uuid="GPU-a", processes=())))
    made.workloads, made.claims = Workloads({}), Claims({})
    made.claims.age = None
    values = {(family.name, labels): value for family, labels, value in COLLECTOR.collect(sources)}
    assert of(values, "gpuwait_gpu_allocated") == {}
    assert of(values, "gpuwait_gpu_allocation_age_seconds") == {}
