"""Whether a loop of `iterate` is tiled, by how many steps, and on which arrays."""

from __future__ import annotations

import itertools
import math
import operator
import time as clock
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distarray.errors import BoundaryError
from distarray.graphs import PlannedCall
from distarray.point_stages import PointStage
from distarray.profile import Profile
from distarray.progress import tell_once
from distarray.stencil.compile import NativeLaunch
from distarray.tiling.plan import AnyCall, TiledSteps, halo_of, lag_of
from distarray.tiling.points import PointCall
from distarray.tiling.program import Call
from distarray.tiling.refusals import refused_arrays, refused_points, refused_program
from distarray.tiling.runner import function
from distarray.tiling.schedule import Widths
from distarray.tuning import store as tuned
from distarray.tuning.steps import case_of

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.iterate import PlannedStage
    from distarray.kernels.apply import StencilKernel
    from distarray.kernels.plan import ApplyPlan

#: What a step calls once, and on which arrays.
_StageCall = tuple["PlannedStage", tuple[Any, ...]]

#: Bytes of a tile with all its steps: about what a core's second cache holds beside other data.
CACHE_BYTES = 1_500_000
#: Arrays of a rank that together are smaller stay in the caches anyway.
WORTH_TILING = 8 << 20
#: Numbers of steps that "auto" tries, of those that shift a tile by a number of cells in `SHIFTS`:
#: fewer steps leave much to gain, more of them spoil the form of tiles.
CANDIDATES = (2, 4, 8, 12)
SHIFTS = range(6, 17)
#: Points of a tile along an axis: at least, and at most where it moves by more than the cache has
#: room for. 7-point steps of 256^3 doubles are as fast on tiles of 8 x 8 in 8 steps as on tiles of
#: 12 x 12 in 12, and slower on 8 x 8 in 12 or 16 x 32 in 8.
LEAST_SIDE, MOVED = 8, 12
#: Passes of each number of steps in a trial: the first makes plans and fills caches.
PASSES = 3
#: Steps of a loop below which "auto" does not try.
LEAST_STEPS = 48
#: Steps that a tile holds at most: the cache is full long before, and their plan takes time.
MOST_STEPS = 64


class Loop(Protocol):
    """The steps of `iterate`, see there."""

    arrays: list[Any]
    cycle: int
    calls_functions: bool

    def time(self, number: int) -> float: ...

    def planned(self, number: int, arrays: Sequence[Any]) -> list[PlannedCall]: ...

    def staged(self, number: int, arrays: Sequence[Any]) -> list[PlannedStage]: ...

    @property
    def first_kernel(self) -> StencilKernel: ...

    def positions_of_stages(self) -> tuple[tuple[int, ...], ...]: ...

    def rotated(self, arrays: Sequence[Any]) -> list[Any]: ...

    def step(self, number: int) -> None: ...


