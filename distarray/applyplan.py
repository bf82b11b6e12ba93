"""What one kernel does to one set of arrays: made once, replayed by every call.

A plan holds the refresh of what is read, the compiled launch bound to the arrays' memory, and the boxes to run over.
It keeps no block alive: blocks are passed to `run`.
"""

from __future__ import annotations

import functools
import itertools
import time as clock
from collections.abc import Iterator, Sequence
from operator import add
from typing import TYPE_CHECKING, Any

from distarray import fused, spans
from distarray.block import Block, Component, HaloReads, reads_of_offsets
from distarray.boundary.face import HIGH, LOW
from distarray.errors import StencilError
from distarray.pending import Pending, begin
from distarray.profile import Profile
from distarray.refresh import FieldReads, Refresh
from distarray.regions import Box
from distarray.stencil import compile as compiler
from distarray.stencil.coverage import (
    Extent,
    Extents,
    common_core,
    computed_boxes,
    partition,
    tiles,
)
from distarray.layout import Layout
from distarray.stencil.expression import COARSE, FINE, Expression, Program, Read, walk
from distarray.stencil.launch import ArrayView, LaunchGeometry

if TYPE_CHECKING:
    from distarray.array import DistArray

Offsets = tuple[int, ...]

#: The core is cut into at most MOST_TILES slabs of about LEAST_TILE cells, between which messages progress.
LEAST_TILE, MOST_TILES = 32768, 16


class OverlapChoice:
    """Whether computing the core during the exchange pays for one plan: both ways are timed in its first calls. Local.

    Ranks may choose differently, since the messages are the same either way.
    """

    TRIALS = 4  # timed calls each way, after one call of each to warm up

    def __init__(self) -> None:
        self._calls = 0
        self._best = [float("inf"), float("inf")]
        self.decided: bool | None = None

    def next(self) -> bool:
        return self._calls % 2 == 1 if self.decided is None else self.decided

    def record(self, overlapped: bool, seconds: float) -> None:
        self._calls += 1
        if self._calls > 2:
            self._best[overlapped] = min(self._best[overlapped], seconds)
        if self._calls == 2 + 2 * self.TRIALS:
            self.decided = self._best[True] < self._best[False]


