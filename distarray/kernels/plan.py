"""What one kernel does to one set of arrays: made once, replayed by every call.

A plan holds the refresh of what is read, the compiled launch bound to the arrays' memory, and the
boxes to run over. It keeps memory, but no block alive: blocks are passed to `run`, and the kernel
drops the plan when one of them goes.

On the host the core is computed in tiles, between which messages progress, and whether it is
computed during the exchange is found by timing. A device is given the core as one launch, always
before the wait for the messages, and the remainder as another.
"""

from __future__ import annotations

import functools
import time as clock
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from distarray import spans
from distarray.block import Block
from distarray.halo.exchange import HaloExchange, PendingExchange
from distarray.kernels import fused
from distarray.kernels.arguments import memory_of
from distarray.kernels.extents import extents_of, local_free_boxes
from distarray.kernels.reads import field_reads
from distarray.kernels.refresh import EarlyWrite, Refresh
from distarray.layout import Component
from distarray.pending import Pending, begin
from distarray.profile import Profile
from distarray.regions import Box
from distarray.resident import ResidentReductions, stays_on_device
from distarray.stencil.analysis import bytes_per_cell, reduced_over
from distarray.stencil.calls import as_dtype
from distarray.stencil.coverage import common_core, computed_boxes, partition, tiles
from distarray.stencil.expression import Program, Reduction
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.backends.base import Backend

#: Boxes of local indices, each with the mask of what is computed there.
Boxes = tuple[tuple[Box, int], ...]

#: The host cuts the core into at most MOST_TILES slabs of about LEAST_TILE cells, between which
#: messages progress.
LEAST_TILE, MOST_TILES = 32768, 16


