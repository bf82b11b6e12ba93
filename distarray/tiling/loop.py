"""Whether a loop of `iterate` is tiled, by how many steps, and on which arrays."""

from __future__ import annotations

import itertools
import math
import operator
import time as clock
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distarray.graphs import PlannedCall
from distarray.profile import Profile
from distarray.progress import tell_once
from distarray.stencil.compile import NativeLaunch
from distarray.stencil.expression import SAME, Coordinate, Read, Spacing, walk
from distarray.tiling.plan import Call, TiledSteps, halo_of, lag_of
from distarray.tiling.runner import function
from distarray.tiling.schedule import Widths
from distarray.tuning import store as tuned
from distarray.tuning.steps import case_of

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.kernels.apply import StencilKernel

#: Bytes of a tile with all its steps: about what a core's second cache holds beside other data.
CACHE_BYTES = 1_500_000
#: Arrays of a rank that together are smaller stay in the caches anyway.
WORTH_TILING = 8 << 20
#: Numbers of steps that "auto" tries, of those that shift a tile by a number of cells in `SHIFTS`:
#: fewer steps leave much to gain, more of them spoil the form of tiles.
CANDIDATES = (2, 4, 8, 12)
SHIFTS = range(6, 13)
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
        self._made: dict[tuple[int, ...], _Tiled] = {}
        self._private: dict[tuple[int, Widths], DistArray] = {}
        self._depth: int | None = None
        self._kept = loop.first_kernel.depths
        self._key = (loop.positions_of_stages(), loop.cycle, *map(_shape_of, fields))
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
        if self._depth is None:
            return self._tried(number, room)
        if self._depth == 1 or room < self._depth:
            return 0
        steps = room - room % self._depth
        self._tiled(self._depth, number).run(number, steps)
        return steps

    def _tried(self, number: int, room: int) -> int:
        """Measure what is fastest, by steps that count."""
        candidates = self._candidates(number)
        singles = min(candidates, default=1)
        if not candidates or room < PASSES * (singles + sum(candidates)):
            return 0
        done, seconds = 0, []
        for depth in (1, *candidates):
            steps, best = (singles if depth == 1 else depth), math.inf
            for _ in range(PASSES):
                run = self._single if depth == 1 else self._tiled(depth, number + done).run
                start = clock.perf_counter()
                run(number + done, steps)
                best = min(best, clock.perf_counter() - start)
                done += steps
            seconds.append(best / steps)
        slowest = self._communicator.allreduce(np.array(seconds), "max")
        self._depth = self._kept.keep(self._key, (1, *candidates)[int(np.argmin(slowest))])
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

    def _single(self, number: int, steps: int) -> None:
        for ahead in range(steps):
            self._loop.step(number + ahead)

    def _tiled(self, depth: int, number: int) -> _Tiled:
        """What advances the arrays from the places in which they are before step `number`: single
        steps between tiles change these.
        """
        key = (depth, *(_serial(array) for array in self._loop.arrays))
        if key not in self._made:
            self._made[key] = _Tiled(self._loop, depth, number, self._private)
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
        first = self._fields[0]
        if not first.block.backend.host:
            return "tiles are for the CPU"
        if len(first.layout.decomposition.shape) < 2:
            return "rows are not cut, and there are no other axes"
        if self._asked is None:
            if self._loop.calls_functions:
                return "scalars are functions, which may look at the arrays"
            arrays = {array.block.serial: array.nbytes for array in self._fields}
            nbytes = sum(arrays.values()) // self._communicator.size
            if steps < LEAST_STEPS or nbytes < WORTH_TILING:
                return "there is too little to gain"
        return self._refused_arrays() or self._refused_kernels()

    def _refused_arrays(self) -> str | None:
        if any(isinstance(array, Profile) for array in self._loop.arrays):
            return "a kernel reads a profile"
        for array in self._fields:
            if array.grid is None or array.component_prefix:
                return "an array lies on no grid or is a component of another"
            if array.location or array.grid is not self._fields[0].grid:
                return "an array lies on faces, edges or another grid"
            if array.boundary:
                return "an array has boundary conditions"
            if len(array.components) > 1:
                return "an array has components along several axes"
        return None

    def _refused_kernels(self) -> str | None:
        periodic = any(self._fields[0].layout.decomposition.periodic)
        native = True
        for plan, _ in self._loop.planned(0, self._loop.arrays):
            program = plan.program
            if program.reductions or program.colours > 1:
                return f"kernel {program.name} has reductions or colours"
            for node in walk([store.value for store in program.stores]):
                if isinstance(node, Read) and node.relation != SAME:
                    return f"kernel {program.name} reads another grid"
                if isinstance(node, Coordinate | Spacing) and periodic:
                    return f"kernel {program.name} asks for positions on a periodic grid"
            native &= isinstance(plan.launch, NativeLaunch)
        native &= function(self._fields[0].block.backend, "run_boxes") is not None
        if not self._communicator.allreduce(np.array([int(native)]), "min")[0]:
            return "kernels are not compiled"
        return None


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
        Private arrays by the array each stands for and their halo; what is missing is added.
    """

    def __init__(
        self, loop: Loop, depth: int, number: int, private: dict[tuple[int, Widths], DistArray]
    ) -> None:
        self._loop, self._depth = loop, depth
        halo = halo_of(_calls(loop, number, depth, loop.arrays))
        self._state: list[Any] = []
        self._copied: dict[int, tuple[DistArray, DistArray]] = {}
        for array in loop.arrays:
            if isinstance(array, Profile) or all(map(operator.ge, array.halo, halo)):
                self._state.append(array)
                continue
            key = (array.block.serial, halo)
            if key not in private:
                private[key] = array.grid.empty(array.dtype, array.components, halo=halo)
            self._state.append(private[key])
            self._copied[private[key].block.serial] = array, private[key]
        self._bind(_calls(loop, number, depth, self._state))

    def _bind(self, calls: Sequence[Call]) -> None:
        self._programs = [call.plan.program for call in calls]
        self._steps = TiledSteps(calls, tile_sizes(calls), whole=_computes_all(calls))

    def run(self, number: int, steps: int) -> None:
        """Make `steps` steps, a multiple of the depth. Collective."""
        for serial, (array, private) in self._copied.items():
            if serial in self._steps.needed:
                private[...] = array
        for start in range(number, number + steps, self._depth):
            planned, arrays = _planned(self._loop, range(start, start + self._depth), self._state)
            programs = [plan.program for plan, _ in planned]
            if any(map(operator.is_not, programs, self._programs)):  # other kinds of scalars
                self._bind([Call(plan, a) for (plan, _), a in zip(planned, arrays, strict=True)])
            self._steps.run([values for _, values in planned], self._loop.time(start))
        for serial, (array, private) in self._copied.items():
            if serial in self._steps.written:
                array[...] = private


def _serial(array: Any) -> int:
    """Tells the arrays of a loop apart."""
    return id(array) if isinstance(array, Profile) else int(array.block.serial)


def _shape_of(array: DistArray) -> tuple[Any, ...]:
    """What the fastest number of steps depends on, the same on all ranks."""
    decomposition = array.layout.decomposition
    return array.shape, array.dtype, array.halo, decomposition.ranks, decomposition.periodic


def _calls(loop: Loop, number: int, depth: int, arrays: Sequence[Any]) -> list[Call]:
    """The calls of so many steps, all with the scalars of step `number`. Collective."""
    planned, used = _planned(loop, itertools.repeat(number, depth), arrays)
    return [Call(plan, a) for (plan, _), a in zip(planned, used, strict=True)]


def _planned(
    loop: Loop, numbers: Iterable[int], arrays: Sequence[Any]
) -> tuple[list[PlannedCall], list[tuple[Any, ...]]]:
    """What steps of these numbers call from these places of the arrays on, and on which of them.
    Collective.
    """
    state, planned, used = list(arrays), [], []
    for number in numbers:
        planned += loop.planned(number, state)
        used += [tuple(state[p] for p in positions) for positions in loop.positions_of_stages()]
        state = loop.rotated(state)
    return planned, used


def _computes_all(calls: Sequence[Call]) -> bool:
    """Whether every call computes all points of what it writes, on all ranks."""
    return all(calls[0].arrays[0].layout.decomposition.periodic)


def tile_sizes(calls: Sequence[Call]) -> tuple[int, ...]:
    """Points of a tile along all axes but the last, so that it stays in the cache for all steps."""
    arrays = {array.block.serial: array for call in calls for array in call.arrays}
    first = calls[0].arrays[0]
    row = sum(
        array.block.memory.nbytes // max(1, int(np.prod(array.block.padded.shape[:-1])))
        for array in arrays.values()
    )
    outer = first.layout.ndim - 1
    side = int((CACHE_BYTES / max(1, row)) ** (1 / outer)) - max(lag_of(calls)[:-1])
    return (max(8, side // 4 * 4),) * outer
