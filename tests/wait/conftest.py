"""One tick of one workload, made of the few figures that a test is about."""

from dataclasses import replace

import pytest

from gpuwait.thresholds import Thresholds
from gpuwait.wait.causes import CAUSES
from gpuwait.wait.history import History, Medians
from gpuwait.wait.host_tick import HostTick
from gpuwait.wait.snapshot import Gpu, Host, Pressure, Snapshot, Workload
from gpuwait.wait.tick import LoadTick, Tick

KEY = ("pod", "research", "train-0", "main")


class Case:
    """Counters before and after one second; `host` and `load` change the later ones."""

    def __init__(self):
        self.hosts = [Host(cpus=8), Host(cpus=8)]
        self.loads = [Workload(), Workload()]
        self.known = True
        self.home = frozenset({0})
        self.active = frozenset()
        self.medians = Medians()
        self.ports = {}

    def host(self, before=None, **after):
        """Set fields of the node after, and before (else the same)."""
        self.hosts = [replace(self.hosts[0], **(before or after)), replace(self.hosts[1], **after)]
        return self

    def load(self, before=None, **after):
        """Set fields of the workload after, and before (else the same)."""
        self.loads = [replace(self.loads[0], **(before or after)), replace(self.loads[1], **after)]
        return self

    def vmstat(self, **rates):
        """Let counters of the node grow from 1000."""
        before = dict(self.hosts[0].vmstat) | dict.fromkeys(rates, 1000)
        after = dict(self.hosts[1].vmstat) | {name: 1000 + rate for name, rate in rates.items()}
        return self.host({"vmstat": before}, vmstat=after)

    def node_pressure(self, **shares):
        """Let the pressure of the node grow."""
        before = {name: Pressure(10.0) for name in shares}
        return self.host({"pressure": before}, pressure={n: Pressure(10.0 + s) for n, s in shares.items()})

    def pressure(self, **shares):
        """Let the pressure of the workload grow."""
        before = {name: Pressure(10.0) for name in shares}
        return self.load({"pressure": before}, pressure={n: Pressure(10.0 + s) for n, s in shares.items()})

    def delays(self, covered=1.0, pid=100, **seconds):
        """Let delays of one process grow; class names as in `Delay`."""
        before = dict(self.loads[0].delays) | {pid: dict.fromkeys(seconds, 5.0)}
        after = dict(self.loads[1].delays) | {pid: {name: 5.0 + grown for name, grown in seconds.items()}}
        return self.load({"delays": before, "covered": covered}, delays=after, covered=covered)

    def blocked(self, looks=10, **looks_by_class):
        """Set in how many looks a thread was blocked."""
        return self.load(looks=looks, blocked=looks_by_class)

    def usual(self, key, value):
        """Give a counter a history."""
        for _ in range(20):
            self.medians.add(key, value)
        return self

    def judge(self, cause, limits=None):
        """Evidence of one cause."""
        load = LoadTick(*self.loads, 1.0, self.hosts[1].cpus) if self.known else None
        tick = Tick(HostTick(*self.hosts, 1.0), load, self.home)
        history = History(self.medians, self.active, self.ports)
        return CAUSES[cause](tick, history, limits or Thresholds())


@pytest.fixture
def case():
    """A tick in which nothing happens."""
    return Case()


class Film:
    """Snapshots of one GPU and one workload, a second apart."""

    key = KEY

    def __init__(self):
        self.at = 100.0
        self.busy = 0.0
        self.observed = 0.0

    def shot(self, u=None, dt=1.0, load=None, host=None, **gpu):
        """Let `dt` seconds pass with the GPU busy for the share `u`."""
        self.at += dt
        if u is not None:
            self.busy += u * dt
            self.observed += dt
        fields = {
            "index": 0,
            "uuid": "GPU-a",
            "busy_seconds": self.busy if u is not None else None,
            "observed_seconds": self.observed if u is not None else None,
            "in_use": True,
            "allocated": True,
            "numa_node": 0,
            "workloads": (KEY,),
        }
        return Snapshot(self.at, host or Host(), (Gpu(**(fields | gpu)),), {KEY: load or Workload()})


@pytest.fixture
def film():
    """A GPU whose snapshots a test takes one by one."""
    return Film()
