"""A recording is small, and gives the snapshots that it was made of."""

import json
from dataclasses import replace

import record

from gpuwait.scenarios.rates import STORY
from gpuwait.scenarios.recorded import film
from gpuwait.wait.snapshot import (
    Delay,
    Disk,
    Gpu,
    Host,
    Nfs,
    Pressure,
    Snapshot,
    Thread,
    WaitClass,
    Workload,
)

KEY = ("container", "", "5ca1ab1e", "5ca1ab1e")
THREAD = Thread(40.25, 5.0, 1.500000007, 1, "pt_data_worker", "D", WaitClass.NFS)
SHORT = Thread(0.0, 0.0, 0.0)


def snapshot(at, thread, more=None, blocked=None, delay=0.5, vmstat=3):
    """One snapshot of a workload with one thread that stays."""
    host = Host(
        vmstat={"pswpin": vmstat, "thp_zero_page_alloc": 7},
        pressure={"io": Pressure(2.0005, 1.0), "cpu": Pressure(1.0)},
        unusable_ratio={0: 0.25},
        settings={"numa_balancing": "1"},
        disks={"vda": Disk(71, 0.043, 0.032, 0.047, 0)},
        nfs={"/data": Nfs(500 + vmstat, 499, 1, 499, 500, 0, 9.25)},
        cpus=2,
    )
    load = Workload(
        threads={41: thread, **(more or {})},
        thread_count=1,
        looks=4,
        blocked=blocked or {},
        delays={41: {Delay.BLKIO: delay, Delay.SWAPIN: 0.0}},
        covered=1.0,
        memory_by_node={0: 4096},
    )
    gpu = Gpu(0, "GPU-a", busy_seconds=at / 4, observed_seconds=at, utilization=0.25, workloads=(KEY,))
    return Snapshot(at, host, (gpu,), {KEY: load})


TAKEN = [
    snapshot(100.0, replace(THREAD, state="S", wait=None), {42: SHORT}),
    snapshot(101.0, THREAD, None, {WaitClass.NFS: 3}, 0.75, 5),
    snapshot(102.5, THREAD, None, {WaitClass.NFS: 4}, 0.75, 5),
    snapshot(103.5, THREAD),
]


def recording(tmp_path, first, last):
    """The text of a recording of `TAKEN`."""
    lines = [json.dumps(record.plain(taken)) for taken in TAKEN]
    path = tmp_path / "snapshots"
    path.write_text("\n".join(lines))
    return record.thin(path, first, last)


def test_film(tmp_path):
    """Time starts at 0, the workload is the story's; idle counters and threads that went are left out."""
    first, second, third = film(recording(tmp_path, 100, 103))
    assert (first.at, second.at, third.at) == (0.0, 1.0, 2.5)
    host = third.host
    assert host == replace(TAKEN[2].host, vmstat={"pswpin": 5})
    assert host.nfs == {"/data": Nfs(505, 499, 1, 499, 500, 0, 9.25)}
    assert first.host.nfs["/data"].sends == 503
    assert third.gpus == (replace(TAKEN[2].gpus[0], workloads=(STORY,)),)
    assert first.workloads[STORY].threads == {41: replace(THREAD, state="S", wait=None)}
    assert second.workloads[STORY].threads == {41: THREAD}
    assert [shot.workloads[STORY].blocked for shot in (first, second, third)] == [
        {WaitClass.NFS: 0},
        {WaitClass.NFS: 3},
        {WaitClass.NFS: 4},
    ]
    assert [shot.workloads[STORY].delays[41] for shot in (first, second)] == [
        {Delay.BLKIO: 0.5},
        {Delay.BLKIO: 0.75},
    ]


def test_text(tmp_path):
    """What changes is the first value and what it grew by, in one line; what does not is there once."""
    text = recording(tmp_path, 100, 103)
    assert ' "at": [10000,0,10000,15000],\n' in text
    assert '   "pswpin": [1,3,2,0]\n' in text
    assert '    "state": {"each":[["S",1],["D",2]]},\n' in text
    assert '    "queue_seconds": 1.500000007,\n' in text
