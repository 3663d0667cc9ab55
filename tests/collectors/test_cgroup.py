"""Samples of workloads' cgroups."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwait.collector import NoData, Reason
from gpuwait.collectors import cgroup
from gpuwait.collectors.cgroup import COLLECTOR
from gpuwait.host import Host, read_text
from gpuwait.sources import Sources
from gpuwait.workload.tree import WorkloadTree

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"
ID = "abcdef012345" + "6" * 52
SHORT = "abcdef012345"
V2 = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope"
V1 = f"kubepods/burstable/pod{UID}/{ID}"

Values = dict[tuple[str, ...], float]


class Case:
    """A host under construction and what the collector says about it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        host = Host(procfs=f"{root}/proc", sysfs=f"{root}/sys")
        self.sources = Sources(host, workloads=WorkloadTree(host, lambda: 1.0))

    def file(self, path: str, text: str) -> Path:
        full = self.root / "sys/fs/cgroup" / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        return full

    def scrape(self) -> Values:
        samples = list(COLLECTOR.collect(self.sources))
        assert all(family in COLLECTOR.families for family, _, _ in samples)
        assert all(len(labels) == len(family.labels) for family, labels, _ in samples)
        values = {(family.name, *labels): value for family, labels, value in samples}
        assert len(values) == len(samples)
        return values


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def of(values: Values, *labels: str) -> dict[str, float]:
    """Short metric name to value, for one set of labels."""
    return {key[0].removeprefix("gpuwait_"): value for key, value in values.items() if key[1:] == labels}


def test_v2_container(case: Case) -> None:
    """A v2 group gives seconds, quota, memory, events and pressure in base units."""
    case.file("cgroup.controllers", "cpu memory io\n")
    case.file(
        f"{V2}/cpu.stat",
        "usage_usec 73901442118\nuser_usec 61211000004\nsystem_usec 12690442114\nnice_usec 0\n"
        "nr_periods 600\nnr_throttled 80\nthrottled_usec 13500000\nnr_bursts 4\nburst_usec 9\n",
    )
    case.file(f"{V2}/cpu.max", "250000 100000\n")
    case.file(f"{V2}/memory.current", "1048576\n")
    case.file(f"{V2}/memory.max", "2097152\n")
    case.file(f"{V2}/memory.events", "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n")
    for resource, some in (("cpu", 1), ("memory", 2), ("io", 3)):
        case.file(
            f"{V2}/{resource}.pressure",
            f"some avg10=9.00 avg60=0.00 avg300=0.00 total={some}500000\n"
            f"full avg10=9.00 avg60=0.00 avg300=0.00 total={some}250000\n",
        )
    values = case.scrape()
    labels = ("pod", "", UID, SHORT)
    assert of(values, *labels) == {
        "cgroup_cpu_usage_seconds_total": 73901.442118,
        "cgroup_cpu_user_seconds_total": 61211.000004,
        "cgroup_cpu_system_seconds_total": 12690.442114,
        "cgroup_cpu_periods_total": 600,
        "cgroup_cpu_throttled_periods_total": 80,
        "cgroup_cpu_throttled_seconds_total": 13.5,
        "cgroup_cpu_quota_cores": 2.5,
        "cgroup_memory_usage_bytes": 1048576,
        "cgroup_memory_limit_bytes": 2097152,
        "cgroup_memory_max_events_total": 3,
        "cgroup_memory_oom_events_total": 4,
        "cgroup_memory_oom_kills_total": 5,
    }
    pressures = {
        "cpu": {"cgroup_pressure_some_seconds_total": 1.5, "cgroup_pressure_full_seconds_total": 1.25},
        "memory": {"cgroup_pressure_some_seconds_total": 2.5, "cgroup_pressure_full_seconds_total": 2.25},
        "io": {"cgroup_pressure_some_seconds_total": 3.5, "cgroup_pressure_full_seconds_total": 3.25},
    }
    for resource, seconds in pressures.items():
        assert of(values, *labels, resource) == seconds
    assert of(values, *labels, UID, ID, "guaranteed", "false") == {"workload_info": 1}


