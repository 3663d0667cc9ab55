"""Each cause: two independent signals at their thresholds fire, one alone or just below does not."""

import pytest

from gpuwait.thresholds import Thresholds
from gpuwait.wait.snapshot import Disk, FabricPort, Nfs, Thread
from gpuwait.wait.verdict import Cause

NEAR = 1e-6  # below any threshold by this share


def nfs(case, before, after):
    return case.host({"nfs": {"/data": Nfs(*before)}}, nfs={"/data": Nfs(*after)})


def disk(case, operations, latency, busy, name="sda"):
    """Let one disk work for a second."""
    seconds = operations * latency
    before = {**case.hosts[0].disks, name: Disk(1000, 50.0, 40.0, 50.0, 0)}
    now = Disk(1000 + operations, 50.0 + seconds, 40.0 + busy, 50.0 + seconds, 0)
    return case.host({"disks": before}, disks={**case.hosts[1].disks, name: now})


def threads(case, *rates, before=10.0):
    """Threads by (user, system, queue, node)."""
    old = {i: Thread(before, before, before, rate[3], f"t{i}") for i, rate in enumerate(rates)}
    new = {
        i: Thread(before + user, before + system, before + queue, node, f"t{i}")
        for i, (user, system, queue, node) in enumerate(rates)
    }
    return case.load({"threads": old, "thread_count": len(old)}, threads=new, thread_count=len(new))


def ports(case, *changes, up=True, rate=50e9):
    """Ports by (errors, retransmissions) in the second, on node 0."""
    before = {f"mlx5_{i}/1": FabricPort(True, 50e9, 7, 9, 0) for i in range(len(changes))}
    after = {
        f"mlx5_{i}/1": FabricPort(up, rate, 7 + errors, 9 + again, 0)
        for i, (errors, again) in enumerate(changes)
    }
    case.ports = dict.fromkeys(before, 50e9)
    return case.host({"fabric": before}, fabric=after)


def quota(case, throttled, seconds, periods=100):
    return case.load(
        {"periods": 500, "throttled_periods": 50, "throttled_seconds": 3.0, "quota_cores": 1.0},
        periods=500 + periods,
        throttled_periods=50 + throttled,
        throttled_seconds=3.0 + seconds,
        quota_cores=1.0,
    )


IDLE_NFS = (500, 500, 0, 500, 500, 0, 9.0)

