"""Numbers in kernel text: which ones can be true, and lines of a name with a number."""

from __future__ import annotations

from gpuwait.kernel.errors import ParseError

#: A negative number printed as unsigned 64 bits starts here; no counter reaches it
#: (node_exporter#1363: 18446743919241604546 ms of queue time).
TOO_LARGE = 1 << 63


def counter(word: str) -> int | None:
    """Value of an unsigned decimal number below 2^63, else None."""
    if len(word) > 19 or not word.isdecimal():
        return None
    value = int(word)
    return value if value < TOO_LARGE else None


def named_counters(text: str, file: str) -> dict[str, int]:
    """Values of a file whose lines are a name with a number from 0 to below 2^63.

    Other lines are skipped. Raises ParseError, naming the file, where no line is left.
    """
    words = text.split()
    # One pass over all words is twice as fast as one over lines, and safe: a line of
    # one or three words moves a name to where a number must stand.
    try:
        values = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    except ValueError:
        return _line_by_line(text, file)
    if values and (min(values.values()) < 0 or max(values.values()) >= TOO_LARGE):
        return _line_by_line(text, file)
    return values


def _line_by_line(text: str, file: str) -> dict[str, int]:
    values = {}
    for line in text.split("\n"):
        words = line.split()
        if len(words) >= 2 and (value := counter(words[1])) is not None:
            values[words[0]] = value
    if not values:
        raise ParseError(f"{file}: no line is a name with a number")
    return values
