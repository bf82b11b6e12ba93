"""Which points a kernel computes on one rank, and which of them need no message. Pure.

A store is computed at the points of its output where everything that its value reads is available:
owned, halo or filled boundary cells. A reduction runs over the points of the first output that are
computed and where its own reads are available too. The *core* are the points whose reads need no
message; the *remainder* waits for the refresh. Boxes are in local indices of the kernel's grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from distarray.layout import Component
from distarray.regions import Box
from distarray.stencil.analysis import read_nodes
from distarray.stencil.expression import (
    COARSE,
    FINE,
    ArrayParameter,
    Expression,
    Program,
    Read,
)


@dataclass(frozen=True)
class Extent:
    """What one rank can read of one component of an array, in local indices of that array.

    `start` is the global index of local index 0. `owned` bounds what is owned, `at_hand` what needs
    no message: owned, and the halo around a periodic axis that one block holds whole. `available`
    bounds all that is owned, halo or filled boundary layer. A profile's boxes have one axis.
    """

    start: tuple[int, ...]
    owned: Box
    at_hand: Box
    available: Box


#: The extent of a component of an argument, by the argument's position.
Extents = Callable[[int, Component], Extent]


def computed_boxes(
    program: Program,
    extents: Extents,
    targets: Sequence[Sequence[Box]],
    start: Sequence[int],
    *,
    without_messages: bool = False,
) -> tuple[tuple[Box, ...], ...]:
    """Where each store is computed, then where each reduction runs: the part of its boxes that its
    own reads allow. Local.

    `targets` has the boxes of each store. A program without stores has one target, for all its
    reductions, which then run where the reads of all are available. `without_messages` gives the
    core: the reads must be at hand before messages arrive.
    """

    def limited(boxes: Iterable[Box], roots: Sequence[Expression]) -> tuple[Box, ...]:
        reads = [(read, program.arrays[read.parameter]) for read in read_nodes(roots)]
        return tuple(_limit(box, reads, extents, start, without_messages) for box in boxes)

    reduced = [reduction.value for reduction in program.reductions]
    if not program.stores:
        return (limited(targets[0], reduced),) * len(reduced)
    stored = [
        limited(boxes, [store.value]) for store, boxes in zip(program.stores, targets, strict=True)
    ]
    return (*stored, *(limited(stored[0], [value]) for value in reduced))


def _limit(
    box: Box,
    reads: Iterable[tuple[Read, ArrayParameter]],
    extents: Extents,
    start: Sequence[int],
    without_messages: bool,
) -> Box:
    for read, array in reads:
        extent = extents(read.parameter, read.component)
        source = extent.at_hand if without_messages else extent.available
        for position, axis in enumerate(range(box.ndim) if read.axis is None else (read.axis,)):
            low, high = _readable(
                (array.along(axis, read.relation), read.offsets[position]),
                (source.start[position], source.stop[position]),
                extent.start[position],
                start[axis],
            )
            box = box.with_axis(axis, max(box.start[axis], low), min(box.stop[axis], high))
    return box


def _readable(
    read: tuple[str, int], source: tuple[int, int], source_start: int, start: int
) -> tuple[int, int]:
    """The local indices along an axis at which a read, its relation and offset, lies in `source`,
    whose local index 0 is the global index `source_start`.
    """
    (relation, offset), (low, high) = read, source
    if relation == FINE:  # low <= 2 l + offset + shift < high
        shift = 2 * start - source_start + offset
        return -((shift - low) // 2), -((shift - high) // 2)
    if relation == COARSE:  # low <= (l + start) // 2 + offset - source_start < high
        shift = source_start - offset
        return 2 * (low + shift) - start, 2 * (high + shift) - start
    return low - offset, high - offset


def common_core(boxes: Sequence[Sequence[Box]], ndim: int) -> Box:
    """A box in which all is computed: the intersection of the largest box of each output.

    Empty if an output has no boxes, because all its points on this rank are fixed.
    """
    if not all(boxes):
        return Box((0,) * ndim, (0,) * ndim)
    largest = [max(found, key=lambda box: box.size) for found in boxes]
    core = largest[0]
    for box in largest[1:]:
        core = core.intersection(box)
    return core


def partition(
    boxes: Sequence[Sequence[Box]], without: Box | None = None
) -> tuple[tuple[Box, int], ...]:
    """Disjoint boxes that cover all `boxes`, each with the mask of those that contain it; `without`
    is left out.

    Bit k of a mask stands for the disjoint boxes[k]. Neighbouring pieces with equal masks are
    joined, along the last axis first.
    """
    masked = [(box, 1 << k) for k, found in enumerate(boxes) for box in found]
    left_out = 1 << len(boxes)
    if without is not None:
        masked.append((without, left_out))
    pieces = _pieces([(box, mask) for box, mask in masked if not box.empty], 0)
    joined = [(piece, mask) for piece, mask in pieces if not mask & left_out]
    for axis in reversed(range(joined[0][0].ndim if joined else 0)):
        joined = _join(joined, axis)
    return tuple(joined)


def _pieces(masked: Sequence[tuple[Box, int]], axis: int) -> list[tuple[Box, int]]:
    """Disjoint pieces of all boxes, along `axis` and those after it, each with the masks of the
    boxes that hold it.

    Slabs are cut at the edges of their own boxes only: small boxes far apart do not cut each other.
    """
    if not masked:
        return []
    if axis == masked[0][0].ndim:
        return [(Box((), ()), sum(mask for _, mask in masked))]
    edges = sorted({edge for box, _ in masked for edge in (box.start[axis], box.stop[axis])})
    return [
        (Box((low, *piece.start), (high, *piece.stop)), mask)
        for low, high in itertools.pairwise(edges)
        for piece, mask in _pieces(
            [(b, m) for b, m in masked if b.start[axis] <= low and high <= b.stop[axis]], axis + 1
        )
    ]


def _join(pieces: list[tuple[Box, int]], axis: int) -> list[tuple[Box, int]]:
    """Join pieces that meet along an axis, agree along the others and have equal masks."""
    ends: dict[tuple[object, ...], int] = {}
    result: list[tuple[Box, int]] = []
    for piece, mask in sorted(pieces, key=lambda item: item[0].start[axis]):
        across = (
            piece.start[:axis],
            piece.start[axis + 1 :],
            piece.stop[:axis],
            piece.stop[axis + 1 :],
            mask,
        )
        previous = ends.get((*across, piece.start[axis]))
        if previous is None:
            ends[(*across, piece.stop[axis])] = len(result)
            result.append((piece, mask))
        else:
            result[previous] = (
                result[previous][0].with_axis(
                    axis, result[previous][0].start[axis], piece.stop[axis]
                ),
                mask,
            )
            ends[(*across, piece.stop[axis])] = previous
    return result


def tiles(box: Box, least_cells: int, most: int) -> tuple[Box, ...]:
    """The box cut along its first axis into at most `most` slabs of at least about `least_cells`
    cells.
    """
    planes = box.stop[0] - box.start[0]
    count = max(1, min(most, planes, box.size // max(1, least_cells)))
    cuts = [box.start[0] + planes * part // count for part in range(count + 1)]
    return tuple(box.with_axis(0, low, high) for low, high in itertools.pairwise(cuts))
