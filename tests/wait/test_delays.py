"""Delays by taskstats: a scripted kernel, then the real one."""

import errno
import os
import select
import signal
import socket
import struct
import time
from pathlib import Path

import pytest

from gpuwait.host import Host
from gpuwait.wait.delays import Coverage, DelayClient, enable
from gpuwait.wait.snapshot import Delay

OFFSETS = {Delay.CPU: 24, Delay.RECLAIM: 320, Delay.COMPACT: 360}


def stats(version=14, size=432, **nanoseconds):
    data = bytearray(size)
    struct.pack_into("=H", data, 0, version)
    for name, value in nanoseconds.items():
        struct.pack_into("=Q", data, OFFSETS[Delay(name)], value)
    return bytes(data)


def message(kind, sequence, body):
    return struct.pack("=IHHII", 16 + len(body), kind, 0, sequence, 0) + body


def failure(sequence, code):
    return message(2, sequence, struct.pack("=i", -code) + bytes(16))


class Kernel:
    """Answers over a socket pair, so that waiting is real. `answer`: a structure by pid, or an errno."""

    def __init__(self, answer):
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.answer = answer
        self.asked = []
        self.opened = 0

    def connect(self):
        self.opened += 1
        return self

    def fileno(self):
        return self.ours.fileno()

    def close(self):
        pass

    def recv(self, size, flags):
        return self.ours.recv(size, flags)

    def send(self, data):
        kind, _, sequence = struct.unpack_from("=HHI", data, 4)
        if kind == 16:
            found = self.answer("family")
            attribute = struct.pack("=HHH", 6, 1, 28) + b"\0\0"
            answer = (
                message(16, sequence, bytes(4) + attribute) if found is None else failure(sequence, found)
            )
        else:
            pid = struct.unpack_from("=I", data, 24)[0]
            self.asked.append(pid)
            found = self.answer(pid)
            if found is None:
                return
            if isinstance(found, int):
                answer = failure(sequence, found)
            else:
                inner = struct.pack("=HHI", 8, 2, pid) + struct.pack("=HH", 4 + len(found), 3) + found
                answer = message(28, sequence, bytes(4) + struct.pack("=HH", 4 + len(inner), 5) + inner)
        self.theirs.send(answer)


@pytest.fixture
def client(tmp_path):
    """A client of a scripted kernel, on a host whose process ids are ours."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/stat").write_text(f"{os.getpid()} (python) R 1 ")

    def make(answers, clock=time.monotonic):
        kernel = Kernel(lambda pid: answers.get(pid) if isinstance(answers, dict) else answers(pid))
        return DelayClient(Host(str(tmp_path)), clock, kernel.connect), kernel

    return make


def test_seconds_by_class(client):
    """Nanoseconds become seconds; a process that is gone is left out."""
    found, _ = client({5: stats(compact=52_920_000, cpu=7), 6: errno.ESRCH, 7: errno.EINVAL})
    delays = found.read([5, 6, 7])
    assert list(delays) == [5]
    assert delays[5][Delay.COMPACT] == 0.05292
    assert delays[5][Delay.BLKIO] == 0
    assert len(delays[5]) == 8
    assert found.available


def test_an_old_kernel_has_fewer_classes(client):
    """A class that the kernel lacks is absent, not 0."""
    found, _ = client({5: stats(8, 328, freepages=1)})
    assert set(found.read([5])[5]) == {Delay.CPU, Delay.BLKIO, Delay.SWAPIN, Delay.RECLAIM}


def test_many_are_asked_in_batches(client):
    """Two hundred processes are two hundred answers."""
    found, kernel = client(lambda pid: None if pid == "family" else stats(cpu=pid))
    assert len(found.read(list(range(1, 201)))) == 200
    assert kernel.asked == list(range(1, 201))


def test_a_lost_answer_costs_a_moment(client):
    """The others are there, the loss is counted, and a late answer is not taken for another process'."""
    found, kernel = client(lambda pid: None if pid in {"family", 6} else stats(cpu=pid * 10**9))
    begun = time.monotonic()
    assert list(found.read([5, 6])) == [5]
    assert time.monotonic() - begun < 0.5
    assert found.lost == 1
    kernel.theirs.send(message(28, 3, bytes(20)))
    assert found.read([7])[7][Delay.CPU] == 7


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (errno.EPERM, "needs CAP_NET_ADMIN in the initial user namespace"),
        (stats(15, 560), "taskstats: version 15 has another layout"),
    ],
)
def test_refused(client, answer, reason):
    """The reason is said, and the kernel is asked again a minute later only."""
    now = [100.0]
    found, kernel = client(lambda pid: None if pid == "family" else answer, lambda: now[0])
    assert found.read([5]) == {}
    assert found.reason == reason
    found.read([5])
    assert kernel.opened == 1
    now[0] += 61
    found.read([5])
    assert kernel.opened == 2


def test_no_taskstats(client):
    """A kernel without the family says so."""
    found, _ = client({"family": errno.ENOENT})
    assert found.read([5]) == {}
    assert found.reason == "this kernel has no taskstats"