#: cause -> two signals, each of which says nothing alone.
PAIRS = {
    "compaction: delay, stalls": (
        Cause.COMPACTION,
        lambda c: c.delays(compact=0.0501),
        lambda c: c.vmstat(compact_stall=2),
    ),
    "compaction: pressure, stalls": (
        Cause.COMPACTION,
        lambda c: c.pressure(memory=0.1001),
        lambda c: c.vmstat(compact_stall=2),
    ),
    "reclaim: delay, stalls": (
        Cause.RECLAIM,
        lambda c: c.delays(freepages=0.03, thrashing=0.0201),
        lambda c: c.vmstat(allocstall_normal=1, allocstall_movable=1),
    ),
    "reclaim at its own limit: pressure, pages": (
        Cause.RECLAIM,
        lambda c: c.pressure(memory=0.1001),
        lambda c: c.load({"reclaim_pages": 10, "refaults": 5}, reclaim_pages=50, refaults=65),
    ),
    "swap: delay, pages": (
        Cause.SWAP,
        lambda c: c.delays(swapin=0.0501),
        lambda c: c.vmstat(pswpin=100),
    ),
    "swap: pages, pressure": (
        Cause.SWAP,
        lambda c: c.vmstat(pswpin=100),
        lambda c: c.pressure(memory=0.0501),
    ),
    "writeback: blocked, pressure": (
        Cause.WRITEBACK,
        lambda c: c.blocked(dirty_throttling=1),
        lambda c: c.pressure(io=0.1001),
    ),
    "writeback: dirty, pressure": (
        Cause.WRITEBACK,
        lambda c: c.host(dirty_bytes=80, dirty_limit_bytes=100),
        lambda c: c.pressure(io=0.1001),
    ),
    "nfs outage: blocked, no answers": (
        Cause.NFS,
        lambda c: c.blocked(nfs=1),
        lambda c: nfs(c, IDLE_NFS, (516, 500, 16, 500, 500, 0, 9.0)),
    ),
    "nfs: blocked, response": (
        Cause.NFS,
        lambda c: c.blocked(nfs=1),
        lambda c: nfs(c, IDLE_NFS, (505, 505, 0, 505, 505, 0, 9.2501)),
    ),
    "nfs: blocked, retransmissions": (
        Cause.NFS,
        lambda c: c.blocked(nfs=1),
        lambda c: nfs(c, IDLE_NFS, (505, 505, 0, 505, 506, 0, 9.0)),
    ),
    "nfs: a page of a mount in trouble": (
        Cause.NFS,
        lambda c: c.blocked(page=1),
        lambda c: nfs(c, IDLE_NFS, (516, 500, 16, 500, 500, 0, 9.0)),
    ),
    "lustre: blocked, busy": (
        Cause.LUSTRE,
        lambda c: c.blocked(lustre=1),
        lambda c: c.host({"lustre_seconds": 5.0}, lustre_seconds=5.2501),
    ),
    "gpfs: blocked, waiter": (
        Cause.GPFS,
        lambda c: c.blocked(gpfs=1),
        lambda c: c.host(gpfs_waiter_seconds=0.5),
    ),
    "disk: latency, pressure": (
        Cause.DISK,
        lambda c: disk(c, 10, 0.0051, 0.1501),
        lambda c: c.pressure(io=0.1001),
    ),
    "disk: queue, blocked": (
        Cause.DISK,
        lambda c: disk(c, 40_001, 0.0001, 0.1501),
        lambda c: c.blocked(local_io=1),
    ),
    "cpu_contention: queue, node pressure": (
        Cause.CPU_CONTENTION,
        lambda c: threads(c, (0.5, 0, 0.1001, 0)),
        lambda c: c.node_pressure(cpu=0.2001),
    ),
    "numa_remote: threads, memory": (
        Cause.NUMA_REMOTE,
        lambda c: threads(c, (0.7001, 0, 0, 1), (0.3, 0, 0, 0)),
        lambda c: c.load(memory_by_node={0: 30, 1: 70}),
    ),
    "host_cpu: thread, group": (
        Cause.HOST_CPU,
        lambda c: threads(c.load({"cpu_seconds": 4.0}, cpu_seconds=4.2), (0.88, 0.0201, 0, 0)),
        lambda c: c.load({"cpu_seconds": 4.0}, cpu_seconds=4.9001),
    ),
    "host_kernel: thread, group": (
        Cause.HOST_KERNEL,
        lambda c: threads(c.load({"cpu_seconds": 4.0}, cpu_seconds=4.2), (0.1, 0.8001, 0, 0)),
        lambda c: c.load({"cpu_seconds": 4.0}, cpu_seconds=4.9001),
    ),
}


@pytest.mark.parametrize(("cause", "one", "other"), PAIRS.values(), ids=PAIRS)
def test_two_signals(case, cause, one, other):
    """Both at their threshold: the cause is active and its share is more than nothing."""
    one(case)
    other(case)
    evidence = case.judge(cause)
    assert evidence.active
    assert 0 < evidence.share <= 1


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_one_signal_is_silent(case, pair, which):
    """Either signal alone is no cause."""
    pair[which](case)
    assert not case.judge(pair[0]).active