def test_v1_container(case: Case) -> None:
    """A v1 group gives the same series from nanoseconds, ticks and v1 names."""
    case.file(f"cpuacct,cpu/{V1}/cpuacct.usage", "88201177445120\n")
    case.file(f"cpuacct,cpu/{V1}/cpuacct.stat", "user 7001223\nsystem 1818894\n")
    case.file(f"cpuacct,cpu/{V1}/cpu.stat", "nr_periods 70\nnr_throttled 20\nthrottled_time 1279188770012\n")
    case.file(f"cpuacct,cpu/{V1}/cpu.cfs_quota_us", "400000\n")
    case.file(f"cpuacct,cpu/{V1}/cpu.cfs_period_us", "100000\n")
    case.file(f"memory/{V1}/memory.usage_in_bytes", "524288\n")
    case.file(f"memory/{V1}/memory.limit_in_bytes", "1048576\n")
    case.file(f"memory/{V1}/memory.failcnt", "12\n")
    case.file(f"memory/{V1}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert of(case.scrape(), "pod", "", UID, SHORT) == {
        "cgroup_cpu_usage_seconds_total": 88201.17744512,
        "cgroup_cpu_user_seconds_total": 70012.23,
        "cgroup_cpu_system_seconds_total": 18188.94,
        "cgroup_cpu_periods_total": 70,
        "cgroup_cpu_throttled_periods_total": 20,
        "cgroup_cpu_throttled_seconds_total": 1279.188770012,
        "cgroup_cpu_quota_cores": 4.0,
        "cgroup_memory_usage_bytes": 524288,
        "cgroup_memory_limit_bytes": 1048576,
        "cgroup_memory_max_events_total": 12,
        "cgroup_memory_oom_kills_total": 2,
    }


def test_service_without_cpu_controller(case: Case) -> None:
    """CPU time is always there; throttling is absent where the group has no cpu controller."""
    case.file("cgroup.controllers", "memory pids\n")
    case.file("system.slice/a.service/cpu.stat", "usage_usec 90211877\nuser_usec 1\nsystem_usec 2\n")
    assert of(case.scrape(), "service", "", "a.service", "") == {
        "cgroup_cpu_usage_seconds_total": 90.211877,
        "cgroup_cpu_user_seconds_total": 0.000001,
        "cgroup_cpu_system_seconds_total": 0.000002,
    }


def test_no_limits(case: Case) -> None:
    """Neither version's "no limit" is exported, and the rest of the group stays."""
    case.file(f"memory/{V1}/memory.usage_in_bytes", "7\n")
    case.file(f"memory/{V1}/memory.limit_in_bytes", "9223372036854771712\n")
    case.file(f"cpu/{V1}/cpu.cfs_quota_us", "-1\n")
    case.file(f"cpu/{V1}/cpu.cfs_period_us", "100000\n")
    assert of(case.scrape(), "pod", "", UID, SHORT) == {"cgroup_memory_usage_bytes": 7}


def test_job_figures_come_from_the_job(case: Case) -> None:
    """The job has its own directory's figure, its steps theirs; tasks have no series."""
    for path, usage in (
        ("job_9", "31000000000"),
        ("job_9/step_batch", "30000000000"),
        ("job_9/step_batch/task_0", "29000000000"),
    ):
        case.file(f"cpu,cpuacct/slurm/uid_5/{path}/cpuacct.usage", usage + "\n")
    values = case.scrape()
    assert {key: value for key, value in values.items() if "info" not in key[0]} == {
        ("gpuwait_cgroup_cpu_usage_seconds_total", "slurm", "", "9", ""): 31.0,
        ("gpuwait_cgroup_cpu_usage_seconds_total", "slurm", "", "9", "batch"): 30.0,
        ("gpuwait_cgroup_slurm_jobs_without_id",): 0,
    }


def test_job_without_cpuacct(case: Case) -> None:
    """A job that exists below memory alone has memory figures and no CPU time."""
    case.file("cpu,cpuacct/cpuacct.usage", "99\n")
    case.file("memory/slurm/uid_5/job_9/memory.usage_in_bytes", "5\n")
    case.file("memory/slurm/uid_5/job_9/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n")
    assert of(case.scrape(), "slurm", "", "9", "") == {"cgroup_memory_usage_bytes": 5}


