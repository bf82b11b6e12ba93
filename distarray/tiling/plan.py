"""Several steps of a loop on given arrays, as one list of boxes and one exchange of halos."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from distarray import spans
from distarray.arraylike import HostArray
from distarray.block import Block, Filled, reads_of_offsets
from distarray.boundary.face import HIGH, LOW, ends
from distarray.kernels.refresh import FieldReads, Refresh
from distarray.layout import HaloReads
from distarray.regions import Box
from distarray.stencil.coverage import partition
from distarray.tiling import layers, schedule
from distarray.tiling.points import PointCall, PointWork
from distarray.tiling.program import Call, Form, Item, TileProgram
from distarray.tiling.runner import LineWrap, RowWrap, Runner, address, function, table_of
from distarray.tiling.schedule import Application, Cut, Piece, Ranges, Widths

if TYPE_CHECKING:
    from distarray.array import DistArray

AnyCall = Call | PointCall
#: A box with a mask of the stores that compute it.
Masked = tuple[Box, int]
#: A box with what kernels want to know of it besides.
_Row = tuple[Box, Sequence[int]]


def halo_of(calls: Sequence[AnyCall]) -> Widths:
    """How wide the halos of all arrays must be. Local, and the same on all ranks."""
    closed = Closed.of(TileProgram(calls))
    widest = closed.reached
    for low, high in (
        *schedule.needs(closed.applications, closed.ndim, whole=False).values(),
        *schedule.margins(closed.applications, closed.ndim),
    ):
        widest = tuple(map(max, widest, low, high))
    return widest


def lag_of(calls: Sequence[AnyCall]) -> Widths:
    """How far the last of the calls lags behind a tile's edges. Local, the same on all ranks."""
    return Closed.of(TileProgram(calls)).lags[-1]


@dataclass(frozen=True)
class Closed:
    """Which axes close in themselves on each rank: periodic, and not divided among ranks. Along
    them nothing is computed twice, and halos need be no wider than one application reads.

    Attributes
    ----------
    axes : of these the last one may be the rows, whose ends are copied with each box
    reached : how far applications read along them; 0 along the other axes
    lags, leads : of each item, along all axes; see `schedule`
    applications : of the items, without what they read beyond along axes that are not divided
    """

    ndim: int
    axes: tuple[int, ...]
    reached: Widths
    lags: Sequence[Widths]
    leads: Sequence[Widths]
    applications: Sequence[Application]

    @classmethod
    def of(cls, program: TileProgram) -> Closed:
        """Local, and the same on all ranks."""
        applications = [item.application for item in program.items]
        decomposition = program.decomposition
        ndim = len(decomposition.shape)
        lags = schedule.shifts(applications, ndim)
        leads = schedule.shifts(schedule.mirrored(applications), ndim)
        along = list(
            zip(decomposition.shape, decomposition.periodic, decomposition.ranks, strict=True)
        )
        axes = tuple(
            axis
            for axis, (cells, periodic, parts) in enumerate(along)
            if periodic
            and parts == 1
            and (
                axis == ndim - 1
                or max(a[axis] + b[axis] for a, b in zip(lags, leads, strict=True)) <= cells
            )
        )
        # There is nobody beyond an axis that ends on this rank.
        alone = {axis for axis, (_, wraps, parts) in enumerate(along) if parts == 1 and not wraps}
        reached = [0] * ndim
        for one, axis in itertools.product(applications, axes):
            for low, high in one.reads.values():
                reached[axis] = max(reached[axis], low[axis], high[axis])
        without = [one.without(alone.union(axes)) for one in applications]
        return cls(ndim, axes, tuple(reached), lags, leads, without)


