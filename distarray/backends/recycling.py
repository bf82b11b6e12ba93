"""Memory of arrays that are gone, for those that come after them.

A system hands out memory page by page, zeroed, at the first touch of each: for a result that is
computed in one pass this takes about as long as the pass. So the last few results' memory is kept
here, too, and given out again once nobody else refers to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import numpy as np

from distarray.arraylike import HostArray

#: Arrays that are kept, their least size in bytes, and the share of this machine's memory that they
#: may take together.
MOST_KEPT, LEAST_BYTES, SHARE = 2, 1 << 20, 64

Kept = list[tuple[object, HostArray]]


class Recycling:
    """Keeps memory that was given out, newest last. Local."""

    def __init__(self) -> None:
        self._kept: Kept = []
        self._most = _physical_bytes() // SHARE

    def take(self, key: object, make: Callable[[], HostArray]) -> tuple[HostArray, bool]:
        """Memory that was made for an equal key and is free again, with its old values; else new
        memory. Also whether it is new.
        """
        for place, references in enumerate(_references(self._kept)):
            if references == _UNUSED and self._kept[place][0] == key:
                self._kept.append(self._kept.pop(place))
                return self._kept[-1][1], False
        made = make()
        if made.nbytes <= self._most:
            self._kept.append((key, made))
            while len(self._kept) > MOST_KEPT or self._bytes() > self._most:
                del self._kept[0]
        return made, True

    def _bytes(self) -> int:
        return sum(memory.nbytes for _, memory in self._kept)


def _references(kept: Kept) -> list[tuple[int, int]]:
    """How many references there are to each array, and to the array at its base, to which views of
    it refer.
    """
    return [(sys.getrefcount(memory), sys.getrefcount(memory.base)) for _, memory in kept]


def _unused() -> HostArray:
    return np.ndarray((1,), np.uint8, buffer=np.zeros(1, np.uint8))


#: What is found of an array that nobody else refers to; interpreters count differently.
_UNUSED = _references([(None, _unused())])[0]


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not known here
        return 0


#: What all of this process's memory is kept in.
RECYCLING = Recycling()
