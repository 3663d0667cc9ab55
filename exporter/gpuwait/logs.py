"""Log lines on standard error: logfmt or JSON, one line an event."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class _Fields(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        """What one line says."""
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "ts": stamp.replace("+00:00", "Z"),
            "level": {"WARNING": "warn"}.get(record.levelname, record.levelname.lower()),
            "source": record.name.removeprefix("gpuwait."),
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return fields


class Logfmt(_Fields):
    """`ts=… level=info source=web msg="…"`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a value with a space, quote or control character is quoted as in JSON."""
        return " ".join(f"{k}={_quoted(v)}" for k, v in self.fields(record).items())


class Json(_Fields):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return json.dumps(self.fields(record))


def _quoted(value: str) -> str:
    printable = value.isprintable()
    plain = printable and value and not any(c in value for c in ' "=\\')
    # What is no text but a command to the terminal is written as \uNNNN.
    return value if plain else json.dumps(value, ensure_ascii=not printable)


def set_up(level: str, form: str) -> None:
    """Send all log lines from `level` on to standard error in the form `logfmt` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Logfmt())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    # waitress warns of every queued request and malformed client
    logging.getLogger("waitress").setLevel(logging.ERROR)


class Seldom:
    """Warnings that a client can cause at will: one a minute at most, with the number of those left out."""

    EVERY = 60.0

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._lock = threading.Lock()
        self._next, self._left_out = -math.inf, 0

    def warning(self, text: str, *values: object) -> None:
        """Log the warning, or count it."""
        with self._lock:
            if self._clock() < self._next:
                self._left_out += 1
                return
            self._next, left_out, self._left_out = self._clock() + self.EVERY, self._left_out, 0
        more = f" (and {left_out} such since the last of these lines)" if left_out else ""
        self._logger.warning(text + more, *values)
