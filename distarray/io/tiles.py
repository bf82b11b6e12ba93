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


def equal_tiles(shape: Sequence[int], tile: Sequence[int]) -> Iterator[tuple[Box, int]]:
    """All tiles as boxes of tiles of one size, and that size in elements: the last along an axis
    may be narrower, so that there are at most two to the number of axes.
    """
    parts = [
        [(0, extent // edge, edge), (extent // edge, -(-extent // edge), extent % edge)]
        for extent, edge in zip(shape, tile, strict=True)
    ]
    for along in itertools.product(*parts):
        box = Box(tuple(first for first, _, _ in along), tuple(last for _, last, _ in along))
        if not box.empty:
            yield box, math.prod(cells for _, _, cells in along)


def tile_box(index: Index, shape: Sequence[int], tile: Sequence[int]) -> Box:
    """The elements of one tile; the last along an axis may be narrower."""
    return joined(Box(index, tuple(i + 1 for i in index)), shape, tile)


def tiles_over(box: Box, tile: Sequence[int]) -> Iterator[Index]:
    """Indices of the tiles that share elements with a box, in C order."""
    if box.empty:
        return iter(())
    bounds = zip(box.start, box.stop, tile, strict=True)
    return itertools.product(*(range(a // edge, -(-b // edge)) for a, b, edge in bounds))


def chunks(
    box: Box, tile: Sequence[int], largest: int, *, over: Box | None = None
) -> Iterator[Box]:
    """Cut a box between tiles into parts of at most `largest` elements, or one tile, in C order;
    those that share elements with `over` where it is given.

    Each tile's share of the box lies in one part.
    """
    if box.empty or (over is not None and box.intersection(over).empty):
        return
    axis = _first_cut(box, tile) if box.size > largest else None
    if axis is None:
        yield box
        return
    edge, first, last = tile[axis], box.start[axis], box.stop[axis]
    step = edge * max(1, largest // (box.size // box.shape[axis] * edge))
    origin = (first // edge) * edge
    low, high = (first, last) if over is None else (over.start[axis], over.stop[axis])
    for k in range(max(0, (low - origin) // step), -(-(min(high, last) - origin) // step)):
        start, stop = max(first, origin + k * step), min(last, origin + (k + 1) * step)
        yield from chunks(box.with_axis(axis, start, stop), tile, largest, over=over)


def shares(counts: Sequence[int], number: int, of: int) -> Iterator[Box]:
    """One of `of` equal shares of all tiles, in C order, as boxes of tiles: few, whatever their
    number.
    """
    whole = Box.of_shape(counts)
    total = whole.size
    yield from _between(whole, total * number // of, total * (number + 1) // of)


def _between(box: Box, first: int, last: int) -> Iterator[Box]:
    """The elements of a box from one place in C order up to another, as boxes."""
    if first >= last:
        return
    if last - first == box.size:
        yield box
        return
    axis = next(k for k, n in enumerate(box.shape) if n > 1)
    row, base = box.size // box.shape[axis], box.start[axis]
    low, high = -(-first // row), last // row  # rows that are in it as a whole
    if low > high:
        yield from _between(box.with_axis(axis, base + high, base + low), first % row, last % row)
        return
    if first % row:
        yield from _between(box.with_axis(axis, base + low - 1, base + low), first % row, row)
    if low < high:
        yield box.with_axis(axis, base + low, base + high)
    if last % row:
        yield from _between(box.with_axis(axis, base + high, base + high + 1), 0, last % row)


def _first_cut(box: Box, tile: Sequence[int]) -> int | None:
    """The first axis along which a box has elements of several tiles."""
    for axis, (start, stop, edge) in enumerate(zip(box.start, box.stop, tile, strict=True)):
        if (stop - 1) // edge > start // edge:
            return axis
    return None


def joined(tiles: Box, shape: Sequence[int], tile: Sequence[int]) -> Box:
    """The elements of a box of tiles."""
    stops = zip(tiles.stop, tile, shape, strict=True)
    return Box(
        tuple(i * edge for i, edge in zip(tiles.start, tile, strict=True)),
        tuple(min(i * edge, n) for i, edge, n in stops),
    )


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
