"""A real stall on this kernel becomes one message of the real Prometheus and Alertmanager, and ends."""

import contextlib
import os
import tempfile
import time
from pathlib import Path

import paging
import pytest
from host import Group, setting
from loads import LOADS
from verdicts import FAKE, SETTLE, Daemon, Gpu, Worker

pytestmark = pytest.mark.root

NAMES = {"compaction": "GPUWaitingOnCompaction", "disk": "GPUWaitingOnDisk"}


def expected(name):
    return {NAMES[name]: name}


class Site:
    """Prometheus and Alertmanager with the shipped files in short, and the daemons they know."""

    def __init__(self, stack, folder):
        self.receiver, self.targets = paging.Receiver(stack), []
        config = paging.webhooks(paging.short_routes(), self.receiver.url)
        alertmanager = paging.Alertmanager(stack, folder, config)
        self.prometheus = paging.Prometheus(stack, folder, alertmanager, [], speed=1)

    def watch(self, daemon, node):
        self.targets.append((f"127.0.0.1:{daemon.port}", {"cluster": node, "node": node}))
        self.prometheus.scrape(self.targets)

    def causes(self, status, node):
        """Causes of the node in each message that tells of one that the message before did not tell of."""
        found, before = [], set()
        for group, alerts in self.receiver.groups("chat-and-ticket", status):
            told = {a["labels"]["alertname"]: a["labels"]["cause"] for a in alerts if "cause" in a["labels"]}
            if group.get("node") == node and group.get("component") == "gpu-wait":
                found += [{name: told[name]} for name in told.keys() - before]
                before = told.keys()
        return found


def stall(stack, site, name):
    """Stall until the message is there, then let the GPU work. Raises LookupError where it cannot be made."""
    load = LOADS[name]()
    gpu = Gpu(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    stack.enter_context(setting("/proc/sys/kernel/task_delayacct", 1))
    daemon = Daemon(stack, gpu)
    with contextlib.ExitStack() as loaded:
        group = Group(loaded, load.controllers)
        weight = "cpu.shares" if group.version == 1 else "cpu.weight"
        for path in (group.paths["cpu"], os.path.dirname(group.paths["cpu"])):
            # Prometheus is on the same CPUs, and to wait for one of them is another cause
            loaded.enter_context(setting(f"{path}/{weight}", 10_000))
        load.prepare(loaded, group)
        workers = [Worker(loaded, group, load) for _ in range(load.workers)]
        gpu.show(10, [workers[0].pid])
        time.sleep(SETTLE)
        for worker in workers:
            worker.go(150)
        if not all(worker.in_trouble() for worker in workers):
            raise LookupError(f"{name} could not be provoked")
        site.watch(daemon, name)
        paging.until(90, lambda: expected(name) in site.causes("firing", name), f"the message about {name}")
        gpu.show(95, [workers[0].pid])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root: it changes kernel settings, and puts them back")
    if not (FAKE / "libnvidia-ml.so.1").exists():
        pytest.skip("needs the fake NVML: make fake-nvml")
    paging.program("prometheus", "prometheus")
    with contextlib.ExitStack() as stack:
        site = Site(stack, tmp_path_factory.mktemp("page"))
        site.missing = {}
        for name in NAMES:
            try:
                stall(stack, site, name)
            except LookupError as reason:
                site.missing[name] = str(reason)
        for name in NAMES.keys() - site.missing.keys():
            paging.until(90, lambda n=name: expected(n) in site.causes("resolved", n), f"the end of {name}")
        yield site


@pytest.mark.parametrize("name", NAMES)
def test_a_real_stall_is_one_message_and_ends(name, site):
    """It names the cause that was provoked, comes once, and its end is told once."""
    if name in site.missing:
        pytest.skip(site.missing[name])
    fired = site.causes("firing", name)
    assert fired.count(expected(name)) == 1, fired
    # between two stalls the load gives memory back: a thread at a full core in the kernel
    assert [
        one for one in fired if one not in (expected(name), {"GPUWaitingOnHostKernel": "host_kernel"})
    ] == []
    assert site.causes("resolved", name).count(expected(name)) == 1
