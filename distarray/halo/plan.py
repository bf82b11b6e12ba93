"""Who sends which cells to whom: the plan of a halo exchange, built without communication.

A halo region belongs to a receiver and a direction; its values are owned by the block one step that
way. Every rank finds its receives from its own directions and its sends from the blocks that have
it one step away, so that the work grows with the number of neighbours only.

There is one message per neighbouring rank. Its pieces follow one order on both sides: the
receiver's direction, then the field, then the component. Two ranks that are neighbours on both
sides of a periodic axis therefore agree without tags.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distarray.decomposition import Decomposition
from distarray.errors import DecompositionError
from distarray.layout import Component, Direction, HaloReads, Layout, Widths
from distarray.regions import Box

Coords = tuple[int, ...]

#: A field and its halo regions.
FieldRegions = tuple[Layout, HaloReads]

#: Bytes to which pieces are aligned within a message; a multiple of every element size.
ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message: a box of one component's padded memory and its place in the message."""

    field: int
    component: Component
    box: Box
    offset: int


@dataclass(frozen=True, slots=True)
class Message:
    """What one rank sends to, or receives from, another."""

    rank: int
    nbytes: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A halo region that this rank owns itself, around a periodic axis. Boxes of padded memory."""

    field: int
    component: Component
    source: Box
    target: Box


@dataclass(frozen=True, slots=True)
class _Region:
    """A receiver's halo region in global indices: the box itself and its owner's cells."""

    field: int
    component: Component
    target: Box
    source: Box


@dataclass(frozen=True)
class HaloPlan:
    """The messages and copies that fill the halo of some fields on one rank.

    Attributes
    ----------
    sends, receives : tuple of Message
        In order of rank; none is empty.
    copies : tuple of LocalCopy
    """

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    copies: tuple[LocalCopy, ...]

    @classmethod
    def build(
        cls, decomposition: Decomposition, coords: Coords | None, fields: Sequence[FieldRegions]
    ) -> HaloPlan:
        """The plan of the rank at `coords`; empty for a rank that holds nothing. Local.

        Parameters
        ----------
        decomposition : Decomposition
            Gives process grid and periodic axes. The fields may lie on other decompositions of the
            same process grid (coarser grids).
        coords : tuple of int or None
            Position of this rank.
        fields : sequence of (Layout, HaloReads)
            The same on all ranks. A direction is -1, 0 or 1 per axis, seen from the receiver; its
            widths are cells per axis, 0 where the direction is 0.

        Raises
        ------
        DecompositionError
            A region is wider than the halo.
        """
        if coords is None:
            return cls((), (), ())
        _refuse_wide_regions(fields)
        sends: dict[int, list[_Region]] = {}
        receives: dict[int, list[_Region]] = {}
        copies: list[_Region] = []
        here = decomposition.rank_at(coords)
        for direction in sorted({key[1] for _, reads in fields for key in reads}):
            source = decomposition.neighbour(coords, direction)
            if source is not None:
                regions = list(_regions(coords, direction, fields))
                if source == coords:
                    copies += regions
                else:
                    receives.setdefault(decomposition.rank_at(source), []).extend(regions)
            receiver = decomposition.neighbour(coords, tuple(-step for step in direction))
            if receiver is not None and receiver != coords:
                rank = decomposition.rank_at(receiver)
                sends.setdefault(rank, []).extend(_regions(receiver, direction, fields))
        origins = [layout.padded(here).start for layout, _ in fields]
        return cls(
            _messages(
                fields,
                origins,
                {rank: [(r, r.source) for r in found] for rank, found in sends.items()},
            ),
            _messages(
                fields,
                origins,
                {rank: [(r, r.target) for r in found] for rank, found in receives.items()},
            ),
            tuple(_local_copy(region, origins) for region in copies),
        )


def _refuse_wide_regions(fields: Sequence[FieldRegions]) -> None:
    for layout, reads in fields:
        for (_, direction), widths in reads.items():
            if any(width > halo for width, halo in zip(widths, layout.halo, strict=True)):
                raise DecompositionError(
                    f"A halo region in direction {direction} is {widths} cells wide, wider than "
                    f"the halo {layout.halo}; create the array with a wider halo."
                )


def _regions(
    receiver: Coords, direction: Direction, fields: Sequence[FieldRegions]
) -> Iterator[_Region]:
    """The regions of the block at `receiver` in one direction, in order, without empty ones."""
    for number, (layout, reads) in enumerate(fields):
        owned = layout.decomposition.owned(receiver, layout.staggered)
        around = _step_around(layout, receiver, direction)
        for component, towards in sorted(key for key in reads if key[1] == direction):
            target = _outside(owned, direction, reads[component, towards])
            if not target.empty:
                yield _Region(number, component, target, target.shift(around))


def _outside(owned: Box, direction: Direction, widths: Widths) -> Box:
    """The halo region beside an owned box."""
    box = owned
    for axis, (step, width) in enumerate(zip(direction, widths, strict=True)):
        if step < 0:
            box = box.with_axis(axis, owned.start[axis] - width, owned.start[axis])
        elif step > 0:
            box = box.with_axis(axis, owned.stop[axis], owned.stop[axis] + width)
    return box


def _step_around(layout: Layout, receiver: Coords, direction: Direction) -> tuple[int, ...]:
    """What leads from a region's indices to the cells it stands for: turns of periodic axes."""
    return tuple(
        -axis.cells if part + step >= axis.parts else axis.cells if part + step < 0 else 0
        for part, step, axis in zip(receiver, direction, layout.decomposition.axes, strict=True)
    )


def _messages(
    fields: Sequence[FieldRegions],
    origins: Sequence[tuple[int, ...]],
    boxes: dict[int, list[tuple[_Region, Box]]],
) -> tuple[Message, ...]:
    """One message per rank, pieces laid out one after the other."""
    messages = []
    for rank in sorted(boxes):
        pieces, offset = [], 0
        for region, box in boxes[rank]:
            pieces.append(
                Piece(
                    region.field, region.component, _in_memory(box, origins[region.field]), offset
                )
            )
            nbytes = box.size * fields[region.field][0].dtype.itemsize
            offset += math.ceil(nbytes / ALIGNMENT) * ALIGNMENT
        if pieces:
            messages.append(Message(rank, offset, tuple(pieces)))
    return tuple(messages)


def _in_memory(box: Box, origin: tuple[int, ...]) -> Box:
    return box.shift(tuple(-start for start in origin))


def _local_copy(region: _Region, origins: Sequence[tuple[int, ...]]) -> LocalCopy:
    origin = origins[region.field]
    return LocalCopy(
        region.field,
        region.component,
        _in_memory(region.source, origin),
        _in_memory(region.target, origin),
    )