#: Each has one signal just below its threshold, the other far above.
BELOW = {
    "compaction delay": (Cause.COMPACTION, lambda c: c.delays(compact=0.0499).vmstat(compact_stall=900)),
    "compaction stalls": (Cause.COMPACTION, lambda c: c.delays(compact=0.9).vmstat(compact_stall=1)),
    "compaction pressure": (
        Cause.COMPACTION,
        lambda c: c.pressure(memory=0.0999).vmstat(compact_stall=900),
    ),
    "compaction, node's pressure": (
        Cause.COMPACTION,
        lambda c: c.node_pressure(memory=0.1999).vmstat(compact_stall=900),
    ),
    "reclaim delay": (Cause.RECLAIM, lambda c: c.delays(freepages=0.0499).vmstat(allocstall_normal=900)),
    "reclaim stalls": (Cause.RECLAIM, lambda c: c.delays(freepages=0.9).vmstat(allocstall_normal=1)),
    "reclaim pages": (
        Cause.RECLAIM,
        lambda c: c.pressure(memory=0.9).load({"refaults": 5}, refaults=104),
    ),
    "swap pages": (Cause.SWAP, lambda c: c.pressure(memory=0.9).vmstat(pswpin=99)),
    "swap pressure": (Cause.SWAP, lambda c: c.pressure(memory=0.0499).vmstat(pswpin=9000)),
    "writeback dirty": (
        Cause.WRITEBACK,
        lambda c: c.pressure(io=0.9).host(dirty_bytes=799, dirty_limit_bytes=1000),
    ),
    "writeback blocked": (Cause.WRITEBACK, lambda c: c.pressure(io=0.9).blocked(20, dirty_throttling=1)),
    "writeback pressure": (
        Cause.WRITEBACK,
        lambda c: c.pressure(io=0.0999).host(dirty_bytes=99, dirty_limit_bytes=100),
    ),
    "nfs blocked": (
        Cause.NFS,
        lambda c: nfs(c.blocked(20, nfs=1), IDLE_NFS, (516, 500, 16, 500, 500, 0, 9.0)),
    ),
    "nfs response": (
        Cause.NFS,
        lambda c: nfs(c.blocked(nfs=9), IDLE_NFS, (1500, 1500, 0, 1500, 1500, 0, 58.9)),
    ),
    "nfs busy: one slow request": (
        Cause.NFS,
        lambda c: nfs(c.blocked(nfs=9), IDLE_NFS, (501, 501, 0, 501, 501, 0, 9.2499)),
    ),
    "lustre busy": (
        Cause.LUSTRE,
        lambda c: c.blocked(lustre=9).host({"lustre_seconds": 5}, lustre_seconds=5.2499),
    ),
    "gpfs waiter": (Cause.GPFS, lambda c: c.blocked(gpfs=9).host(gpfs_waiter_seconds=0.499)),
    "disk busy": (Cause.DISK, lambda c: disk(c.pressure(io=0.9), 1000, 0.02, 0.1499)),
    "disk latency": (Cause.DISK, lambda c: disk(c.pressure(io=0.9), 100, 0.00199, 1.0)),
    "disk operations": (Cause.DISK, lambda c: disk(c.pressure(io=0.9), 9, 0.3, 1.0)),
    "disk pressure": (Cause.DISK, lambda c: disk(c.pressure(io=0.0999), 100, 0.3, 1.0)),
    "throttled periods": (Cause.CPU_THROTTLING, lambda c: quota(c, 24, 0.9)),
    "throttled time": (Cause.CPU_THROTTLING, lambda c: quota(c, 90, 0.0499)),
    "contention queue": (
        Cause.CPU_CONTENTION,
        lambda c: threads(c.node_pressure(cpu=0.9), (0.5, 0, 0.0999, 0)),
    ),
    "contention pressure": (
        Cause.CPU_CONTENTION,
        lambda c: threads(c.node_pressure(cpu=0.1999), (0.5, 0, 0.9, 0)),
    ),
    "remote threads": (
        Cause.NUMA_REMOTE,
        lambda c: threads(c.load(memory_by_node={1: 9}), (0.69, 0, 0, 1), (0.31, 0, 0, 0)),
    ),
    "remote memory": (
        Cause.NUMA_REMOTE,
        lambda c: threads(c.load(memory_by_node={0: 31, 1: 69}), (0.9, 0, 0, 1)),
    ),
    "fabric errors": (Cause.FABRIC, lambda c: ports(c, (0, 900))),
    "fabric retransmissions": (Cause.FABRIC, lambda c: ports(c, (900, 0))),
    "fabric, two ports": (Cause.FABRIC, lambda c: ports(c, (900, 0), (0, 900))),
    "host thread": (
        Cause.HOST_CPU,
        lambda c: threads(c.load({"cpu_seconds": 1.0}, cpu_seconds=9.0), (0.8999, 0, 0, 0), (0.8, 0, 0, 0)),
    ),
    "host group": (
        Cause.HOST_CPU,
        lambda c: threads(c.load({"cpu_seconds": 1.0}, cpu_seconds=1.8999), (1.0, 0, 0, 0)),
    ),
}


@pytest.mark.parametrize(("cause", "make"), BELOW.values(), ids=BELOW)
def test_just_below_is_silent(case, cause, make):
    """A signal just below its threshold does not count, however strong the other one is."""
    make(case)
    assert not case.judge(cause).active