class TiledSteps:
    """Calls of several steps on one set of arrays. Creation is Local, `run` is Collective.

    Parameters
    ----------
    calls : sequence of Call and PointCall
        Of all steps in order, on arrays whose halos are as wide as `halo_of` says.
    sizes : sequence of int
        Points of a tile along the first axes.

    Attributes
    ----------
    blocks : of all arrays
    written : serials of those that are written
    needed : serials of those whose values before the steps matter
    """

    def __init__(self, calls: Sequence[AnyCall], sizes: Sequence[int]) -> None:
        self._calls = calls
        self._program = program = TileProgram(calls)
        arrays = program.arrays
        self.blocks = [array.block for array in arrays.values()]
        self._closed = closed = Closed.of(program)
        whole = _computes_all(program)
        needs = schedule.needs(closed.applications, closed.ndim, whole=whole)
        self.needed = set(arrays).intersection(needs) if whole else set(arrays)
        fields = [
            FieldReads(
                _regions(array, needs.get(serial), closed.reached), {}, array.boundary or None
            )
            for serial, array in arrays.items()
        ]
        self._refresh = Refresh(fields, self.blocks, next(iter(arrays.values())).communicator)
        self.written = {serial for form in program.forms.values() for serial in form.writes}
        self._points = {n: PointWork(c) for n, c in enumerate(calls) if isinstance(c, PointCall)}
        for point_work in self._points.values():
            self.written |= point_work.call.application.writes
        kernels = [call for call in calls if isinstance(call, Call)]
        self._scalars = [
            bytearray(call.launch.scalar_bytes if isinstance(call, Call) else 0) for call in calls
        ]
        self._works = self._made_works()
        self._runners = self._bound(sizes)
        cells = sum(call.plan.tally.cells for call in kernels)
        nbytes = sum(call.plan.tally.nbytes for call in kernels)
        name = kernels[0].plan.program.name
        sweeps = sum(call.plan.program.name == name for call in kernels)
        self._tally = spans.tally("tile", name, cells=cells, nbytes=nbytes, sweeps=sweeps)

    def _made_works(self) -> dict[tuple[str, int, int], tuple[layers.Work, int]]:
        """What is done to layers and points, and the number of the call at whose time."""
        found: dict[tuple[str, int, int], tuple[layers.Work, int]] = {}
        for item in (*self._program.first, *self._program.items):
            key = self._work_of(item)
            if key is not None and key not in found:
                array = self._program.arrays[item.serial]
                conditions = array.boundary.conditions  # type: ignore[union-attr]
                if item.kind == "layers":
                    reads = self._program.layers[item.serial]
                    work = layers.layers_of(conditions, array.block, reads, self._closed.reached)
                else:
                    work = layers.points_of(conditions, array.block, self._closed.reached)
                found[key] = work, item.call
        return found

    def _work_of(self, item: Item) -> tuple[str, int, int] | None:
        """Tells works apart: what depends on the time has memory of its own for each step."""
        if item.kind in ("call", "cells"):
            return None
        conditions = self._program.arrays[item.serial].boundary.conditions  # type: ignore[union-attr]
        step = self._calls[item.call].step if conditions.time_dependent else 0
        return item.kind, item.serial, step

    def _bound(self, sizes: Sequence[int]) -> tuple[Runner, Runner]:
        """What is done before the first tile, and in all tiles."""
        backend, closed, program = self.blocks[0].backend, self._closed, self._program
        parts: list[Sequence[Any]] = [self._part(number) for number in range(len(self._calls))]
        wraps: dict[tuple[int, int], int] = {}
        kept: list[Any] = []
        for axis in closed.axes:
            kind = RowWrap if axis == closed.ndim - 1 else LineWrap
            work = address(function(backend, kind.symbol))
            for serial in sorted(self.written) if closed.reached[axis] else ():
                one = kind(self._program.arrays[serial].block, axis, closed.reached[axis])
                wraps[axis, serial] = len(parts)
                parts.append((work, one.memory.ctypes.data, one.layout.ctypes.data, 0, 0))
                kept.append(one)
        places: dict[tuple[str, int, int], int] = {}
        for place, (made, _) in self._works.items():
            places[place] = len(parts)
            parts.append(
                (address(function(backend, "fill_layers")), 0, made.table.ctypes.data, 0, 0)
            )
        pieces = _Pieces(program, closed, wraps)
        for item, lag, lead, beyond in zip(
            program.items, closed.lags, closed.leads,
            schedule.margins(closed.applications, closed.ndim), strict=True,
        ):  # fmt: skip
            shift, call, key = (lag, lead), self._calls[item.call], self._work_of(item)
            if key is not None:
                block = self._program.arrays[item.serial].block
                boxes = _beside(self._works[key][0], _grown(block, beyond))
                pieces.add_work(places[key], boxes, shift)
            elif isinstance(call, PointCall):
                pieces.add_cells(item, self._boxes_around(item.call, call, beyond), shift)
            else:
                pieces.add_call(item, list(_boxes_of(program.form(call), beyond)), shift)
        table, tiles = pieces.table(sizes)
        before = self._first_rows(places, table.shape[1])
        addresses, kept = (
            np.array(parts, np.uint64),
            [self._calls, self._scalars, self._works, self._points, kept],
        )
        return (
            Runner(backend, before, np.zeros((len(before), 1), int), addresses, kept),
            Runner(backend, table, tiles, addresses, kept),
        )

    def _boxes_around(
        self, number: int, call: PointCall, beyond: tuple[Widths, Widths]
    ) -> list[Box]:
        """What holds the cells of points, along closed axes all of the axis, as tiles follow from
        its ends.
        """
        held = _grown(call.array.block, beyond)
        box = self._points[number].box.intersection(held)
        if box.empty:
            return []
        for axis in self._closed.axes:
            box = box.with_axis(axis, held.start[axis], held.stop[axis])
        return [box]

    def _part(self, number: int) -> Sequence[Any]:
        """The addresses of a call's function, memory, layout, scalars and results."""
        call = self._calls[number]
        if isinstance(call, PointCall):
            symbol = function(self.blocks[0].backend, call.symbol)
            return self._points[number].addresses(address(symbol))
        scalars = _address_of(self._scalars[number])
        return (*call.launch.addresses, scalars, call.launch.results_address)

    def _first_rows(self, places: Mapping[tuple[str, int, int], int], width: int) -> HostArray:
        """The rows of what is done before all else, halos included."""
        rows = np.zeros((len(self._program.first), width), np.int64)
        for row, item in zip(rows, self._program.first, strict=True):
            block = self._program.arrays[item.serial].block
            held = tuple(
                0 if axis in self._closed.axes else halo
                for axis, halo in enumerate(block.layout.halo)
            )
            key = self._work_of(item)
            box = _grown(block, (held, held))
            if key is None or box.empty:
                continue
            row[0] = places[key]
            row[1 : 1 + 2 * box.ndim] = [
                bound for pair in zip(box.start, box.stop, strict=True) for bound in pair
            ]
        return rows[rows[:, 0] > 0]  # calls come first among works: of these none is 0

    def run(self, scalars: Sequence[Sequence[Any]], times: Sequence[float]) -> None:
        """Exchange the halos and make all steps, with the scalars and the time of each call.
        Collective.
        """
        for call, memory, values in zip(self._calls, self._scalars, scalars, strict=True):
            if isinstance(call, Call):
                memory[:] = call.launch.packed(values)
        for number, points in self._points.items():
            points.begin(*scalars[number])
        for work, number in self._works.values():
            work.update(times[number])
        self._refresh.begin(self.blocks, times[0])
        self._refresh.finish(self.blocks, times[0])
        start = spans.enter(self._tally)
        for runner in self._runners:
            runner()
        spans.leave(self._tally, start)
        for points in self._points.values():
            points.finish()
        self._note(times)

    def _note(self, times: Sequence[float]) -> None:
        """What single steps would have noted of blocks and conditions."""
        for block in self.blocks:
            if block.serial in self.written:
                block.changed()
            elif any(block.serial == serial for _, serial, _ in self._works):
                block.filled = Filled()
        for call, time in zip(self._calls, times, strict=True):
            if isinstance(call, PointCall):
                continue
            for array in self._program.form(call).arrays.values():
                if array.boundary:
                    array.boundary.conditions.time = time


