"""Which values go where between two placements of the same points: plans without communication.

A selection pairs points of the source with points of the target: along each paired axis both run
through `start, start + step, ...`, `count` of them; an axis given as a number is held at that index
and has no partner. Indexing reads a strided source into a dense target, assignment the reverse, a
change of the process grid is dense on both sides.

Blocks are matched axis by axis in the space of the pair's counter, where the parts of every
partition are intervals; two ranks share at most one box.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distarray.errors import ArrayError
from distarray.layout import Layout
from distarray.regions import Box


@dataclass(frozen=True, slots=True)
class Stride:
    """The indices start, start + step, ... along an axis, `count` of them.

    A negative step runs backwards; a step of 0 repeats one index and may only be read.
    """

    start: int
    step: int
    count: int

    def within(self, low: int, high: int) -> tuple[int, int]:
        """The interval of counters whose indices lie in [low, high)."""
        if self.step == 0:
            first, last = 0, self.count if low <= self.start < high else 0
        elif self.step > 0:
            first = -((self.start - low) // self.step)
            last = -((self.start - high) // self.step)
        else:
            first = (self.start - high) // -self.step + 1
            last = (self.start - low) // -self.step + 1
        first, last = max(first, 0), min(last, self.count)
        return first, max(first, last)

    def part(self, first: int, last: int, origin: int) -> slice:
        """The counters [first, last) as a slice of memory whose first element has index `origin`.

        A step of 0 gives a slice of length 1.
        """
        begin = self.start + self.step * first - origin
        if self.step == 0:
            return slice(begin, begin + 1)
        end = begin + self.step * (last - first - 1) + (1 if self.step > 0 else -1)
        return slice(begin, None if end < 0 else end, self.step)


@dataclass(frozen=True)
class Selection:
    """Which points of the source go to which points of the target.

    Attributes
    ----------
    source, target : tuple of Stride or int
        One per grid axis of each side. The strides of both sides pair up in order and have equal
        counts.
    """

    source: tuple[Stride | int, ...]
    target: tuple[Stride | int, ...]

    def __post_init__(self) -> None:
        counts = [
            [along.count for along in side if isinstance(along, Stride)]
            for side in (self.source, self.target)
        ]
        if counts[0] != counts[1]:
            raise ArrayError(
                f"A selection of {tuple(counts[0])} points cannot go to {tuple(counts[1])} points; "
                "both need the same shape."
            )

    @classmethod
    def all_of(cls, layout: Layout) -> Selection:
        """Every point to the point of the same index."""
        whole = tuple(Stride(0, 1, count) for count in layout.points)
        return cls(whole, whole)


@dataclass(frozen=True, slots=True)
class Share:
    """What this rank has in common with another: a box of counters, one axis per pair."""

    rank: int
    box: Box


@dataclass(frozen=True)
class TransferPlan:
    """The shares that one rank sends and receives, in order of the other rank, itself included."""

    sends: tuple[Share, ...]
    receives: tuple[Share, ...]

    @classmethod
    def build(cls, source: Layout, target: Layout, selection: Selection, rank: int) -> TransferPlan:
        """The plan of one rank; work grows with the number of its shares. Local.

        Source and target may have different shapes, process grids and numbers of ranks.
        """
        return cls(
            tuple(_shares(source, selection.source, target, selection.target, rank)),
            tuple(_shares(target, selection.target, source, selection.source, rank)),
        )


def _shares(
    here: Layout,
    mine: Sequence[Stride | int],
    there: Layout,
    theirs: Sequence[Stride | int],
    rank: int,
) -> Iterator[Share]:
    """What the block of `rank` on one side has in common with the blocks of the other side."""
    intervals = _counters(here.owned(rank), mine)
    if intervals is None:
        return
    remaining = iter(intervals)
    choices = [
        [(there.decomposition.axes[axis].part_of(along), None)]
        if isinstance(along, int)
        else list(_parts(there, axis, along, *next(remaining)))
        for axis, along in enumerate(theirs)
    ]
    for choice in itertools.product(*choices):
        found = [interval for _, interval in choice if interval is not None]
        box = Box(tuple(first for first, _ in found), tuple(last for _, last in found))
        yield Share(there.decomposition.rank_at([part for part, _ in choice]), box)


def _counters(owned: Box, along: Sequence[Stride | int]) -> list[tuple[int, int]] | None:
    """The counters of each pair that fall into an owned box; None if it holds no point."""
    intervals = []
    for low, high, index in zip(owned.start, owned.stop, along, strict=True):
        if isinstance(index, Stride):
            intervals.append(index.within(low, high))
            if intervals[-1][0] == intervals[-1][1]:
                return None
        elif not low <= index < high:
            return None
    return intervals


def _parts(
    layout: Layout, axis: int, along: Stride, first: int, last: int
) -> Iterator[tuple[int, tuple[int, int]]]:
    """The parts of an axis that hold some of the counters [first, last), and which."""
    ends = [along.start + along.step * counter for counter in (first, last - 1)]
    partition = layout.decomposition.axes[axis]
    for part in range(partition.part_of(min(ends)), partition.part_of(max(ends)) + 1):
        low, high = _extent(layout, axis, part)
        begin, end = along.within(low, high)
        begin, end = max(begin, first), min(end, last)
        if begin < end:
            yield part, (begin, end)


def _extent(layout: Layout, axis: int, part: int) -> tuple[int, int]:
    partition = layout.decomposition.axes[axis]
    is_last = part == partition.parts - 1
    return partition.start(part), layout.points[axis] if is_last else partition.stop(part)
