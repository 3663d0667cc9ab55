"""CPUs by frequency governor."""

from gpuwait.collector import Reason
from gpuwait.collectors.cpufreq import COLLECTOR

CPUFREQ = "sys/devices/system/cpu/cpufreq"


def test_cpus_by_governor(tree):
    """A policy counts with the CPUs it covers; one without CPUs or without a governor does not."""
    tree.write(
        {
            f"{CPUFREQ}/policy0/scaling_governor": "performance\n",
            f"{CPUFREQ}/policy0/affected_cpus": "0 1 2 3\n",
            f"{CPUFREQ}/policy4/scaling_governor": "powersave\n",
            f"{CPUFREQ}/policy4/affected_cpus": "4\n",
            f"{CPUFREQ}/policy5/scaling_governor": "performance\n",
            f"{CPUFREQ}/policy5/affected_cpus": "5\n",
            f"{CPUFREQ}/policy6/scaling_governor": "performance\n",
            f"{CPUFREQ}/policy6/affected_cpus": "\n",
            f"{CPUFREQ}/policy7/affected_cpus": "7\n",
            f"{CPUFREQ}/boost": "1\n",
        },
    )
    assert tree.run(COLLECTOR) == (
        {("cpu_governor_cpus", "performance"): 5, ("cpu_governor_cpus", "powersave"): 1},
        None,
    )


def test_read_once_a_minute(tree):
    """A change shows after a minute."""
    now = [100.0]
    tree.write({f"{CPUFREQ}/policy0/affected_cpus": "0\n", f"{CPUFREQ}/policy0/scaling_governor": "old\n"})
    sources = tree.sources(clock=lambda: now[0])
    assert tree.run(COLLECTOR, sources)[0] == {("cpu_governor_cpus", "old"): 1}
    tree.write({f"{CPUFREQ}/policy0/scaling_governor": "new\n"})
    now[0] = 159.0
    assert tree.run(COLLECTOR, sources)[0] == {("cpu_governor_cpus", "old"): 1}
    now[0] = 160.0
    assert tree.run(COLLECTOR, sources)[0] == {("cpu_governor_cpus", "new"): 1}


def test_virtual_machine(tree):
    """Without policies there is no data, and no fault."""
    assert tree.run(COLLECTOR) == ({}, Reason.ABSENT)
