"""Incidents as data: what the demo replays and the tests judge."""

from __future__ import annotations

from gpuwait.scenarios.compute import (
    BUSY_PYTHON,
    FABRIC_RETRANSMITS,
    HELD_NOTEBOOK,
    NO_CAUSE,
    QUIET,
    REMOTE_NUMA,
    THROTTLED_LOADERS,
)
from gpuwait.scenarios.memory import AFTER_CHECKPOINT, DATASET_INIT, SWAPPING
from gpuwait.scenarios.recorded import NFS_OUTAGE_V3, NFS_OUTAGE_V4
from gpuwait.scenarios.replay import replay
from gpuwait.scenarios.scenario import Phase, Scenario
from gpuwait.scenarios.storage import (
    CHECKPOINT_STORM,
    EVERY_30_SECONDS,
    GPFS_WAITERS,
    LUSTRE_METADATA,
    NFS_SMALL_FILES,
    SLOW_DISK,
)

#: Every scenario, in the order of the demo's list.
ALL: tuple[Scenario, ...] = (
    DATASET_INIT,
    AFTER_CHECKPOINT,
    NFS_SMALL_FILES,
    EVERY_30_SECONDS,
    NFS_OUTAGE_V3,
    NFS_OUTAGE_V4,
    CHECKPOINT_STORM,
    THROTTLED_LOADERS,
    REMOTE_NUMA,
    BUSY_PYTHON,
    SLOW_DISK,
    SWAPPING,
    LUSTRE_METADATA,
    GPFS_WAITERS,
    FABRIC_RETRANSMITS,
    HELD_NOTEBOOK,
    NO_CAUSE,
    QUIET,
)

__all__ = ["ALL", "Phase", "Scenario", "replay"]
