"""From a stall to a message: nodes of the demo, real Prometheus and Alertmanager, shipped rules.

Only times are shorter, and receivers are webhooks. Every node is a cluster of its own, or the fleet's alert
would rightly mute them; the fleet is one more cluster, of nodes that are scraped twice.
"""

import contextlib
import re
import sys
import time

import paging
import pytest

pytestmark = pytest.mark.e2e

#: Incident: where its message goes, the alert, and the cause.
SICK = {
    "dataset-init": ("chat-and-ticket", "GPUWaitingOnCompaction", "compaction"),
    "after-checkpoint": ("chat-and-ticket", "GPUWaitingOnReclaim", "reclaim"),
    "swapping": ("chat-and-ticket", "GPUWaitingOnSwap", "swap"),
    "checkpoint-storm": ("chat-and-ticket", "GPUWaitingOnWriteback", "writeback"),
    "nfs-small-files": ("chat-and-ticket", "GPUWaitingOnNFS", "nfs"),
    "nfs-outage-v3": ("chat-and-ticket", "GPUWaitingOnNFS", "nfs"),
    "nfs-outage-v4": ("chat-and-ticket", "GPUWaitingOnNFS", "nfs"),
    "lustre-metadata": ("chat-and-ticket", "GPUWaitingOnLustre", "lustre"),
    "gpfs-waiters": ("chat-and-ticket", "GPUWaitingOnGPFS", "gpfs"),
    "slow-disk": ("chat-and-ticket", "GPUWaitingOnDisk", "disk"),
    "throttled-loaders": ("chat-and-ticket", "GPUWaitingOnCPUThrottling", "cpu_throttling"),
    "remote-numa": ("digest", "GPUWaitingOnRemoteNUMA", "numa_remote"),
    "fabric-retransmits": ("chat-and-ticket", "GPUWaitingOnFabric", "fabric"),
    "busy-python": ("chat-and-ticket", "GPUWaitingOnHostCPU", "host_cpu"),
    "no-cause": ("digest", "GPUWaitingUnexplained", "unexplained"),
    "held-notebook": ("digest", "GPUHeldButIdle", None),
}
#: Nobody is told of these: no wait, and dips that cost 9 %.
WELL = ("quiet", "every-30-seconds")
ENDS = ("firing", "resolved")
#: The sick nodes of the fleet: one more than it takes.
FLEET = ("nfs-small-files", "slow-disk", "swapping", "lustre-metadata")


class Nodes:
    """Processes of the demo by name, and what Prometheus scrapes of them."""

    def __init__(self, stack):
        self._stack, self._addresses, self._processes = stack, {}, {}
        for name in (*SICK, *WELL):
            self.start(name, name)
        self.start("slow-rank", "nfs-small-files", "--workload=slurm/4242")
        self.start("fast-rank", "quiet", "--workload=slurm/4242")
        self.start("dies", "nfs-small-files")
        for address in self._addresses.values():
            paging.until(30, lambda at=address: self._answers(at), "the demo")

    def start(self, name, scenario, *more):
        address = self._addresses[name] = f"127.0.0.1:{paging.free_port()}"
        command = [sys.executable, "-m", "gpuwait", "demo", scenario, "--serve", "--log.level=warn", *more]
        options = (f"--web.listen-address={address}", f"--speed={paging.FACTOR}")
        self._processes[name] = paging.start(self._stack, *command, *options)

    @staticmethod
    def _answers(address):
        with contextlib.closing(paging.urllib.request.urlopen(f"http://{address}/metrics")) as answer:
            return answer.status == 200

    def kill(self, name):
        self._processes[name].kill()

    def targets(self, *, quiet=False):
        """Each node in a cluster of its own; a job of three nodes; a fleet; a node with two causes."""

        def at(name):
            well = "fast-rank" if name == "slow-rank" else "quiet"
            return self._addresses[well if quiet and name != "fast-rank" else name]

        single = [(at(name), {"cluster": name, "node": f"node-{name}"}) for name in (*SICK, *WELL)]
        groups = {
            "job": {"rank-0": "fast-rank", "rank-1": "slow-rank", "rank-2": "fast-rank"},
            "fleet": dict(zip(("f1", "f2", "f3", "f4", "f5"), (*FLEET, "quiet"), strict=True)),
        }
        several = [
            (at(name), {"cluster": cluster, "node": node})
            for cluster, nodes in groups.items()
            for node, name in nodes.items()
        ]
        both = [(at(name), {"cluster": "both", "node": "both"}) for name in ("slow-disk", "lustre-metadata")]
        down = (self._addresses["dies"], {"cluster": "dies", "node": "dies"})
        return [*single, *several, *both, *(() if quiet else [down])]


def wait(seconds, question):
    """Whether it came true in time: what did not is told by the test that misses it."""
    try:
        return paging.until(seconds, question)
    except AssertionError:
        return False


