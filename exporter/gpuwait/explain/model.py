"""What `explain` says, as values. The field names are the keys of the JSON and public: see `payload`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a GPU: the four labels of a workload."""

    kind: str
    namespace: str
    workload: str
    container: str

    def __str__(self) -> str:
        name = "/".join(part for part in (self.namespace, self.workload) if part) or "unknown"
        inner = {"slurm": "step", "pod": "container"}.get(self.kind)
        rest = f" ({inner} {self.container})" if inner and self.container else ""
        return f"{self.kind or 'process'} {name}{rest}"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of evidence.

    signal:    name of the threshold, or of the fact.
    text:      what was measured.
    value:     in base units, mean over the ticks with this cause; None for a fact in words.
    unit:      ratio, seconds, per_second or count.
    shown:     the value for people.
    threshold: that it is held against, with `limit` the same for people; None and "" without one.
    fired:     whether it speaks for the cause.
    source:    kernel file or call.
    """

    signal: str
    text: str
    value: float | None
    unit: str
    shown: str
    threshold: float | None
    limit: str
    fired: bool
    source: str


@dataclass(frozen=True, slots=True)
class Action:
    """A thing to do: a sentence, and a command where there is one."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """How to see that a fix works: which number must fall, a command, PromQL, and PromQL of the ledger."""

    number: str
    command: str
    query: str
    ledger_query: str


@dataclass(frozen=True, slots=True)
class Other:
    """A cause that was looked at and is not the verdict, with the share of the time that it may have cost."""

    cause: str
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Busy:
    """One thread: name, and shares of a core in user and system mode; its kernel thread id."""

    name: str
    user: float
    system: float
    tid: int


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where the threads of a workload are: how many in which state, and the busiest ones.

    where: adds up to `total`; the last state may be `not looked at`.
    note:  of how many sleepers it is known what they sleep in, "" where that is all or was not asked.
    """

    total: int
    where: Mapping[str, int] = field(default_factory=dict)
    busiest: tuple[Busy, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict on GPUs that fare alike.

    verdict:         waiting, idle, free, unknown or healthy.
    cause:           of the waiting, "" without.
    observed:        seconds looked at, the mean of the GPUs; `seconds` by state and
                     `waiting_seconds` by cause are means too.
    share:           of the workload's time that went into the cause, 0 to 1; None without.
    """

    gpus: tuple[int, ...]
    uuids: tuple[str, ...]
    workloads: tuple[Owner, ...]
    verdict: str
    cause: str
    detail: str
    symptom: str
    meaning: str
    observed_seconds: float
    seconds: Mapping[str, float]
    waiting_seconds: Mapping[str, float]
    utilization: float | None
    share: float | None = None
    evidence: tuple[Fact, ...] = ()
    fix_now: tuple[Action, ...] = ()
    fix_for_good: tuple[Action, ...] = ()
    verify: Check | None = None
    considered: tuple[Other, ...] = ()
    ruled_out: tuple[str, ...] = ()
    threads: Whereabouts | None = None
    runbook: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """Signals whose source is not there, and what would bring it."""

    signals: tuple[str, ...]
    reason: str
    enable: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `explain` says of one node.

    window_seconds: that the figures are taken over.
    simulated:      name of the scenario where this is a demonstration, "" on a real node.
    """

    window_seconds: float
    summary: str
    explanations: tuple[Explanation, ...] = ()
    unavailable: tuple[Lost, ...] = ()
    simulated: str = ""
