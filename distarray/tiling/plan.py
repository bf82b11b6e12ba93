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
from distarray.tiling.runner import RowWrap, Runner, address, function, table_of
from distarray.tiling.schedule import Application, Widths

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
    applications, wrapped = _applications(calls)
    ndim = calls[0].plan.program.ndim
    widest = wrapped
    for low, high in (
        *schedule.needs(applications, ndim, whole=False).values(),
        *schedule.margins(applications, ndim),
    ):
        widest = tuple(map(max, widest, low, high))
    return widest


def _applications(calls: Sequence[Call]) -> tuple[list[Application], Widths]:
    """The calls without what they read along rows that are wrapped in place, and how far that
    is.
    """
    applications = [call.application() for call in calls]
    ndim = calls[0].plan.program.ndim
    if not _wraps_rows(calls[0].arrays[0]):
        return applications, (0,) * ndim
    reached = max(
        (max(low[-1], high[-1]) for one in applications for low, high in one.reads.values()),
        default=0,
    )
    without = [
        Application(
            {a: ((*low[:-1], 0), (*high[:-1], 0)) for a, (low, high) in one.reads.items()},
            one.writes,
        )
        for one in applications
    ]
    return without, (*(0,) * (ndim - 1), reached)


def _wraps_rows(array: DistArray) -> bool:
    """Whether rows are whole on each rank and periodic."""
    decomposition = array.layout.decomposition
    return decomposition.periodic[-1] and decomposition.ranks[-1] == 1


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
        applications, wrapped = _applications(calls)
        ndim, first = calls[0].plan.program.ndim, calls[0].arrays[0]
        needs = schedule.needs(applications, ndim, whole=whole)
        self.needed = set(needs) if whole else set(arrays)
        fields = [
            FieldReads(_regions(array, needs.get(serial), wrapped), {})
            for serial, array in arrays.items()
        ]
        self._refresh = Refresh(fields, self.blocks, first.communicator)
        self.written = {n for one in applications for n in one.writes}
        lags = schedule.shifts(applications, ndim)
        boxes = [
            list(_grown(call, beyond))
            for call, beyond in zip(calls, schedule.margins(applications, ndim), strict=True)
        ]
        self._scalars = [bytearray(call.launch.scalar_bytes) for call in calls]
        wraps = self._row_wraps(arrays, wrapped[-1]) if _wraps_rows(first) else {}
        writes = [one.writes for one in applications]
        self._runner = self._bound(schedule.entries(boxes, lags, sizes), writes, wraps)
        cells = sum(call.plan.tally.cells for call in calls)
        nbytes = sum(call.plan.tally.nbytes for call in calls)
        self._tally = spans.tally("tile", calls[0].plan.program.name, cells=cells, nbytes=nbytes)

    def _row_wraps(self, arrays: Mapping[int, DistArray], reached: int) -> dict[int, RowWrap]:
        """For each array that is written, the copies at the ends of its rows."""
        found = {}
        for serial in self.written:
            block = arrays[serial].block
            layout = block.layout
            found[serial] = RowWrap(
                block.memory, layout.components, layout.halo, block.owned.shape[-1],
                (reached, reached),
            )  # fmt: skip
        return found

    def _bound(
        self,
        entries: Iterator[schedule.Entry],
        writes: Sequence[frozenset[int]],
        wraps: Mapping[int, RowWrap],
    ) -> Runner:
        """All boxes with their applications: the calls, then the wraps."""
        backend = self.blocks[0].backend
        parts = [
            (*call.launch.addresses, _address_of(scalars), call.launch.results_address)
            for call, scalars in zip(self._calls, self._scalars, strict=True)
        ]
        number_of = {serial: len(parts) + n for n, serial in enumerate(wraps)}
        wrap = address(function(backend, "wrap_rows"))
        parts += [
            (wrap, one.memory.ctypes.data, one.layout.ctypes.data, 0, 0) for one in wraps.values()
        ]
        rows: list[tuple[int, Box, Sequence[int]]] = []
        for entry in entries:
            call = self._calls[entry.application]
            rest = call.launch.box_constants(entry.mask)
            rows.append((entry.application, entry.box, rest))
            rows += [
                (number_of[serial], entry.box, (0,) * len(rest))
                for serial in (writes[entry.application] if wraps else ())
            ]
        return Runner(
            backend, table_of(rows), np.array(parts, np.uint64), (self._calls, self._scalars, wraps)
        )

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
