"""What went wrong with the files of one collector, kept until the others are read.

One bad file costs what it holds. The rest is yielded first, then `finish` says
what is missing, and names each file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpuwait.collector import NoData, Reason
from gpuwait.kernel.errors import ParseError


class Faults:
    """Faults of one scrape of one collector."""

    def __init__(self) -> None:
        self._refused: list[str] = []
        self._found: list[tuple[str, OSError | ParseError]] = []

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Take in an OSError or ParseError of the block, which reads and parses this file."""
        try:
            yield
        except PermissionError as error:
            self.refuse(path, error)
        except OSError as error:
            self._found.append((f"{error.filename or path}: {error.strerror}", error))
        except ParseError as error:
            self._found.append((named(path, error), error))

    def refuse(self, path: str, error: OSError) -> None:
        """Take in that this file may not be read."""
        self._refused.append(f"{error.filename or path}: {error.strerror}")

    def finish(self) -> None:
        """Raise what was taken in: NoData where files may not be read, else OSError or ParseError."""
        if not self._found:
            if self._refused:
                raise NoData(Reason.NO_PERMISSION, "; ".join(self._refused))
            return
        text = "; ".join([text for text, _ in self._found] + self._refused)
        last = self._found[-1][1]
        if all(isinstance(error, OSError) for _, error in self._found):
            raise OSError(text) from last
        raise ParseError(text) from last


def named(path: str, error: ParseError) -> str:
    """The message of a parser with the whole path of the file, of which it may know the last part."""
    text = str(error)
    name, colon, rest = text.partition(": ")
    return f"{path}: {rest if colon and f'/{path}'.endswith(f'/{name}') else text}"
