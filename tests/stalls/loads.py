"""Programs that stall for real, for as long as they are asked to. Each runs in the workload's own process.

`trouble` is called when the stall has begun: what comes before is preparation.
"""

import ctypes
import mmap
import os
import tempfile
import time

from host import add_swap, chosen, counters, free_mib, setting

BLOCK, PAGE, NORESERVE = 2 << 20, 4096, 0x4000
THP = "/sys/kernel/mm/transparent_hugepage/"
MIB = 1 << 20


class Load:
    """prepare() changes the host through the stack; work() runs in the worker."""

    controllers = ("memory", "cpu", "cpuacct")
    workers = 1

    def prepare(self, stack, group):
        """Set up the host."""

    def work(self, end, trouble):
        """Stall until the monotonic time `end`."""


class Compaction(Load):
    """Page faults for huge pages on fragmented memory: every one must compact.

    All memory but a little is parked in the hugetlb pool. Each step then faults
    a huge page, splits it and keeps some small pages of it, so that blocks of
    order 9 run out and the next fault stalls until those pages are moved together.
    """

    leave_free, kept = 2000, 32 * PAGE

    def prepare(self, stack, group):
        if int(chosen("/proc/sys/vm/nr_hugepages")):
            raise LookupError("vm.nr_hugepages is in use on this host")
        if free_mib() < self.leave_free + 500:
            raise LookupError(f"only {free_mib()} MiB are free")
        for name, value in (("enabled", "madvise"), ("defrag", "madvise")):
            stack.enter_context(setting(THP + name, value))
        stack.enter_context(setting("/proc/sys/vm/compaction_proactiveness", 0))
        stack.enter_context(setting("/proc/sys/vm/nr_hugepages", (free_mib() - self.leave_free) // 2))

    def work(self, end, trouble):
        before, told = counters()["compact_stall"], False
        while time.monotonic() < end:
            size = 3 * self.leave_free * MIB
            memory = mmap.mmap(-1, size + BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
            base = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % BLOCK
            memory.madvise(mmap.MADV_HUGEPAGE, base, size)
            for block in range(size // BLOCK):
                at = base + block * BLOCK
                memory[at] = 1
                memory.madvise(mmap.MADV_FREE, at, PAGE)
                memory[at] = 1
                memory.madvise(mmap.MADV_DONTNEED, at + self.kept, BLOCK - self.kept)
                if block % 32 == 31:
                    if not told and counters()["compact_stall"] - before > 20:
                        told = trouble() or True
                    if time.monotonic() > end or free_mib() < self.leave_free // 2:
                        break
            memory = None


class _Files(Load):
    """A load on a file below /var/tmp, which must be a disk."""

    mib = 64

    def prepare(self, stack, group):
        space = os.statvfs("/var/tmp")  # noqa: TID251 - a test on its own disk
        if space.f_bavail * space.f_frsize < 4 * self.mib * MIB:
            raise LookupError("/var/tmp is too small")
        scratch = tempfile.NamedTemporaryFile(prefix="gpuwait-stall-", dir="/var/tmp")  # noqa: SIM115 - in the stack
        self.file = stack.enter_context(scratch)

    def flush(self):
        """Bring the file to the disk and out of the page cache, where it would stay charged to us."""
        self.file.flush()
        os.fsync(self.file.fileno())
        os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Reclaim(_Files):
    """A loader at its memory limit: each page of the file needs another to go first."""

    limit, mib = 96, 384

    def prepare(self, stack, group):
        super().prepare(stack, group)
        block = b"x" * MIB
        for _ in range(self.mib):
            self.file.write(block)
        self.flush()
        group.set("memory", "memory.limit_in_bytes", "memory.max", self.limit * MIB)

    def work(self, end, trouble):
        trouble()
        block = b"y" * MIB
        descriptor = os.open(self.file.name, os.O_RDWR)
        while time.monotonic() < end:
            for at in range(self.mib):
                os.pwrite(descriptor, block, at * MIB)
                os.pread(descriptor, MIB, (at + self.mib // 2) % self.mib * MIB)
                if time.monotonic() > end:
                    break


class Swap(Load):
    """A loader that cycles through more memory than its limit allows, with swap to go to."""

    limit, use = 96, 160

    def prepare(self, stack, group):
        add_swap(stack, self.use + 96)
        group.set("memory", "memory.limit_in_bytes", "memory.max", self.limit * MIB)

    def work(self, end, trouble):
        memory = mmap.mmap(-1, self.use * MIB)
        for number in range(255):
            for at in range(0, self.use * MIB, PAGE):
                memory[at] = number
                if not at % (MIB * 8) and time.monotonic() > end:
                    return
            if number == 0:
                trouble()


class Throttling(Load):
    """Two busy workers under a quota of 20 ms in 100."""

    workers = 2

    def prepare(self, stack, group):
        if group.version == 1:
            group.set("cpu", "cpu.cfs_period_us", "", 100_000)
            group.set("cpu", "cpu.cfs_quota_us", "", 20_000)
        else:
            group.set("cpu", "", "cpu.max", "20000 100000")

    def work(self, end, trouble):
        trouble()
        while time.monotonic() < end:
            pass


class Disk(_Files):
    """Several workers read small pieces at random, past the page cache, and write large ones beside it."""

    workers, mib = 6, 256

    def prepare(self, stack, group):
        super().prepare(stack, group)
        block = b"x" * MIB
        for _ in range(self.mib):
            self.file.write(block)
        self.flush()

    def work(self, end, trouble):
        trouble()
        descriptor = os.open(self.file.name, os.O_RDWR | os.O_DIRECT)
        buffer, seed = mmap.mmap(-1, MIB), os.getpid()
        while time.monotonic() < end:
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            at = seed % self.mib * MIB
            if os.getpid() % 2:
                os.preadv(descriptor, [buffer], at)
            else:
                os.pwritev(descriptor, [buffer], at)


class Quiet(Load):
    """A workload that computes a little and sleeps; nothing stalls."""

    def work(self, end, trouble):
        trouble()
        while time.monotonic() < end:
            sum(range(20_000))
            time.sleep(0.05)


LOADS = {
    "compaction": Compaction,
    "reclaim": Reclaim,
    "swap": Swap,
    "cpu_throttling": Throttling,
    "disk": Disk,
}
