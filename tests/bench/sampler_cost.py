"""CPU and memory of the sampler on a node with 8 GPUs, 200 cgroups and 2,000 threads.

The threads are real: 8 ranks with 50 threads each and 20 loader workers of 10 threads each. Every
worker's first thread and a tenth of the others run every second. As root the processes are in cgroups of
their own among 200; else they are process trees. `--waiting`: the GPUs stand at 30 % instead of 95 %.
"""

import argparse
import contextlib
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

from gpuwait.gpu.protocol import GpuReading, Process
from gpuwait.host import Host
from gpuwait.sources import Sources
from gpuwait.thresholds import Thresholds
from gpuwait.wait.engine import Engine
from gpuwait.wait.ledger import Ledger
from gpuwait.wait.live import Live
from gpuwait.wait.sampler import Sampler
from gpuwait.workload.hierarchies import find_hierarchies
from gpuwait.workload.tree import WorkloadTree

GPUS, PODS = 8, 200
RANK_THREADS, WORKERS, WORKER_THREADS = 50, 20, 10


class Reader:
    """GPUs whose busy time grows with the clock."""

    def __init__(self, pids, utilization):
        self.pids, self.utilization, self.begun = pids, utilization, time.monotonic()

    def latest(self):
        observed = time.monotonic() - self.begun
        devices = tuple(
            GpuReading(
                index=i,
                up=True,
                uuid=f"GPU-{i}",
                utilization_ratio=self.utilization,
                busy_seconds=observed * self.utilization,
                observed_seconds=observed,
                processes=(Process(pid, 1 << 30),),
            )
            for i, pid in enumerate(self.pids)
        )
        return SimpleNamespace(snapshot=SimpleNamespace(devices=devices))


def rest(threads):
    """Sleep with some threads, for ever; a tenth of them wakes once a second."""
    for number in range(threads - 1):
        seconds = 1 if number % 10 == 0 else 3600
        threading.Thread(target=nap, args=(seconds,), daemon=True).start()
    nap(1)


def nap(seconds):
    while True:
        time.sleep(seconds)


def rank(group):
    """One rank with its workers; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if group:
        (group / "cgroup.procs").write_text("0")
    threading.stack_size(64 * 1024)
    for _ in range(WORKERS):
        if not os.fork():
            rest(WORKER_THREADS)
    rest(RANK_THREADS)
    os._exit(0)


def groups(host):
    """Directories of new pods in the v2 tree, and what must be removed at the end."""
    root = next((d for d, roles in find_hierarchies(host).items() if "unified" in roles), None)
    if root is None or os.geteuid():
        return []
    made = []
    for number in range(PODS):
        pod = f"kubepods.slice/kubepods-pod{number:08x}_0000_0000_0000_000000000000.slice"
        path = Path(f"{host.sysfs}/{root}/{pod}/cri-containerd-{number:064x}.scope")
        path.mkdir(parents=True)
        made.append(path)
    return made


def remove(made, pids):
    for pid in pids:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    end = time.monotonic() + 5
    nested = [directory for path in made for directory in (path, path.parent)]
    for path in nested + ([made[0].parent.parent] if made else []):
        while True:
            try:
                path.rmdir()
                break
            except OSError:
                if time.monotonic() > end:
                    print(f"left behind: {path}", file=sys.stderr)
                    break
                time.sleep(0.05)


def rss_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--waiting", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    host = Host()
    made, pids = groups(host), []
    try:
        pids = [rank(made[i] if made else None) for i in range(GPUS)]
        time.sleep(3)
        measure(host, pids, options, bool(made))
    finally:
        remove(made, pids)


def measure(host, pids, options, in_groups):
    before = rss_mib()
    reader = Reader(pids, 0.3 if options.waiting else 0.95)
    sources = Sources(host, workloads=WorkloadTree(host, time.monotonic), gpu=reader)
    limits, ledger = Thresholds(), Ledger()
    live = Live(ledger, limits)
    sampler = Sampler(sources, Engine(limits), ledger, live)
    if options.profile:
        profile(sampler)
        return
    sampler.start()
    time.sleep(15)
    begun, ticks = live.cpu_seconds, live.ticks
    time.sleep(options.seconds)
    cpu, ticks = live.cpu_seconds - begun, live.ticks - ticks
    threads = sum(w.thread_count for w in live.snapshot.workloads.values())
    where = "cgroups" if in_groups else "process trees"
    print(f"{len(live.snapshot.workloads)} workloads ({where}), {threads} threads")
    print(f"{cpu / ticks * 1000:.2f} ms a tick, {cpu / options.seconds:.2%} of a core")
    print(f"lag {live.lag_seconds * 1000:.1f} ms")
    print(f"{rss_mib() - before:.1f} MiB for {live.ticks} ticks; missing: {live.reasons or 'nothing'}")
    sampler.stop()


def profile(sampler):
    import cProfile
    import pstats

    for _ in range(15):
        sampler.tick()
        time.sleep(1)
    watch = cProfile.Profile()
    for _ in range(5):
        watch.enable()
        sampler.tick()
        for _ in range(3):
            sampler.look(time.monotonic() + 1)
        watch.disable()
        time.sleep(1)
    pstats.Stats(watch).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
