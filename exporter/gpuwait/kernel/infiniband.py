"""One value of a port: files below `/sys/class/infiniband/DEVICE/ports/PORT/`.

https://docs.kernel.org/infiniband/sysfs.html

    200 Gb/sec (4X HDR)      (rate)
    4: ACTIVE                (state)
    900112233                (counters/port_rcv_data)
"""

from __future__ import annotations

from gpuwait.kernel.numbers import counter

_BYTES_PER_GIGABIT = 125_000_000
#: Of /sys files a rate has up to five digits and one decimal, such as `2.5` or `1600`.
_RATE_LENGTH_LIMIT = 8


def parse_counter(text: str) -> int | None:
    """Value of a counter file; None for text such as `N/A (no PMA)` or a number of 2^63 and more.

    Source: `/sys/class/infiniband/*/ports/*/counters/*`.
    """
    return counter(text.strip())


def parse_rate(text: str) -> float | None:
    """Speed of a link in bytes a second, None where the text is none.

    Source: `/sys/class/infiniband/*/ports/*/rate`.
    """
    words = text.split()
    if len(words) < 2 or words[1] != "Gb/sec" or len(words[0]) > _RATE_LENGTH_LIMIT:
        return None
    whole, _, tenths = words[0].partition(".")
    if counter(whole) is None or (tenths and counter(tenths) is None):
        return None
    return float(words[0]) * _BYTES_PER_GIGABIT


def parse_state(text: str) -> int | None:
    """Number of a state: 4 is active for `state`, 5 is link up for `phys_state`.

    Sources: `/sys/class/infiniband/*/ports/*/{state,phys_state}`.
    """
    number, colon, _ = text.partition(":")
    return counter(number.strip()) if colon else None