def test_other_process_ids(tmp_path):
    """Of a captured tree, or a procfs of another namespace, nothing is asked."""
    found = DelayClient(Host(str(tmp_path)), time.monotonic, lambda: pytest.fail("asked"))
    assert found.read([5]) == {}
    assert "hostPID" in found.reason


class Switch:
    """A host with the switch and the command line."""

    def __init__(self, path, switch, cmdline=""):
        self.path, self.now = path, 1000.0
        (path / "sys/kernel").mkdir(parents=True)
        (path / "cmdline").write_text(cmdline)
        self.set(switch)
        self.coverage = Coverage(Host(str(path)), lambda: self.now)
        self.coverage.look()

    def set(self, value):
        if value is not None:
            (self.path / "sys/kernel/task_delayacct").write_text(f"{value}\n")

    def covered(self, *starts):
        return self.coverage.covered(enumerate(starts, 1))


def test_off_covers_nobody(tmp_path):
    """While the switch is off nobody is covered, whatever was shown."""
    host = Switch(tmp_path, 0, "delayacct")
    host.coverage.add({1: {Delay.COMPACT: 1.0}})
    assert host.covered(5.0, 2000.0) == set()


def test_switched_on_later(tmp_path):
    """Those that started after it was seen to go on, and those that show a delay."""
    host = Switch(tmp_path, 0)
    host.set(1)
    host.now = 2000.0
    host.coverage.look()
    assert host.covered(1500.0, 2000.0, 2500.0) == {2, 3}
    host.coverage.add({1: {Delay.CPU: 5.0, Delay.COMPACT: 0.0}})
    assert host.covered(1500.0) == set()
    host.coverage.add({1: {Delay.CPU: 5.0, Delay.COMPACT: 0.1}})
    assert host.covered(1500.0) == {1}
    host.coverage.keep(set())
    assert host.covered(1500.0) == set()


@pytest.mark.parametrize(
    ("switch", "cmdline", "covered"),
    [
        (1, "quiet", {2}),
        (1, "quiet delayacct", {1, 2}),
        (1, "nodelayacctx", {2}),
        (None, "quiet", {1, 2}),
        (None, "nodelayacct", set()),
    ],
)
def test_on_at_the_start(tmp_path, switch, cmdline, covered):
    """The boot parameter covers everyone; before 5.14 there was no switch, and it was on."""
    assert Switch(tmp_path, switch, cmdline).covered(500.0, 1500.0) == covered


def test_enable_writes_the_switch(tmp_path, caplog):
    """It is written and said; a refusal is said too."""
    caplog.set_level("INFO")
    host = Switch(tmp_path, 0)
    enable(Host(str(tmp_path)))
    host.coverage.look()
    assert host.coverage.on
    enable(Host(str(tmp_path / "nowhere")))
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


@pytest.mark.root
def test_the_real_kernel():
    """A process that competes for one CPU with another waits in the run queue, and so it is told."""
    client = DelayClient(Host(), time.monotonic)
    pids = []
    cpu = min(os.sched_getaffinity(0))
    try:
        for _ in range(2):
            pid = os.fork()
            if not pid:
                os.sched_setaffinity(0, {cpu})
                signal.alarm(10)
                while True:
                    pass
            pids.append(pid)
        time.sleep(0.2)
        before, begun = client.read(pids), time.monotonic()
        time.sleep(0.6)
        after, took = client.read(pids), time.monotonic() - begun
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert client.reason == ""
    waited = sum(after[pid][Delay.CPU] - before[pid][Delay.CPU] for pid in pids)
    # Two that want one CPU all the time wait once the time together, more beside other load.
    assert 0.5 * took < waited < 2.2 * took
    assert client.read([pids[0]]) == {}


@pytest.mark.root
def test_a_stall_of_the_real_kernel_is_counted():
    """With the switch on, a child that reads a file past the page cache shows the delay of a disk."""
    switch = Path("/proc/sys/kernel/task_delayacct")
    if not switch.exists():
        pytest.skip("before 5.14 there is no switch")
    was = switch.read_text()
    coverage = Coverage(Host(), lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    coverage.look()
    enable(Host())
    try:
        coverage.look()
        begun = time.clock_gettime(time.CLOCK_BOOTTIME)
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            signal.alarm(10)
            try:
                scratch = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR)
                os.write(scratch, bytes(1 << 22))
                os.fsync(scratch)
                os.posix_fadvise(scratch, 0, 0, os.POSIX_FADV_DONTNEED)
                os.pread(scratch, 1 << 22, 0)
            finally:
                os.write(writer, b".")
                signal.pause()
        try:
            assert select.select([reader], [], [], 10)[0]
            delays = DelayClient(Host(), time.monotonic).read([pid])[pid]
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert coverage.covered([(pid, begun)]) == {pid}
        if not delays[Delay.BLKIO]:
            pytest.skip("the file system did not wait for a disk")
    finally:
        switch.write_text(was)
