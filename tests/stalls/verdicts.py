"""Provokes real stalls on this kernel and asks the real daemon what the GPU waited for.

The GPU is the fake NVML's: held by the stalled process, at 10 % utilisation.
Run as root. As a program it prints the matrix of cause provoked against cause
named; every change to the host is undone.
"""

import argparse
import collections
import contextlib
import json
import os
import signal
import socket
import subprocess  # noqa: TID251 - the daemon is a process of its own
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from host import Group, setting
from loads import LOADS, Quiet
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "build" / "fake-nvml"
#: Seconds until the daemon knows the worker as the GPU's process, with delay accounting.
SETTLE = 12
GPU = {
    "index": 0,
    "nvmlDeviceGetHandleByIndex_v2": "NVML_SUCCESS",
    "uuid": "GPU-00000000-5ca1-ab1e-0000-000000000000",
    "name": "NVIDIA Fake",
    "minor": 0,
}


class Gpu:
    """The state file of the fake library."""

    def __init__(self, folder):
        self.path = folder / "nvml.json"
        self.show(10, ())

    def show(self, per_cent, pids):
        processes = [{"pid": pid, "usedGpuMemory": 2**30} for pid in pids]
        calls = {
            "nvmlDeviceGetUtilizationRates": {"gpu": per_cent, "memory": 1},
            "nvmlDeviceGetMemoryInfo": {"total": 80 * 2**30, "used": 2**30, "free": 79 * 2**30},
            "nvmlDeviceGetComputeRunningProcesses_v3": processes,
        }
        samples = {"generate": {"duty": {"period_s": 1, "busy_s": 1, "value": per_cent}}}
        state = {
            "library": "ok",
            "nvmlInit_v2": "NVML_SUCCESS",
            "driver_version": "570.00",
            "device_count": 1,
            "devices": [GPU | {"calls": calls, "samples": samples}],
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(self.path)


class Daemon:
    """`gpuwait serve` with the fake library."""

    def __init__(self, stack, gpu):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        env = dict(os.environ, LD_LIBRARY_PATH=str(FAKE), FAKE_NVML_STATE=str(gpu.path))
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gpuwait",
                "serve",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            env=env,
        )
        stack.callback(process.wait, 5)
        stack.callback(process.terminate)
        end = time.monotonic() + 15
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                self.waiting()
                return
            time.sleep(0.1)
        raise TimeoutError("the daemon does not answer")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def samples(self):
        families = text_string_to_metric_families(self.get("/metrics"))
        return [s for family in families for s in family.samples]

    def waiting(self):
        """Waiting seconds by cause, and the seconds of other states in brackets."""
        found = collections.Counter()
        for s in self.samples():
            if s.name == "gpuwait_gpu_waiting_seconds_total":
                found[s.labels["cause"]] += s.value
            elif s.name == "gpuwait_gpu_time_seconds_total" and s.labels["state"] != "waiting":
                found[f"[{s.labels['state']}]"] += s.value
        return found


class Worker:
    """A process in the container's cgroup that waits, then stalls."""

    def __init__(self, stack, group, load):
        ready, self._go = os.pipe()
        self._trouble, told = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(ready)
            os.close(told)
            stack.callback(self._end)
            return
        try:
            os.close(self._go)
            group.join()
            seconds = os.read(ready, 16)
            if seconds:
                load.work(time.monotonic() + float(seconds), lambda: os.write(told, b"t") and None)
        finally:
            os._exit(0)

    def go(self, seconds):
        os.write(self._go, str(seconds).encode())

    def in_trouble(self):
        return bool(os.read(self._trouble, 1))

    def _end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def provoke(name, seconds=10.0, per_cent=10, explain=False):
    """Seconds by cause and state while the load `name` stalls. Raises LookupError where it cannot be made."""
    load = Quiet() if name == "quiet" else LOADS[name]()
    with contextlib.ExitStack() as stack:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
        gpu = Gpu(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.enter_context(setting("/proc/sys/kernel/task_delayacct", 1))
        daemon = Daemon(stack, gpu)
        group = Group(stack, load.controllers)
        load.prepare(stack, group)
        workers = [Worker(stack, group, load) for _ in range(load.workers)]
        gpu.show(per_cent, [workers[0].pid])
        time.sleep(SETTLE)
        for worker in workers:
            worker.go(seconds + 60)
        if not all(worker.in_trouble() for worker in workers):
            raise LookupError(f"{name} could not be provoked")
        time.sleep(1.5)
        before = daemon.waiting()
        time.sleep(seconds)
        after = daemon.waiting()
        if explain:
            print(daemon.get("/api/v1/verdict?format=text"))
        return {key: round(after[key] - before[key], 2) for key in after if after[key] - before[key] > 0.005}


def named(seconds):
    """The cause with most seconds, None where the GPU did not wait."""
    causes = {key: value for key, value in seconds.items() if not key.startswith("[")}
    return max(causes, key=lambda c: causes[c]) if causes else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--quiet", type=float, default=600, help="seconds of quiet, half of them at 95 %%")
    parser.add_argument("--only", nargs="*", default=list(LOADS))
    parser.add_argument("--explain", action="store_true", help="print the daemon's explanation of each")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root: it changes kernel settings, and puts them back")
    right = total = 0
    print(f"{'provoked':15} {'named':15} seconds by cause and [state]")
    for name in options.only:
        for _ in range(options.runs):
            try:
                seconds = provoke(name, options.seconds, explain=options.explain)
            except LookupError as reason:
                print(f"{name:15} {'not run':15} {reason}", flush=True)
                continue
            total += 1
            right += named(seconds) == name
            print(f"{name:15} {named(seconds) or '-':15} {seconds}", flush=True)
    for per_cent in (95, 10) if options.quiet else ():
        seconds = provoke("quiet", options.quiet / 2, per_cent)
        wrong = sorted(k for k in seconds if not k.startswith("[") and k != "unexplained")
        total, right = total + 1, right + (not wrong)
        print(f"{f'quiet at {per_cent} %':15} {', '.join(wrong) or 'no cause':15} {seconds}", flush=True)
    print(f"{right} of {total} right")
    return int(right != total)


if __name__ == "__main__":
    sys.exit(main())