class ApplyPlan:
    """A program on one set of arrays. Creation and `run` are Collective."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[DistArray | Profile],
        grid_array: DistArray,
    ) -> None:
        self.program = program
        self._arrays = [n for n, a in enumerate(arguments) if not isinstance(a, Profile)]
        owned = grid_array.block.owned
        self._start = owned.start
        self._communicator = grid_array.communicator
        fields = [_field_reads(program, n, arguments[n], arguments) for n in self._arrays]
        _check_reach(
            program,
            [program.arrays[n].name for n in self._arrays],
            [arguments[n] for n in self._arrays],
            fields,
        )
        self._refresh = Refresh(fields, self.blocks(arguments), self._communicator)
        self._launch = compiler.bind(
            program,
            [_view(argument) for argument in arguments],
            _geometry(grid_array),
            grid_array.block.backend,
        )
        self._cut(arguments)
        self._writes = sorted(
            {
                (self._arrays.index(store.parameter), _component(arguments, store))
                for store in program.stores
            }
        )
        self._choice = OverlapChoice()
        blocks = self.blocks(arguments)
        self._may_overlap = not self._refresh.fills_from(blocks, [blocks[n] for n, _ in self._writes])
        self._conditions = [
            (n, arguments[n].boundary, arguments[n].boundary.version)
            for n in self._arrays
            if arguments[n].boundary is not None
        ]
        self._others = [
            (array, array.boundary, array.boundary.version) for array in self._refresh.others
        ]

    def _cut(self, arguments: Sequence[Any]) -> None:
        """The boxes to run over: all at once, or the core in tiles and the remainder."""
        program, extents = self.program, _extents(arguments)
        targets = [
            _free(arguments[store.parameter], store.component) for store in program.stores
        ] or [(extents(0, ()).owned,)]
        self.computed = computed_boxes(program, extents, targets, self._start)
        owned_only = computed_boxes(program, extents, targets, self._start, owned_only=True)
        core = common_core(owned_only).intersection(common_core(self.computed))
        self.whole = partition(self.computed)
        self.core = () if core.empty else tiles(core, LEAST_TILE, MOST_TILES)
        self.remainder = partition(self.computed, core)

    def fits(self, arguments: Sequence[Any]) -> bool:
        """Whether the conditions of the arrays are those the plan was made with. Local."""
        for number, boundary, version in self._conditions:
            now = arguments[number].boundary
            if now is not boundary or now.version != version:
                return False
        return all(
            a.boundary is boundary and boundary.version == version
            for a, boundary, version in self._others
        )

    def uncomputed(
        self, arguments: Sequence[Any], position: int
    ) -> dict[Component, list[Box] | None]:
        """Where the stores to one argument do not reach, by component: boxes of local indices. Local.

        None if a component is computed at all points that may be written, on every rank; all ranks agree on that.
        """
        if not any(store.parameter == position for store in self.program.stores):
            return {}
        everywhere = computed_boxes(
            self.program,
            _extents(arguments, whole=True),
            [
                _free(arguments[store.parameter], store.component, whole=True)
                for store in self.program.stores
            ],
            (0,) * self.program.ndim,
        )
        left: dict[Component, list[Box] | None] = {}
        for store, found, here in zip(self.program.stores, everywhere, self.computed, strict=True):
            if store.parameter == position:
                (writable,) = _free(arguments[position], store.component, whole=True)
                complete = found[0].contains(writable)
                free = _free(arguments[position], store.component)
                left[store.component] = None if complete else _without(free, here)
        return left

    def blocks(self, arguments: Sequence[Any]) -> list[Block]:
        """The blocks among the arguments, in the order that `run` takes them."""
        return [arguments[n].block for n in self._arrays]

    def run(
        self,
        arguments: Sequence[Any],
        scalars: Sequence[Any],
        time: float | None,
        overlap: bool | None,
    ) -> tuple[Pending, ...]:
        """Refresh what is stale, compute, note what was written, and start the reductions. Collective."""
        blocks = self.blocks(arguments)
        launch = self._launch
        launch.set_scalars(scalars)
        if self.program.reductions:
            launch.reset_reductions()
        for colour in range(self.program.colours):
            self._pass(blocks, colour, time, overlap)
            for number, component in self._writes:
                blocks[number].changed(component)
        if not self.program.reductions:
            return ()
        partials = [
            fused.partial(reduction, values)
            for reduction, values in zip(self.program.reductions, launch.partials(), strict=True)
        ]
        return begin(partials, self._communicator)

    def _pass(
        self, blocks: Sequence[Block], colour: int, time: float | None, overlap: bool | None
    ) -> None:
        refresh, run = self._refresh, self._launch.run
        pending = refresh.begin(blocks, time)
        if pending is None or not self._may_overlap:
            refresh.finish(blocks, time)
            for box, mask in self.whole:
                run(box, mask, colour)
            return
        began = clock.perf_counter()
        overlapped = self._choice.next() if overlap is None else overlap
        if overlapped:
            with spans.span("core"):
                for box in self.core:
                    run(box, -1, colour)
                    pending.poll()
        refresh.finish(blocks, time)
        with spans.span("remainder" if overlapped else "block"):
            for box, mask in self.remainder if overlapped else self.whole:
                run(box, mask, colour)
        if overlap is None and self._choice.decided is None:
            self._choice.record(overlapped, clock.perf_counter() - began)


def _component(arguments: Sequence[Any], store: Any) -> Component:
    return (*arguments[store.parameter].component_prefix, *store.component)


def _view(argument: DistArray | Profile) -> ArrayView:
    if isinstance(argument, Profile):
        return ArrayView(argument.memory, (argument.halo,), (argument.start,))
    block = argument.block
    return ArrayView(block.memory[argument.component_prefix], block.layout.halo, block.owned.start)


def _geometry(array: DistArray) -> LaunchGeometry:
    decomposition = array.layout.decomposition
    axes = None if array.grid is None else array.grid.geometry
    return LaunchGeometry(
        array.block.owned.start, decomposition.shape, decomposition.periodic, axes
    )


def _extents(arguments: Sequence[Any], *, whole: bool = False) -> Extents:
    """What this rank (or one that owned the whole domain) holds of each component of the arguments."""

    @functools.cache
    def extent(number: int, component: Component) -> Extent:
        argument = arguments[number]
        if isinstance(argument, Profile):
            return _profile_extent(argument, whole)
        return _array_extent(argument, component, whole)

    return extent


def _array_extent(array: DistArray, component: Component, whole: bool) -> Extent:
    block, layout, boundary = array.block, array.layout, array.boundary
    decomposition = layout.decomposition
    owned, start = Box.of_shape(block.owned.shape), block.owned.start
    ends = [(True, True)] * layout.ndim
    if whole:
        owned, start = Box.of_shape(layout.points), (0,) * layout.ndim
    elif (coords := decomposition.coords(block.rank)) is None:
        return Extent(start, owned, owned)
    else:
        ends = [(c == 0, c == n - 1) for c, n in zip(coords, decomposition.ranks, strict=True)]
    widths = [
        tuple(
            halo
            if decomposition.periodic[axis]
            or not at_end[number]
            or (boundary is not None and boundary.covers(axis, side, component))
            else 0
            for number, side in enumerate((LOW, HIGH))
        )
        for axis, (halo, at_end) in enumerate(zip(layout.halo, ends, strict=True))
    ]
    return Extent(
        start, owned, owned.grow([low for low, _ in widths], [high for _, high in widths])
    )


def _profile_extent(profile: Profile, whole: bool) -> Extent:
    """As of an array; a profile needs no message, so all that is available counts as owned."""
    axis, grid = profile.profile_axis, profile.grid
    (kept,) = profile.local_slices
    count, start, inner = kept.stop - kept.start, profile.start, [profile.periodic] * 2
    if whole:
        count, start = len(profile.values), 0
    elif grid.coords is not None:
        inner = [
            profile.periodic or grid.coords[axis] > 0,
            profile.periodic or grid.coords[axis] < grid.ranks[axis] - 1,
        ]
    available = Box((0,), (count,)).grow((profile.halo * inner[0],), (profile.halo * inner[1],))
    return Extent((start,), available, available)


def _free(array: DistArray, component: Component, *, whole: bool = False) -> tuple[Box, ...]:
    """The points of a component that kernels may write, in local indices: those that no condition fixes."""
    block, boundary = array.block, array.boundary
    if not whole:
        boxes = (block.owned,) if not boundary else boundary.free_boxes(block, component)
        return tuple(box.shift([-start for start in block.owned.start]) for box in boxes)
    box = Box.of_shape(array.layout.points)
    for axis in range(box.ndim):
        low, high = (
            bool(boundary) and boundary.fixed(axis, side, component) for side in (LOW, HIGH)
        )
        box = box.with_axis(axis, box.start[axis] + low, box.stop[axis] - high)
    return (box,)


def _without(boxes: Sequence[Box], taken: Sequence[Box]) -> list[Box]:
    left = list(boxes)
    for box in taken:
        left = [piece for rest in left for piece in rest.difference(box)]
    return left


def _field_reads(
    program: Program, number: int, array: DistArray, arguments: Sequence[Any]
) -> FieldReads:
    """The halo regions and boundary layers that a program reads of one array."""
    halo: dict[Component, set[Offsets]] = {}
    layers: dict[Component, set[Offsets]] = {}
    for target, roots in _uses(program):
        extra = _extra_points(arguments[target].layout, array.layout)
        for read in walk(roots):
            if isinstance(read, Read) and read.parameter == number:
                component = (*array.component_prefix, *read.component)
                halo.setdefault(component, set()).update(_reached(read, array))
                layers.setdefault(component, set()).update(
                    tuple(map(add, offsets, more))
                    for offsets in (read.offsets, *_reached(read, array))
                    for more in extra
                )
    return FieldReads(
        reads_of_offsets(halo),
        _clipped(reads_of_offsets(layers), array.layout.halo),
        array.boundary or None,
    )


def _uses(program: Program) -> Iterator[tuple[int, tuple[Expression, ...]]]:
    """The array over whose points some values are computed, and these values."""
    for store in program.stores:
        yield store.parameter, (store.value,)
    if program.reductions:
        first = program.stores[0].parameter if program.stores else 0
        yield first, tuple(reduction.value for reduction in program.reductions)


def _reached(read: Read, array: DistArray) -> Iterator[Offsets]:
    """Offsets from this rank's own cells that a read reaches, on the array's grid.

    From a coarse cell, fine cell 2 i + 1 is owned unless a cut of the fine grid is odd; then the fine cell i of the
    block's low end lies in the coarse cell of the block before.
    """
    choices = []
    for axis, offset in enumerate(read.offsets):
        part = array.layout.decomposition.axes[axis]
        if read.relation == FINE and offset > 0 and not part.cut_unevenly(2):
            choices.append((offset - 1,))
        elif read.relation == COARSE and part.finer_cut_unevenly(2):
            choices.append((offset - 1, offset))
        else:
            choices.append((offset,))
    return itertools.product(*choices)


def _extra_points(output: Layout, layout: Layout) -> tuple[Offsets, ...]:
    """Steps from the last cell of an axis to the last point of an output that has one more there than the array."""
    steps = [
        (0, 1) if points > own else (0,)
        for points, own in zip(output.points, layout.points, strict=True)
    ]
    return tuple(itertools.product(*steps))


def _clipped(reads: HaloReads, halo: Sequence[int]) -> HaloReads:
    return {key: tuple(map(min, widths, halo)) for key, widths in reads.items()}


def _check_reach(
    program: Program,
    names: Sequence[str],
    arrays: Sequence[DistArray],
    fields: Sequence[FieldReads],
) -> None:
    """Refuse a kernel that reads further than a halo is wide."""
    for name, array, field in zip(names, arrays, fields, strict=True):
        for widths in field.halo.values():
            for axis, (width, halo) in enumerate(zip(widths, array.layout.halo, strict=True)):
                if width > halo:
                    raise StencilError(
                        f"Kernel {program.name} (line {program.lines[0] if program.lines else 0}) reads {name} at a distance "
                        f"of {width} cells along axis {axis}, beyond its halo of {halo}; create the array or its grid with halo={width}."
                    )
