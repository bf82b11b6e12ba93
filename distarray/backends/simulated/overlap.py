"""Whether two strided ranges of memory have a byte in common. Pure."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

#: Candidate solutions that NumPy may try before the ranges count as overlapping.
_WORK = 1_000_000

#: Address, shape, strides and itemsize.
Strided = tuple[int, tuple[int, ...], tuple[int, ...], int]


def overlap(first: Strided, second: Strided) -> bool:
    """Whether two ranges share memory; exact for boxes of one pitched array."""
    lowest, highest = _ends(*first[1:])
    low, high = _ends(*second[1:])
    ahead = second[0] - first[0]
    if ahead + low >= highest or ahead + high <= lowest:
        return False
    return _share(ahead, first[1:], second[1:])


@functools.lru_cache(maxsize=4096)
def _ends(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First byte and the byte after the last, relative to the element with index 0."""
    if 0 in shape:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps) + itemsize


@functools.lru_cache(maxsize=4096)
def _share(ahead: int, first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """The same for ranges of which the second starts `ahead` bytes after the first.

    NumPy answers for arrays that are never read, so they may lie anywhere; the addresses just have
    to be positive.
    """
    if 0 in first[0] or 0 in second[0]:
        return False
    base = 1 << 40
    try:
        return np.shares_memory(
            np.asarray(_Interface(base, *first)),
            np.asarray(_Interface(base + ahead, *second)),
            max_work=_WORK,  # type: ignore[arg-type] # NumPy's stub knows two special values
        )
    except np.exceptions.TooHardError:
        return True


class _Interface:
    """Memory as NumPy takes it from others."""

    def __init__(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
    ) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{itemsize}",
        }