class _Pieces:
    """Collects what is done in each tile, in order, and what kernels want to know of it besides."""

    def __init__(
        self, program: TileProgram, closed: Closed, wraps: Mapping[tuple[int, int], int]
    ) -> None:
        self._program, self._closed, self._wraps = program, closed, wraps
        #: Item or none, its work, boxes with what follows them, lag and lead.
        self._found: list[tuple[Item | None, int, list[_Row], tuple[Widths, Widths]]] = []

    def add_call(self, item: Item, boxes: Sequence[Masked], shift: tuple[Widths, Widths]) -> None:
        launch = cast("Call", self._program.calls[item.call]).launch
        rows: list[_Row] = [(box, launch.box_constants(mask)) for box, mask in boxes]
        self._found.append((item, item.call, rows, shift))

    def add_cells(self, item: Item, boxes: Sequence[Box], shift: tuple[Widths, Widths]) -> None:
        self._found.append((item, item.call, [(box, ()) for box in boxes], shift))

    def add_work(self, work: int, boxes: Sequence[Box], shift: tuple[Widths, Widths]) -> None:
        self._found.append((None, work, [(box, ()) for box in boxes], shift))

    def table(self, sizes: Sequence[int]) -> tuple[HostArray, HostArray]:
        """All of it, tile by tile, and in which tile each row is."""
        closed, ndim = self._closed, self._closed.ndim
        shape = self._program.decomposition.shape
        cuts = [
            schedule.cut(
                [(b.start[axis], b.stop[axis]) for _, _, rows, _ in self._found for b, _ in rows],
                [lag[axis] for _, _, rows, (lag, _) in self._found for _ in rows],
                size,
                shape[axis] if axis in closed.axes else 0,
            )
            for axis, size in enumerate(sizes)
        ]
        pieces: list[Piece] = []
        rest: list[Sequence[int]] = []
        nothing = (0,) * (2 + ndim)

        def add(work: int, ranges: Sequence[Ranges], inner: Box, more: Sequence[int]) -> None:
            ends = list(zip(inner.start, inner.stop, strict=True))[len(cuts) :]
            pieces.append(Piece(work, ranges, ends))
            rest.append(more or nothing)

        for item, work, rows, (lag, lead) in self._found:
            for box, more in rows:
                parts = [
                    one.ranges(box.start[axis], box.stop[axis], lag[axis], lead[axis])
                    for axis, one in enumerate(cuts)
                ]
                for axis, wrap, ranges in self._seams(item, cuts, parts):
                    add(wrap, ranges, box.with_axis(axis, 0, 1), nothing)
                for ranges in itertools.product(*parts):
                    add(work, ranges, box, more)
                    for serial in sorted(item.application.writes) if item else ():
                        row = self._wraps.get((ndim - 1, serial))
                        if row is not None:
                            add(row, ranges, box, nothing)
        if not pieces:
            return np.zeros((0, 1 + 2 * ndim + len(nothing)), np.int64), np.zeros((0, 1), int)
        which, bounds, tiles = schedule.entries(pieces)
        work_of = np.array([piece.work for piece in pieces])
        return table_of(work_of[which], bounds, np.array(rest, np.int64)[which]), tiles

    def _seams(
        self, item: Item | None, cuts: Sequence[Cut], parts: Sequence[Sequence[Ranges]]
    ) -> Iterator[tuple[int, int, Sequence[Ranges]]]:
        """The copies of both ends of closed axes to their halos that a call needs in seams: the
        axis, the copy, and where.
        """
        for axis, one in enumerate(cuts):
            if not one.around or item is None:
                continue
            for serial, (low, high) in sorted(item.application.reads.items()):
                work = self._wraps.get((axis, serial))
                if work is None or not (low[axis] or high[axis]):
                    continue
                block = self._program.arrays[serial].block
                held = [
                    (-halo, cells + halo)
                    for halo, cells in zip(block.layout.halo, block.owned.shape, strict=True)
                ]
                across = [
                    [one.in_seam()]
                    if other == axis
                    else [
                        _widened(ranges, low[other], high[other], held[other]) for ranges in found
                    ]
                    for other, found in enumerate(parts)
                ]
                for ranges in itertools.product(*across):
                    yield axis, work, ranges


