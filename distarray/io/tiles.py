"""Fixed tiles of an array, the parts in which it is written, and the runs of a file that they fill.
Pure.

Tiles are boxes of global indices, the same for any number of ranks: a checksum belongs to a tile.
Components are never joined in one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from distarray.regions import Box

Index = tuple[int, ...]

#: Cells of a tile: 64 along each of three axes, 512 along each of two.
_CELLS = 1 << 18


def tile_shape(components: Sequence[int], points: Sequence[int]) -> tuple[int, ...]:
    """Extents of the tiles of an array with these components and points along its axes."""
    edge = round(_CELLS ** (1 / max(1, len(points))))
    return (1,) * len(components) + (edge,) * len(points)


def tile_counts(shape: Sequence[int], tile: Sequence[int]) -> tuple[int, ...]:
    """Number of tiles along each axis."""
    return tuple(-(-extent // edge) for extent, edge in zip(shape, tile, strict=True))


def tile_sizes(shape: Sequence[int], tile: Sequence[int]) -> np.ndarray[Any, Any]:
    """Number of elements of each tile, an array over the tiles."""
    sizes = np.ones((), np.int64)
    for extent, edge in zip(shape, tile, strict=True):
        along = np.minimum(edge, extent - np.arange(0, extent, edge, dtype=np.int64))
        sizes = np.multiply.outer(sizes, along)
    return sizes


def tile_box(index: Index, shape: Sequence[int], tile: Sequence[int]) -> Box:
    """The elements of one tile; the last along an axis may be narrower."""
    start = tuple(i * edge for i, edge in zip(index, tile, strict=True))
    stop = (min(a + edge, n) for a, edge, n in zip(start, tile, shape, strict=True))
    return Box(start, tuple(stop))


def tiles_over(box: Box, tile: Sequence[int]) -> Iterator[Index]:
    """Indices of the tiles that share elements with a box, in C order."""
    if box.empty:
        return iter(())
    bounds = zip(box.start, box.stop, tile, strict=True)
    return itertools.product(*(range(a // edge, -(-b // edge)) for a, b, edge in bounds))


def chunks(box: Box, tile: Sequence[int], largest: int) -> Iterator[Box]:
    """Cut a box between tiles into parts of at most `largest` elements, or one tile, in C order.

    Each tile's share of the box lies in one part.
    """
    if box.empty:
        return
    axis = _first_cut(box, tile) if box.size > largest else None
    if axis is None:
        yield box
        return
    edge, first, last = tile[axis], box.start[axis], box.stop[axis]
    step = edge * max(1, largest // (box.size // box.shape[axis] * edge))
    cuts = [first, *range((first // edge) * edge + step, last, step), last]
    for start, stop in itertools.pairwise(cuts):
        yield from chunks(box.with_axis(axis, start, stop), tile, largest)


def _first_cut(box: Box, tile: Sequence[int]) -> int | None:
    """The first axis along which a box has elements of several tiles."""
    for axis, (start, stop, edge) in enumerate(zip(box.start, box.stop, tile, strict=True)):
        if (stop - 1) // edge > start // edge:
            return axis
    return None


def runs(shape: Sequence[int], box: Box) -> tuple[np.ndarray[Any, Any], int]:
    """Where the elements of a box lie in an array stored in C order: the first elements of its runs
    of neighbouring elements, and the length of each. The runs follow one another in the box.
    """
    extents = box.shape
    if box.empty:
        return np.zeros(0, np.int64), 0
    if not extents:
        return np.zeros(1, np.int64), 1
    cut = max((axis for axis, n in enumerate(extents) if n != shape[axis]), default=0)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    first = np.array(sum(a * stride for a, stride in zip(box.start, strides, strict=True)))
    for axis in range(cut):
        first = first[..., None] + strides[axis] * np.arange(extents[axis], dtype=np.int64)
    return first.reshape(-1), math.prod(extents[cut:])
