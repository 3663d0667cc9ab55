"""The demonstration: every incident gives its verdict."""

import io

import pytest

from gpuwait import demo, demo_live
from gpuwait.exposition import Exposition
from gpuwait.gather import Gatherer
from gpuwait.host import Host
from gpuwait.scenarios import ALL
from gpuwait.sources import Sources


def test_list():
    """Names and stories."""
    out = io.StringIO()
    demo.list_scenarios(out)
    for scenario in ALL:
        assert f"{scenario.name}: {scenario.title}\n" in out.getvalue()


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_run(scenario):
    """The time line names every phase, the explanation is labelled simulated, and the verdict is right."""
    out = io.StringIO()
    assert demo.run(scenario.name, out) == 0
    told = out.getvalue()
    for phase in scenario.phases:
        assert f" s  {phase.name} " in told
    assert f"SIMULATED: the scenario {scenario.name}, not this node" in told
    assert "WRONG" not in told


def test_data_set_incident():
    """The replayed incident names compaction, the blocks, the setting and what else was ruled out."""
    out = io.StringIO()
    demo.run("dataset-init", out)
    told = " ".join(out.getvalue().split())
    for words in (
        "waited 96 %: memory compaction",
        "Direct compaction took 86 % of the ranks' time",
        "order-9 blocks (2 MiB) are gone on NUMA nodes 0 and 1",
        "THP always, defrag madvise",
        "NUMPY_MADVISE_HUGEPAGE=0",
        "GPFS",
    ):
        assert words in told, words


def test_all():
    """A table of expected against found."""
    out = io.StringIO()
    assert demo.run_all(out) == 0
    lines = out.getvalue().splitlines()
    assert len(lines) == len(ALL) + 2
    assert lines[-1] == f"{len(ALL)} of {len(ALL)} right"


def test_unknown_scenario():
    """One line that names those there are."""
    with pytest.raises(demo.UnknownScenarioError, match="no scenario 'x'; there are dataset-init, "):
        demo.run("x", io.StringIO())


@pytest.mark.parametrize("speed", [0, -1, 101, float("nan")])
def test_speed_out_of_range(speed):
    """Refused before anything is opened."""
    with pytest.raises(ValueError, match="a speed must be above 0"):
        demo_live.serve("quiet", "127.0.0.1:0", speed)


def played(name, ticks):
    player = demo_live.Player(demo.find(name), 1.0, lambda _: True)
    for _, snapshot in zip(range(ticks), player._endless(), strict=False):
        player.step(snapshot)
    return player


def test_live_metrics():
    """The ledger, GPUs and signals of the replayed node, with the label that says so."""
    player = played("dataset-init", 120)
    collectors = (demo_live.collector(player), *demo_live.REAL)
    sources = Sources(host=Host(), wait=player.live)
    gatherer = Gatherer(collectors, sources)
    text = Exposition().text(gatherer.gather(), gatherer.dropped).decode()
    assert 'gpuwait_demo{scenario="dataset-init"} 1\n' in text
    assert "gpuwait_build_info{" in text
    assert (
        'gpuwait_gpu_info{gpu="0",uuid="GPU-00000000-0000-0000-0000-000000000000",vendor="simulated",' in text
    )
    assert 'gpuwait_fragmentation_unusable_ratio{numa_node="0",zone="Normal",order="9"} 0.99\n' in text
    assert "gpuwait_vmstat_compact_stall_total " in text
    line = next(
        x
        for x in text.splitlines()
        if x.startswith('gpuwait_gpu_waiting_seconds_total{gpu="0"') and "compaction" in x
    )
    assert 70 < float(line.split()[-1]) < 80
    assert all(o.success for o in gatherer.gather())


def test_it_loops():
    """At the end it begins anew; the clock and the ledger go on."""
    length = sum(phase.seconds for phase in demo.find("quiet").phases)
    player = played("quiet", 2 * length + 3)
    assert player.live.snapshot.at == 2 * length + 3
    sums = player.live.ledger.sums()
    assert all(sum(account.states.values()) > 2 * length - 2 for account in sums.gpus.values())
