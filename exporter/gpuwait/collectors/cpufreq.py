"""How many CPUs run under which frequency governor: `powersave` slows the loaders of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuwait.collector import Collector, NoData, Reason
from gpuwait.faults import Faults
from gpuwait.host import Host, label
from gpuwait.kernel.settings import parse_word
from gpuwait.metrics import Family, Sample
from gpuwait.sources import Sources

GOVERNOR_CPUS = Family(
    "gpuwait_cpu_governor_cpus",
    "gauge",
    "CPUs under the frequency governor.",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    ("governor",),
)

_DIRECTORY = "devices/system/cpu/cpufreq"
#: A large machine has a policy for each of 256 CPUs: two reads of each, at every scrape,
#: would cost more than all other collectors, for a setting that hardly ever changes.
_REREAD_SECONDS = 60


@dataclass(slots=True)
class _Governors:
    read_at: float | None = None
    cpus: dict[str, int] = field(default_factory=dict)


def _count(host: Host) -> dict[str, int]:
    """CPUs by governor."""
    cpus: dict[str, int] = {}
    for policy in host.list_sys(_DIRECTORY):
        if not policy.startswith("policy"):
            continue
        # EBUSY: all CPUs of the policy are off line; ENOENT: they left just now.
        try:
            governor = parse_word(host.sys(f"{_DIRECTORY}/{policy}/scaling_governor"))
            covered = len(host.sys(f"{_DIRECTORY}/{policy}/affected_cpus").split())
        except (OSError, ValueError):
            continue
        if covered:
            cpus[governor] = cpus.get(governor, 0) + covered
    return cpus


def collect(sources: Sources) -> Iterator[Sample]:
    """Yield CPUs by governor, read anew once a minute. Raises NoData, OSError."""
    kept = sources.kept(_Governors)
    now = sources.clock()
    if kept.read_at is None or now - kept.read_at >= _REREAD_SECONDS:
        faults = Faults()
        with faults.at(f"{sources.host.sysfs}/{_DIRECTORY}"):
            kept.cpus = _count(sources.host)
            kept.read_at = now
        faults.finish()
    for governor, cpus in kept.cpus.items():
        yield GOVERNOR_CPUS, (label(governor),), cpus
    if not kept.cpus:
        raise NoData(Reason.ABSENT, "no frequency governor: usual in a virtual machine")


COLLECTOR = Collector(
    name="cpufreq",
    help="CPUs by frequency governor.",
    families=(GOVERNOR_CPUS,),
    collect=collect,
)
