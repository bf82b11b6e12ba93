"""Boxes of an array, moved between memory and the runs of a file that they fill. Local; no MPI."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from distarray.io import place
from distarray.io.record import ArrayRecord
from distarray.io.tiles import chunks, runs
from distarray.regions import Box

Values = np.ndarray[Any, Any]

#: Bytes that are read or written at once; with its copies a small part of what a rank may hold.
CHUNK = 16 << 20
#: Bytes of a row from which it is given to the system as it lies in memory.
LONG_ROW = 1 << 10
#: Runs of bytes whose places are Python numbers at once: a list of all could be as large as these.
_RUNS = 4096
#: Bytes that are moved at once in the order of the file; they stay in the caches of a core.
PIECE = 8 << 20


def largest_piece(dtype: np.dtype[Any]) -> int:
    """Elements that are read or written at once, unless one tile has more."""
    return CHUNK // dtype.itemsize


def in_order(box: Box, dtype: np.dtype[Any]) -> Iterator[Box]:
    """A box cut into pieces in the order of the file, of runs as long as they can be. Local."""
    largest = max(1, min(PIECE // dtype.itemsize, largest_piece(dtype)))
    return chunks(box, (1,) * box.ndim, largest)


def read_box(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """Fill a contiguous array with the values of a box as they lie in the file. Local."""
    for octets, offset in _byte_runs(array, box, values):
        place.read_at(descriptor, offset, octets)


def write_box(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """Write a contiguous array where the values of a box lie in the file, and let the disk begin
    with it. Local; any thread.
    """
    for octets, offset in _byte_runs(array, box, values):
        place.write_at(descriptor, offset, octets)
    place.begin_sync(descriptor, *extent(array, box))


def write_strided(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """As `write_box`, of values whose rows alone lie together in memory, without a copy. Local; any
    thread.
    """
    for rows, offset in _row_runs(array, box, values):
        place.write_rows(descriptor, offset, rows)
    place.begin_sync(descriptor, *extent(array, box))


def read_strided(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """As `read_box`, into memory whose rows alone lie together. Local."""
    for rows, offset in _row_runs(array, box, values):
        place.read_rows(descriptor, offset, rows)


def _row_runs(array: ArrayRecord, box: Box, values: Values) -> Iterator[tuple[list[Values], int]]:
    """The rows of a box in memory, run by run, with the place of each run in the file."""
    if box.empty:
        return
    rows = [values]
    for _ in range(values.ndim - 1):
        rows = [part for whole in rows for part in whole]
    firsts, count = runs(array.shape, box)
    each = count // box.shape[-1]
    for k, first in enumerate(firsts.tolist()):
        yield rows[k * each : (k + 1) * each], array.offset + first * values.itemsize


def has_long_rows(values: Values) -> bool:
    """Whether `write_strided` is worth while for these values."""
    row = values.shape[-1] * values.itemsize
    return row >= LONG_ROW and values.strides[-1] == values.itemsize


def extent(array: ArrayRecord, box: Box) -> tuple[int, int]:
    """The first byte of a box in the file, and the number of bytes to its last one. Local."""
    if box.empty:
        return array.offset, 0
    itemsize = np.dtype(array.dtype).itemsize
    first = sum(a * n for a, n in zip(box.start, _pitches(array), strict=True))
    last = sum((b - 1) * n for b, n in zip(box.stop, _pitches(array), strict=True))
    return array.offset + first * itemsize, (last - first + 1) * itemsize


def _pitches(array: ArrayRecord) -> tuple[int, ...]:
    """Elements from one index to the next along each axis."""
    return tuple(math.prod(array.shape[axis + 1 :]) for axis in range(len(array.shape)))


def _byte_runs(array: ArrayRecord, box: Box, values: Values) -> Iterator[tuple[Any, int]]:
    """The bytes of a box, run by run, with the place of each in the file."""
    firsts, count = runs(array.shape, box)
    itemsize = values.itemsize
    octets = values.reshape(-1).view(np.uint8).data
    length = count * itemsize
    for first in range(0, len(firsts), _RUNS):
        offsets = (array.offset + firsts[first : first + _RUNS] * itemsize).tolist()
        for k, offset in enumerate(offsets, first):
            yield octets[k * length : (k + 1) * length], offset
