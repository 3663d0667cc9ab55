"""Kernel files that are read every second, with their descriptors kept open.

Opening costs three times what reading does. A descriptor of a process or
cgroup that is gone answers ESRCH, ENODEV or EBADF for ever, even where the
number was given to another since.
"""

from __future__ import annotations

import errno
import os
import resource

from gpuwait.host import LIMIT, PIECE, open_kept, read_bytes

#: Share of the soft limit of open files that may be used: the server and the GPU reader need some.
_SHARE = 4
_GONE = frozenset({errno.ESRCH, errno.ENODEV, errno.EBADF, errno.ENOENT})


class Kept:
    """Files by path. Used by one thread; `at` may be read by others.

    most: descriptors kept open; further files are opened for each reading.
    at:   path of the file that is being read, or was last.
    """

    def __init__(self, most: int | None = None) -> None:
        if most is None:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE
        self.most = max(most, 0)
        self._open: dict[str, int] = {}
        self.at = ""

    def __len__(self) -> int:
        return len(self._open)

    def read(self, path: str) -> bytes:
        """Content of a file of one record, such as `stat` or a file of a cgroup. Raises OSError."""
        descriptor = self._descriptor(path)
        if descriptor is None:
            return read_bytes(path)
        try:
            text = os.pread(descriptor, PIECE, 0)
            return text if len(text) < PIECE else self._rest(descriptor, text)
        except OSError:
            self.close(path)
            raise

    def _descriptor(self, path: str) -> int | None:
        """The kept one or a new one, None where there are enough."""
        self.at = path
        known = self._open.get(path)
        return self._keep(path) if known is None else known

    def read_all(self, path: str) -> bytes:
        """Content of a file of many records, such as `vmstat`, which comes in pieces. Raises OSError."""
        descriptor = self._descriptor(path)
        if descriptor is None:
            return read_bytes(path)
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            return self._rest(descriptor, b"", seek=False)
        except OSError:
            self.close(path)
            raise

    def text(self, path: str) -> str:
        """The same as `read`, as text."""
        return self.read(path).decode("utf-8", "backslashreplace")

    def once(self, path: str) -> str:
        """Text of a file that is not kept open. Raises OSError."""
        self.at = path
        return read_bytes(path).decode("utf-8", "backslashreplace")

    def close(self, path: str) -> None:
        """Close a file, where it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        """Close all files."""
        for path in list(self._open):
            self.close(path)

    def _keep(self, path: str) -> int | None:
        if len(self._open) >= self.most:
            return None
        try:
            descriptor = open_kept(path)
        except OSError as error:
            # The limit is lower than it looked, or the whole system is short of files.
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                self.most = len(self._open)
            raise
        self._open[path] = descriptor
        return descriptor

    @staticmethod
    def _rest(descriptor: int, text: bytes, *, seek: bool = True) -> bytes:
        pieces = [text]
        size = len(text)
        while piece := os.pread(descriptor, PIECE, size) if seek else os.read(descriptor, PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > LIMIT:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return b"".join(pieces)


def is_gone(error: OSError) -> bool:
    """Tell whether an error means that the process or cgroup behind a file has ended."""
    return error.errno in _GONE
