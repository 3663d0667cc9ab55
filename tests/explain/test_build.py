"""What is said of the verdicts of the last seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.explain import build, markdown
from gpuwait.explain.text import text
from gpuwait.thresholds import DEFAULTS
from gpuwait.wait.snapshot import Gpu, Host, Pressure, Snapshot, Thread, WaitClass, Workload
from gpuwait.wait.verdict import Cause, Evidence, GpuVerdict, Signal, State, Verdict


def test_symptom_merges_gpus_of_one_workload(incident):
    """Eight GPUs of one job that fare alike are one row, with their mean figures."""
    report = build(*incident)
    (row,) = report.explanations
    assert row.gpus == (0, 1, 2, 3, 4, 5, 6, 7)
    assert row.symptom == "GPU 0-7 waited 62 % of the last 60 s; utilisation 31 %"
    assert report.summary == "GPU 0-7 waited 62 % of the last 60 s: memory compaction."
    assert (row.verdict, row.cause, row.share) == ("waiting", "compaction", 0.58)
    assert row.waiting_seconds == {"compaction": 37.2}


def test_data_set_incident_is_told_as_a_colleague_would(incident):
    """Share of time, blocks gone on which nodes, the setting, NumPy, fixes, and the number that must fall."""
    told = " ".join(text(build(*incident)).split())
    for words in (
        "Direct compaction took 58 % of the ranks' time",
        "order-9 blocks (2 MiB) are gone on NUMA nodes 0 and 1",
        "unusable 100 % on node 0 and 99 % on node 1",
        "THP madvise, defrag madvise",
        "NumPy asks",
        "python3 at 2 % user, 97 % system",
        "$ echo defer > /sys/kernel/mm/transparent_hugepage/defrag",
        "vm.compaction_proactiveness",
        "$ export NUMPY_MADVISE_HUGEPAGE=0",
        "compact_stall must stop rising",
        "rate(gpuwait_vmstat_compact_stall_total[5m])",
        "1,240/s over 2/s direct compactions on the node [/proc/vmstat compact_stall]",
        "ruled out, all signals below their thresholds: GPFS",
        "memory reclaim: entries into direct reclaim on the node 4/s; only one kind of signal",
    ):
        assert words in told, words


def test_evidence_in_numbers(incident):
    """Each signal that spoke comes first, with its mean value, unit, threshold and source."""
    row = build(*incident).explanations[0]
    assert [fact.signal for fact in row.evidence][:3] == ["delay", "stalls", "pressure"]
    stalls = row.evidence[1]
    assert (stalls.value, stalls.unit, stalls.shown) == (1240.0, "per_second", "1,240/s")
    assert (stalls.threshold, stalls.limit, stalls.fired) == (2.0, "2/s", True)


def test_evidence_comes_from_the_waiting_ticks_only(make):
    """A stop of 6 s within a minute shows the figures of the stop, not their mean with the quiet."""
    verdicts, snapshot, _ = make
    quiet = verdicts((), cause=None, seconds={State.BUSY: 0.95, State.GAP: 0.05}, u=0.95, n=54)
    stop = [Verdict(v.at + 54, v.dt, v.gpus) for v in verdicts(n=6)]
    row = build([*quiet, *stop], snapshot(160.0)).explanations[0]
    assert row.symptom == "GPU 0-7 waited 6.2 % of the last 60 s; utilisation 89 %"
    assert row.evidence[0].shown == "58 %"


def test_short_waits_are_no_verdict(make):
    """Below 5 % of the window all is well."""
    verdicts, snapshot, _ = make
    ticks = verdicts(seconds={State.BUSY: 0.95, State.GAP: 0.02, State.WAITING: 0.03}, u=0.95)
    report = build(ticks, snapshot(160.0))
    assert report.summary == "All is well. GPU 0-7 at work: utilisation 95 %, waited 3 % of the last 60 s."
    assert text(report).splitlines()[0] == report.summary


def test_workloads_that_differ_are_rows_of_their_own():
    """The one that waits comes first, then the idle one, then the free GPU."""
    other, held = ("pod", "b", "q", "c"), ("pod", "a", "p", "c")
    states = (
        (0, {State.FREE: 1.0}, None, ()),
        (1, {State.IDLE: 1.0}, None, (held,)),
        (2, {State.BUSY: 0.2, State.WAITING: 0.8}, Cause.UNEXPLAINED, (other,)),
        (3, {State.UNKNOWN: 1.0}, None, ()),
    )
    gpus = tuple(GpuVerdict(i, f"u{i}", split, cause, None, (), keys) for i, split, cause, keys in states)
    report = build([Verdict(1.0, 1.0, gpus)], Snapshot(1.0, Host()))
    assert [(e.verdict, e.gpus) for e in report.explanations] == [
        ("waiting", (2,)),
        ("unknown", (3,)),
        ("idle", (1,)),
        ("free", (0,)),
    ]
    assert [a.command for a in report.explanations[2].fix_now] == ["kubectl -n a delete pod p"]
    assert report.summary == (
        "GPU 2 waited 80 % of the last 1 s: nothing on this host explains it; "
        "GPU 3 without a reading; GPU 1 held but idle."
    )


def test_unexplained_shows_where_the_threads_are():
    """States by class, the five busiest threads, and no guess."""
    key = ("slurm", "", "9", "")

    def load(at):
        threads = {
            10 + i: Thread(at * 0.01 * i, at * 0.02 * i, name=f"worker{i}", state="S") for i in range(6)
        }
        threads[20] = Thread(0, 0, name="reader", state="D", wait=WaitClass.OTHER)
        threads[21] = Thread(at * 0.9, 0, name="main", state="R")
        return Snapshot(at, Host(), (Gpu(0, "u", workloads=(key,)),), {key: Workload(threads, 8)})

    tick = GpuVerdict(0, "u", {State.WAITING: 1.0}, Cause.UNEXPLAINED, 0.0, (), (key,))
    sleeping = {10: "sleeping: lock", 11: "sleeping: lock", 12: "sleeping: pipe"}
    report = build([Verdict(100.0, 1.0, (tick,))], load(100.0), load(90.0), sleeping=sleeping)
    row = report.explanations[0]
    assert row.threads.where == {
        "sleeping": 3,
        "sleeping: lock": 2,
        "sleeping: pipe": 1,
        "blocked: other": 1,
        "running: user mode": 1,
    }
    assert [one.name for one in row.threads.busiest] == ["main", "worker5", "worker4", "worker3", "worker2"]
    assert abs(row.threads.busiest[1].system - 0.1) < 1e-9
    assert row.evidence == ()
    assert row.share is None
    told = text(report)
    assert "Look next" in told
    assert "Fix now" not in told


def test_another_cause_of_a_tenth_is_told(make):
    """Where one cause does not have all of the waiting, its split is told."""
    verdicts, snapshot, _ = make
    ticks = [
        *verdicts(cause=Cause.HOST_CPU, n=39),
        *verdicts(cause=Cause.UNEXPLAINED, n=6),
        *verdicts(cause=Cause.CPU_CONTENTION, n=5),
    ]
    report = build(ticks, snapshot(160.0))
    split = "of the waiting: host code (CPU) 78 %, unexplained 12 %, CPU contention 10 %"
    assert split in text(report)
    assert split[1:] in markdown(report)


def test_a_little_of_another_cause_is_not_told(make):
    """Below a tenth of the waiting no other cause is named; one above it leaves the rest as others."""
    verdicts, snapshot, _ = make
    little = [*verdicts(cause=Cause.HOST_CPU, n=46), *verdicts(cause=Cause.UNEXPLAINED, n=4)]
    assert "of the waiting" not in text(build(little, snapshot(160.0)))
    some = [*little, *verdicts(cause=Cause.DISK, n=10)]
    told = "of the waiting: host code (CPU) 77 %, local disk 17 %, others 6.7 %"
    assert told in text(build(some, snapshot(160.0)))


def rows(*waits, key=()):
    """Report on GPUs that wait for these shares, of one cause, for ten seconds."""
    gpus = tuple(
        GpuVerdict(i, f"u{i}", {State.BUSY: 1 - w, State.WAITING: w}, Cause.UNEXPLAINED, 1 - w, (), key)
        for i, w in enumerate(waits)
    )
    ticks = [Verdict(float(at), 1.0, gpus) for at in range(1, 11)]
    return [row.gpus for row in build(ticks, Snapshot(10.0, Host())).explanations]


def test_unknown_workloads_that_differ_are_not_merged():
    """GPUs whose workloads are not seen are one row only where they waited about as long."""
    assert rows(0.9, 0.2, 0.85) == [(0, 2), (1,)]
    assert rows(0.9, 0.82, 0.74) == [(0, 1), (2,)]
    assert rows(0.9, 0.2, key=(("slurm", "", "9", ""),)) == [(0, 1)]


def test_what_is_unavailable_is_told_with_its_remedy(make):
    """Delay accounting off, no pressure, hidden wait channels: each with the line that brings it."""
    verdicts, snapshot, _ = make
    reasons = {"taskstats": "kernel.task_delayacct is 0", "wchan": "wait channels read 0"}
    found = build(verdicts(), snapshot(160.0), reasons=reasons).unavailable
    assert [item.enable.split(" ")[0] for item in found] == ["sysctl", "boot", "run", "for"]
    assert found[0].reason == "kernel.task_delayacct is 0"


@pytest.mark.parametrize(
    ("source", "signals", "enable"),
    [
        ("vmstat", "compaction stalls", "run gpuwait as root, with the host's /proc"),
        ("diskstats", "disk latency", "run gpuwait as root, with the host's /proc"),
        ("nfs", "nfs missing", "run gpuwait as root or with CAP_DAC_READ_SEARCH"),
        ("lustre", "lustre busy", "run gpuwait as root: /sys/kernel/debug"),
        ("gpfs", "gpfs waiter", "run gpuwait as root with --collector.gpfs"),
        ("buddyinfo", "free blocks for huge pages (told with compaction)", "run gpuwait as root"),
        ("settings", "settings of huge pages and NUMA balancing", "run gpuwait as root"),
        ("cpus", "number of CPUs", "run gpuwait as root"),
        ("cgroup", "cpu_throttling periods", "run gpuwait with the host's /sys/fs/cgroup"),
        ("threads", "nfs blocked", "run gpuwait as root, with the host's /proc"),
        ("processes", "which workload holds which GPU", "run gpuwait as root"),
        ("workloads", "the workload's own signals", "gpuwait serve --log.level=debug"),
        ("host", "every signal of the node", "gpuwait serve --log.level=debug"),
        ("gpus", "every GPU", "see gpuwait check"),
        ("fabric", "fabric errors", "run gpuwait as root"),
        ("some\x1bthing", "what some\ufffdthing tells", "gpuwait serve --log.level=debug"),
    ],
)
def test_every_source_that_fails_is_told(make, source, signals, enable):
    """Whatever source has a reason, the signals that it feeds are told, and what brings them."""
    _, snapshot, _ = make
    calm = snapshot(160.0, pressure={"cpu": Pressure(1.0)}, settings={})
    assert build([], calm).unavailable == ()
    (found,) = build([], calm, reasons={source: "it\x1b failed"}).unavailable
    assert signals in found.signals
    assert found.reason == "it\ufffd failed"
    assert found.enable.startswith(enable)


def test_signals_of_lost_sources_exist(make):
    """A signal that is told as lost goes by the name of its threshold, unless it is words."""
    _, snapshot, _ = make
    every = dict.fromkeys(
        "taskstats wchan pressure vmstat diskstats nfs lustre gpfs fabric cgroup threads cpus".split(), "x"
    )
    names = {f"{cause} {signal}" for cause, signal in DEFAULTS}
    told = {s for item in build([], snapshot(1.0), reasons=every).unavailable for s in item.signals}
    assert told - names == {"pressure of the workload", "number of CPUs"}


def test_pressure_that_fails_has_its_reason(make):
    """The reason of the sampler is told where there is one."""
    _, snapshot, _ = make
    calm = snapshot(160.0, settings={})
    (found,) = build([], calm, reasons={"pressure": "EOPNOTSUPP"}).unavailable
    assert (found.reason, found.enable) == ("EOPNOTSUPP", "boot with psi=1 on the kernel command line")


def test_partial_coverage_is_told(make):
    """Delay accounting that came after the job started covers a part of it: that is said."""
    _, snapshot, _ = make
    at = snapshot(160.0)
    key = next(iter(at.workloads))
    part = Snapshot(at.at, at.host, at.gpus, {key: Workload(covered=0.25)})
    assert "covers 25 % of a workload's processes" in build([], part).unavailable[0].reason


def test_nothing_yet():
    """Without any verdict there is one line and no row."""
    assert build([], None).summary == "No readings yet."
    assert build([Verdict(1.0, 1.0, ())], Snapshot(1.0, Host())).summary == "No GPU is seen on this node."


def test_names_from_outside_are_harmless():
    """A mount point with escape codes and quotes never reaches the terminal or a command as it is."""
    mount = "/data\x1b[31m'; rm -rf /"
    found = Evidence(Cause.NFS, 0.9, True, (Signal("blocked", 0.9, 0.1, "ratio", "x", True, "t"),), mount)
    key = ("pod", "n\x1b", "p\n", "c")
    tick = GpuVerdict(0, "u\x07", {State.WAITING: 1.0}, Cause.NFS, 0.0, (found,), (key,))
    report = build([Verdict(1.0, 1.0, (tick,))], Snapshot(1.0, Host()))
    told = text(report)
    assert "\x1b" not in told
    assert "\x07" not in told
    assert report.explanations[0].fix_now[0].command == "nfsiostat 5 3 NAME"


def test_a_name_with_blanks_is_quoted():
    """A mount point goes into a command as one word."""
    found = Evidence(Cause.NFS, 0.9, True, (), "/my data")
    tick = GpuVerdict(0, "u", {State.WAITING: 1.0}, Cause.NFS, 0.0, (found,), ())
    report = build([Verdict(1.0, 1.0, (tick,))], Snapshot(1.0, Host()))
    assert report.explanations[0].fix_now[0].command == "nfsiostat 5 3 '/my data'"


def test_thresholds_in_force_stand_in_the_advice():
    """A number to reach is the threshold that the cause was held against, else the usual one."""
    slow = Signal("response", 0.5, 0.2, "seconds", "x", True, "counter")

    def number(cause, *signals):
        found = Evidence(cause, 0.9, True, signals)
        tick = GpuVerdict(0, "u", {State.WAITING: 1.0}, cause, 0.0, (found,), ())
        return build([Verdict(1.0, 1.0, (tick,))], Snapshot(1.0, Host())).explanations[0].verify.number

    assert "fall below 200 ms, towards 1 ms" in number(Cause.NFS, slow)
    assert "fall below 50 ms, towards 1 ms" in number(Cause.NFS)
    assert "fall below 2 ms (flash: 0.1 ms) and the queue below 4" in number(Cause.DISK)
    assert "below 2/s, on a healthy node 0" in number(Cause.COMPACTION)
    assert "below 25 % of all periods" in number(Cause.CPU_THROTTLING)
    assert "stay at 90 % of a core" in number(Cause.HOST_CPU)


def test_advice_fits_the_kind_of_workload(make):
    """A Slurm job is told of Slurm, not of Kubernetes."""
    verdicts, snapshot, _ = make
    found = Evidence(Cause.CPU_THROTTLING, 0.4, True, ())
    told = text(build(verdicts((found,), cause=Cause.CPU_THROTTLING), snapshot(160.0)))
    assert "#SBATCH --cpus-per-task=N" in told
    assert "kubepods" not in told.lower()


cells = st.floats(0, 10, allow_nan=False)
evidences = st.builds(
    Evidence,
    st.sampled_from(Cause),
    st.floats(0, 1),
    st.booleans(),
    st.lists(
        st.builds(
            Signal,
            st.sampled_from(["delay", "pressure", "busy", "x y"]),
            st.none() | st.floats(0, 1e12),
            st.none() | st.floats(0, 1e6),
            st.sampled_from(["ratio", "seconds", "per_second", "count"]),
            st.text(max_size=20),
            st.booleans(),
            st.sampled_from("abc"),
        ),
        max_size=3,
    ).map(tuple),
    st.text(max_size=150),
)
gpu_verdicts = st.builds(
    GpuVerdict,
    st.integers(0, 3),
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(State), cells, max_size=3),
    st.none() | st.sampled_from(Cause),
    st.none() | st.floats(0, 1),
    st.lists(evidences, max_size=3).map(tuple),
    st.lists(st.tuples(st.text(max_size=9), st.text(), st.text(), st.text()), max_size=2).map(tuple),
)
ticks = st.lists(
    st.builds(Verdict, st.floats(0, 1e6), st.floats(0, 10), st.lists(gpu_verdicts, max_size=3).map(tuple)),
    max_size=4,
)


@given(ticks)
def test_any_verdicts_can_be_told(verdicts):
    """Whatever the engine says, a report comes of it, in printable text of bounded width."""
    report = build(verdicts, Snapshot(1.0, Host()))
    for line in text(report).split("\n"):
        assert line == "" or line.isprintable()
