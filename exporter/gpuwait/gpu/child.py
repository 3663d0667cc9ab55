"""One reader process: its pipes, its page, and its end. Nothing here waits."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess  # noqa: TID251 - the GPU library has to be in a process that may hang
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuwait.gpu import wire
from gpuwait.gpu.protocol import LONGEST_LINE, BadLine, Message, decode

#: The package's own directory comes last: it is on the path already unless the source tree is run as it is.
_CODE = """
import sys
sys.path.append(sys.argv[1])
from gpuwait.gpu.reader import main
sys.exit(main(sys.argv[2:]))
"""


def command(rootfs: str, interval: float) -> list[str]:
    """Command line of the reader; the descriptor of its page is still to be added."""
    root = str(Path(__file__).parents[2])
    # -P: a module in the working directory must not become part of a privileged process
    return [sys.executable, "-P", "-c", _CODE, root, rootfs, str(interval)]


class Child:
    """A reader process that was started; raises OSError where it cannot be.

    heard:      time of its last sign of life, its start to begin with.
    spoke:      True from its first snapshot on.
    asked:      time at which it was asked to end.
    killed:     True once it was sent SIGKILL, which a process in the driver gets when it comes out.
    reported:   True while the log's last word is that it is stuck.
    last_words: why it ends, as it said itself.
    """

    def __init__(self, argv: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._page, descriptor = _page()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [*argv, str(descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                pass_fds=() if descriptor < 0 else (descriptor,),
            )
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        assert self._process.stdout is not None
        self.output = self._process.stdout.fileno()
        self._rest = b""
        self.heard = clock()
        self.spoke = self.killed = self.reported = False
        self.asked = 0.0
        self.last_words = ""

    def read(self) -> list[Message] | None:
        """Messages that arrived, None at the end of the pipe. Raises BadLine."""
        data = os.read(self.output, 256 * 1024)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise BadLine(f"a line of more than {LONGEST_LINE} bytes")
        messages = [decode(line) for line in lines]
        if messages:
            self.heard = self._clock()
            self.spoke = self.spoke or messages[-1].end is None
        return messages

    def call(self) -> tuple[str, str]:
        """(NVML call, GPU index) it is in, empty texts where not known."""
        return ("", "") if self._page is None else wire.unmark(self._page[: wire.PAGE])

    def ask_to_end(self) -> bool:
        """Close its standard input; False where that was done before."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return False
        self.asked = self._clock()
        with contextlib.suppress(OSError):
            stdin.close()
        return True

    def kill(self) -> None:
        """Send SIGKILL, once."""
        if not self.killed:
            self.killed = True
            self._process.kill()

    def status(self) -> int | None:
        """Exit status, negative for a signal; None while the process is there."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def close(self) -> None:
        """Close what is open on our side."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _page() -> tuple[mmap.mmap | None, int]:
    """The shared page and its descriptor; (None, -1) on kernels before 3.17: the call stays unknown."""
    try:
        descriptor = os.memfd_create("gpuwait-gpu", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return None, -1
    os.ftruncate(descriptor, wire.PAGE)
    return mmap.mmap(descriptor, wire.PAGE), descriptor
