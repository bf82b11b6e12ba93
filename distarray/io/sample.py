"""A part of an array of a file, and where it lies: for pictures. Local; no HDF5.

Only what is asked for is read, line by line along the last axis, so that memory is needed for the
part alone, whatever the array's size. Lines that lie closer together than the pages in which disks
are read anyway are read together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from distarray.io import place
from distarray.io.agreement import told
from distarray.io.boxes import read_box
from distarray.io.checksums import Buffer
from distarray.io.record import ArrayRecord, GridRecord
from distarray.io.scales import positions
from distarray.io.verify import all_chunks

Values = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

_PAGE = 4096  # bytes


def read_sample(path: str, array: ArrayRecord, picks: Sequence[range]) -> Values:
    """The elements at these indices along each axis of an array, components first.

    Parameters
    ----------
    picks : one range of ascending indices for each axis of the array

    Raises
    ------
    FileError
        The file cannot be read.
    """
    dtype = np.dtype(array.dtype)
    values = np.empty([len(pick) for pick in picks], dtype)
    if not values.size:
        return values
    strides = [int(np.prod(array.shape[k + 1 :], dtype=np.int64)) for k in range(len(picks))]
    close = len(picks) > 1 and strides[-2] * picks[-2].step * dtype.itemsize <= _PAGE
    cut = len(picks) - (2 if close else 1)
    # The elements of what is read at once, counted from the first of them.
    steps = zip(picks[cut:], strides[cut:], strict=True)
    parts = [np.arange(len(pick)) * pick.step * stride for pick, stride in steps]
    inside = parts[0][:, None] + parts[1] if close else parts[0]
    read = np.empty(int(inside.max()) + 1, dtype)
    numbers = itertools.product(*(range(len(pick)) for pick in picks[:cut]))
    firsts = (pick[0] for pick in picks[cut:])
    starts = itertools.product(*picks[:cut], *((first,) for first in firsts))
    with told(f"The file '{path}' cannot be read"), place.opened(path) as descriptor:
        for number, start in zip(numbers, starts, strict=True):
            first = sum(i * stride for i, stride in zip(start, strides, strict=True))
            place.read_at(descriptor, array.offset + first * dtype.itemsize, read.view(np.uint8))
            values[number] = read[inside]
    return values


def read_chunks(path: str, array: ArrayRecord) -> Iterator[Values]:
    """All elements, in parts of bounded size, each of which is overwritten by the next.

    Raises
    ------
    FileError
        The file cannot be read.
    """
    buffer = Buffer()
    with told(f"The file '{path}' cannot be read"), place.opened(path) as descriptor:
        for box in all_chunks(array):
            values = buffer.array(box.shape, np.dtype(array.dtype))
            read_box(descriptor, array, box, values)
            yield values


def positions_of(grid: GridRecord, array: ArrayRecord, axis: int) -> Floats:
    """Where the cells or points of an array lie along an axis."""
    staggered = grid.axes[axis] in (array.location or "")
    return positions(grid, axis, staggered=staggered, count=array.points[axis])


def edges_of(grid: GridRecord, array: ArrayRecord, axis: int, pick: range) -> Floats:
    """The ends of the intervals for which the picked cells or points stand, one more than those.

    They meet half way between neighbours, and end where the grid does; points of a periodic axis
    stand for as much on either side.
    """
    found = positions_of(grid, array, axis)[pick.start : pick.stop : pick.step]
    low, high = grid.bounds[axis]
    middle = 0.5 * (found[1:] + found[:-1])
    if grid.periodic[axis] and grid.axes[axis] in (array.location or "") and len(found) > 1:
        low, high = 2.0 * found[0] - middle[0], 2.0 * found[-1] - middle[-1]
    return np.concatenate([[low], middle, [high]])
