"""Several steps of a loop on given arrays, as one list of boxes and one exchange of halos."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from distarray import spans
from distarray.block import Block, reads_of_offsets
from distarray.boundary.face import HIGH, LOW, ends
from distarray.kernels.plan import ApplyPlan
from distarray.kernels.refresh import FieldReads, Refresh
from distarray.layout import HaloReads
from distarray.regions import Box
from distarray.stencil.analysis import offsets, reach, written
from distarray.stencil.compile import NativeLaunch
from distarray.tiling import schedule
from distarray.tiling.runner import LineWrap, RowWrap, Runner, address, function, table_of
from distarray.tiling.schedule import Application, Cut, Piece, Ranges, Widths

if TYPE_CHECKING:
    from distarray.array import DistArray


@dataclass(frozen=True)
class Call:
    """One kernel of one step: its plan and its arrays."""

    plan: ApplyPlan
    arrays: tuple[DistArray, ...]

    @property
    def launch(self) -> NativeLaunch:
        """The compiled kernel, which all calls of a loop that is tiled have."""
        return cast(NativeLaunch, self.plan.launch)

    def application(self) -> Application:
        """What it reads and writes, arrays named by the serials of their blocks. Of an array that
        it writes in part it reads the rest.
        """
        program = self.plan.program
        reads: dict[int, tuple[Widths, Widths]] = {}
        for array, found, read, made in zip(
            self.arrays, reach(program), offsets(program), written(program), strict=True
        ):
            if not read and len(made) == np.prod(array.components, dtype=int):
                continue
            low, high = (tuple(ends[side] for ends in found) for side in (0, 1))
            before = reads.get(array.block.serial, (low, high))
            reads[array.block.serial] = (
                tuple(map(max, low, before[0])),
                tuple(map(max, high, before[1])),
            )
        writes = frozenset(self.arrays[store.parameter].block.serial for store in program.stores)
        return Application(reads, writes)


def halo_of(calls: Sequence[Call]) -> Widths:
    """How wide the halos of all arrays must be. Local, and the same on all ranks."""
    closed = Closed.of(calls)
    widest = closed.reached
    for low, high in (
        *schedule.needs(closed.applications, closed.ndim, whole=False).values(),
        *schedule.margins(closed.applications, closed.ndim),
    ):
        widest = tuple(map(max, widest, low, high))
    return widest


def lag_of(calls: Sequence[Call]) -> Widths:
    """How far the last of the calls lags behind a tile's edges. Local, the same on all ranks."""
    return schedule.shifts([call.application() for call in calls], calls[0].plan.program.ndim)[-1]


@dataclass(frozen=True)
class Closed:
    """Which axes close in themselves on each rank: periodic, and not divided among ranks. Along
    them nothing is computed twice, and halos need be no wider than one application reads.

    Attributes
    ----------
    axes : of these the last one may be the rows, whose ends are copied with each box
    reached : how far applications read along them; 0 along the other axes
    lags, leads : of each call, along all axes; see `schedule`
    applications : the calls, without what they read beyond along closed axes
    """

    ndim: int
    axes: tuple[int, ...]
    reached: Widths
    lags: Sequence[Widths]
    leads: Sequence[Widths]
    applications: Sequence[Application]

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Closed:
        """Local, and the same on all ranks."""
        applications = [call.application() for call in calls]
        decomposition = calls[0].arrays[0].layout.decomposition
        ndim = len(decomposition.shape)
        lags = schedule.shifts(applications, ndim)
        leads = schedule.shifts(schedule.mirrored(applications), ndim)
        axes = tuple(
            axis
            for axis, (cells, periodic, parts) in enumerate(
                zip(decomposition.shape, decomposition.periodic, decomposition.ranks, strict=True)
            )
            if periodic
            and parts == 1
            and (
                axis == ndim - 1
                or max(a[axis] + b[axis] for a, b in zip(lags, leads, strict=True)) <= cells
            )
        )
        reached, without = [0] * ndim, []
        for one in applications:
            reads = {}
            for array, (low, high) in one.reads.items():
                for axis in axes:
                    reached[axis] = max(reached[axis], low[axis], high[axis])
                reads[array] = _open(low, axes), _open(high, axes)
            without.append(Application(reads, one.writes))
        return cls(ndim, axes, tuple(reached), lags, leads, without)

    @property
    def rows(self) -> bool:
        return self.ndim - 1 in self.axes


