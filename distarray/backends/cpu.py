"""The CPU: NumPy arrays as memory, compiled C as kernels, plain NumPy where nothing compiles.

What compiles is imported when something is first compiled, not with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.backends.base import BoxCopy, CopyList

Array = np.ndarray[Any, Any]

LINE = 64  # bytes of a cache line
WAY = 4096  # bytes after which addresses share a set of the first-level cache

#: Lines between the starts of successive allocations, modulo a page: odd, so that arrays take all
#: positions in turn.
_STAGGER = 27
_allocations = itertools.count()


class CpuBackend:
    """Memory and kernels of this process's CPU; all instances are alike."""

    name = "cpu"

    def allocate(
        self,
        components: tuple[int, ...],
        shape: tuple[int, ...],
        halo: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Array:
        """Zeroed memory for one block, shape components + shape; see `Backend.allocate`. Local.

        The halo, not the owned part, starts a cache line: then the copy of a periodic face along
        the last axis touches two lines a row instead of three.
        """
        dtype = np.dtype(dtype)
        strides = padded_strides(components, shape, dtype.itemsize)
        full = components + shape
        span = (
            sum((n - 1) * s for n, s in zip(full, strides, strict=True)) + dtype.itemsize
            if math.prod(full)
            else 0
        )
        raw: Array = np.zeros(span + LINE + WAY, np.uint8)
        place = (next(_allocations) * _STAGGER * LINE) % WAY
        offset = place + -raw.ctypes.data % LINE
        return np.ndarray(full, dtype, buffer=raw, offset=offset, strides=strides)

    def buffer(self, nbytes: int) -> Array:
        """A contiguous byte buffer that starts a cache line. Local."""
        raw: Array = np.zeros(nbytes + LINE, np.uint8)
        offset = -raw.ctypes.data % LINE
        return raw[offset : offset + nbytes]

    def prepare_copies(self, copies: Sequence[BoxCopy]) -> CopyList:
        """Copies carried out as if in order by one call; see `copies.prepare`. Local."""
        from distarray.backends.copies import prepare

        return prepare(copies)

    def to_host(self, values: Any) -> Array:
        return np.asarray(values)

    def asarray(self, values: Array) -> Array:
        return np.asarray(values)

    def load(self, source: str, symbol: str, *, fast: bool = False) -> Any:
        """A compiled C function, or None where nothing compiles. Local."""
        from distarray.backends import native

        return native.load(source, symbol, fast=fast)


def padded_strides(
    components: tuple[int, ...], shape: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Bytes between neighbours along each axis of components + shape.

    Rows fill whole cache lines, an odd number of them; planes and components are kept from starting
    at the same position modulo a page, where a store delays the loads of another plane and few sets
    hold them all.
    """
    full = components + shape
    strides = [itemsize]
    for position, extent in enumerate(reversed(full[1:])):
        pitch = strides[-1] * extent
        strides.append(_odd_lines(pitch) if position == 0 else _off_page(pitch))
    return tuple(reversed(strides)) if full else ()


def _odd_lines(nbytes: int) -> int:
    lines = -(-nbytes // LINE)
    return LINE * (lines + 1 - lines % 2 if lines > 4 else max(lines, 1))


def _off_page(nbytes: int) -> int:
    """The next size that is not near a multiple of a page; small planes stay as they are."""
    beyond, quarter = nbytes % WAY, WAY // 4
    if nbytes < 4 * WAY or quarter <= beyond <= WAY - quarter:
        return nbytes
    return nbytes - beyond + quarter + (WAY if beyond > quarter else 0)
