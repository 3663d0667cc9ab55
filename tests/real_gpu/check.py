"""Compare gpuwait with nvidia-smi on a machine with a real NVIDIA GPU. About a minute, no network.

Prints a table of OK and DIFF, how far the driver's buffer of utilisation samples reaches back, and how
long each NVML call takes. Writes all that NVML said to $OUT/real-gpu.json (without OUT: build/real-gpu.json)
as a state file of the fake NVML. Exit status: 0 all agree, 1 a difference, 77 no GPU here.
"""

import argparse
import contextlib
import itertools
import json
import os
import select
import statistics
import subprocess  # noqa: TID251 - the load has a CUDA context, which belongs in a process of its own
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import capture
import compare
import pynvml as nvml
import scraped
import smi

HERE = Path(__file__).parent
NO_GPU = 77
LOAD_START_S = 60
#: No divisor of the load's two seconds, so that scrapes meet every part of its cycle.
SCRAPE_EVERY_S = 0.7


class NoGpuError(Exception):
    """Nothing to compare here; the text says why."""


def open_nvml() -> float:
    """Start NVML; the seconds that took. Raises NoGpuError."""
    start = time.monotonic()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoGpuError(f"NVML: {error}") from error
    took = time.monotonic() - start
    if nvml.nvmlDeviceGetCount() == 0:
        raise NoGpuError("NVML lists no device")
    if not smi.found():
        raise NoGpuError("no nvidia-smi to compare with")
    return took


@contextlib.contextmanager
def load(uuid: str, seconds: float) -> Iterator[str | None]:
    """The half-busy load on one GPU; its kind, or None where it does not run (the reason is printed)."""
    command = [sys.executable, str(HERE / "load.py"), f"--seconds={seconds}"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready, _, _ = select.select([process.stdout], [], [], LOAD_START_S)
            said = json.loads((process.stdout.readline() if ready and process.stdout else "") or "{}")
            if "kind" not in said:
                print(f"no load: {said.get('error', f'it did not start within {LOAD_START_S} s')}")
            yield said.get("kind")
        finally:
            process.kill()


def observe(
    daemon: scraped.Daemon, seconds: float
) -> tuple[smi.Watch, dict[str, list[tuple[int, float | None]]]]:
    """Both opinions over the same time."""
    with smi.watching() as watch:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            daemon.scrape()
            time.sleep(SCRAPE_EVERY_S)
        listed = smi.processes()
        daemon.scrape()
    return watch, listed


def lines_of(
    state: dict[str, Any],
    daemon: scraped.Daemon,
    watch: smi.Watch,
    listed: dict[str, list[tuple[int, float | None]]],
) -> list[compare.Line]:
    """All comparisons."""
    found = []
    for device in state["devices"]:
        if "uuid" not in device:
            continue
        gpu, uuid, calls = str(device["index"]), device["uuid"], device["calls"]
        lists = [calls[f"nvmlDeviceGet{kind}RunningProcesses_v3"] for kind in ("Graphics", "MPSCompute")]
        others = sum(len(entries) for entries in lists if isinstance(entries, list))
        found += compare.utilisation(gpu, uuid, daemon, watch)
        found += compare.readings(gpu, uuid, daemon, watch)
        found += compare.processes(gpu, uuid, daemon, listed, others)
    return found


def print_lines(lines: list[compare.Line]) -> None:
    """The table of comparisons."""

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")

    print(f"\n{'':5} {'gpu':3} {'what':26} {'gpuwait':>12} {'nvidia-smi':>12}  tolerance")
    for line in lines:
        verdict = "OK" if line.agrees else "DIFF"
        values = f"{shown(line.ours):>12} {shown(line.theirs):>12}"
        print(f"{verdict:5} {line.gpu:3} {line.what:26} {values}  {line.tolerance}")


def print_buffer(state: dict[str, Any]) -> None:
    """How far the samples reach back, and how far apart they are."""
    print("\nbuffer of utilisation samples")
    for device in state["devices"]:
        samples = device.get("samples")
        if not isinstance(samples, list) or len(samples) < 2:
            print(f"  gpu {device['index']}: {samples if isinstance(samples, str) else 'too few samples'}")
            continue
        times = [sample["timestamp_us"] for sample in samples]
        steps = [later - sooner for sooner, later in itertools.pairwise(times)]
        print(
            f"  gpu {device['index']}: {len(times)} samples over {(times[-1] - times[0]) / 1e6:.2f} s, "
            f"period median {statistics.median(steps) / 1000:.1f} ms, longest {max(steps) / 1000:.1f} ms"
        )


def print_calls(taken: capture.Capture, init_s: float) -> None:
    """How long the calls take."""
    print(f"\nNVML calls, microseconds (nvmlInit took {init_s:.3f} s)")
    print(f"  {'call':46} {'times':>5} {'median':>9} {'max':>9}")
    for name, times, median, longest in taken.table():
        print(f"  {name:46} {times:5} {median:9.1f} {longest:9.1f}")


def print_cost(
    before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]], seconds: float
) -> None:
    """What the daemon and the GPU reader use, with a scrape every 0.7 s."""
    for name, (cpu, rss) in after.items():
        used = cpu - before.get(name, (0.0, 0.0))[0]
        print(f"cost of {name}: {used / seconds:.2%} of a core, {rss:.1f} MiB resident")