class OverlapChoice:
    """Whether computing the core during the exchange pays for one plan. Local.

    Both ways are timed in its first calls. Ranks may choose differently, since the messages are the
    same either way.
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
        arguments: Sequence[Any],
        grid_array: DistArray,
    ) -> None:
        self.program = program
        #: What tells the memory of each argument from others.
        self.memory = frozenset(memory_of(argument) for argument in arguments)
        self._arrays = [n for n, a in enumerate(arguments) if not isinstance(a, Profile)]
        self._start = grid_array.block.owned.start
        self._communicator, backend = grid_array.communicator, grid_array.block.backend
        self._on_host = backend.host
        blocks = self.blocks(arguments)
        fields = [field_reads(program, number, arguments) for number in self._arrays]
        self._refresh = Refresh(fields, blocks, self._communicator)
        views, geometry = [_view(argument) for argument in arguments], _geometry(grid_array)
        self._bind = functools.partial(backend.bind, arrays=views, geometry=geometry)
        self._launch: BoundLaunch = self._bind(program)
        self._cut(arguments)
        self._writes = sorted(
            {
                (self._arrays.index(store.parameter), _component(arguments, store))
                for store in program.stores
            }
        )
        self._changes = _merged(self._writes, blocks)
        self._refresh.early_writes = [
            EarlyWrite(number, component, box.shift(blocks[number].layout.halo))
            for number, component in self._writes
            for box, _ in self.core
        ]
        self._resident = self._resident_reductions(backend)
        self._choice = OverlapChoice()
        self._may_overlap = not self._refresh.fills_from(
            blocks, [blocks[n] for n, _ in self._writes]
        )
        self._conditions = [_version(argument) for argument in arguments]
        self._others = [(array, _version(array)) for array in self._refresh.others]

    def _cut(self, arguments: Sequence[Any]) -> None:
        """The boxes to run over: all at once, or the core in tiles and the remainder."""
        program, extents = self.program, extents_of(arguments)
        targets = [
            local_free_boxes(arguments[store.parameter], store.component)
            for store in program.stores
        ] or [(extents(reduced_over(program), ()).owned,)]
        self.computed = computed_boxes(program, extents, targets, self._start)
        early = computed_boxes(program, extents, targets, self._start, without_messages=True)
        ndim = len(self._start)
        core = common_core(early, ndim).intersection(common_core(self.computed, ndim))
        most = MOST_TILES if self._on_host else 1
        slabs = () if core.empty else tiles(core, LEAST_TILE, most)
        self.core: Boxes = tuple((box, -1) for box in slabs)
        self.remainder: Boxes = partition(self.computed, core)
        #: What is computed at once, unless the core is computed before the rest.
        self.whole: Boxes = partition(self.computed)
        self._parts: tuple[Boxes, ...] = (self.whole,)
        if self._communicator.size > 1 and any(map(_depends_on_order, program.reductions)):
            # Whichever way is chosen, the sum is made in one order.
            self.whole = self.core + self.remainder
            self._parts = self.core, self.remainder
        self._tallies = {
            name: self._tally(name, boxes)
            for name, boxes in (
                ("core", self.core), ("remainder", self.remainder), ("block", self.whole),
            )
        }  # fmt: skip

    def _tally(self, name: str, boxes: Boxes) -> spans.Tally:
        """The tally of one pass over some boxes."""
        cells = sum(box.size for box, _ in boxes) // self.program.colours
        nbytes = int(cells * bytes_per_cell(self.program))
        sweeps = 0.0 if name == "remainder" else 1.0 / self.program.colours
        return spans.tally(name, self.program.name, cells=cells, nbytes=nbytes, sweeps=sweeps)

    @property
    def tally(self) -> spans.Tally:
        """What a pass over all that is computed comes to."""
        return self._tallies["block"]

    @property
    def launch(self) -> BoundLaunch:
        """The program, bound to the memory of the arrays."""
        return self._launch

    @functools.cached_property
    def without_reductions(self) -> tuple[Program, BoundLaunch]:
        """The program that computes its outputs alone, if it has any, and its launch."""
        if not (self.program.reductions and self.program.stores):
            return self.program, self._launch
        program = replace(self.program, reductions=())
        return program, self._bind(program)

    @property
    def capturable(self) -> bool:
        """Whether all that a call does is work of streams, and the same in every call that finds
        the same halos fresh.
        """
        return (
            not self.program.reductions
            and not self._refresh.others
            and not self._refresh.time_dependent
            and stays_on_device(self._communicator)
        )

    @property
    def exchanges(self) -> list[HaloExchange]:
        """The exchanges whose buffers calls use."""
        return self._refresh.exchanges

    def set_scalars(self, values: Sequence[Any]) -> None:
        """Set the scalars for work that is launched by a graph. Local."""
        self._launch.set_scalars(values)

    def set_time(self, time: float) -> None:
        """Note the time of work that was launched by a graph. Local."""
        self._refresh.set_time(time)

    def _resident_reductions(self, backend: Backend) -> ResidentReductions | None:
        """What begins the reductions where their results stay on the device."""
        reductions, communicator = self.program.reductions, self._communicator
        if self._on_host or not reductions or not stays_on_device(communicator):
            return None
        partials = self._launch.device_partials()
        if not partials:
            return None
        described = [(reduction, fused.finish(reduction)) for reduction in reductions]
        return ResidentReductions(described, partials, backend, communicator)

    def fits(self, arguments: Sequence[Any]) -> bool:
        """Whether the conditions of the arrays are those the plan was made with. Local."""
        return [_version(argument) for argument in arguments] == self._conditions and all(
            _version(array) == version for array, version in self._others
        )

    def written_boxes(
        self, arguments: Sequence[Any], position: int, *, whole: bool = False
    ) -> dict[Component, tuple[Box, ...]]:
        """Where the stores to one argument compute, by its components: boxes of this rank's local
        indices, or of the whole domain's. Local.
        """
        stores, computed = self.program.stores, self.computed
        if whole:
            extents = extents_of(arguments, whole=True)
            targets = [
                local_free_boxes(arguments[s.parameter], s.component, whole=True) for s in stores
            ]
            computed = computed_boxes(self.program, extents, targets, (0,) * self.program.ndim)
        return {
            store.component: boxes
            for store, boxes in zip(stores, computed, strict=False)
            if store.parameter == position
        }

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
        """Refresh what is stale, compute, note what was written, and start the reductions.
        Collective.
        """
        blocks = self.blocks(arguments)
        launch = self._launch
        launch.set_scalars(scalars)
        if self.program.reductions:
            launch.reset_reductions()
        for colour in range(self.program.colours):
            self._pass(blocks, colour, time, overlap)
            for number, component in self._changes:
                blocks[number].changed(component)
        if not self.program.reductions:
            return ()
        if self._resident is not None:
            return self._resident.begin()
        contributions = [
            fused.contribution(reduction, partial)
            for reduction, partial in zip(self.program.reductions, launch.partials(), strict=True)
        ]
        return begin(contributions, self._communicator)

    def _pass(
        self, blocks: Sequence[Block], colour: int, time: float | None, overlap: bool | None
    ) -> None:
        """Refresh what is stale and compute one colour. Collective."""
        one_pass = self._pass_on_host if self._on_host else self._pass_on_device
        try:
            one_pass(blocks, colour, time, overlap)
        except BaseException:  # an interrupt too: what was sent must be received
            self._refresh.abandon()
            raise

    def _pass_on_host(
        self, blocks: Sequence[Block], colour: int, time: float | None, overlap: bool | None
    ) -> None:
        """In the way that is asked for, or else in the one that is found to be faster."""
        refresh, choice = self._refresh, self._choice
        pending = refresh.begin(blocks, time, early=False)
        if pending is None or not self._may_overlap:
            refresh.finish(blocks, time)
            self._compute_whole(colour)
            return
        began = clock.perf_counter()
        overlapped = choice.next() if overlap is None else overlap
        self._finish_pass(blocks, colour, time, pending if overlapped else None)
        if overlap is None and choice.decided is None:
            choice.record(overlapped, clock.perf_counter() - began)

    def _pass_on_device(
        self, blocks: Sequence[Block], colour: int, time: float | None, overlap: bool | None
    ) -> None:
        """The core first, wherever that may be."""
        overlapped = self._may_overlap and overlap is not False
        pending = self._refresh.begin(blocks, time, early=overlapped)
        self._finish_pass(blocks, colour, time, pending if overlapped else None)

    def _finish_pass(
        self,
        blocks: Sequence[Block],
        colour: int,
        time: float | None,
        pending: PendingExchange | None,
    ) -> None:
        """Compute, the core before the end of the exchange that is given."""
        if pending is None:
            self._refresh.finish(blocks, time)
            self._compute_whole(colour)
            return
        self._compute("core", self.core, colour, pending)
        self._refresh.finish(blocks, time)
        self._compute("remainder", self.remainder, colour)

    def _compute(
        self, name: str, boxes: Boxes, colour: int, pending: PendingExchange | None = None
    ) -> None:
        """Run over some boxes: on the host one after the other, letting messages progress between
        them.
        """
        start = spans.enter(self._tallies[name])
        if self._on_host:
            run = self._launch.run
            for box, mask in boxes:
                run(box, mask, colour)
                if pending is not None:
                    pending.poll()
        else:
            self._launch.run_boxes(boxes, colour)
        spans.leave(self._tallies[name], start)

    def _compute_whole(self, colour: int) -> None:
        """Run over all boxes, in as many launches as give sums the order that they always have."""
        if self._on_host:
            self._compute("block", self.whole, colour)
            return
        start = spans.enter(self.tally)
        for boxes in self._parts:
            self._launch.run_boxes(boxes, colour)
        spans.leave(self.tally, start)


def _depends_on_order(reduction: Reduction) -> bool:
    """Whether a reduction has other bits if its values come in another order."""
    kind = as_dtype(reduction.value.dtype).kind
    return reduction.kind == "sum" and kind in "fc" and not reduction.reproducible


def _version(argument: Any) -> int | None:
    """The version of an argument's conditions, which no others share; None without any."""
    boundary = argument.boundary
    return None if boundary is None else boundary.version


def _component(arguments: Sequence[Any], store: Any) -> Component:
    return (*arguments[store.parameter].component_prefix, *store.component)


def _merged(
    writes: Sequence[tuple[int, Component]], blocks: Sequence[Block]
) -> list[tuple[int, Component]]:
    """What is written, arrays whose components are all written as a whole."""
    counts = Counter(number for number, _ in writes)
    whole = {n for n, count in counts.items() if count == prod(blocks[n].layout.components)}
    single = [(number, component) for number, component in writes if number not in whole]
    return [*((number, ()) for number in sorted(whole)), *single]


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
