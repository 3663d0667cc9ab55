"""What the reader process and its parent agree on. Imports nothing: the reader has to stay small."""

from __future__ import annotations

#: Exit statuses of the reader. The parent decides by them when to start the next one.
ASKED = 0
FAULT = 1
NO_LIBRARY = 3
NO_DRIVER = 4
#: The driver was unloaded or upgraded. The old library stays mapped: only a fresh process can go on.
DRIVER_CHANGED = 5

#: Size of the page that both share, in which the reader names the call it is about to make.
#: Memory and not the pipe: it costs no system call and wakes nobody.
PAGE = 64


def mark(call: str, gpu: str = "") -> bytes:
    """Content of the page while this call runs."""
    return f"{call} {gpu}".encode("ascii", "replace")[:PAGE].ljust(PAGE, b"\0")


#: Content of the page between two calls.
IDLE = bytes(PAGE)


def unmark(page: bytes) -> tuple[str, str]:
    """(call, GPU index) on the page, empty texts between two calls."""
    call, _, gpu = page.rstrip(b"\0").decode("ascii", "replace").partition(" ")
    return call, gpu