def test_active_cause_holds_to_half(case):
    """What is active stays active down to half of the thresholds of its pair, and no further."""
    case.delays(compact=0.0251).vmstat(compact_stall=1)
    assert not case.judge(Cause.COMPACTION).active
    case.active = frozenset({Cause.COMPACTION})
    assert case.judge(Cause.COMPACTION).active
    case.delays(compact=0.0249)
    assert not case.judge(Cause.COMPACTION).active


def test_surge_without_delay_of_its_own(case):
    """Pressure with a counter at twice its usual is no compaction: a neighbour has stalls all the time."""
    case.pressure(memory=0.5).vmstat(compact_stall=400).usual("compact_stall", 200.0)
    assert not case.judge(Cause.COMPACTION).active
    case.vmstat(compact_stall=600)
    assert case.judge(Cause.COMPACTION).active


def test_own_delay_needs_no_surge(case):
    """The workload's own delay counts even where stalls are usual on this node."""
    case.delays(compact=0.3).vmstat(compact_stall=210).usual("compact_stall", 200.0)
    assert case.judge(Cause.COMPACTION).active


def test_neighbour_compacts_while_this_one_reclaims(case):
    """With delays covered, pressure does not turn a neighbour's compaction into one's own."""
    case.delays(compact=0.0, freepages=0.4).pressure(memory=0.5)
    case.vmstat(compact_stall=900, allocstall_normal=900)
    assert not case.judge(Cause.COMPACTION).active
    assert case.judge(Cause.RECLAIM).active
    assert case.judge(Cause.RECLAIM).share == pytest.approx(0.4)


def test_pressure_is_split_by_the_counters(case):
    """Without delays the pressure is shared out by how far each counter is above its usual."""
    case.pressure(memory=0.6).vmstat(compact_stall=40, allocstall_normal=20)
    assert case.judge(Cause.COMPACTION).share == pytest.approx(0.4)
    assert case.judge(Cause.RECLAIM).share == pytest.approx(0.2)


def test_swapped_pages_are_no_reclaim(case):
    """A page that comes back from swap counts as thrashing too: once is enough.

    What is reclaimed to make room for it is part of the cost of swapping, so swap is the stronger one.
    """
    case.delays(swapin=0.5, thrashing=0.5, freepages=0.01).vmstat(pswpin=9000, allocstall_normal=50)
    assert case.judge(Cause.SWAP).share == pytest.approx(0.51)
    assert case.judge(Cause.RECLAIM).share == pytest.approx(0.01)


def test_swap_of_a_neighbour(case):
    """Swap-in on the node without pressure of the workload's own is a neighbour's."""
    case.vmstat(pswpin=9000).node_pressure(memory=0.9).pressure(memory=0.001)
    assert not case.judge(Cause.SWAP).active


def test_usual_pressure_of_the_node(case):
    """Where only the node's pressure is known, what it always is says nothing."""
    case.known = False
    disk(case.node_pressure(io=0.5), 100, 0.05, 1.0).usual("pressure io", 0.4)
    assert not case.judge(Cause.DISK).active
    case.node_pressure(io=0.65)
    assert case.judge(Cause.DISK).active


def test_flash_at_full_use_is_silent(case):
    """A disk that is busy 100 % of the time, at 0.1 ms and without pressure, is no cause."""
    disk(case.pressure(io=0.02), 30_000, 0.0001, 1.0, "nvme0n1")
    assert not case.judge(Cause.DISK).active


def test_worst_disk_is_named(case):
    """The device that is slow is named, not the one that does most."""
    disk(disk(case.pressure(io=0.8), 30_000, 0.0001, 1.0, "nvme0n1"), 100, 0.03, 0.9, "sda")
    evidence = case.judge(Cause.DISK)
    assert (evidence.active, evidence.detail, evidence.share) == (True, "sda", pytest.approx(0.8))


def test_buffered_nfs_reads_are_not_the_disk(case):
    """I/O pressure counts NFS too: with no thread in a local wait, a slow disk of others is not to blame."""
    disk(case.pressure(io=0.8).blocked(nfs=10), 100, 0.03, 0.9)
    assert not case.judge(Cause.DISK).active


def test_nfs_level_after_an_outage(case):
    """Requests in flight that never were answered drift for ever; with answers coming they say nothing."""
    nfs(case.blocked(nfs=5), (568, 500, 68, 500, 568, 0, 9.0), (1468, 1400, 68, 1400, 1468, 0, 10.0))
    assert not case.judge(Cause.NFS).active