class Tiling:
    """Advances a loop by several steps at a time where that is possible. Creation is Collective.

    Parameters
    ----------
    loop : Loop
    tile : int or "auto"
    steps : int
        Of the whole loop.
    """

    def __init__(self, loop: Loop, tile: int | str, steps: int) -> None:
        self._loop = loop
        self._asked = None if tile == "auto" else int(tile)
        fields = [array for array in loop.arrays if not isinstance(array, Profile)]
        self._fields: list[DistArray] = fields
        self._communicator = fields[0].communicator
        self._made: dict[tuple[Any, ...], _Tiled] = {}
        self._private: dict[tuple[Any, ...], Any] = {}
        self._depth: int | None = None
        self._kept = loop.first_kernel.depths_on(self._communicator)
        self._key = (loop.positions_of_stages(), loop.cycle, *map(_shape_of, fields))
        self._versions = _versions(fields)
        why = self._refusal(steps)
        if why is not None:
            self._depth = 1
            if self._asked not in (None, 1) and fields[0].block.rank == 0:
                tell_once(f"iterate makes one step at a time: {why}.")
        elif self._asked is not None:
            self._depth = self._rounded(self._asked, 0)
        else:
            found = self._kept.find(self._key) or self._stored()
            # The other kernels of the step may be others, and read farther.
            self._depth = found if found is None else self._rounded(found, 0)

    def _stored(self) -> int | None:
        """What `python -m distarray tune` has kept for this loop. Collective if it has kept any."""
        if not tuned.choices(self._communicator).tiles:
            return None
        loop = self._loop
        programs = [plan.program for plan, _ in loop.planned(0, loop.arrays)]
        case = case_of(self._fields[0], programs, loop.positions_of_stages(), loop.cycle)
        found = tuned.tile(self._communicator, case)
        if found is not None:
            tuned.note(f"tile {found} for {programs[0].name}")
            self._kept.keep(self._key, found)
        return found

    @property
    def active(self) -> bool:
        """Whether several steps are made at a time, or may be. The same on all ranks."""
        return self._depth != 1

    def advance(self, number: int, room: int) -> int:
        """Make up to `room` steps from step `number` on; gives how many, 0 if the next has to be
        made as usual. Collective.
        """
        if self._versions != _versions(self._fields):  # a callback has changed conditions
            self._versions = _versions(self._fields)
            self._made.clear()
            self._private.clear()  # of arrays with the old conditions, which are gone for good
            if (refused_arrays(self._fields) or _refused_points(self._stages())) is not None:
                self._depth = 1
            elif self._depth is not None:
                self._depth = self._rounded(self._depth, number)
        if self._depth is None:
            return self._tried(number, room)
        if self._depth == 1 or room < self._depth:
            return 0
        steps = room - room % self._depth
        tiled = self._tiled(self._depth, number)
        if tiled is None:
            return 0
        tiled.run(number, steps)
        return steps

    def _tried(self, number: int, room: int) -> int:
        """Measure what is fastest, by steps that count."""
        candidates = self._candidates(number)
        singles = min(candidates, default=1)
        while candidates and room < PASSES * (singles + sum(candidates)):
            candidates.pop()
        if not candidates:  # nor will there be any in this loop, whose pauses come as often
            self._depth = 1
            return 0
        done, fastest = 0, dict.fromkeys((1, *candidates), math.inf)
        for depth in (*fastest,) * PASSES:  # in turn: a machine's speed changes
            steps = singles if depth == 1 else depth
            tiled = None if depth == 1 else self._tiled(depth, number + done)
            if depth > 1 and tiled is None:
                self._depth = 1
                return done
            seconds = (self._single if tiled is None else tiled.run)(number + done, steps)
            fastest[depth] = min(fastest[depth], seconds / steps)
            done += steps
        slowest = self._communicator.allreduce(np.array([*fastest.values()]), "max")
        self._depth = self._kept.keep(self._key, [*fastest][int(np.argmin(slowest))])
        if self._depth > 1:
            tuned.note(f"tile {self._depth} for {self._name}, by a trial")
        return done

    @property
    def _name(self) -> str:
        return self._loop.planned(0, self._loop.arrays)[0][0].program.name

    def _candidates(self, number: int) -> list[int]:
        """The numbers of steps to try, fewest first."""
        cycle, arrays = self._loop.cycle, self._loop.arrays
        one, more = (lag_of(_calls(self._loop, number, n, arrays)) for n in (1, cycle + 1))
        shift = max(map(operator.sub, more, one))  # by so many steps as make a cycle
        tried = (depth for depth in CANDIDATES if depth * shift // cycle in SHIFTS)
        rounded = {self._rounded(depth, number) for depth in tried}
        return sorted(rounded - {1})

    def _single(self, number: int, steps: int) -> float:
        """Make steps one by one; gives the seconds."""
        began = clock.perf_counter()
        for ahead in range(steps):
            self._loop.step(number + ahead)
        return clock.perf_counter() - began

    def _tiled(self, depth: int, number: int) -> _Tiled | None:
        """What advances the arrays from the places in which they are before step `number`: single
        steps between tiles change these. None, and only single steps from now on, if a condition
        has no values in halos that are so wide.
        """
        key = (depth, *self._versions, *(_serial(array) for array in self._loop.arrays))
        if key not in self._made:
            try:
                self._made[key] = _Tiled(self._loop, depth, number, self._private)
            except BoundaryError as error:  # on all ranks
                self._depth = 1
                if self._asked is not None and self._fields[0].block.rank == 0:
                    tell_once(f"iterate makes one step at a time: {error}")
                return None
        return self._made[key]

    def _rounded(self, depth: int, number: int) -> int:
        """The most steps, up to `depth`, after which the arrays are in their places again and for
        which blocks are wide enough; 1 for none.
        """
        decomposition = self._fields[0].layout.decomposition
        depth = min(depth, MOST_STEPS)
        depth -= depth % self._loop.cycle
        while depth > 1:
            wide = halo_of(_calls(self._loop, number, depth, self._loop.arrays))
            if all(
                width <= part.narrowest or not (part.parts > 1 or wraps)
                for width, part, wraps in zip(
                    wide, decomposition.axes, decomposition.periodic, strict=True
                )
            ):
                return depth
            depth -= self._loop.cycle
        return 1

    # ---- what can be tiled

    def _refusal(self, steps: int) -> str | None:
        """Why no steps can share a pass over memory, or None; the same on all ranks."""
        if self._asked == 1:
            return "so it was asked"
        why = refused_arrays(self._fields)
        if why is not None:
            return why
        if self._asked is None:
            if self._loop.calls_functions:
                return "scalars are functions, which may look at the arrays"
            arrays = {array.block.serial: array.nbytes for array in self._fields}
            nbytes = sum(arrays.values()) // self._communicator.size
            if steps < LEAST_STEPS or nbytes < WORTH_TILING:
                return "there is too little to gain"
        stages = self._stages()
        return _refused_points(stages) or self._refused_kernels(stages)

    def _stages(self) -> list[_StageCall]:
        """What a step calls, and on which arrays. Collective."""
        return list(zip(*_planned(self._loop, [0], self._loop.arrays), strict=True))

    def _refused_kernels(self, stages: Iterable[_StageCall]) -> str | None:
        native = all(
            function(self._fields[0].block.backend, symbol) is not None
            for symbol in ("run_boxes", "fill_layers", "add_at_points")
        )
        for (plan, _), arguments in stages:
            if isinstance(plan, PointStage):
                continue
            why = refused_program(plan.without_reductions[0], arguments)
            if why is not None:
                return why
            native &= isinstance(plan.without_reductions[1], NativeLaunch)
        if not self._communicator.allreduce(np.array([int(native)]), "min")[0]:
            return "kernels are not compiled"
        return None


def _refused_points(stages: Iterable[_StageCall]) -> str | None:
    points = [(plan, arrays[0]) for (plan, _), arrays in stages if isinstance(plan, PointStage)]
    return next(filter(None, itertools.starmap(refused_points, points)), None)


class _Tiled:
    """A loop that is advanced by so many steps at a time, on arrays with halos that are wide
    enough: its own, or private ones. Creation is Collective.

    Parameters
    ----------
    loop : Loop
    depth : int
    number : int
        Of the next step; functions have not been called for later ones.
    private : dict
        Private arrays by the array each stands for, its conditions and their halo; what is missing
        is added.
    """

    def __init__(
        self, loop: Loop, depth: int, number: int, private: dict[tuple[Any, ...], Any]
    ) -> None:
        self._loop, self._depth = loop, depth
        halo = halo_of(_calls(loop, number, depth, loop.arrays))
        self._state: list[Any] = []
        self._copied: dict[int, tuple[DistArray, DistArray]] = {}
        self._originals: dict[Any, Any] = {}
        for array in loop.arrays:
            key = (*array.key, *_versions([array]), halo)
            if key not in private:
                private[key] = _with_halo(array, halo)
            self._state.append(private[key])
            self._originals[private[key].key] = array
            if private[key] is not array and not isinstance(array, Profile):
                self._copied[private[key].block.serial] = array, private[key]
        self._bind(_calls(loop, number, depth, self._state))

    def _bind(self, calls: Sequence[AnyCall]) -> None:
        self._programs = [_program_of(call.plan) for call in calls]
        calls = [
            replace(call, originals=tuple(self._originals[a.key] for a in call.arguments))
            for call in calls
        ]
        self._steps = TiledSteps(calls, tile_sizes(calls))

    def run(self, number: int, steps: int) -> float:
        """Make `steps` steps, a multiple of the depth; gives the seconds, without those of copies
        to private arrays and back, which a loop makes once. Collective.
        """
        seconds = 0.0
        for serial, (array, private) in self._copied.items():
            if serial in self._steps.needed:
                private[...] = array
        for start in range(number, number + steps, self._depth):
            numbers = range(start, start + self._depth)
            planned, arrays = _planned(self._loop, numbers, self._state)
            programs = [_program_of(plan) for plan, _ in planned]
            if any(map(operator.is_not, programs, self._programs)):  # other kinds of scalars
                self._bind(_called(self._loop, planned, arrays))
            times = [
                self._loop.time(n) for n in numbers for _ in range(len(planned) // len(numbers))
            ]
            began = clock.perf_counter()
            self._steps.run([values for _, values in planned], times)
            seconds += clock.perf_counter() - began
        for serial, (array, private) in self._copied.items():
            if array.boundary and private.boundary:
                array.boundary.conditions.time = private.boundary.conditions.time
            if serial in self._steps.written:
                array[...] = private
            elif array.boundary:
                array.boundary.fix_values(array.block)
        return seconds


def _with_halo(array: Any, halo: Widths) -> Any:
    """An array, or one like it without its values, whose halo is wide enough. Collective."""
    if isinstance(array, Profile):
        axis = array.profile_axis
        # It is read beside the points that are computed, some of which lie beyond the block.
        wide = array.halo + halo[axis]
        return array.grid.profile(axis, array.values, halo=wide) if halo[axis] else array
    if all(map(operator.ge, array.halo, halo)):
        return array
    made = array.grid.empty(
        array.dtype, array.components, array.location, halo=tuple(map(max, array.halo, halo))
    )
    # The memory of the last such array: the system hands out new pages slowly.
    made.block.take(made.block.allocate(again=True))
    if array.boundary:
        made.boundary.conditions.time = array.boundary.conditions.time
        made.boundary.update(array.boundary)
    return made


def _serial(array: Any) -> int:
    """Tells the arrays of a loop apart."""
    return id(array) if isinstance(array, Profile) else int(array.block.serial)


def _shape_of(array: DistArray) -> tuple[Any, ...]:
    """What the fastest number of steps depends on, the same on all ranks."""
    decomposition = array.layout.decomposition
    sides = tuple(array.boundary or ())
    return array.shape, array.dtype, array.halo, decomposition.ranks, decomposition.periodic, sides


def _versions(arrays: Sequence[Any]) -> tuple[int | None, ...]:
    """What tells the conditions of arrays from all others."""
    return tuple(None if a.boundary is None else a.boundary.version for a in arrays)


def _calls(loop: Loop, number: int, depth: int, arrays: Sequence[Any]) -> list[AnyCall]:
    """The calls of so many steps, all with the scalars of step `number`. Collective."""
    return _called(loop, *_planned(loop, itertools.repeat(number, depth), arrays))


def _called(
    loop: Loop, planned: Sequence[PlannedStage], used: Sequence[tuple[Any, ...]]
) -> list[AnyCall]:
    """The calls of steps, which have a number each."""
    stages = len(loop.positions_of_stages())
    return [
        PointCall(plan, arguments, number // stages)
        if isinstance(plan, PointStage)
        else Call(plan, arguments, number // stages)
        for number, ((plan, _), arguments) in enumerate(zip(planned, used, strict=True))
    ]


def _program_of(plan: ApplyPlan | PointStage) -> Any:
    """What tells that the kinds of scalars have changed."""
    return plan if isinstance(plan, PointStage) else plan.program


def _planned(
    loop: Loop, numbers: Iterable[int], arrays: Sequence[Any]
) -> tuple[list[PlannedStage], list[tuple[Any, ...]]]:
    """What steps of these numbers call from these places of the arrays on, and on which of them.
    Collective.
    """
    state, planned, used = list(arrays), list["PlannedStage"](), list[tuple[Any, ...]]()
    for number in numbers:
        planned += loop.staged(number, state)
        used += [tuple(state[p] for p in positions) for positions in loop.positions_of_stages()]
        state = loop.rotated(state)
    return planned, used


def tile_sizes(calls: Sequence[AnyCall]) -> tuple[int, ...]:
    """Points of a tile along all axes but the last: as many as the cache holds for all steps, with
    those by which the tile moves; not fewer than it moves by, up to `MOVED`, since most of what it
    touches would then be its neighbours'.
    """
    arrays = {
        array.block.serial: array
        for call in calls
        for array in call.arguments
        if not isinstance(array, Profile)
    }
    first = next(iter(arrays.values()))
    row = sum(
        array.block.memory.nbytes // max(1, int(np.prod(array.block.padded.shape[:-1])))
        for array in arrays.values()
    )
    outer = first.layout.ndim - 1
    lag = max(lag_of(calls)[:-1])
    side = max(int((CACHE_BYTES / max(1, row)) ** (1 / outer)) - lag, min(lag + 1, MOVED))
    return (max(LEAST_SIDE, side // 4 * 4),) * outer
