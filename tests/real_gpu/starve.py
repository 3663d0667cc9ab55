"""Starve a real GPU with real stalls on the host, and compare what the daemon names.

A trainer computes 50 ms for every batch it gets; loaders in the same container's cgroup make the
batches. First they are quick and the GPU is busy; then they stall, and the GPU waits for them.
Run as root. Prints one line for each cause; exit status 0 all right, 1 a wrong one, 77 no GPU here.
"""

import argparse
import contextlib
import fcntl
import os
import signal
import subprocess  # noqa: TID251 - the daemon is a process of its own
import sys
import time
import urllib.request
from pathlib import Path

import scraped

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "stalls"))

from host import Group, setting  # noqa: E402 - beside us, not on the path
from loads import LOADS  # noqa: E402

NO_GPU = 77
#: One batch is one buffer of the queue, so that no more than four are made ahead.
BATCH = b"b" * 1024
QUEUE_BYTES = 4096
#: Seconds of stall for one batch of all loaders together; these need longer to get into their stall.
SLICE_S = {"compaction": 2.0, "swap": 2.0}
SETTLE_S = 12
#: On cgroup v2 a group at its memory limit has a dirty limit of its own, and its writers are held by that.
SAME_ON_V2 = {"reclaim": "writeback"}


def trainer(group, queue, told):
    """Compute for every batch; in a process of its own, for a CUDA context survives no fork."""
    group.join()
    words = [sys.executable, str(HERE / "load.py"), f"--batches={queue}"]
    os.dup2(told, 1)
    os.set_inheritable(queue, True)
    os.execv(sys.executable, words)


def loader(group, load, name, queue, stall, other_end):
    """Make batches: at once until the pipe `stall` closes, then one after each slice of the stall."""
    os.close(other_end)
    group.join()
    os.set_blocking(stall, False)
    while True:
        with contextlib.suppress(BlockingIOError):
            if not os.read(stall, 1):
                break
        time.sleep(0.02)
        os.write(queue, BATCH)
    while True:
        load.work(time.monotonic() + SLICE_S.get(name, 0.5) * load.workers, lambda: None)
        os.write(queue, BATCH)


def forked(stack, function, *arguments):
    """A child that runs the function, killed by the stack."""
    pid = os.fork()
    if pid:
        stack.callback(os.waitpid, pid, 0)
        stack.callback(os.kill, pid, signal.SIGKILL)
        return pid
    try:
        function(*arguments)
    finally:
        os._exit(1)


def seconds(daemon):
    """Seconds of the one GPU by cause of the waiting, and by state in brackets."""
    found = {}
    for (name, labels), value in daemon.scrape().items():
        kinds = dict(labels)
        if name == "gpuwait_gpu_waiting_seconds_total":
            found[kinds["cause"]] = found.get(kinds["cause"], 0) + value
        elif name == "gpuwait_gpu_time_seconds_total":
            found[f"[{kinds['state']}]"] = found.get(f"[{kinds['state']}]", 0) + value
    return found


def over(daemon, length):
    """Seconds by cause and state within this time."""
    before = seconds(daemon)
    time.sleep(length)
    after = seconds(daemon)
    gone = {key: round(after[key] - before.get(key, 0), 1) for key in after}
    return {key: value for key, value in gone.items() if value > 0.05}


def make_room(load, group):
    """Limits of the load come on top of what the CUDA context holds."""
    if hasattr(load, "limit"):
        used = Path(
            group.paths["memory"], "memory.current" if group.version == 2 else "memory.usage_in_bytes"
        )
        held = int(used.read_text()) >> 20
        load.limit += held
        load.use = getattr(load, "use", 0) + held


def provoke(name, length, out, explain):
    """Both phases of one cause: seconds while the loaders were quick, and while they stalled."""
    load = LOADS[name]()
    with contextlib.ExitStack() as stack:
        stack.enter_context(setting("/proc/sys/kernel/task_delayacct", 1))
        group = Group(stack, load.controllers)
        queue_out, queue_in = os.pipe()
        fcntl.fcntl(queue_in, 1031, QUEUE_BYTES)
        told_out, told_in = os.pipe()
        stall_out, stall_in = os.pipe()
        forked(stack, trainer, group, queue_out, told_in)
        os.close(told_in)
        if b'"kind": "spin"' not in os.read(told_out, 4096):
            raise LookupError("the trainer does not run")
        # before the memory is parked, so that it starts as on any node
        daemon = stack.enter_context(scraped.running(None, out / f"starve-{name}.log"))
        make_room(load, group)
        load.prepare(stack, group)
        for _ in range(load.workers):
            forked(stack, loader, group, load, name, queue_in, stall_out, stall_in)
        os.close(stall_out)
        time.sleep(SETTLE_S)
        quick = over(daemon, length / 2)
        os.close(stall_in)
        time.sleep(4)
        stalled = over(daemon, length)
        if explain:
            url = daemon.url.replace("/metrics", "/api/v1/verdict?format=text")
            with urllib.request.urlopen(url, timeout=10) as answer:
                print(answer.read().decode())
        return quick, stalled


def named(found):
    """The cause with most seconds."""
    causes = {key: value for key, value in found.items() if not key.startswith("[")}
    return max(causes, key=lambda cause: causes[cause], default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", nargs="*", default=list(LOADS))
    parser.add_argument("--explain", action="store_true", help="print the daemon's explanation of each")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("not run: needs root")
        return NO_GPU
    if subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode:
        print("not run: no GPU here")
        return NO_GPU
    out = Path(os.environ.get("OUT") or HERE.parents[1] / "build")
    wrong = 0
    for name in options.only:
        try:
            quick, stalled = provoke(name, options.seconds, out, options.explain)
        except LookupError as reason:
            print(f"{name:15} not run: {reason}", flush=True)
            continue
        right = named(stalled) in (name, SAME_ON_V2.get(name)) and named(quick) is None
        wrong += not right
        print(f"{name:15} {'right' if right else 'WRONG'}  quick {quick}  stalled {stalled}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