def test_hybrid(case: Case) -> None:
    """On a hybrid host CPU and memory come from v1 and pressure from v2."""
    case.file(f"cpu/docker/{ID}/cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n")
    case.file(f"cpuacct/docker/{ID}/cpuacct.usage", "1000000000\n")
    case.file("unified/cgroup.controllers", "\n")
    case.file(f"unified/docker/{ID}/cpu.stat", "usage_usec 7\nnr_periods 99\nthrottled_usec 99\n")
    case.file(f"unified/docker/{ID}/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n")
    values = case.scrape()
    assert of(values, "container", "", SHORT, SHORT) == {
        "cgroup_cpu_usage_seconds_total": 1.0,
        "cgroup_cpu_periods_total": 1,
        "cgroup_cpu_throttled_periods_total": 0,
        "cgroup_cpu_throttled_seconds_total": 0.0,
    }
    assert of(values, "container", "", SHORT, SHORT, "io") == {"cgroup_pressure_some_seconds_total": 2.0}


def test_group_that_ends_between_walk_and_read(case: Case) -> None:
    """A group without any file left has no series at all."""
    case.file("cgroup.controllers", "cpu\n")
    case.file("system.slice/a.service/memory.current", "1\n").unlink()
    case.file("system.slice/b.service/memory.current", "2\n")
    assert case.scrape() == {
        ("gpuwait_cgroup_memory_usage_bytes", "service", "", "b.service", ""): 2,
        ("gpuwait_workload_info", "service", "", "b.service", "", "", "", "", "false"): 1,
    }


def test_replaced_container_is_seen_at_once(case: Case) -> None:
    """A container that was replaced since the last scrape is gone, its successor is there."""
    case.file("cgroup.controllers", "cpu\n")
    first = case.file(f"docker/{ID}/memory.current", "1\n")
    assert of(case.scrape(), "container", "", SHORT, SHORT) == {"cgroup_memory_usage_bytes": 1}
    first.unlink()
    first.parent.rmdir()
    case.file(f"docker/{'b' * 64}/memory.current", "2\n")
    assert {key[4] for key in case.scrape()} == {"bbbbbbbbbbbb"}


def test_one_bad_file_costs_that_file(case: Case) -> None:
    """Nonsense in one file, or one that cannot be read, leaves the others."""
    case.file("cgroup.controllers", "cpu\n")
    case.file(f"docker/{ID}/cpu.stat", "nonsense\n")
    case.file(f"docker/{ID}/memory.current", "1\n")
    os.mkdir(f"{case.root}/sys/fs/cgroup/docker/{ID}/memory.max")
    case.file(f"docker/{ID}/cpu.pressure", "")
    assert of(case.scrape(), "container", "", SHORT, SHORT) == {"cgroup_memory_usage_bytes": 1}


def test_pods_come_before_services(case: Case) -> None:
    """What a budget cuts is the services' series, not the pods'."""
    case.file("cgroup.controllers", "cpu\n")
    case.file("system.slice/a.service/memory.current", "1\n")
    case.file(f"{V2}/memory.current", "1\n")
    kinds = [labels[0] for _, labels, _ in COLLECTOR.collect(case.sources)]
    assert kinds == ["pod", "pod", "service", "service"]


def test_jobs_without_an_id(case: Case) -> None:
    """Slurm 26.05 names cgroups by SLUID: such jobs are counted once; without Slurm there is no count."""
    top = "system.slice/slurmstepd.scope"
    case.file(f"{top}/s5K1KKYAYG5D00/step_0/cpu.stat", "usage_usec 5\n")
    case.file(f"{top}/s5K1KKYAYG5D00/cpu.stat", "usage_usec 5\n")
    case.file(f"{top}/job_77/cpu.stat", "usage_usec 5\n")
    assert case.scrape()["gpuwait_cgroup_slurm_jobs_without_id",] == 1
    shutil.rmtree(case.root / "sys/fs/cgroup/system.slice")
    case.file("system.slice/sshd.service/cpu.stat", "usage_usec 5\n")
    assert ("gpuwait_cgroup_slurm_jobs_without_id",) not in case.scrape()


