"""Parser of GPFS's waiters, as `mmdiag --waiters` lists them in its newer and its older form.

Waiting 12.3456 sec since 10:11:12, monitored, thread 4711 SyncHandlerThread: on ThCond 0x1, reason 'x'
0x7F2F4002AE30 waiting 0.151472644 seconds, FileBlockReadFetchHandlerThread: for I/O completion
"""

from __future__ import annotations

import re

_WAITER = re.compile(r"\bwaiting\s+(\d{1,9}(?:\.\d{1,12})?)\s+sec", re.IGNORECASE)


def oldest_waiter(text: str) -> float:
    """Seconds for which the oldest waiter has waited; 0 where there is none."""
    return max((float(match[1]) for match in _WAITER.finditer(text)), default=0.0)
