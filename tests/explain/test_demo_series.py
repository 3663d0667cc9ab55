"""Metrics of a demonstration: real names, real labels, and only what the replayed node knows."""

import pytest

from gpuwait import demo, demo_live
from gpuwait.exposition import Exposition
from gpuwait.gather import Gatherer
from gpuwait.host import Host
from gpuwait.sources import Sources

STORY = 'workload_kind="pod",workload_namespace="research",workload="train-0",workload_container="main"'
JOB = 'workload_kind="slurm",workload_namespace="",workload="4711",workload_container=""'


def scraped(name, ticks, **options):
    player = demo_live.Player(demo.find(name), 1.0, lambda _: True, **options)
    for _, snapshot in zip(range(ticks), player._endless(), strict=False):
        player.step(snapshot)
    collectors = (demo_live.collector(player), *demo_live.REAL)
    gatherer = Gatherer(collectors, Sources(host=Host(), wait=player.live))
    outcomes = gatherer.gather()
    assert {o.collector.name: (o.success, o.dropped, o.reason) for o in outcomes} == {
        "demo": (True, 0, ""),
        "ledger": (True, 0, ""),
        "workload": (True, 0, ""),
    }
    text = Exposition().text(outcomes, gatherer.dropped).decode()
    return {
        line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if not line.startswith("#")
    }


def test_who_holds_a_gpu():
    """Rules join on these two: the holder of each GPU, and the workload with its ids."""
    series = scraped("quiet", 3)
    uuid = "GPU-00000000-0000-0000-0000-000000000003"
    assert series[f'gpuwait_gpu_workload_info{{gpu="3",uuid="{uuid}",{STORY}}}'] == 1
    ids = 'pod_uid="",container_id="",qos="",gpu_workload="true"'
    assert series[f"gpuwait_workload_info{{{STORY},{ids}}}"] == 1
    assert sum(name.startswith("gpuwait_gpu_workload_info") for name in series) == 8
    assert series["gpuwait_gpu_reader_up"] == 1
    assert series["gpuwait_sampler_ticks_total"] == 3


def test_what_no_snapshot_holds_is_absent():
    """No temperature, no clocks, no memory of a group, no price: nothing is made up."""
    series = scraped("quiet", 3)
    made_up = ("temperature", "clock", "pcie", "memory_usage", "price", "oom", "swap_", "gpfs", "lustre")
    names = {name.split("{")[0] for name in series}
    assert [name for name in names if any(part in name for part in made_up)] == []


def test_throttling():
    """40 s into the story, of which 10 s are throttled: nine of ten periods, 19 s a second."""
    series = scraped("throttled-loaders", 41)
    assert series[f"gpuwait_cgroup_cpu_quota_cores{{{STORY}}}"] == 2
    assert series[f"gpuwait_cgroup_cpu_periods_total{{{STORY}}}"] == 410
    assert series[f"gpuwait_cgroup_cpu_throttled_periods_total{{{STORY}}}"] == 31 + 90
    assert series[f"gpuwait_cgroup_cpu_throttled_seconds_total{{{STORY}}}"] == pytest.approx(190.62)
    pressure = f'gpuwait_cgroup_pressure_some_seconds_total{{{STORY},resource="cpu"}}'
    assert series[pressure] == pytest.approx(9.486)
    assert series[f"gpuwait_workload_threads{{{STORY}}}"] == 48


def test_a_disk_at_its_limit():
    """176 reads a second of 88 ms each in the second after 31 of 140 reads and 40 ms."""
    before, after = scraped("slow-disk", 31), scraped("slow-disk", 32)
    for name, grown in (
        ("reads_completed_total", 176),
        ("read_time_seconds_total", 15.488),
        ("writes_completed_total", 0),
        ("write_time_seconds_total", 0),
        ("io_time_seconds_total", 1.0),
    ):
        key = f'gpuwait_disk_{name}{{device="sda"}}'
        assert after[key] - before[key] == pytest.approx(grown, abs=1e-6), name


def test_a_flush():
    """Dirty pages and those being written are told apart; together they are 97 % of the limit."""
    series = scraped("checkpoint-storm", 70)
    dirty, writeback = series["gpuwait_memory_dirty_bytes"], series["gpuwait_memory_writeback_bytes"]
    limit = series["gpuwait_memory_dirty_threshold_bytes"]
    assert limit == 200 * 1024**3
    assert (dirty + writeback) / limit == pytest.approx(0.97, abs=1e-4)
    assert writeback / limit == pytest.approx(0.388, abs=1e-4)


def test_mounts_and_ports():
    """By mount point and by port; names that the story lacks read `simulated`."""
    series = scraped("nfs-small-files", 40)
    mount = 'export="simulated",mountpoint="/data",version=""'
    assert series[f'gpuwait_nfs_mount_operations_total{{{mount},operation="simulated"}}'] > 27_000
    assert f"gpuwait_nfs_mount_in_flight{{{mount}}}" in series
    assert series['gpuwait_infiniband_port_up{device="mlx5_2",port="1"}'] == 1
    assert series['gpuwait_infiniband_symbol_errors_total{device="mlx5_2",port="1"}'] == 0


def test_several_nodes_of_one_job():
    """With --workload the story's GPUs belong to that job, everywhere; the neighbour stays who it is."""
    series = scraped("throttled-loaders", 41, workload=demo_live.owner("slurm/4711"))
    holders = [name for name in series if name.startswith("gpuwait_gpu_workload_info")]
    assert [name for name in holders if "train-0" in name] == []
    assert sum(JOB in name for name in holders) == 4
    assert series[f"gpuwait_cgroup_cpu_quota_cores{{{JOB}}}"] == 2
    assert f"gpuwait_workload_blocked_threads{{{JOB}}}" in series


def test_price():
    """With --price each GPU has one."""
    series = scraped("quiet", 2, price=2.5)
    assert [value for name, value in series.items() if "price_per_hour" in name] == [2.5] * 8


def test_pod():
    """pod/NAMESPACE/POD is a pod with the story's container."""
    assert demo_live.owner("pod/research/train-3") == ("pod", "research", "train-3", "main")


@pytest.mark.parametrize("text", ["", "slurm", "slurm/x", "slurm/1/2", "pod/a", "pod//b", "docker/a/b"])
def test_what_is_no_workload(text):
    """One line that says how it is written."""
    with pytest.raises(ValueError, match="is neither slurm/JOB nor pod/NAMESPACE/POD"):
        demo_live.owner(text)


def test_a_price_out_of_range():
    """Refused before anything is opened."""
    with pytest.raises(ValueError, match="--price: must be a number from 0 to 1e"):
        demo_live.serve("quiet", "127.0.0.1:0", price=-1.0)
