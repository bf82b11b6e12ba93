"""Which points a kernel computes on one rank, and which of them need no message. Pure.

A store is computed at the points of its output where everything that its value reads is available: owned, halo or
filled boundary cells. The *core* are the points whose reads are all owned; the *remainder* waits for the refresh.
Boxes are in local indices of the kernel's grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distarray.regions import Box
from distarray.stencil.expression import COARSE, FINE, Expression, Program, Read, walk


@dataclass(frozen=True)
class Extent:
    """What one rank can read of one array, in local indices of that array.

    `start` is the global index of local index 0. `owned` and `available` bound what is owned, and what is owned,
    halo or boundary layer. `writable` is what a kernel may write: owned without points fixed by a condition.
    A profile's boxes have one axis.
    """

    start: tuple[int, ...]
    owned: Box
    available: Box
    writable: Box


def computed_boxes(
    program: Program, extents: Sequence[Extent], start: Sequence[int], *, owned_only: bool = False
) -> tuple[Box, ...]:
    """The box where each store is computed; for a program without stores, the one box of its reductions.

    With `owned_only` the reads must be owned: the core of each store.
    """
    reductions = [reduction.value for reduction in program.reductions]
    if not program.stores:
        return (_limit(extents[0].owned, reductions, extents, start, owned_only),)
    boxes = []
    for number, store in enumerate(program.stores):
        # Reductions run with the first store, so its points must serve them too.
        roots = [store.value, *reductions] if number == 0 else [store.value]
        boxes.append(_limit(extents[store.parameter].writable, roots, extents, start, owned_only))
    return tuple(boxes)


def _limit(
    box: Box,
    roots: Iterable[Expression],
    extents: Sequence[Extent],
    start: Sequence[int],
    owned_only: bool,
) -> Box:
    for read in walk(roots):
        if isinstance(read, Read):
            extent = extents[read.parameter]
            source = extent.owned if owned_only else extent.available
            box = box.intersection(_readable(box, read, source, extent.start, start))
    return box


def _readable(box: Box, read: Read, source: Box, source_start: Sequence[int], start: Sequence[int]) -> Box:
    """The part of `box` (all of it along axes the read ignores) where `read` lies in `source`."""
    axes = range(box.ndim) if read.axis is None else (read.axis,)
    for position, axis in enumerate(axes):
        offset, low, high = read.offsets[position], source.start[position], source.stop[position]
        if read.relation == FINE:  # low <= 2 l + offset + shift < high
            shift = 2 * start[axis] - source_start[position] + offset
            low, high = -((shift - low) // 2), -((shift - high) // 2)
        elif read.relation == COARSE:  # low <= (l + start) // 2 + offset - source_start < high
            shift = source_start[position] - offset
            low, high = 2 * (low + shift) - start[axis], 2 * (high + shift) - start[axis]
        else:
            low, high = low - offset, high - offset
        box = box.with_axis(axis, max(box.start[axis], low), min(box.stop[axis], high))
    return box


def intersect_all(boxes: Sequence[Box]) -> Box:
    common = boxes[0]
    for box in boxes[1:]:
        common = common.intersection(box)
    return common


def partition(boxes: Sequence[Box], without: Box | None = None) -> tuple[tuple[Box, int], ...]:
    """Disjoint boxes that cover all `boxes`, each with the mask of those that contain it; `without` is left out.

    Bit k of a mask stands for boxes[k]. Neighbouring pieces with equal masks are joined, along the last axis first.
    """
    cutting = [box for box in (*boxes, *(() if without is None else (without,))) if not box.empty]
    if not cutting:
        return ()
    cuts = [
        sorted({position for box in cutting for position in (box.start[axis], box.stop[axis])})
        for axis in range(cutting[0].ndim)
    ]
    pieces = [Box((), ())]
    for edges in cuts:
        pieces = [
            Box((*piece.start, low), (*piece.stop, high))
            for piece in pieces
            for low, high in zip(edges, edges[1:], strict=False)
        ]
    masked = [
        (piece, sum(1 << k for k, box in enumerate(boxes) if not box.empty and box.contains(piece)))
        for piece in pieces
        if without is None or without.empty or not without.contains(piece)
    ]
    joined = [(piece, mask) for piece, mask in masked if mask]
    for axis in reversed(range(cutting[0].ndim)):
        joined = _join(joined, axis)
    return tuple(joined)


def _join(pieces: list[tuple[Box, int]], axis: int) -> list[tuple[Box, int]]:
    """Join pieces that meet along an axis, agree along the others and have equal masks."""
    ends: dict[tuple[object, ...], int] = {}
    result: list[tuple[Box, int]] = []
    for piece, mask in sorted(pieces, key=lambda item: item[0].start[axis]):
        across = (piece.start[:axis], piece.start[axis + 1 :], piece.stop[:axis], piece.stop[axis + 1 :], mask)
        previous = ends.get((*across, piece.start[axis]))
        if previous is None:
            ends[(*across, piece.stop[axis])] = len(result)
            result.append((piece, mask))
        else:
            result[previous] = (
                result[previous][0].with_axis(axis, result[previous][0].start[axis], piece.stop[axis]),
                mask,
            )
            ends[(*across, piece.stop[axis])] = previous
    return result


def tiles(box: Box, least_cells: int, most: int) -> tuple[Box, ...]:
    """The box cut along its first axis into at most `most` slabs of at least about `least_cells` cells."""
    planes = box.stop[0] - box.start[0]
    count = max(1, min(most, planes, box.size // max(1, least_cells)))
    cuts = [box.start[0] + planes * part // count for part in range(count + 1)]
    return tuple(box.with_axis(0, low, high) for low, high in zip(cuts, cuts[1:], strict=False))