def test_job_under_two_slurmd(case: Case) -> None:
    """One job in two groups is their sum; pressure the longer time; a limit only where both have one."""
    case.file("cgroup.controllers", "cpu\n")
    for name, usage, limit in (("", "3000000", "7\n"), ("n2_", "4000000", "max\n")):
        path = f"system.slice/{name}slurmstepd.scope/job_77"
        case.file(f"{path}/cpu.stat", f"usage_usec {usage}\n")
        case.file(f"{path}/cpu.max", "200000 100000\n")
        case.file(f"{path}/memory.current", "5\n")
        case.file(f"{path}/memory.max", limit)
        case.file(f"{path}/io.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={usage}\n")
    values = case.scrape()
    assert of(values, "slurm", "", "77", "") == {
        "cgroup_cpu_usage_seconds_total": 7.0,
        "cgroup_cpu_quota_cores": 4.0,
        "cgroup_memory_usage_bytes": 10,
    }
    assert of(values, "slurm", "", "77", "", "io") == {"cgroup_pressure_some_seconds_total": 4.0}


def test_one_part_of_a_job_ends(case: Case) -> None:
    """The counters of a job do not fall when one of its groups ends; its memory does."""
    case.file("cgroup.controllers", "cpu\n")
    for name in ("", "n2_"):
        path = f"system.slice/{name}slurmstepd.scope/job_77"
        case.file(f"{path}/cpu.stat", "usage_usec 3000000\n")
        case.file(f"{path}/memory.current", "5\n")
        case.file(f"{path}/memory.max", "9\n")
    case.scrape()
    shutil.rmtree(case.root / "sys/fs/cgroup/system.slice/n2_slurmstepd.scope/job_77")
    case.file("system.slice/slurmstepd.scope/job_77/cpu.stat", "usage_usec 3500000\n")
    for _ in range(2):
        assert of(case.scrape(), "slurm", "", "77", "") == {
            "cgroup_cpu_usage_seconds_total": 6.5,
            "cgroup_memory_usage_bytes": 5,
            "cgroup_memory_limit_bytes": 9,
        }


def test_budget(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the budget a group is not read, and counts as one sample that is left out."""
    case.file("cgroup.controllers", "cpu\n")
    for name in "abcd":
        case.file(f"system.slice/{name}.service/memory.current", "5\n")
    monkeypatch.setattr(cgroup, "BUDGET", 3)
    read: list[str] = []
    monkeypatch.setattr(cgroup, "read_text", lambda path: read.append(path) or read_text(path))
    samples = [(labels[2], value) for _, labels, value in COLLECTOR.collect(case.sources)]
    assert [name for name, value in samples if value == value] == ["a.service"] * 2 + ["b.service"] * 2
    assert [name for name, value in samples if value != value] == ["c.service", "d.service"]
    assert {path.split("/")[-2] for path in read} == {"a.service", "b.service"}


def test_control_characters_in_a_unit(case: Case) -> None:
    """The name of a unit cannot move the cursor of a terminal."""
    case.file("cgroup.controllers", "cpu\n")
    case.file("system.slice/a\x1b[2J.service/memory.current", "1\n")
    assert {key[3] for key in case.scrape()} == {"a\N{REPLACEMENT CHARACTER}[2J.service"}


def test_no_cgroups(case: Case) -> None:
    """A host without a cgroup hierarchy is a named absence."""
    with pytest.raises(NoData) as error:
        list(COLLECTOR.collect(case.sources))
    assert error.value.reason is Reason.ABSENT


FILES = ("cpu.stat", "cpu.max", "memory.current", "memory.max", "memory.events", "cpu.pressure")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(FILES),
        st.text(max_size=60)
        | st.sampled_from(
            [
                "max",
                "max 100000",
                "100000 0",
                "-1",
                "18446744073709551615",
                "usage_usec -5\nnr_periods 3",
                "some total=x",
                "some avg10=0 total=99999999999999999999",
                "\x00\xff",
            ]
        ),
    )
)
def test_any_content(case: Case, texts: dict[str, str]) -> None:
    """Whatever the files hold, samples are finite, not negative and unique."""
    case.file("cgroup.controllers", "cpu\n")
    for name in FILES:
        path = case.file(f"docker/{ID}/{name}", "")
        path.write_bytes(texts.get(name, "").encode("utf-8", "surrogatepass"))
    assert all(0 <= value < 2**63 for value in case.scrape().values())