class TiledSteps:
    """Calls of several steps on one set of arrays. Creation is Local, `run` is Collective.

    Parameters
    ----------
    calls : sequence of Call
        Of all steps in order, on arrays whose halos are as wide as `halo_of` says.
    sizes : sequence of int
        Points of a tile along the first axes.
    whole : bool
        Whether kernels compute all points of the domain.

    Attributes
    ----------
    blocks : of all arrays
    written : serials of those that are written
    needed : serials of those whose values before the steps matter
    """

    def __init__(self, calls: Sequence[Call], sizes: Sequence[int], *, whole: bool) -> None:
        self._calls = calls
        arrays = {array.block.serial: array for call in calls for array in call.arrays}
        self.blocks = [array.block for array in arrays.values()]
        self._closed = closed = Closed.of(calls)
        needs = schedule.needs(closed.applications, closed.ndim, whole=whole)
        self.needed = set(needs) if whole else set(arrays)
        fields = [
            FieldReads(_regions(array, needs.get(serial), closed.reached), {})
            for serial, array in arrays.items()
        ]
        self._refresh = Refresh(fields, self.blocks, calls[0].arrays[0].communicator)
        self.written = {n for one in closed.applications for n in one.writes}
        self._scalars = [bytearray(call.launch.scalar_bytes) for call in calls]
        self._runner = self._bound(arrays, sizes)
        cells = sum(call.plan.tally.cells for call in calls)
        nbytes = sum(call.plan.tally.nbytes for call in calls)
        self._tally = spans.tally("tile", calls[0].plan.program.name, cells=cells, nbytes=nbytes)

    def _bound(self, arrays: Mapping[int, DistArray], sizes: Sequence[int]) -> Runner:
        """All that is done in all tiles."""
        backend = self.blocks[0].backend
        calls, closed = self._calls, self._closed
        parts: list[Sequence[Any]] = [
            (*call.launch.addresses, _address_of(scalars), call.launch.results_address)
            for call, scalars in zip(calls, self._scalars, strict=True)
        ]
        wraps: dict[tuple[int, int], int] = {}
        kept: list[Any] = []
        for axis in closed.axes:
            kind = RowWrap if axis == closed.ndim - 1 else LineWrap
            work = address(function(backend, kind.symbol))
            for serial in sorted(self.written) if closed.reached[axis] else ():
                one = kind(arrays[serial].block, axis, closed.reached[axis])
                wraps[axis, serial] = len(parts)
                parts.append((work, one.memory.ctypes.data, one.layout.ctypes.data, 0, 0))
                kept.append(one)
        pieces, rest = self._pieces(sizes, wraps)
        which, bounds, tiles = schedule.entries(pieces)
        work_of = np.array([piece.work for piece in pieces])
        table = table_of(work_of[which], bounds, np.array(rest, np.int64)[which])
        addresses = np.array(parts, np.uint64)
        return Runner(backend, table, tiles, addresses, (calls, self._scalars, kept))

    def _pieces(
        self, sizes: Sequence[int], wraps: Mapping[tuple[int, int], int]
    ) -> tuple[list[Piece], list[Sequence[int]]]:
        """What is done in each tile, and what kernels want to know of it besides."""
        calls, closed = self._calls, self._closed
        shape = calls[0].arrays[0].layout.decomposition.shape
        margins = schedule.margins(closed.applications, closed.ndim)
        boxes = [list(_grown(call, beyond)) for call, beyond in zip(calls, margins, strict=True)]
        cuts = [
            schedule.cut(
                [(box.start[axis], box.stop[axis]) for masked in boxes for box, _ in masked],
                [lag[axis] for masked, lag in zip(boxes, closed.lags, strict=True) for _ in masked],
                size,
                shape[axis] if axis in closed.axes else 0,
            )
            for axis, size in enumerate(sizes)
        ]
        pieces: list[Piece] = []
        rest: list[Sequence[int]] = []

        def add(work: int, ranges: Sequence[Ranges], inner: Box, more: Sequence[int]) -> None:
            ends = list(zip(inner.start, inner.stop, strict=True))[len(cuts) :]
            pieces.append(Piece(work, ranges, ends))
            rest.append(more)

        for number, (call, masked) in enumerate(zip(calls, boxes, strict=True)):
            lag, lead = closed.lags[number], closed.leads[number]
            for box, mask in masked:
                more = call.launch.box_constants(mask)
                parts = [
                    one.ranges(box.start[axis], box.stop[axis], lag[axis], lead[axis])
                    for axis, one in enumerate(cuts)
                ]
                for axis, work, ranges in self._seams(call, cuts, parts, wraps):
                    add(work, ranges, box.with_axis(axis, 0, 1), (0,) * len(more))
                for ranges in itertools.product(*parts):
                    add(number, ranges, box, more)
                    for serial in sorted(closed.applications[number].writes):
                        row = wraps.get((closed.ndim - 1, serial))
                        if row is not None:
                            add(row, ranges, box, (0,) * len(more))
        return pieces, rest

    def _seams(
        self,
        call: Call,
        cuts: Sequence[Cut],
        parts: Sequence[Sequence[Ranges]],
        wraps: Mapping[tuple[int, int], int],
    ) -> Iterator[tuple[int, int, Sequence[Ranges]]]:
        """The copies of both ends of closed axes to their halos that a call needs in seams: the
        axis, the copy, and where.
        """
        reads = call.application().reads
        for axis, one in enumerate(cuts):
            if not one.around:
                continue
            for serial, (low, high) in sorted(reads.items()):
                work = wraps.get((axis, serial))
                if work is None or not (low[axis] or high[axis]):
                    continue
                across = [
                    [one.in_seam()]
                    if other == axis
                    else [_widened(ranges, low[other], high[other]) for ranges in found]
                    for other, found in enumerate(parts)
                ]
                for ranges in itertools.product(*across):
                    yield axis, work, ranges

    def run(self, scalars: Sequence[Sequence[Any]], time: float | None) -> None:
        """Exchange the halos and make all steps, with the scalars of each call. Collective."""
        for call, memory, values in zip(self._calls, self._scalars, scalars, strict=True):
            memory[:] = call.launch.packed(values)
        self._refresh.begin(self.blocks, time)
        self._refresh.finish(self.blocks, time)
        start = spans.enter()
        self._runner()
        spans.leave(self._tally, start)
        for block in self.blocks:
            if block.serial in self.written:
                block.changed()