def check_load(daemon: scraped.Daemon, uuid: str, kind: str | None) -> list[compare.Line]:
    """The load is known: half of the time, if the kernel could be loaded."""
    if kind != "spin":
        return []
    ours = compare.busy_share(daemon, uuid)
    if ours is None:
        ours = compare.mean(daemon.values("gpuwait_gpu_utilization_ratio", uuid))
    return [compare.line("load", "utilisation", ours, 0.5, 0.08, "0.08 of what the load does")]


def run(options: argparse.Namespace, out: Path) -> int:
    """The whole check; the exit status. Raises NoGpuError and ExporterError."""
    init_s = open_nvml()
    taken = capture.Capture()
    state = taken.state()
    uuid = next(device["uuid"] for device in state["devices"] if "uuid" in device)
    print(f"driver {state['driver_version']}, {state['device_count']} GPU(s)")
    work = contextlib.nullcontext() if options.no_load else load(uuid, options.seconds + 20)
    with scraped.running(options.exporter, out / "real-gpu.log") as daemon, work as kind:
        time.sleep(0 if options.no_load else 3)
        before = daemon.cost()
        watch, listed = observe(daemon, options.seconds)
        print_cost(before, daemon.cost(), options.seconds)
        busy = capture.Capture().state() if kind else state
        lines = lines_of(busy, daemon, watch, listed) + check_load(daemon, uuid, kind)
    print_lines(lines)
    print_buffer(busy)
    print_calls(taken, init_s)
    out.mkdir(parents=True, exist_ok=True)
    times = {name: [round(median, 1), round(most, 1)] for name, _, median, most in taken.table()}
    kept = {**capture.anonymous(busy), "call_us_median_max": times}
    (out / "real-gpu.json").write_text(json.dumps(kept, indent=1) + "\n")
    different = [line for line in lines if not line.agrees]
    print(f"\n{len(lines) - len(different)} OK, {len(different)} DIFF; state in {out / 'real-gpu.json'}")
    return 1 if different else 0


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="how long to compare (default 30)")
    parser.add_argument("--no-load", action="store_true", help="start no load: compare what runs already")
    parser.add_argument("--exporter", metavar="CMD", help="command instead of `gpuwait serve`")
    options = parser.parse_args()
    out = Path(os.environ.get("OUT") or HERE.parents[1] / "build")
    try:
        return run(options, out)
    except NoGpuError as reason:
        print(f"SKIP: no GPU here: {reason}")
        return NO_GPU
    except scraped.ExporterError as error:
        print(f"DIFF: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
