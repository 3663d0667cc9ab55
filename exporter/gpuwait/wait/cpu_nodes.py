"""NUMA node of each CPU."""

from __future__ import annotations

from collections.abc import Callable

from gpuwait.host import Host
from gpuwait.kernel.task import parse_cpulist

#: CPUs are plugged in and out by a person's hand only.
EVERY = 60.0
_DIRECTORY = "devices/system/node"


class CpuNodes:
    """From `<sysfs>/devices/system/node/node*/cpulist`. Used by one thread."""

    def __init__(self, host: Host, clock: Callable[[], float]) -> None:
        self._host = host
        self._clock = clock
        self._looked: float | None = None
        self._nodes: dict[int, int] = {}

    def of(self, cpu: int | None) -> int | None:
        """Node of a CPU, None where it is not known."""
        return None if cpu is None else self._nodes.get(cpu)

    def look(self) -> None:
        """Read the lists, if the last look is old."""
        now = self._clock()
        if self._looked is not None and now - self._looked < EVERY:
            return
        self._looked, self._nodes = now, {}
        try:
            for name in self._host.list_sys(_DIRECTORY):
                number = name.removeprefix("node")
                if number != name and number.isdecimal() and len(number) < 6:
                    text = self._host.maybe_sys(f"{_DIRECTORY}/{name}/cpulist") or ""
                    self._nodes.update(dict.fromkeys(parse_cpulist(text), int(number)))
        except OSError:  # locality is an extra: states and times do not depend on it
            return
