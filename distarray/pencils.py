"""Work on whole lines of a distributed array, one axis after the other.

Values travel between process grids that leave the axes whole in turn. A rank talks only with the
ranks of its row of the process grid wherever an axis that is whole can take over the cuts of the
next one. Each chunk of a block goes through all the work of a pass while it is in the cache, and
from there straight into the messages, of which there is one for each pair of ranks; the next pass
reads its lines straight from the messages received.

Messages leave when a pass is done. In parts that left while later chunks were worked on, real
transforms of 256^3 numbers there and back took 2 to 14 % longer on 2 and 4 ranks of one node: there
the processors carry messages themselves, for 15 of 240 ms.

`passes_of` plans placements, without communication; `LinePlan` keeps buffers and requests.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from distarray.arraylike import HostArray
from distarray.comm.base import Communicator, PersistentExchange
from distarray.decomposition import Decomposition
from distarray.layout import Layout
from distarray.placement import pencil_ranks
from distarray.regions import Box
from distarray.transfer import Selection, Share, TransferPlan

#: Bytes of a chunk: it stays in the cache with what is made of it.
CHUNK_BYTES = 1 << 20
#: Lines are transformed in groups of this many bytes, the widest vectors of a CPU: a library that
#: works on several lines at once then does so with all of them, and the bits of a line cannot
#: depend on how many there are.
GROUP_BYTES = 64
#: Cells of an axis along which chunks are cut in preference to a longer axis behind it.
_LONG_ENOUGH = 8


class Room:
    """Memory for chunks at work, kept: fresh pages for each of them took as long as transforms.

    What is taken holds until the taking after the next: work reads what was taken last, and writes
    there or to what it takes.
    """

    def __init__(self) -> None:
        self._newest, self._other = (np.empty(0, np.uint8) for _ in range(2))

    def take(self, shape: Sequence[int], dtype: np.dtype) -> HostArray:
        """Memory for an array, filled with anything. Local."""
        nbytes = math.prod(shape) * dtype.itemsize
        self._newest, self._other = self._other, self._newest
        if self._newest.size < nbytes:
            self._newest = np.empty(nbytes, np.uint8)
        return self._newest[:nbytes].view(dtype).reshape(shape)


@dataclass
class Lines:
    """The lines along one axis of a chunk.

    Attributes
    ----------
    memory : ndarray, 2-D
        The lines, along its last axis if they run along the last axis of the array and else along
        its first, and after them lines that stand for nothing.
    values : ndarray
        View of the lines as they lie in the array, components first.
    axis : int
        Axis of `values` along which they run.
    room : Room
        Where memory for what is made of them may be taken.
    kept : bool
        Whether the memory belongs to somebody else, so that it must not be written.
    """

    memory: HostArray
    values: HostArray
    axis: int
    room: Room
    kept: bool = False

    @classmethod
    def empty(cls, shape: Sequence[int], axis: int, dtype: np.dtype, room: Room) -> Lines:
        """Memory for lines, what stands for nothing zeroed."""
        length, count = shape[axis], math.prod(shape[:axis]) * math.prod(shape[axis + 1 :])
        group = GROUP_BYTES // np.empty(0, dtype).real.itemsize
        full = -(-count // group) * group
        last = axis == len(shape) - 1
        memory = room.take((full, length) if last else (length, full), dtype)
        (memory if last else memory.T)[count:] = 0
        return cls(memory, _unfolded(memory, shape, axis), axis, room)

    @classmethod
    def of(cls, values: HostArray, axis: int, room: Room) -> Lines:
        """The lines of an array, without a copy where they lie as they should."""
        if axis == values.ndim - 1 and _in_even_rows(values):
            memory = values.reshape(-1, values.shape[-1])
            group = GROUP_BYTES // values.real.itemsize
            if len(memory) % group == 0:
                return cls(memory, values, axis, room, kept=True)
        lines = cls.empty(values.shape, axis, values.dtype, room)
        lines.values[...] = values
        return lines

    @property
    def along(self) -> int:
        """Axis of `memory` along which lines run."""
        return 1 if self.axis == self.values.ndim - 1 else 0

    def made(self, memory: HostArray) -> Lines:
        """What a function has made of `memory`: as many lines, perhaps of another length."""
        shape = list(self.values.shape)
        shape[self.axis] = memory.shape[self.along]
        return Lines(memory, _unfolded(memory, shape, self.axis), self.axis, self.room)


def _in_even_rows(values: HostArray) -> bool:
    """Whether all rows lie equally far apart, so that a 2-D view has them."""
    outer = itertools.pairwise(zip(values.shape[:-1], values.strides[:-1], strict=True))
    return all(n == 1 or stride == m * step for (n, stride), (m, step) in outer)


def _unfolded(memory: HostArray, shape: Sequence[int], axis: int) -> HostArray:
    """The view of 2-D memory with the shape of the array that its lines are from."""
    rest = (*shape[:axis], *shape[axis + 1 :])
    count = math.prod(rest)
    if axis == len(shape) - 1:
        return memory[:count].reshape(*rest, shape[axis])
    return np.moveaxis(memory[:, :count].reshape(shape[axis], *rest), 0, axis)


class LineWork(Protocol):
    """What is done with the lines along one axis; equal works do the same.

    Attributes
    ----------
    axis : int
        Grid axis, components not counted.
    length, dtype : of the lines afterwards
    """

    @property
    def axis(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __call__(self, lines: Lines, box: Box) -> Lines:
        """The lines afterwards; `box` holds the global indices of the chunk before."""
        ...


@dataclass(frozen=True)
class Pass:
    """Work along axes that are whole in one placement, and the layouts before and after it."""

    works: tuple[LineWork, ...]
    before: Layout
    after: Layout


def passes_of(
    source: Layout, target: Layout | None, works: Sequence[LineWork], size: int
) -> list[Pass]:
    """The passes that carry out works in their order, on at most `size` ranks. Pure.

    The last one ends in the layout `target`; if it is None, in one of no grid: cut evenly, without
    halo, not staggered, not periodic.
    """
    passes: list[Pass] = []
    group: list[LineWork] = []
    before = after = source
    for number, work in enumerate(works):
        later = [other.axis for other in works[number:]]
        cut = after.decomposition.ranks[work.axis] > 1
        crowded = _crowded({other.axis for other in group}, work.axis, after.ndim)
        if cut or crowded:
            passes.append(Pass(tuple(group), before, after))
            ranks = _whole_along(later, after, target, size) if cut else after.decomposition.ranks
            group, before = [], _plain(after, ranks)
            after = before
        group.append(work)
        after = _changed(after, work)
    end = _plain(after, after.decomposition.ranks) if target is None else target
    alike = _lie_alike(after, end)
    passes.append(Pass(tuple(group), before, end if alike else after))
    if not alike:
        passes.append(Pass((), end, end))
    return passes


def _crowded(axes: set[int], axis: int, ndim: int) -> bool:
    """Whether a pass along some axes should not run along one more: it does already, or it would
    be left with no axis to cut into chunks but the last, along which they would be thin.
    """
    free = set(range(ndim)) - axes - {axis}
    return axis in axes or (bool(axes) and free <= {ndim - 1})


def _whole_along(
    later: Sequence[int], layout: Layout, target: Layout | None, size: int
) -> tuple[int, ...]:
    """A process grid in which the first axis of `later` is whole.

    Its cuts go to a whole axis that is needed again last, or not at all; where none is long enough,
    to all axes anew.
    """
    axis, ranks = later[0], list(layout.decomposition.ranks)
    if target is not None and all(target.decomposition.ranks[other] == 1 for other in later):
        return target.decomposition.ranks
    free = [
        other
        for other, (parts, points) in enumerate(zip(ranks, layout.points, strict=True))
        if parts == 1 and points >= ranks[axis]
    ]
    if not free:
        return pencil_ranks(layout.points, ranks, size, (axis,))
    taker = max(free, key=lambda o: (later.index(o) if o in later else len(later), -o))
    ranks[axis], ranks[taker] = 1, ranks[axis]
    return tuple(ranks)


def _plain(layout: Layout, ranks: Sequence[int]) -> Layout:
    """The same points over a process grid, cut evenly, without halo."""
    decomposition = Decomposition(layout.points, ranks)
    none = (0,) * layout.ndim
    return replace(layout, decomposition=decomposition, staggered=(False,) * layout.ndim, halo=none)


def _changed(layout: Layout, work: LineWork) -> Layout:
    """The layout once the lines along an axis, which is whole, have been worked on."""
    layout = replace(layout, dtype=work.dtype)
    if work.length == layout.points[work.axis]:
        return layout
    staggered = list(layout.staggered)
    staggered[work.axis] = False
    decomposition = layout.decomposition.with_whole_axis(work.axis, work.length)
    return replace(layout, decomposition=decomposition, staggered=tuple(staggered))


def _lie_alike(layout: Layout, other: Layout) -> bool:
    """Whether every rank owns the same points in both."""
    return (layout.decomposition.axes, layout.points) == (other.decomposition.axes, other.points)


@dataclass(frozen=True)
class _Piece:
    """A box of global indices and where its values are, components first."""

    box: Box
    values: HostArray


class _Link:
    """The way of values from the end of one pass to the start of the next: a message to each rank
    that has a share, and memory for the own share. Creation is Local.
    """

    def __init__(self, source: Layout, target: Layout, communicator: Communicator) -> None:
        rank = communicator.rank
        plan = TransferPlan.build(source, target, Selection.all_of(source), rank)
        sent = {share.rank: _piece(share, source) for share in plan.sends}
        received = {
            share.rank: sent[rank] if share.rank == rank else _piece(share, source)
            for share in plan.receives
        }
        self.outgoing, self.incoming = list(sent.values()), list(received.values())
        self.nbytes = sum(piece.values.nbytes for piece in (*self.outgoing, *self.incoming))
        self._exchange: PersistentExchange | None = None
        sends, receives = (
            [(other, piece.values.reshape(-1)) for other, piece in pieces.items() if other != rank]
            for pieces in (sent, received)
        )
        if sends or receives:
            self._exchange = communicator.prepare_exchange(sends, receives)

    def exchange(self) -> None:
        """Send what goes out and receive what comes in. Collective over those concerned."""
        if self._exchange is not None:
            self._exchange.start().wait()


def _piece(share: Share, layout: Layout) -> _Piece:
    return _Piece(share.box, np.empty(layout.components + share.box.shape, layout.dtype))


#: Number of a piece, where the values are in it, and where in a chunk.
_Copy = tuple[int, tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class _Chunk:
    """A part of a block that goes through a pass in one: from which pieces, into which."""

    box: Box
    shape: tuple[int, ...]
    nbytes: int
    taken: list[_Copy]
    given: list[_Copy]

    def carry(
        self,
        works: Sequence[LineWork],
        pieces: Sequence[_Piece],
        into: Sequence[_Piece],
        room: Room,
    ) -> None:
        """Do the works on the values of some pieces, into others."""
        depth = len(self.shape) - self.box.ndim
        values, lines = self._gathered(pieces, depth + works[0].axis if works else None, room)
        for work in works:
            if lines is None:
                lines = Lines.of(values, depth + work.axis, room)
            values, lines = work(lines, self.box).values, None
        for number, there, here in self.given:
            into[number].values[there] = values[here]

    def _gathered(
        self, pieces: Sequence[_Piece], axis: int | None, room: Room
    ) -> tuple[HostArray, Lines | None]:
        """The values of the chunk; where they are in several pieces, as lines along an axis."""
        if len(self.taken) == 1:
            number, there, _ = self.taken[0]
            return pieces[number].values[there], None
        dtype = pieces[0].values.dtype
        lines = None if axis is None else Lines.empty(self.shape, axis, dtype, room)
        values = room.take(self.shape, dtype) if lines is None else lines.values
        for number, there, here in self.taken:
            values[here] = pieces[number].values[there]
        return values, lines


class LinePlan:
    """Works on the lines of arrays of one layout, with kept buffers and requests. Creation is
    Local.

    Parameters
    ----------
    passes : sequence of Pass
        Of `passes_of`.
    communicator : Communicator

    Attributes
    ----------
    result : Layout
        Where it leaves the values.
    """

    def __init__(self, passes: Sequence[Pass], communicator: Communicator) -> None:
        rank = communicator.rank
        self.result = passes[-1].after
        # Not the works: those of one call hold what is its user's, such as functions.
        self._counts = [len(one.works) for one in passes]
        self._links = [
            _Link(one.after, other.before, communicator)
            for one, other in itertools.pairwise(passes)
        ]
        self._first, self._last = passes[0].before.owned(rank), passes[-1].after.owned(rank)
        incoming = [[self._first], *([p.box for p in link.incoming] for link in self._links)]
        outgoing = [*([p.box for p in link.outgoing] for link in self._links), [self._last]]
        self._chunks = [
            list(_chunks(one, rank, *boxes))
            for one, boxes in zip(passes, zip(incoming, outgoing, strict=True), strict=True)
        ]
        self._room = Room()
        largest = max((chunk.nbytes for chunks in self._chunks for chunk in chunks), default=0)
        self.nbytes = sum(link.nbytes for link in self._links) + 2 * largest

    def run(self, works: Sequence[LineWork], source: HostArray, target: HostArray) -> None:
        """Do works along the axes that were planned on the owned values `source` of this rank, into
        those of the target: host arrays, components first, which may be the same. Collective.
        """
        todo = iter(works)
        pieces = [_Piece(self._first, source)]
        ends = [*(link.outgoing for link in self._links), [_Piece(self._last, target)]]
        for number, (count, chunks, into) in enumerate(
            zip(self._counts, self._chunks, ends, strict=True)
        ):
            group = tuple(itertools.islice(todo, count))
            for chunk in chunks:
                chunk.carry(group, pieces, into, self._room)
            if number < len(self._links):
                self._links[number].exchange()
                pieces = self._links[number].incoming


def _chunks(
    one: Pass, rank: int, incoming: Sequence[Box], outgoing: Sequence[Box]
) -> Iterator[_Chunk]:
    """A block cut along an axis that no work of the pass runs along."""
    before, after = one.before.owned(rank), one.after.owned(rank)
    if before.empty:
        return
    axes = {work.axis for work in one.works}
    free = [axis for axis in range(before.ndim) if axis not in axes]
    item = max(layout.dtype.itemsize for layout in (one.before, one.after))
    nbytes = item * math.prod(one.before.components) * max(before.size, after.size)
    axis, layers, cells = 0, 1, 1
    if free and axes:
        long = (axis for axis in free if before.shape[axis] >= _LONG_ENOUGH)
        axis = next(long, max(free, key=before.shape.__getitem__))
        cells = before.shape[axis]
        layers = max(1, CHUNK_BYTES // (nbytes // cells))
    for first in range(0, cells, layers):
        ends = before.start[axis] + first, before.start[axis] + min(first + layers, cells)
        box, result = before, after
        if cells > 1:
            box, result = (whole.with_axis(axis, *ends) for whole in (before, after))
        yield _Chunk(
            box,
            one.before.components + box.shape,
            nbytes // cells * layers,
            _copies(box, incoming),
            _copies(result, outgoing),
        )


def _copies(box: Box, pieces: Sequence[Box]) -> list[_Copy]:
    """Which of the pieces have something in common with a box, and where."""
    found: list[_Copy] = []
    for number, piece in enumerate(pieces):
        common = box.intersection(piece)
        if not common.empty:
            there, here = common.slices(piece.start), common.slices(box.start)
            found.append((number, (..., *there), (..., *here)))
    return found
