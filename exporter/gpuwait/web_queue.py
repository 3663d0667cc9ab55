"""Whose password is checked next.

One check runs at a time and few requests may wait for one, so the places are
what guessers and a scraper that has just come compete for. Whose address has
failed least goes first, and takes the place of whose failed most: a scraper
that asks once is in after the check that is under way, however many guesses
come from other addresses.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: Requests that wait for a check or are being checked, in all and of one address.
MOST = 4
MOST_OF_ONE = 2
#: Seconds that one waits for its turn: no scraper waits longer.
PATIENCE = 10.0
#: Seconds after which the failures of an address are forgotten, and addresses that are remembered.
MEMORY = 900.0
ADDRESSES = 4096


@dataclass(eq=False, slots=True)
class _Place:
    address: str
    number: int
    running: bool = False


class Queue:
    """Requests that wait for the one check; may be used from many threads at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._places: list[_Place] = []
        self._number = 0
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Requests that wait or are being checked."""
        with self._changed:
            return len(self._places)

    def failures(self, address: str) -> int:
        """What speaks against the address: checks that failed and requests sent away, of late."""
        with self._changed:
            return self._failures(group(address))

    def come(self, address: str) -> bool:
        """Wait for the turn of a request; True with it, False where others go first.

        Whoever got True must `go`.
        """
        address = group(address)
        with self._changed:
            place = self._enter(address)
            if place is not None:
                self._changed.wait_for(lambda: place not in self._places or self._next() is place, PATIENCE)
                if self._next() is place:
                    place.running = True
                    return True
                if place in self._places:
                    self._places.remove(place)
            self._fail(address)
            return False

    def go(self, address: str, *, right: bool) -> None:
        """End the turn; `right` forgets the failures of the address."""
        address = group(address)
        with self._changed:
            self._places = [place for place in self._places if not place.running]
            if right:
                self._failed.pop(address, None)
            else:
                self._fail(address)
            self._changed.notify_all()

    def _enter(self, address: str) -> _Place | None:
        if sum(place.address == address for place in self._places) >= MOST_OF_ONE:
            return None
        if len(self._places) >= MOST:
            worst = max((p for p in self._places if not p.running), key=self._rank)
            if self._failures(worst.address) <= self._failures(address):
                return None
            self._places.remove(worst)
            self._changed.notify_all()
        self._number += 1
        self._places.append(_Place(address, self._number))
        return self._places[-1]

    def _next(self) -> _Place | None:
        if not self._places or any(place.running for place in self._places):
            return None
        return min(self._places, key=self._rank)

    def _rank(self, place: _Place) -> tuple[int, int]:
        return self._failures(place.address), place.number

    def _failures(self, address: str) -> int:
        count, at = self._failed.get(address, (0, 0.0))
        return count if self._clock() - at <= MEMORY else 0

    def _fail(self, address: str) -> None:
        count = self._failures(address) + 1
        self._failed[address] = count, self._clock()
        self._failed.move_to_end(address)
        while len(self._failed) > ADDRESSES:
            self._failed.popitem(last=False)


def group(address: str) -> str:
    """The address as it counts: of IPv6 the first 64 bits, which a single machine may have to itself."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(found) >> 64 << 64))
