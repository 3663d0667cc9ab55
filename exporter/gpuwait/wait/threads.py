"""States and counters of the threads of GPU workloads.

A thread whose `schedstat` is as it was has not run since, so its state and its
CPU times are as they were: most threads of a training process sleep all day
and cost one read of 1 us a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuwait.host import Host, open_kept, read_bytes
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.task import parse_queue, parse_task
from gpuwait.kernel.wchan import wait_class
from gpuwait.wait.cpu_nodes import CpuNodes
from gpuwait.wait.discovery import EVERY, Watched, sample
from gpuwait.wait.snapshot import Key, Thread, WaitClass

#: Threads looked at in a tick; above it a sample that changes every 10 s.
MOST = 4096
#: Passes after which a thread that did not run counts as asleep.
QUIET_PASSES = 10
#: Passes in which the sleeping threads of a workload that does not wait are gone through once.
TURNS = 4
#: Sizes of buffers: schedstat has three numbers; stat has 52 words.
_SHORT, _LONG = 128, 2048
#: Blocked threads without a name, and none with, after which wait channels count as hidden.
_ZEROS = 5
_NANO = 1_000_000_000


@dataclass(slots=True, eq=False)
class _Track:
    """One thread.

    schedstat, stat: descriptors, -1 where the file is not kept open.
    raw:   schedstat as last read.
    wait, last: class it is blocked in, and was when it last had a name.
    quiet: full passes since it ran.
    ran:   since somebody asked.
    """

    pid: int
    tid: int
    path: str
    schedstat: int = -1
    stat: int = -1
    raw: bytes = b""
    thread: Thread | None = None
    state: str = "R"
    wait: WaitClass | None = None
    last: WaitClass | None = None
    quiet: int = 0
    start: int = 0
    ran: bool = True


@dataclass(slots=True, eq=False)
class _Tracks:
    """Threads of one workload, and what the looks since the last snapshot found."""

    count: int = 0
    by_tid: dict[int, _Track] = field(default_factory=dict)
    looks: int = 0
    blocked: dict[WaitClass, int] = field(default_factory=dict)


class ThreadReader:
    """Reads at most `most` threads a pass, with at most `files` descriptors. Used by one thread.

    skipped: threads that were not looked at.
    at:      path of the thread whose state is being read, or was last; may be read by others.
    """

    def __init__(self, host: Host, files: int, clock: Callable[[], float], most: int = MOST) -> None:
        self._host = host
        self._files = files
        self._clock = clock
        self._most = most
        self._tracks: dict[Key, _Tracks] = {}
        self._nodes = CpuNodes(host, clock)
        self._no_schedstat = False
        self._named = self._zeros = 0
        self._passes = 0
        self.open = 0
        self.skipped = 0
        self.at = ""

    @property
    def hidden(self) -> str:
        """Why wait channels cannot be read, empty where they can or no thread was blocked yet."""
        if self._named or self._zeros < _ZEROS:
            return ""
        return "wait channels read 0: needs CAP_SYS_PTRACE"

    def choose(self, workloads: Iterable[Watched]) -> None:
        """Take in which threads there are; those known go on."""
        before, self._tracks = self._tracks, {}
        room, left = self._most, sorted(workloads, key=lambda w: len(w.threads))
        turn = int(self._clock() // EVERY)
        self.skipped = 0
        for place, watched in enumerate(left):
            chosen = sample(watched, room // (len(left) - place), turn)
            room -= len(chosen)
            self.skipped += len(watched.threads) - len(chosen)
            old = before.get(watched.key, _Tracks())
            tracks = _Tracks(len(watched.threads), looks=old.looks, blocked=old.blocked)
            for pid, tid in chosen:
                track = old.by_tid.get(tid)
                if track is None or track.pid != pid:
                    track = _Track(pid, tid, f"{self._host.procfs}/{pid}/task/{tid}")
                tracks.by_tid[tid] = track
            self._tracks[watched.key] = tracks
        used = {track for tracks in self._tracks.values() for track in tracks.by_tid.values()}
        for tracks in before.values():
            for track in tracks.by_tid.values():
                if track not in used:
                    self._close(track)
        self._nodes.look()

    def close(self) -> None:
        """Forget all threads."""
        for tracks in self._tracks.values():
            for track in tracks.by_tid.values():
                self._close(track)
        self._tracks = {}

    def read(self, urgent: Container[Key], *, whole: bool = True) -> bool:
        """One pass over the threads; tell whether a process was gone.

        urgent: workloads whose GPUs wait. Of the others, threads that did not run for long are looked
                at every fourth time.
        whole:  not only the urgent workloads' threads that ran lately.
        """
        gone = False
        self._passes += whole
        for key, tracks in self._tracks.items():
            if whole or key in urgent:
                turn = -1 if key in urgent else self._passes % TURNS
                ended = self._pass(tracks, turn, whole=whole)
                gone = gone or any(track.pid == track.tid for track in ended)
        return gone

    def _pass(self, tracks: _Tracks, turn: int, *, whole: bool) -> list[_Track]:
        blocked: set[WaitClass] = set()
        ended = []
        pread = os.pread
        for tid, track in tracks.by_tid.items():
            # What is ready to run may begin at any time, and running shows late in schedstat.
            if track.raw and track.state != "R":
                if track.quiet >= QUIET_PASSES and (not whole or (turn >= 0 and tid % TURNS != turn)):
                    continue
                try:
                    kept = track.schedstat
                    raw = pread(kept, _SHORT, 0) if kept >= 0 else read_bytes(f"{track.path}/schedstat")
                except OSError:
                    ended.append(track)
                    continue
                if raw == track.raw:
                    self._same(track, blocked, whole=whole)
                    continue
            if not self._refresh(track):
                ended.append(track)
            elif track.wait is not None:
                blocked.add(track.wait)
        for track in ended:
            del tracks.by_tid[track.tid]
            self._close(track)
        tracks.looks += 1
        for kind in blocked:
            tracks.blocked[kind] = tracks.blocked.get(kind, 0) + 1
        return ended

    def _same(self, track: _Track, blocked: set[WaitClass], *, whole: bool) -> None:
        """Take in that a thread has not run since it was read."""
        if track.wait is not None:
            blocked.add(track.wait)
        if track.state != "D":
            track.quiet += whole
            if track.quiet == QUIET_PASSES:
                self._close_stat(track)

    def take(self, key: Key) -> tuple[Mapping[int, Thread], int, int, Mapping[WaitClass, int]]:
        """Threads, how many there are in all, looks, and looks with a blocked one; begins the looks anew."""
        tracks = self._tracks.get(key)
        if tracks is None:
            return {}, 0, 0, {}
        threads = {tid: t.thread for tid, t in tracks.by_tid.items() if t.thread is not None}
        looks, blocked = tracks.looks, tracks.blocked
        tracks.looks, tracks.blocked = 0, {}
        if self.hidden:  # no look said anything: not the same as looks that found nothing
            return threads, tracks.count, 0, {}
        return threads, tracks.count, looks, blocked

    def processes(self, key: Key) -> Iterator[tuple[int, float]]:
        """Process id and start, in seconds after boot, of the processes whose first thread is looked at."""
        tracks = self._tracks.get(key)
        for tid, track in tracks.by_tid.items() if tracks else ():
            if tid == track.pid and track.thread is not None:
                yield track.pid, track.start / 100

    def ran(self, key: Key) -> set[int]:
        """Processes of which a thread ran since the last call."""
        found = set()
        tracks = self._tracks.get(key)
        for track in tracks.by_tid.values() if tracks else ():
            if track.ran:
                track.ran = False
                found.add(track.pid)
        return found

    def _refresh(self, track: _Track) -> bool:
        """Read a thread; False where it is gone or may not be read."""
        self.at = track.path
        try:
            raw = self._schedstat(track)
            task = parse_task(self._stat(track))
        except (OSError, ParseError):
            return False
        track.raw, track.quiet, track.start, track.ran = raw, 0, task.start, True
        track.state = task.state
        track.wait = self._wait(track) if task.state == "D" else None
        queue = parse_queue(raw)
        track.thread = Thread(
            task.user / 100,
            task.system / 100,
            None if queue is None else queue / _NANO,
            self._nodes.of(task.cpu),
            task.name,
            task.state,
            track.wait,
        )
        return True

    def _schedstat(self, track: _Track) -> bytes:
        """Text, empty without CONFIG_SCHED_INFO. Raises OSError."""
        if self._no_schedstat:
            return b""
        if track.schedstat >= 0:
            return os.pread(track.schedstat, _SHORT, 0)
        path = f"{track.path}/schedstat"
        try:
            if self.open >= self._files:
                return read_bytes(path)
            track.schedstat = open_kept(path)
        except FileNotFoundError:
            read_bytes(f"{track.path}/stat")
            self._no_schedstat = True
            return b""
        self.open += 1
        return os.pread(track.schedstat, _SHORT, 0)

    def _stat(self, track: _Track) -> bytes:
        """Text of a file that is kept open while the thread runs now and then. Raises OSError."""
        if track.stat < 0:
            path = f"{track.path}/stat"
            # Most threads are never seen to run again.
            if track.thread is None or self.open >= self._files:
                return read_bytes(path)
            track.stat = open_kept(path)
            self.open += 1
        return os.pread(track.stat, _LONG, 0)

    def _wait(self, track: _Track) -> WaitClass | None:
        """Class of a blocked thread; None for a benign one, and where there is no name.

        A thread that is about to sleep, as while it still submits its requests, is in state D and has
        no name yet: one in three looks at direct writes to a fast disk. It is in what it was in before.
        """
        try:
            name = read_bytes(f"{track.path}/wchan").decode("utf-8", "replace").strip()
        except OSError:  # ended meanwhile, or a kernel without kallsyms
            return None
        if name in {"", "0"}:
            self._zeros += 1
            return track.last
        self._named += 1
        kind = wait_class(name)
        track.last = None if kind is None else WaitClass(kind)
        return track.last

    def _close(self, track: _Track) -> None:
        self._close_stat(track)
        if track.schedstat >= 0:
            os.close(track.schedstat)
            self.open -= 1
            track.schedstat = -1

    def _close_stat(self, track: _Track) -> None:
        if track.stat >= 0:
            os.close(track.stat)
            self.open -= 1
            track.stat = -1
