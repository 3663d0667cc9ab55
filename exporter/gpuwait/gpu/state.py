"""What the rest of the program sees of the GPU reader."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpuwait.gpu.totals import Snapshot


class State(StrEnum):
    """What the reader does."""

    STARTING = "starting"
    OK = "ok"
    NO_LIBRARY = "no_library"
    NO_DRIVER = "no_driver"
    STUCK = "stuck"
    RESTARTING = "restarting"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds.

    interval:      between two readings. The driver is never asked more often, whatever is scraped.
    stale:         silence after which the reader counts as stuck, and age from which a snapshot is not shown.
    kill_after:    silence after which a stuck reader is killed, once.
    start_limit:   the same while it initialises the driver, which without persistence takes seconds per GPU.
    leave:         that a reader asked to end may take.
    retry:         between looks for a library or driver that was not there.
    released:      for which the devices stay released after SIGUSR1.
    first_pause, longest_pause: before a reader that failed is started again; doubles in between.
    """

    interval: float = 1.0
    stale: float = 5.0
    kill_after: float = 30.0
    start_limit: float = 120.0
    leave: float = 2.0
    retry: float = 60.0
    released: float = 60.0
    first_pause: float = 1.0
    longest_pause: float = 60.0


@dataclass(frozen=True, slots=True)
class Latest:
    """What is known now.

    snapshot:      None where there is none, or it is too old to be true.
    age:           seconds since the snapshot was taken.
    stuck_seconds: how long the reader has been silent, 0 while it is not stuck.
    stuck_call:    the call it is in, with the GPU; empty where not known.
    restarts:      readers started because one before failed.
    detail:        why the state is what it is.
    """

    state: State
    snapshot: Snapshot | None = None
    age: float | None = None
    stuck_seconds: float = 0.0
    stuck_call: str = ""
    restarts: int = 0
    detail: str = ""