def test_idle_mount_with_a_lost_request(case):
    """A mount nobody uses, with one request lost long ago, is silent without trouble."""
    nfs(case.blocked(nfs=5), (501, 500, 1, 500, 500, 0, 9.0), (501, 500, 1, 500, 500, 0, 9.0))
    case.usual("nfs /data", 0.0).usual("nfs in flight /data", 1.0)
    assert not case.judge(Cause.NFS).active
    nfs(case, (501, 500, 1, 500, 500, 0, 9.0), (509, 500, 9, 500, 500, 0, 9.0))
    assert case.judge(Cause.NFS).active


def test_share_of_a_disk_without_pressure_of_its_own(case):
    """Where the workload has no pressure of its own, the looks measure what it lost."""
    disk(case.node_pressure(io=0.9).blocked(local_io=6), 100, 0.03, 0.9)
    assert case.judge(Cause.DISK).share == pytest.approx(0.6)


def test_nfs_of_others(case):
    """A dead mount that no thread of the workload waits for is somebody else's trouble."""
    nfs(case.blocked(nfs=0), IDLE_NFS, (516, 500, 16, 500, 540, 40, 9.0))
    assert not case.judge(Cause.NFS).active


def test_nfs_without_thread_states(case):
    """Where threads cannot be looked at, missing answers and retransmissions together suffice."""
    nfs(case, IDLE_NFS, (516, 500, 16, 500, 540, 0, 9.0))
    assert case.judge(Cause.NFS).active


def test_nfs_names_the_mount(case):
    """The mount in trouble is named."""
    case.blocked(nfs=10)
    quiet, bad = Nfs(*IDLE_NFS), Nfs(516, 500, 16, 500, 500, 0, 9.0)
    case.host({"nfs": {"/a": quiet, "/b": quiet}}, nfs={"/a": quiet, "/b": bad})
    assert case.judge(Cause.NFS).detail == "/b"


def test_first_part_of_an_outage(case):
    """Answers stopped within the tick: those missing against the usual count, as threads wait as long."""
    case.usual("nfs /data", 900.0)
    nfs(case.blocked(nfs=6), IDLE_NFS, (956, 940, 16, 940, 940, 0, 9.4))
    evidence = case.judge(Cause.NFS)
    assert evidence.active
    missing = next(signal for signal in evidence.signals if signal.name == "missing")
    assert missing.value == pytest.approx(1 - 440 / 900)


def test_fewer_answers_without_a_pile(case):
    """Slow reading by threads that always wait a little is no outage while no requests pile up."""
    case.usual("nfs /data", 900.0).usual("nfs in flight /data", 2.0)
    nfs(case.blocked(nfs=7), IDLE_NFS, (904, 900, 4, 900, 900, 0, 9.4))
    assert not case.judge(Cause.NFS).active


def test_fewer_answers_without_waiting_threads(case):
    """A workload that asks for less gets fewer answers; no thread waits for them."""
    case.usual("nfs /data", 900.0)
    nfs(case.blocked(nfs=1), IDLE_NFS, (601, 600, 1, 600, 600, 0, 9.1))
    assert not case.judge(Cause.NFS).active


def test_throttling(case):
    """At 25 % of periods and 5 % of the time of each thread that ran."""
    threads(quota(case, 25, 0.1001), (0.5, 0, 0, 0), (0.5, 0, 0, 0), (0, 0, 0, 0))
    evidence = case.judge(Cause.CPU_THROTTLING)
    assert evidence.active
    assert evidence.share == pytest.approx(0.05005)


def test_throttled_time_is_summed_over_cpus(case):
    """32 threads on 8 CPUs held for 6.4 s in a second lose 80 % of it."""
    threads(quota(case, 90, 6.4), *[(0.03, 0, 0.5, 0)] * 32)
    assert case.judge(Cause.CPU_THROTTLING).share == pytest.approx(0.8)


def test_throttled_threads_are_no_contention(case):
    """A throttled thread waits in the run queue as well; the limit explains it."""
    threads(quota(case, 90, 0.9).node_pressure(cpu=0.9), (0.2, 0, 0.8, 0))
    assert case.judge(Cause.CPU_THROTTLING).active
    assert not case.judge(Cause.CPU_CONTENTION).active