def _widened(ranges: Ranges, low: int, high: int, held: tuple[int, int]) -> Ranges:
    """Ranges with what an application reads besides, as far as memory goes."""
    start, stop = ranges
    some = start < stop
    return (
        np.where(some, np.maximum(start - low, held[0]), start),
        np.where(some, np.minimum(stop + high, held[1]), stop),
    )


def _regions(array: DistArray, need: tuple[Widths, Widths] | None, wrapped: Widths) -> HaloReads:
    """The halo regions, corners included, that are read before they are written."""
    if need is None:
        return {}
    low, high = (tuple(map(max, widths, wrapped)) for widths in need)
    corners = set(itertools.product(*((-a, 0, b) for a, b in zip(low, high, strict=True))))
    return reads_of_offsets(dict.fromkeys(np.ndindex(*array.components), corners))


def _computes_all(program: TileProgram) -> bool:
    """Whether every call computes all points of what it writes, on all ranks."""
    return all(
        computed.contains(Box.of_shape(array.layout.points))
        for form in program.forms.values()
        for array, computed in zip(form.outputs, form.computed, strict=True)
    )


def _boxes_of(form: Form, beyond: tuple[Widths, Widths]) -> Iterator[Masked]:
    """What a call computes, with a margin at each side where the domain goes on."""
    boxes = []
    for array, computed in zip(form.outputs, form.computed, strict=True):
        box, start = _grown(array.block, beyond), array.block.owned.start
        for axis, periodic in enumerate(array.layout.decomposition.periodic):
            if not periodic:
                low = max(box.start[axis], computed.start[axis] - start[axis])
                high = min(box.stop[axis], computed.stop[axis] - start[axis])
                box = box.with_axis(axis, low, high)
        boxes.append([box])
    yield from partition(boxes)


def _beside(work: layers.Work, box: Box) -> list[Box]:
    """The parts of a box that some work follows from."""
    found = []
    for axis, first, last in work.spans():
        part = box.with_axis(axis, max(box.start[axis], first), min(box.stop[axis], last))
        if not part.empty:
            found.append(part)
    return found


def _grown(block: Block, beyond: tuple[Widths, Widths]) -> Box:
    """The points of a block in local indices, with a margin at each side where the domain goes on;
    empty if it has none.
    """
    layout, owned = block.layout, block.owned
    box = Box.of_shape(owned.shape)
    if owned.empty:
        return box
    for axis in range(box.ndim):
        low = 0 if ends(layout, owned, axis, LOW) else beyond[0][axis]
        high = 0 if ends(layout, owned, axis, HIGH) else beyond[1][axis]
        box = box.with_axis(axis, -low, owned.shape[axis] + high)
    return box


def _address_of(memory: bytearray) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
