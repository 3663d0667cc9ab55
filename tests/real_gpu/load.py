"""Keeps one NVIDIA GPU busy for one second of every two, or 50 ms a batch, with nothing but the CUDA driver.

Prints one JSON line once the load runs, or one with "error" (exit 1). Choose the GPU by
CUDA_VISIBLE_DEVICES. The kernel waits on the GPU's own clock: a kernel is resident, which is
what the driver counts as utilisation, whatever the card.
"""

import argparse
import ctypes
import json
import os
import sys
import time

SLICE_NS = 50_000_000
BATCH_BYTES = 1024
BLOCKS, THREADS = 64, 128
BLOCKING_SYNC = 4

#: The turns are bounded: should a driver ever read the clock once only, the kernel still ends.
SPIN = """
.version 6.3
.target {target}
.address_size 64
.visible .entry spin(.param .u64 wanted)
{{
    .reg .pred %p<3>;
    .reg .b32 %turn;
    .reg .b64 %ns, %start, %now;
    ld.param.u64 %ns, [wanted];
    mov.u32 %turn, 0;
    mov.u64 %start, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    add.u32 %turn, %turn, 1;
    setp.ge.u64 %p1, %now, %ns;
    @%p1 bra done;
    setp.lt.u32 %p2, %turn, 16777216;
    @%p2 bra again;
done:
    ret;
}}
"""


class CudaError(Exception):
    """A call of the driver failed; the text names it."""


class Gpu:
    """The first visible GPU, with memory held and a way to keep it busy."""

    def __init__(self, memory_bytes: int) -> None:
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no CUDA driver library: {error}") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxSetFlags_v2", device, ctypes.c_uint(BLOCKING_SYNC))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.memory, self.words = ctypes.c_uint64(), memory_bytes // 4
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(memory_bytes))
        self.kernel = self.load_kernel()
        self.kind = "spin" if self.kernel and self.slice_takes_its_time() else "memset"

    def call(self, name: str, *arguments: object) -> None:
        """Call the driver; raise CudaError unless it succeeds."""
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise CudaError(f"{name}: error {code}")

    def load_kernel(self) -> ctypes.c_void_p | None:
        """The kernel for this card; None where the driver takes neither form of it."""
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        for target in ("sm_75", "sm_50"):
            text = SPIN.format(target=target).encode() + b"\0"
            if self.cuda.cuModuleLoadData(ctypes.byref(module), text) == 0:
                self.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"spin")
                return kernel
        return None

    def slice_takes_its_time(self) -> bool:
        """Whether the kernel lasts about as long as it is told to."""
        self.spin()
        start = time.monotonic_ns()
        self.spin()
        return SLICE_NS // 2 < time.monotonic_ns() - start < SLICE_NS * 4

    def spin(self) -> None:
        """One slice of the kernel, waited for."""
        wanted = ctypes.c_uint64(SLICE_NS)
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(wanted), ctypes.c_void_p))
        sizes = (ctypes.c_uint(n) for n in (BLOCKS, 1, 1, THREADS, 1, 1, 0))
        self.call("cuLaunchKernel", self.kernel, *sizes, None, arguments, None)
        self.call("cuCtxSynchronize")

    def memset(self) -> None:
        """Writes over the memory held, waited for."""
        for _ in range(20):
            self.call("cuMemsetD32Async", self.memory, ctypes.c_uint(7), ctypes.c_size_t(self.words), None)
        self.call("cuCtxSynchronize")

    def step(self) -> None:
        """One piece of work, about 50 ms."""
        (self.spin if self.kind == "spin" else self.memset)()

    def busy_until(self, moment: float) -> None:
        """Work until this time of the monotonic clock."""
        while time.monotonic() < moment:
            self.step()


def main() -> int:
    """Run the load; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--memory-mib", type=int, default=1024)
    parser.add_argument(
        "--batches", type=int, metavar="FD", help="one step for each batch read from this descriptor"
    )
    options = parser.parse_args()
    try:
        gpu = Gpu(options.memory_mib << 20)
        print(json.dumps({"kind": gpu.kind, "memory_mib": options.memory_mib}), flush=True)
        while options.batches is not None and os.read(options.batches, BATCH_BYTES):
            gpu.step()
        start = time.monotonic()
        for turn in range(int(options.seconds / 2)):
            gpu.busy_until(start + 2 * turn + 1)
            time.sleep(max(0.0, start + 2 * turn + 2 - time.monotonic()))
    except CudaError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