def test_hint_faults(case):
    """Remote hint faults count with balancing on and enough of them."""
    threads(case.load(memory_by_node={1: 9}), (0.5, 0, 0, 0))
    case.vmstat(numa_hint_faults=100, numa_hint_faults_local=50)
    assert not case.judge(Cause.NUMA_REMOTE).active
    case.host(settings={"numa_balancing": "1"})
    case.vmstat(numa_hint_faults=100, numa_hint_faults_local=50)
    assert case.judge(Cause.NUMA_REMOTE).active
    case.vmstat(numa_hint_faults=49, numa_hint_faults_local=0)
    assert not case.judge(Cause.NUMA_REMOTE).active


def test_distance_costs_only_running_code(case):
    """With all memory far away, a thread that runs half of the time loses 30 % of that half."""
    threads(case.load(memory_by_node={1: 9}), (0.4, 0.1, 0, 1), (0.1, 0, 0, 1))
    assert case.judge(Cause.NUMA_REMOTE).share == pytest.approx(0.15)


def test_workload_at_home_on_both_nodes(case):
    """A workload with GPUs on two nodes is remote on neither."""
    case.home = frozenset({0, 1})
    threads(case.load(memory_by_node={0: 50, 1: 50}), (0.9, 0, 0, 1))
    assert not case.judge(Cause.NUMA_REMOTE).active


def test_unknown_node_of_the_gpu(case):
    """Without the GPU's node nothing is remote, and the signals are missing rather than 0."""
    case.home = frozenset()
    threads(case.load(memory_by_node={1: 50}), (0.9, 0, 0, 1))
    evidence = case.judge(Cause.NUMA_REMOTE)
    assert not evidence.active
    assert set(evidence.missing) == {"faults", "threads", "memory"}


def test_fabric(case):
    """Errors and retransmissions of one port are two mechanisms."""
    evidence = ports(case, (0, 0), (1, 1)).judge(Cause.FABRIC)
    assert (evidence.active, evidence.detail, evidence.share) == (True, "mlx5_1/1", 0.30)


def test_port_down(case):
    """A port that was up and is down, with errors, has lost everything."""
    assert ports(case, (3, 0), up=False).judge(Cause.FABRIC).share == 1.0
    assert case.judge(Cause.FABRIC).active


def test_slower_port(case):
    """A port at half its own best rate that sends again has lost half."""
    evidence = ports(case, (0, 30), rate=25e9).judge(Cause.FABRIC)
    assert (evidence.active, evidence.share) == (True, 0.5)


def test_port_that_never_was_up(case):
    """An empty cage is no trouble."""
    ports(case, (3, 0), up=False)
    case.ports = {}
    assert not case.judge(Cause.FABRIC).active


def test_port_on_the_other_node(case):
    """A port far from the GPUs does not count while there is a near one."""
    before = {"a/1": FabricPort(True, 5e9, 0, 0, 0), "b/1": FabricPort(True, 5e9, 0, 0, 1)}
    after = {"a/1": FabricPort(True, 5e9, 0, 0, 0), "b/1": FabricPort(True, 5e9, 90, 90, 1)}
    assert not case.host({"fabric": before}, fabric=after).judge(Cause.FABRIC).active
    case.home = frozenset({1})
    assert case.judge(Cause.FABRIC).active


def test_mode_of_the_busy_thread(case):
    """A thread at a full core that is mostly in the kernel is the kernel's, else its own."""
    threads(case.load({"cpu_seconds": 1.0}, cpu_seconds=2.0), (0.3, 0.68, 0, 0), (0.1, 0.1, 0, 0))
    assert case.judge(Cause.HOST_KERNEL).detail == "t0"
    assert case.judge(Cause.HOST_KERNEL).active
    assert not case.judge(Cause.HOST_CPU).active


def test_threshold_from_the_configuration(case):
    """An override decides."""
    case.delays(compact=0.06).vmstat(compact_stall=9)
    assert case.judge(Cause.COMPACTION).active
    assert not case.judge(Cause.COMPACTION, Thresholds({("compaction", "delay"): 0.07})).active


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.UNEXPLAINED])
def test_nothing_there(case, cause):
    """With no source at all a cause is silent, and says what is missing."""
    case.known = False
    evidence = case.judge(cause)
    assert not evidence.active
    assert evidence.share == 0
    assert evidence.missing