def _open(widths: Widths, closed: Sequence[int]) -> Widths:
    """Widths without those along closed axes."""
    return tuple(0 if axis in closed else width for axis, width in enumerate(widths))


def _widened(ranges: Ranges, low: int, high: int) -> Ranges:
    """Ranges with what an application reads besides."""
    start, stop = ranges
    some = start < stop
    return start - low * some, stop + high * some


def _regions(array: DistArray, need: tuple[Widths, Widths] | None, wrapped: Widths) -> HaloReads:
    """The halo regions, corners included, that are read before they are written."""
    if need is None:
        return {}
    low, high = (tuple(map(max, widths, wrapped)) for widths in need)
    corners = set(itertools.product(*((-a, 0, b) for a, b in zip(low, high, strict=True))))
    return reads_of_offsets(dict.fromkeys(np.ndindex(*array.components), corners))


def _grown(call: Call, beyond: tuple[Widths, Widths]) -> Iterator[tuple[Box, int]]:
    """What a call computes, with a margin at each side where the domain goes on."""
    for box, mask in call.plan.whole:
        grown = box
        for axis in range(box.ndim):
            low, high = _at_ends(call, box, axis)
            start = box.start[axis] - (beyond[0][axis] if low else 0)
            stop = box.stop[axis] + (beyond[1][axis] if high else 0)
            grown = grown.with_axis(axis, start, stop)
        yield grown, mask


def _at_ends(call: Call, box: Box, axis: int) -> tuple[bool, bool]:
    """Whether a box of local indices reaches the ends of the block behind which there are more
    points.
    """
    block: Block = call.arrays[call.plan.program.stores[0].parameter].block
    layout, owned = block.layout, block.owned
    cells = owned.stop[axis] - owned.start[axis]
    return (
        box.start[axis] == 0 and not ends(layout, owned, axis, LOW),
        box.stop[axis] == cells and not ends(layout, owned, axis, HIGH),
    )


def _address_of(memory: bytearray) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
