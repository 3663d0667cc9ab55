"""Differences: resets, the impossible, what comes and goes."""

import pytest

from gpuwait.wait.host_tick import HostTick
from gpuwait.wait.snapshot import Delay, Disk, Host, Nfs, Pressure, Thread, WaitClass, Workload
from gpuwait.wait.tick import LoadTick


def load(before, after, dt=1.0, cpus=8):
    return LoadTick(Workload(**before), Workload(**after), dt, cpus)


def test_rate_of_a_reset_counter():
    """A vmstat counter that fell has no rate; one that stood still has the rate 0."""
    tick = HostTick(Host(vmstat={"pswpin": 9, "same": 4}), Host(vmstat={"pswpin": 8, "same": 4}), 1.0)
    assert tick.rate("pswpin") is None
    assert tick.rate("same") == 0
    assert tick.rate("absent") is None


def test_rate_per_second_of_a_long_tick():
    """Rates are per second of the time that passed."""
    assert HostTick(Host(vmstat={"pswpin": 100}), Host(vmstat={"pswpin": 350}), 2.5).rate("pswpin") == 100


def test_allocstall_sums_its_zones():
    """allocstall is the sum over zones; a zone that was reset makes the sum unknown."""
    before = Host(vmstat={"allocstall_normal": 5, "allocstall_movable": 10})
    after = Host(vmstat={"allocstall_normal": 8, "allocstall_movable": 14})
    assert HostTick(before, after, 1.0).rate("allocstall") == 7
    fallen = Host(vmstat={"allocstall_normal": 1, "allocstall_movable": 14})
    assert HostTick(before, fallen, 1.0).rate("allocstall") is None


def test_pressure_is_a_share():
    """Pressure is clamped to the whole tick, and dropped where it cannot be."""
    before = {"io": Pressure(3.0), "memory": Pressure(3.0), "cpu": Pressure(3.0)}
    after = {"io": Pressure(4.01), "memory": Pressure(9.0), "cpu": Pressure(2.0)}
    tick = load({"pressure": before}, {"pressure": after})
    assert tick.pressure("io") == 1.0
    assert tick.pressure("memory") is None
    assert tick.pressure("cpu") is None


def test_disk_means():
    """Latency is the mean of the operations that completed, the queue their weighted time."""
    before = Host(disks={"sda": Disk(100, 1.0, 5.0, 7.0, 0)})
    after = Host(disks={"sda": Disk(120, 2.0, 5.5, 8.0, 0)})
    disk = HostTick(before, after, 2.0).disks["sda"]
    assert (disk.busy, disk.operations, disk.latency, disk.queue) == (0.25, 10.0, 0.05, 0.5)


def test_disk_without_operations():
    """A disk that completed nothing has no latency."""
    before = Host(disks={"sda": Disk(100, 1.0, 5.0, 7.0, 0)})
    assert HostTick(before, before, 1.0).disks["sda"].latency is None


def test_remounted_nfs():
    """A mount whose counters started again is left out of the tick."""
    before = Host(nfs={"/data": Nfs(500, 500, 0, 500, 500, 3, 9.0)})
    after = Host(nfs={"/data": Nfs(4, 4, 0, 4, 4, 0, 0.1)})
    assert HostTick(before, after, 1.0).nfs == {}


def test_nfs_retransmissions_are_no_operations():
    """Transmissions beyond the operations, and timeouts, are lost requests."""
    before = Host(nfs={"/data": Nfs(500, 500, 0, 500, 540, 2, 9.0)})
    after = Host(nfs={"/data": Nfs(520, 510, 10, 510, 553, 4, 9.5)})
    nfs = HostTick(before, after, 1.0).nfs["/data"]
    assert (nfs.lost, nfs.receives, nfs.silent) == (5, 10, False)
    assert nfs.response == pytest.approx(0.05)


def test_threads_that_come_and_go():
    """Only threads at both ends are measured; a number given to another thread is left out."""
    before = {1: Thread(10, 5, 1.0), 2: Thread(90, 3, 1.0), 3: Thread(1, 1, 1.0)}
    after = {1: Thread(10.5, 5.1, 1.2), 2: Thread(0.1, 0, 0.0), 4: Thread(8, 8, 8.0)}
    (thread,) = load({"threads": before}, {"threads": after}).threads
    assert thread.user == pytest.approx(0.5)
    assert thread.system == pytest.approx(0.1)
    assert thread.queue == pytest.approx(0.2)


def test_impossible_delay_is_dropped_and_counted():
    """A delay of ten minutes in a second of 4 threads is dropped; other classes of the process stay."""
    before = {7: {Delay.BLKIO: 0.0, Delay.RECLAIM: 1.0}}
    after = {7: {Delay.BLKIO: 652.196, Delay.RECLAIM: 1.3}}
    tick = load({"delays": before, "thread_count": 4}, {"delays": after, "thread_count": 4})
    assert tick.delay(Delay.BLKIO) is None
    assert tick.delay(Delay.RECLAIM) == pytest.approx(0.3)
    assert tick.dropped == {Delay.BLKIO: 1}


