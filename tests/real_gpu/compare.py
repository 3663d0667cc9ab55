"""The two opinions side by side."""

from dataclasses import dataclass

import smi
from scraped import Daemon

MIB = 1 << 20


@dataclass(frozen=True)
class Line:
    """One comparison: both values, the tolerance in words, and whether they agree."""

    gpu: str
    what: str
    ours: float | None
    theirs: float | None
    tolerance: str
    agrees: bool


def line(
    gpu: str, what: str, ours: float | None, theirs: float | None, allowed: float, tolerance: str
) -> Line:
    """Agree where both are missing, or both are there and differ by no more than allowed."""
    if ours is None or theirs is None:
        return Line(gpu, what, ours, theirs, tolerance, ours is theirs)
    return Line(gpu, what, ours, theirs, tolerance, abs(ours - theirs) <= allowed)


def mean(values: list[float]) -> float | None:
    """None for nothing."""
    return sum(values) / len(values) if values else None


def usual(values: list[float]) -> float | None:
    """The most frequent value; None for nothing."""
    return max(set(values), key=values.count) if values else None


def busy_share(daemon: Daemon, uuid: str) -> float | None:
    """Busy over observed seconds between the first and the last scrape."""
    busy = daemon.values("gpuwait_gpu_busy_seconds_total", uuid)
    observed = daemon.values("gpuwait_gpu_observed_seconds_total", uuid)
    if len(busy) < 2 or len(observed) < 2 or observed[-1] <= observed[0]:
        return None
    return (busy[-1] - busy[0]) / (observed[-1] - observed[0])


def scaled(value: float | None, factor: float) -> float | None:
    """The value in another unit."""
    return None if value is None else value * factor


def utilisation(gpu: str, uuid: str, daemon: Daemon, watch: smi.Watch) -> list[Line]:
    """The gauge and the counters against the mean of nvidia-smi."""
    theirs = scaled(watch.mean(uuid, "utilization.gpu"), 0.01)
    gauge = mean(daemon.values("gpuwait_gpu_utilization_ratio", uuid))
    lines = [line(gpu, "utilisation, gauge", gauge, theirs, 0.12, "0.12")]
    share = busy_share(daemon, uuid)
    if share is not None:
        lines.append(line(gpu, "utilisation, counters", share, theirs, 0.08, "0.08"))
    return lines


def readings(gpu: str, uuid: str, daemon: Daemon, watch: smi.Watch) -> list[Line]:
    """Memory, power, temperature, clocks, PCIe link."""

    def ours(name: str, **labels: str) -> list[float]:
        return daemon.values(f"gpuwait_gpu_{name}", uuid, **labels)

    used, total = watch.mean(uuid, "memory.used"), watch.mean(uuid, "memory.total")
    power = watch.mean(uuid, "power.draw")
    # a link that trains down at idle may be seen in either state: the most frequent one counts
    links = {"generation": "gen", "width": "width"}
    return [
        line(gpu, "memory used, MiB", scaled(mean(ours("memory_used_bytes")), 1 / MIB), used, 64, "64 MiB"),
        line(gpu, "memory total, MiB", scaled(mean(ours("memory_total_bytes")), 1 / MIB), total, 1, "1 MiB"),
        line(gpu, "power, W", mean(ours("power_watts")), power, max(15, 0.1 * (power or 0)), "10 %, 15 W"),
        line(
            gpu,
            "power limit, W",
            mean(ours("power_limit_watts")),
            watch.mean(uuid, "enforced.power.limit"),
            1,
            "1 W",
        ),
        line(
            gpu,
            "temperature, C",
            mean(ours("temperature_celsius")),
            watch.mean(uuid, "temperature.gpu"),
            2,
            "2 C",
        ),
        line(
            gpu,
            "SM clock, MHz",
            scaled(usual(ours("clock_hertz", clock="sm")), 1e-6),
            watch.usual(uuid, "clocks.sm"),
            60,
            "60 MHz, most frequent",
        ),
        *(
            line(
                gpu,
                f"PCIe {name}{when}",
                usual(ours(f"pcie_link_{middle}{name}")),
                watch.usual(uuid, f"pcie.link.{field}.{end}"),
                0,
                "equal, most frequent",
            )
            for name, field in links.items()
            for when, middle, end in (("", "", "current"), (", most", "max_", "max"))
        ),
    ]


def processes(
    gpu: str, uuid: str, daemon: Daemon, listed: dict[str, list[tuple[int, float | None]]], others: int
) -> list[Line]:
    """Processes and their memory; `others` are graphics and MPS ones, which nvidia-smi does not list here."""
    theirs = listed.get(uuid, [])
    ours = daemon.values("gpuwait_gpu_processes", uuid)
    count = ours[-1] if ours else None
    agrees = count is not None and len(theirs) <= count <= len(theirs) + others
    lines = [Line(gpu, "processes", count, len(theirs), f"up to {others} more", agrees)]
    known = [mib for _, mib in theirs if mib is not None]
    held = scaled(daemon.sum_last("gpuwait_gpu_workload_memory_bytes", uuid), 1 / MIB)
    # absent where a process belongs to another process namespace, so that its owner is not known
    if held is not None and len(known) == len(theirs):
        lines.append(line(gpu, "memory of processes, MiB", held, sum(known), 2 * len(known), "2 MiB each"))
    return lines
