"""What collectors may read: the host, the options, and the readers that live longer than a scrape."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from gpuwait.host import Host

if TYPE_CHECKING:
    from gpuwait.gpu.client import GpuClient
    from gpuwait.wait.state import WaitState
    from gpuwait.workload.claims import Claims
    from gpuwait.workload.tree import WorkloadTree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Filter:
    """Include and exclude patterns of one collector; a name must match the whole pattern."""

    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None

    def __call__(self, name: str) -> bool:
        """Tell whether the name passes."""
        if self.include is not None and not self.include.fullmatch(name):
            return False
        return self.exclude is None or not self.exclude.fullmatch(name)


@dataclass(frozen=True, slots=True)
class CollectorOptions:
    """Options of collectors, from flags."""

    disk_devices: Filter = Filter()
    cgroups: Filter = Filter()
    nfs_mounts: Filter = Filter()
    gpfs_mmpmon: str = "/usr/lpp/mmfs/bin/mmpmon"
    gpfs_mmdiag: str = ""  # empty: GPFS's waiters are not asked for


@dataclass(slots=True)
class Sources:
    """Everything a collector may touch.

    clock: seconds on the monotonic clock.
    """

    host: Host
    options: CollectorOptions = CollectorOptions()
    clock: Callable[[], float] = time.monotonic
    workloads: WorkloadTree | None = None
    claims: Claims | None = None
    gpu: GpuClient | None = None
    wait: WaitState | None = None
    _kept: dict[type, object] = field(default_factory=dict)

    def kept(self, kind: type[T]) -> T:
        """The one object of this class, made without arguments at the first call.

        For what a collector must remember between scrapes (an earlier reading,
        facts found once). At most one call per collector runs at a time, so
        such an object needs no lock as long as one collector alone uses it.
        """
        if kind not in self._kept:
            self._kept[kind] = kind()
        return cast(T, self._kept[kind])
