"""What must be remembered between ticks so that a report can be made at any time: little."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from gpuwait.explain.build import build
from gpuwait.explain.model import Report
from gpuwait.wait.snapshot import Snapshot
from gpuwait.wait.verdict import State, Verdict

#: Seconds that a report looks back.
WINDOW = 60.0
#: Seconds over which shares of CPU by thread are taken, at least.
SPAN = 5.0
#: Seconds of a column of the status page, and how many are kept: five minutes.
COLUMN, COLUMNS = 5, 60
#: Verdicts with all their evidence that are kept: one is up to 70 KiB.
SAMPLES = 10

#: What threads sleep in, by thread id: `whereabouts.sleeps` with a host.
Sleeps = Callable[[Sequence[int]], Mapping[int, str]]


#: Seconds by state, the waiting ones by cause.
Column = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Strip:
    """One GPU over the last minutes: a column for each few seconds, newest last; None where not seen."""

    index: int
    uuid: str
    columns: tuple[Column | None, ...]


class Recent:
    """Fed by the sampler after each tick; a report may be made from any thread."""

    def __init__(self) -> None:
        self._older: deque[Snapshot] = deque(maxlen=3)
        self._samples: tuple[Verdict, ...] = ()
        self._scene: tuple[Snapshot, Snapshot | None] | None = None
        self._waited_at: float | None = None
        self._lock = Lock()
        self._columns: dict[int, dict[tuple[int, str], dict[str, float]]] = {}

    def add(self, verdict: Verdict | None, snapshot: Snapshot) -> None:
        """Take in a tick: its verdict with all evidence, None where there was none, and its snapshot."""
        waits = verdict is not None and any(gpu.seconds.get(State.WAITING) for gpu in verdict.gpus)
        if verdict is not None and waits:
            self._samples = (*self._samples, verdict)[-SAMPLES:]
            self._waited_at = snapshot.at
        if self._waited_at is None or waits or snapshot.at - self._waited_at > WINDOW:
            # What the node looked like while a GPU waited says more than how it looks just after.
            earlier = [old for old in self._older if snapshot.at - old.at >= SPAN]
            self._scene = (snapshot, earlier[-1] if earlier else None)
        if not self._older or snapshot.at - self._older[-1].at >= SPAN:
            self._older.append(snapshot)
        if verdict is not None:
            with self._lock:
                self._add_column(verdict)

    def _add_column(self, verdict: Verdict) -> None:
        number = int(verdict.at // COLUMN)
        gpus = self._columns.get(number)
        if gpus is None:
            gpus = self._columns[number] = {}
            for old in [one for one in self._columns if one <= number - COLUMNS]:
                del self._columns[old]
        for gpu in verdict.gpus:
            column = gpus.setdefault((gpu.index, gpu.uuid), {})
            for state, seconds in gpu.seconds.items():
                if seconds > 0:
                    waits = state is State.WAITING and gpu.cause is not None
                    name = str(gpu.cause if waits else state)
                    column[name] = column.get(name, 0.0) + seconds

    def strips(self) -> list[Strip]:
        """The last five minutes of each GPU seen in them, by index."""
        with self._lock:
            found = {
                n: {key: dict(column) for key, column in gpus.items()} for n, gpus in self._columns.items()
            }
        if not found:
            return []
        last = max(found)
        keys = sorted({key for gpus in found.values() for key in gpus})
        numbers = range(last - COLUMNS + 1, last + 1)
        return [Strip(*key, tuple(found.get(n, {}).get(key) for n in numbers)) for key in keys]

    def report(
        self,
        history: Sequence[Verdict],
        *,
        reasons: Mapping[str, str] | None = None,
        sleeps: Sleeps | None = None,
        simulated: str = "",
    ) -> Report:
        """What to say of the last minute. `history`: the verdicts so far, oldest first."""
        scene = self._scene
        if scene is None:
            return Report(0.0, "No readings yet.", simulated=simulated)
        latest, earlier = scene
        since = history[-1].at - WINDOW if history else 0.0
        window = [verdict for verdict in history if verdict.at > since + 1e-6]
        full = [verdict for verdict in self._samples if verdict.at > since + 1e-6]
        report = build(window, latest, earlier, full=full, reasons=reasons, simulated=simulated)
        if sleeps is None or not any(row.cause == "unexplained" for row in report.explanations):
            return report
        keys = [key for verdict in window[-1:] for gpu in verdict.gpus for key in gpu.workloads]
        loads = (latest.workloads[key] for key in dict.fromkeys(keys) if key in latest.workloads)
        sleeping = sleeps([tid for load in loads for tid, t in load.threads.items() if t.state == "S"])
        return build(
            window, latest, earlier, full=full, reasons=reasons, simulated=simulated, sleeping=sleeping
        )