def test_delay_that_fell():
    """A process number that was given to another process has no delay in this tick."""
    tick = load({"delays": {7: {Delay.COMPACT: 9.0}}}, {"delays": {7: {Delay.COMPACT: 0.5}}})
    assert tick.delay(Delay.COMPACT) is None
    assert not tick.dropped


def test_process_that_appears_has_no_delay_yet():
    """A delay needs two readings of the same process."""
    assert load({}, {"delays": {7: {Delay.COMPACT: 0.9}}}).delay(Delay.COMPACT) is None


def stalled(count, system, compact, others=0, processes=1):
    """`count` threads with that much kernel time and `others` that sleep, in so many processes."""
    old = {i: Thread(0, 0) for i in range(count + others)}
    new = {i: Thread(0, system if i < count else 0) for i in range(count + others)}
    before = {100 + i: {Delay.COMPACT: 0.0} for i in range(processes)}
    after = {100 + i: {Delay.COMPACT: compact} for i in range(processes)}
    total = count + others
    tick = load(
        {"threads": old, "delays": before, "thread_count": total, "covered": 1.0},
        {"threads": new, "delays": after, "thread_count": total, "covered": 1.0},
    )
    return tick.delay(Delay.COMPACT)


def test_one_stalled_thread_among_sleepers():
    """A single loader thread that compacts all the time shows its whole loss."""
    assert stalled(1, 0.97, 0.9, others=40) == pytest.approx(0.9)


def test_small_delays_of_many_threads():
    """32 threads of a process that lose 5 % each have lost 5 %, not all."""
    assert stalled(32, 0.2, 1.6) == pytest.approx(0.05)


def test_many_stalled_processes():
    """Eight ranks that each lose 80 % have lost 80 %."""
    assert stalled(8, 0.95, 0.8, others=30, processes=8) == pytest.approx(0.8)


def test_looks():
    """The share of the looks that found a wait; None where nobody looked."""
    tick = load({}, {"looks": 6, "blocked": {WaitClass.NFS: 3}})
    assert tick.blocked(WaitClass.NFS) == 0.5
    assert tick.blocked(WaitClass.DIRTY) == 0
    assert load({}, {}).blocked(WaitClass.NFS) is None


def test_throttled_time_without_threads():
    """Where threads are not known, the quota says how many can be held."""
    tick = load(
        {"throttled_seconds": 1.0, "quota_cores": 4.0}, {"throttled_seconds": 3.0, "quota_cores": 4.0}
    )
    assert tick.throttled_time == 0.5


def test_no_period_elapsed():
    """Without an enforcement period there is no share of them."""
    same = {"periods": 10, "throttled_periods": 3}
    assert load(same, same).throttled_periods is None


def test_reclaim_of_either_kind():
    """Pages scanned and pages refaulted add up; a missing one is left out."""
    assert load({"reclaim_pages": 5, "refaults": 1}, {"reclaim_pages": 25, "refaults": 31}).reclaimed == 50
    assert load({"refaults": 1}, {"refaults": 31}).reclaimed == 30
    assert load({}, {}).reclaimed is None


def test_stuck():
    """Of the threads in one wait at both ends the one that ran least: 0 was in it all the tick."""
    nfs, page, dirty = WaitClass.NFS, WaitClass.PAGE, WaitClass.DIRTY
    before = {
        1: Thread(1.0, 1.0, 2.0, wait=nfs),
        2: Thread(1.0, 1.0, 2.0, wait=nfs),
        3: Thread(1.0, 1.0, 2.0, wait=page),
        4: Thread(1.0, 1.0, 2.0, wait=nfs),
        6: Thread(1.0, 1.0, None, wait=WaitClass.LUSTRE),
        7: Thread(1.0, 1.0, 2.0),
    }
    after = {
        1: Thread(1.0, 1.5, 2.0, wait=nfs),
        2: Thread(1.0, 1.0, 2.0, wait=nfs),
        3: Thread(1.0, 1.25, 2.25, wait=page),
        4: Thread(1.0, 1.0, 2.0, wait=dirty),  # another wait
        5: Thread(1.0, 1.0, 2.0, wait=WaitClass.GPFS),  # new
        6: Thread(1.0, 1.0, None, wait=WaitClass.LUSTRE),  # not known
        7: Thread(1.0, 1.0, 2.0),  # no wait
    }
    assert load({"threads": before}, {"threads": after}, dt=2.0).stuck == {nfs: 0, page: 0.25}
