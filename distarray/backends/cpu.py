"""The CPU: NumPy arrays as memory, compiled C as kernels, plain NumPy where nothing compiles."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from distarray.backends import native
from distarray.backends.base import BoxCopy, CopyList
from distarray.errors import BackendError

Array = np.ndarray[Any, Any]

LINE = 64  # bytes of a cache line
WAY = 4096  # bytes after which addresses share a set of the first-level cache

#: Lines between the starts of successive allocations, modulo a page: odd, so that arrays take all
#: positions in turn.
_STAGGER = 27
_allocations = itertools.count()

#: Numbers per copy in the table that the C function reads, and its loops around a run of bytes.
_FIELDS = 15
_LOOPS = 4

COPY_SOURCE = """\
#include <stdint.h>
#include <string.h>

/* One strided copy: up to four loops around a contiguous run of `size` bytes. */
struct copy { const char *source; char *target; int64_t size, n[4], s[4], t[4]; };

static inline __attribute__((always_inline)) void rows(const struct copy *c, int64_t size) {
  for (int64_t i = 0; i < c->n[0]; i++)
    for (int64_t j = 0; j < c->n[1]; j++)
      for (int64_t k = 0; k < c->n[2]; k++) {
        const char *s = c->source + i * c->s[0] + j * c->s[1] + k * c->s[2];
        char *t = c->target + i * c->t[0] + j * c->t[1] + k * c->t[2];
        for (int64_t l = 0; l < c->n[3]; l++)
          memcpy(t + l * c->t[3], s + l * c->s[3], size);
      }
}

void distarray_copy(const struct copy *copies, int64_t count) {
  for (const struct copy *c = copies; c < copies + count; c++)
    switch (c->size) {  /* fixed sizes become single moves */
    case 1: rows(c, 1); break;
    case 2: rows(c, 2); break;
    case 4: rows(c, 4); break;
    case 8: rows(c, 8); break;
    case 16: rows(c, 16); break;
    case 32: rows(c, 32); break;
    default: rows(c, c->size);
    }
}
"""


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
        """Zeroed memory for one block, shape components + shape; see `Backend.allocate`. Local."""
        dtype = np.dtype(dtype)
        strides = padded_strides(components, shape, dtype.itemsize)
        full = components + shape
        span = (
            sum((n - 1) * s for n, s in zip(full, strides, strict=True)) + dtype.itemsize
            if math.prod(full)
            else 0
        )
        raw: Array = np.zeros(span + LINE + WAY, np.uint8)
        ahead = halo[-1] * dtype.itemsize if halo else 0
        place = (next(_allocations) * _STAGGER * LINE) % WAY
        offset = place + (-(raw.ctypes.data + place + ahead)) % LINE
        return np.ndarray(full, dtype, buffer=raw, offset=offset, strides=strides)

    def buffer(self, nbytes: int) -> Array:
        """A contiguous byte buffer that starts a cache line. Local."""
        raw: Array = np.zeros(nbytes + LINE, np.uint8)
        offset = -raw.ctypes.data % LINE
        return raw[offset : offset + nbytes]

    def prepare_copies(self, copies: Sequence[BoxCopy]) -> CopyList:
        """Copies carried out in order by one call of a compiled function, or by NumPy. Local.

        Raises
        ------
        BackendError
            Source and target of a copy differ in shape or dtype.
        """
        for copy in copies:
            _check(copy)
        kept = tuple(copy for copy in copies if copy.source.size)
        if not kept:
            return _nothing
        function = native.load(COPY_SOURCE, "distarray_copy")
        return _NumpyCopies(kept) if function is None else _compiled_copies(function, kept)

    def to_host(self, values: Any) -> Array:
        return np.asarray(values)

    def asarray(self, values: Array) -> Array:
        return np.asarray(values)

    def load(self, source: str, symbol: str, *, fast: bool = False) -> Any:
        """A compiled C function, or None where nothing compiles. Local."""
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


def _nothing() -> None:
    """No copies."""


class _NumpyCopies:
    def __init__(self, copies: Sequence[BoxCopy]) -> None:
        self._copies = copies

    def __call__(self) -> None:
        for copy in self._copies:
            np.copyto(copy.target, copy.source)


def _compiled_copies(function: Any, copies: Sequence[BoxCopy]) -> CopyList:
    table = np.array([row for copy in copies for row in _rows(copy)], np.int64)
    call = _Prepared(function, ctypes.c_void_p(table.ctypes.data), ctypes.c_int64(len(table)))
    call.kept = (table, copies)
    return call


class _Prepared(functools.partial[None]):
    """A call with prepared arguments, and what must live as long as its pointers."""

    kept: Any = None


def _rows(copy: BoxCopy) -> Iterator[list[int]]:
    """The copy as table rows: contiguous axes joined, loops beyond the table's unrolled."""
    source, target = copy.source, copy.target
    size = source.dtype.itemsize
    loops: list[list[int]] = []  # [extent, source stride, target stride], innermost first
    order = sorted(range(source.ndim), key=lambda axis: abs(target.strides[axis]))
    for axis in order:
        extent, s, t = source.shape[axis], source.strides[axis], target.strides[axis]
        if extent == 1:
            continue
        if not loops and s == t == size:
            size *= extent
        elif loops and (s, t) == (loops[-1][0] * loops[-1][1], loops[-1][0] * loops[-1][2]):
            loops[-1][0] *= extent
        else:
            loops.append([extent, s, t])
    inner, outer = loops[:_LOOPS], loops[_LOOPS:]
    inner += [[1, 0, 0]] * (_LOOPS - len(inner))
    columns = [value for column in zip(*reversed(inner), strict=True) for value in column]
    for index in itertools.product(*(range(extent) for extent, _, _ in outer)):
        s = sum(i * loop[1] for i, loop in zip(index, outer, strict=True))
        t = sum(i * loop[2] for i, loop in zip(index, outer, strict=True))
        yield [source.ctypes.data + s, target.ctypes.data + t, size, *columns]


def _check(copy: BoxCopy) -> None:
    source, target = copy.source, copy.target
    if source.shape != target.shape or source.dtype != target.dtype:
        raise BackendError(
            f"A copy goes from shape {source.shape}, {source.dtype} to {target.shape}, "
            f"{target.dtype}; both sides must agree."
        )