class Story:
    """What happened, told once for all tests: messages before and after all nodes are well again."""

    def __init__(self, stack, folder):
        self.receiver = paging.Receiver(stack)
        nodes = Nodes(stack)
        config = paging.webhooks(paging.short_routes(), self.receiver.url)
        self.alertmanager = paging.Alertmanager(stack, folder, config)
        self.prometheus = paging.Prometheus(stack, folder, self.alertmanager, nodes.targets())
        wait(60, lambda: self.firing("chat-and-ticket", "dies"))
        nodes.kill("dies")
        self.silenced = wait(40, lambda: ("dies", "GPUWaitingOnNFS") in self.muted())
        wait(60, lambda: self.firing("pager", "fleet"))
        wait(200, lambda: all(self.firing(receiver, name) for name, (receiver, *_) in SICK.items()))
        self.muted_at_last = self.muted()
        self.prometheus.scrape(nodes.targets(quiet=True))
        wait(120, self.over)
        time.sleep(12)  # a group interval

    def over(self):
        return {"GpuwaitWatchdog"} >= {alert["labels"]["alertname"] for alert in self.alertmanager.alerts()}

    def muted(self):
        return {
            (alert["labels"]["cluster"], alert["labels"]["alertname"])
            for alert in self.alertmanager.alerts()
            if alert["status"]["state"] == "suppressed"
        }

    def told(self, receiver, cluster, status):
        """Name, node and cause of the alerts of each message that tells of a new one."""
        found, before = [], {}
        for group, alerts in self.receiver.groups(receiver, status):
            told = [tuple(a["labels"].get(k) for k in ("alertname", "node", "cause")) for a in alerts]
            key = str(group)
            if group.get("cluster") == cluster and set(told) - before.get(key, set()):
                found.append(sorted(told, key=str))
            before[key] = set(told)
        return found

    def firing(self, receiver, cluster):
        return self.told(receiver, cluster, "firing")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    paging.program("prometheus", "prometheus")
    with contextlib.ExitStack() as stack:
        yield Story(stack, tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("name", SICK)
def test_a_sick_node_is_one_message(name, story):
    """It names the node and the cause, and comes once."""
    receiver, alert, cause = SICK[name]
    assert story.firing(receiver, name) == [[(alert, f"node-{name}", cause)]]


@pytest.mark.parametrize("name", SICK)
def test_it_goes_nowhere_else(name, story):
    """No second alert about the same wait, in another place."""
    others = {"chat-and-ticket", "pager", "digest"} - {SICK[name][0]}
    found = [one for other in others for message in story.firing(other, name) for one in message]
    assert [one for one in found if one[0].startswith("GPU")] == []


@pytest.mark.parametrize("name", [name for name, (receiver, *_) in SICK.items() if receiver != "digest"])
def test_it_is_over_when_the_node_is_well(name, story):
    """One message of the end."""
    assert story.told("chat-and-ticket", name, "resolved") == [
        [(SICK[name][1], f"node-{name}", SICK[name][2])]
    ]


@pytest.mark.parametrize("name", WELL)
def test_a_well_node_is_no_message(name, story):
    """Neither a busy node nor dips of two seconds."""
    found = [m for other in ("chat-and-ticket", "pager", "digest") for m in story.firing(other, name)]
    assert [one for message in found for one in message if one[0].startswith("GPU")] == []


def test_two_causes_on_a_node_are_one_message(story):
    """Both are in it."""
    (message,) = story.firing("chat-and-ticket", "both")
    assert message == [
        ("GPUWaitingOnDisk", "both", "disk"),
        ("GPUWaitingOnLustre", "both", "lustre"),
    ]


def test_the_straggler_of_a_job_is_one_message(story):
    """The node that waits is named, with its cause; its peers, which look busy, are not."""
    (message,) = story.firing("chat-and-ticket", "job")
    assert message == [
        ("GPUJobStraggler", "rank-1", None),
        ("GPUWaitingOnNFS", "rank-1", "nfs"),
    ]


def test_the_fleet_is_one_page(story):
    """The pager is called once, and nobody is told of its nodes: neither the wait nor its end."""
    others = ("chat-and-ticket", "digest")
    found = [story.told(to, "fleet", status) for to in others for status in ENDS]
    assert found == [[], [], [], []]
    assert story.firing("pager", "fleet") == [[("GPUWaitingFleet", None, None)]]
    assert {name for cluster, name in story.muted_at_last if cluster == "fleet"} == {
        "GPUWaitingOnNFS",
        "GPUWaitingOnDisk",
        "GPUWaitingOnSwap",
        "GPUWaitingOnLustre",
    }
    assert story.told("pager", "fleet", "resolved") == [[("GPUWaitingFleet", None, None)]]


def test_a_dead_exporter_is_told_and_mutes_its_node(story):
    """What it last said is told before, and no more."""
    assert story.firing("chat-and-ticket", "dies") == [
        [("GPUWaitingOnNFS", "dies", "nfs")],
        [("GpuwaitDown", "dies", None)],
    ]
    assert story.silenced


def test_the_watchdog_is_alive(story):
    """At its own receiver, all the time."""
    assert "GpuwaitWatchdog" in str(story.receiver.groups("deadman", "firing"))


def test_texts_are_whole(story):
    """Nothing of a template shows, and every cause tells how bad it is."""
    texts = [a["annotations"] for _, body in story.receiver.posts for a in body["alerts"]]
    assert [t for t in texts if re.search(r"<no value>|<nil>|%!|NaN|\{\{|error expanding", str(t))] == []
    assert [t for t in texts if t["runbook_url"].split("/")[-1].startswith("GPUWaitingOn")
            and not re.fullmatch(r"\d+%", t["short"])] == []  # fmt: skip
