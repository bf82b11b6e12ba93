"""Time loops: a step repeated, its arrays rotated, time and scalars handed on.

A step is one kernel or several run in order. Arrays at the positions `rotate` change places after
each step, oldest first and target last, so that (0, 1) swaps two arrays and (0, 1, 2) makes the
oldest state the next target.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arguments import require_alike, require_function
from distarray.arraylike import is_array
from distarray.deferred import settle_readers_of
from distarray.elementwise import require_array
from distarray.errors import ArrayError, StencilError, shown
from distarray.graphs import PlannedCall, Replay
from distarray.kernels.apply import StencilKernel
from distarray.layout import Component
from distarray.point_stages import PointStage, checked
from distarray.profile import Profile
from distarray.progress import Progress
from distarray.regions import Box, without
from distarray.signatures import require_call

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.kernels.plan import ApplyPlan

#: A planned call, or points with the number of a step.
PlannedStage = PlannedCall | tuple[PointStage, list[Any]]

Callback = Callable[[int, float, tuple["DistArray", ...]], Any]


@dataclass(frozen=True)
class _Stage:
    """One kernel of a step, the positions of its arrays, and its scalars: names of those that have
    a value in every step, and values of the static ones.
    """

    kernel: StencilKernel
    positions: tuple[int, ...]
    scalars: tuple[str, ...]
    statics: dict[str, Any]

    def arrays(self, state: Sequence[DistArray]) -> list[DistArray]:
        return [state[position] for position in self.positions]

    def run(self, state: Sequence[DistArray], time: float, values: Mapping[str, Any]) -> None:
        self.kernel.apply(*self.arrays(state), time=time, **self._scalars(values))

    def prepare(
        self, state: Sequence[DistArray], time: float, values: Mapping[str, Any]
    ) -> PlannedCall:
        """The plan of the call and the values of its scalars."""
        return self.kernel.prepare(self.arrays(state), self._scalars(values), time)

    def _scalars(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[name] for name in self.scalars} | self.statics


@dataclass(frozen=True)
class _PointsOfStep:
    """What a step does at points, and the position of its array."""

    points: PointStage
    positions: tuple[int, ...]


Step = StencilKernel | Sequence[tuple[StencilKernel | PointStage, Sequence[int]]]


def iterate(
    step: Step,
    *arrays: DistArray,
    steps: int,
    rotate: Sequence[int] = (0, 1),
    time: float = 0.0,
    dt: float | None = None,
    first: int = 0,
    tile: int | str = "auto",
    callback: Callback | None = None,
    every: int = 0,
    progress: bool = False,
    **scalars: Any,
) -> DistArray:
    """Repeat a step and return the array written last. Collective.

    Parameters
    ----------
    step : kernel, or list of (kernel, positions)
        Kernels run in order on `arrays[p] for p in positions`; a single kernel takes all arrays.
        Besides kernels the list may hold points, with the position of one array: values added by
        `points.adding(...)`, and recorded by `points.recording()`.
    *arrays : DistArray
        States from the oldest to the target, and coefficients.
    steps : int
        Number of steps.
    rotate : sequence of int
        Positions whose arrays move on by one after each step; the first array becomes the last.
    time, dt : float
        Step m = first, first + 1, ... begins at `time + m * dt` (always at `time` if `dt` is None):
        boundary functions are evaluated there, and kernels that name `time` or `dt` receive them.
    first : int
        Number of the first step. A run that goes on passes the `time` of its very beginning and the
        number of steps done: the results then have the bits of a run that was not interrupted. From
        the time that was reached, steps can begin at other times in the last bit, since
        `(time + m * dt) + dt` is rounded twice.
    tile : "auto" or int
        Steps per pass over memory and per exchange of halos; the bits are those of single steps.
        So many, or the most below that after which rotating arrays are in their places again and
        for which blocks are wide enough, and at most 64. "auto" takes what `python -m distarray
        tune` has kept for this loop; else it tries some numbers, in steps that count, and goes on
        with the fastest. Where halos are too narrow the loop works on private arrays with wider
        ones, which are copied in and out once. See Notes for what is tiled.
    callback : function(steps_done, time, arrays), optional
        Called after each step by which `steps_done`, those before `first` included, is a multiple
        of `every`, with all arrays in rotated order, coefficients among them. What it returns is
        ignored.
    progress : bool
        Show a progress line on standard error.
    **scalars : number or function of the step number
        Each kernel receives those it names; static ones as they are. A function is called once for
        each step, in order: before the step, or with a number as `tile` before the pass that the
        step shares with others, where it must not look at the arrays.

    Returns
    -------
    DistArray
        The array written last, one of those passed in and no copy. Where two arrays rotate, that
        is the target after an odd number of steps and the first state after an even number (with
        no steps, the newest state). To go on, pass it as the state and the other one as the
        target, as in the second example.

    Notes
    -----
    Reductions that kernels return are dropped. Points that a condition fixes on a face hold its
    value at the start of the last step.

    Points of the rotating arrays that no kernel of the step computes are first copied from the
    newest state into the other arrays of the rotation.

    Loops are tiled on the CPU, on grids of two or three axes, where kernels are compiled and have
    one colour, and arrays lie on one grid and are no components of others. Any location, boundary
    condition, profile and chain of kernels will do but these: Custom conditions, and Piecewise ones
    that fix some points of a face on which points lie and leave others free. Points of a step are
    tiled with it, if no condition fixes points of their arrays and what is added is real or complex
    floating point. Boundary functions are called for all steps of a pass before it. "auto" leaves
    loops alone whose scalars are functions. Other loops make single steps; a line on standard error
    says why if a `tile` was given.

    A device is given many steps at once, as a graph, where one rank runs or messages go by NCCL,
    unless steps have points, kernels return reductions, scalars are functions of the step, or
    conditions depend on the time or on other arrays.

    Raises
    ------
    StencilError
        A scalar that no kernel names, or positions that do not fit the kernel.
    ArrayError
        Rotating arrays that differ in shape, dtype or location, or a wrong number of steps, tile or
        rotation.
    CommunicationError
        Kernels, points, positions or numbers, scalars excepted, that differ between ranks.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((8,), periodic=True)
    >>> @da.stencil
    ... def shift(u, new):
    ...     new[0] = u[-1]
    >>> u = grid.from_function(lambda x: x)
    >>> float(da.iterate(shift, u, grid.empty_like(u), steps=8)[0])
    0.0625

    Three steps, then one more; an odd number of steps makes the target the state:

    >>> new = grid.empty_like(u)
    >>> newest = da.iterate(shift, u, new, steps=3)
    >>> newest is new
    True
    >>> u, new = (new, u) if newest is new else (u, new)
    >>> da.iterate(shift, u, new, steps=1) is new
    True
    """
    from distarray.tiling.loop import Tiling  # with all that compiles, which not all programs do

    stages = _stages(step, arrays, scalars, dt)
    kernels = _kernels(stages)
    positions = _check_rotation(arrays, rotate)
    counts = {"steps": steps, "first": first, "every": every}
    _check_counts(counts, tile, callback, (time, 0.0 if dt is None else dt))
    given: dict[str, Any] = {**counts, "tile": tile, "rotate": positions}
    given |= {"time": float(time), "dt": None if dt is None else float(dt)}
    _require_alike(stages, arrays, given)
    state = list(arrays)
    if not steps:
        return _newest(state, positions)
    varying = {name: scalars[name] for stage in kernels for name in stage.scalars if name != "dt"}
    loop = _Loop(stages, state, positions, varying, (time, dt, first))
    last = _start(stages, state, positions, loop.time(0), loop.values(0))
    field = next(array for array in state if not isinstance(array, Profile))
    cells = math.prod(field.layout.decomposition.shape)
    # A function of the step number may look at the arrays: it is called between single steps,
    # unless a `tile` was asked for.
    tiling = Tiling(loop, tile, steps)
    alone = field.block.backend.host or loop.calls_functions or len(kernels) < len(stages)
    replay = None if alone else loop.replay(every or steps)
    number = 0
    with Progress(steps, cells=cells, enabled=progress and field.block.rank == 0) as bar:
        while number < steps:
            done = 0
            settle_readers_of(state)  # callbacks may have made expressions of them
            if replay is not None or tiling.active:
                # A callback may be given to some ranks alone: all pause for it.
                room = every - (first + number) % every if every else steps
                advance = tiling.advance if replay is None else replay.advance
                done = advance(number, min(room, steps - number))
            if not done:
                loop.step(number)
                done = 1
            number += done
            bar.advance(done)
            if callback is not None and (first + number) % every == 0:
                callback(first + number, loop.time(number), tuple(state))
    return _written(state, positions, last)


class _Loop:
    """The steps of `iterate`, counted from 0; see `graphs.Loop`."""

    def __init__(
        self,
        stages: Sequence[_Stage | _PointsOfStep],
        arrays: list[DistArray],
        positions: tuple[int, ...],
        scalars: Mapping[str, Any],
        times: tuple[float, float | None, int],
    ) -> None:
        self.arrays = arrays
        self.cycle = max(len(positions), 1)
        self._stages, self._positions, self._scalars = stages, positions, scalars
        self._kernels = _kernels(stages)
        self._start, self._dt, self._first = times
        self.calls_functions = any(map(callable, scalars.values()))
        self._evaluated: tuple[int, dict[str, Any]] = (-1, {})

    def time(self, number: int) -> float:
        return self._start if self._dt is None else self._start + (self._first + number) * self._dt

    def values(self, number: int) -> dict[str, Any]:
        """The scalars of a step. Functions are called once for each step, before it."""
        if not self.calls_functions:
            number = 0
        if self._evaluated[0] != number:
            self._evaluated = number, _values(self._scalars, self._first + number, self._dt)
        return self._evaluated[1]

    def step(self, number: int) -> None:
        now, values = self.time(number), self.values(number)
        for stage in self._stages:
            if isinstance(stage, _PointsOfStep):
                stage.points.run(self.arrays[stage.positions[0]], self._first + number)
            else:
                stage.run(self.arrays, now, values)
        _rotate(self.arrays, self._positions)

    def planned(self, number: int, arrays: Sequence[DistArray]) -> list[PlannedCall]:
        """The calls of a step without what it does at points."""
        now, values = self.time(number), self.values(number)
        return [stage.prepare(arrays, now, values) for stage in self._kernels]

    def staged(self, number: int, arrays: Sequence[DistArray]) -> list[PlannedStage]:
        """All of a step: plans with values of scalars, and points with the number of the step."""
        calls = iter(self.planned(number, arrays))
        return [
            (stage.points, [self._first + number])
            if isinstance(stage, _PointsOfStep)
            else next(calls)
            for stage in self._stages
        ]

    @property
    def first_kernel(self) -> StencilKernel:
        """The first one of a step."""
        return self._kernels[0].kernel

    def positions_of_stages(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the arrays of each stage."""
        return tuple(stage.positions for stage in self._stages)

    def rotated(self, arrays: Sequence[DistArray]) -> list[DistArray]:
        moved = list(arrays)
        _rotate(moved, self._positions)
        return moved

    def replay(self, longest: int) -> Replay:
        """What advances the loop by graphs of at most so many steps."""
        key = (
            tuple((id(stage.kernel), stage.positions) for stage in self._kernels),
            self._positions,
            tuple(array.key for array in self.arrays),
        )
        timed = self._dt is not None and any(
            "time" in stage.kernel.scalar_names for stage in self._kernels
        )
        return Replay(self, self.first_kernel, key, constant=not timed, longest=longest)


def _values(scalars: Mapping[str, Any], number: int, dt: float | None) -> dict[str, Any]:
    """The scalars of one step."""
    values = {name: value(number) if callable(value) else value for name, value in scalars.items()}
    if dt is not None:
        values["dt"] = dt
    return values


def _newest(state: Sequence[DistArray], positions: Sequence[int]) -> DistArray:
    """The newest state before the first step: the target is last, the newest state before it."""
    return state[positions[-2]] if len(positions) > 1 else state[positions[0] if positions else 0]


def _stages(
    step: Step, arrays: Sequence[Any], scalars: dict[str, Any], dt: float | None
) -> tuple[_Stage | _PointsOfStep, ...]:
    """The stages of a step; every scalar must be named by a kernel and every scalar they need be
    there.
    """
    stages: list[_Stage | _PointsOfStep] = []
    count = len(arrays)
    for kernel, positions in _pairs(step, count):
        if not isinstance(kernel, StencilKernel | PointStage):
            raise StencilError(
                "A step of iterate must be a kernel made by da.stencil, got "
                f"{shown(kernel)}; decorate the function."
            )
        wrong = [p for p in positions if not -1 < p < count]
        if wrong:
            raise StencilError(
                f"Position {wrong[0]} of {_named(kernel)} is outside the {count} arrays "
                f"passed to iterate; use 0 to {count - 1}."
            )
        if isinstance(kernel, PointStage):
            checked(kernel, positions, arrays)
            stages.append(_PointsOfStep(kernel, tuple(positions)))
            continue
        given = scalars if dt is None else scalars | {"dt": dt}
        statics = {n: given[n] for n in kernel.static_names if n in given}
        names = tuple(n for n in kernel.scalar_names if n in given and n not in statics)
        stages.append(_Stage(kernel, tuple(positions), names, statics))
    kernels = _kernels(stages)
    if not kernels:
        raise StencilError(
            "The step of iterate has no kernel; pass at least one (kernel, positions)."
            if stages
            else "The step of iterate is an empty list; pass at least one (kernel, positions)."
        )
    known = {name for stage in kernels for name in stage.kernel.scalar_names}
    for name, value in scalars.items():
        if name not in known:
            raise StencilError(
                f"Scalar '{name}' of iterate is named by no kernel of the step; they name "
                f"{sorted(known) or 'none'}."
            )
        if callable(value):
            require_call(value, f"The function of scalar '{name}'", ("step",))
    return tuple(stages)


def _named(stage: StencilKernel | PointStage) -> str:
    kind = "kernel" if isinstance(stage, StencilKernel) else "points"
    return f"{kind} '{stage.name}'"


def _kernels(stages: Sequence[_Stage | _PointsOfStep]) -> list[_Stage]:
    return [stage for stage in stages if isinstance(stage, _Stage)]


def _pairs(step: Any, count: int) -> list[tuple[Any, tuple[int, ...]]]:
    """The kernels of a step, each with the positions of its arrays."""
    if isinstance(step, StencilKernel):
        return [(step, tuple(range(count)))]
    try:
        return [(kernel, tuple(map(operator.index, positions))) for kernel, positions in step]
    except (TypeError, ValueError):
        raise StencilError(
            "The step of iterate must be a kernel made by da.stencil or a list of "
            f"(kernel, positions), got {shown(step)}; write [(kernel, (0, 1))]."
        ) from None


def _check_rotation(arrays: Sequence[DistArray], rotate: Sequence[int]) -> tuple[int, ...]:
    if not arrays:
        raise ArrayError("iterate got no arrays; pass the states, oldest first, the target last.")
    try:
        positions = tuple(map(operator.index, rotate))
    except TypeError:
        positions = (-1,)
    if len(set(positions)) != len(positions) or any(not -1 < p < len(arrays) for p in positions):
        raise ArrayError(
            f"rotate of iterate must name different positions among its {len(arrays)} arrays, got "
            f"{shown(rotate)}; use numbers from 0 to {len(arrays) - 1}."
        )
    for position in positions:
        require_array(arrays[position], "Rotation of iterate")
    for position in positions[1:]:
        first, other = arrays[positions[0]], arrays[position]
        if (first.shape, first.dtype, first.location) != (other.shape, other.dtype, other.location):
            raise ArrayError(
                f"Arrays {positions[0]} and {position} of iterate rotate and must agree in shape, "
                f"dtype and location; they are {first!r} and {other!r}."
            )
    return positions


def _check_counts(
    counts: Mapping[str, Any], tile: int | str, callback: Callback | None, times: Sequence[Any]
) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise ArrayError(
                f"{name} of iterate must be a whole number from 0, got {shown(count)}; correct it."
            )
    for name, value in zip(("time", "dt"), times, strict=True):
        if not isinstance(value, int | float | np.integer | np.floating):
            raise ArrayError(f"{name} of iterate must be a number, got {shown(value)}; correct it.")
    whole = isinstance(tile, int | np.integer) and not isinstance(tile, bool)
    if not (tile == "auto" if isinstance(tile, str) else whole and tile >= 1):
        raise ArrayError(
            f"tile of iterate must be a number of steps from 1 or 'auto', got {shown(tile)}; use "
            "'auto'."
        )
    if callback is not None:
        require_function(callback, "iterate(callback=)", "steps_done", "time", "arrays")
    if callback is not None and counts["every"] == 0:
        raise ArrayError(
            "iterate got a callback but every=0; say after how many steps it is called."
        )


def _require_alike(
    stages: Sequence[_Stage | _PointsOfStep],
    arrays: Sequence[Any],
    options: Mapping[str, Any],
) -> None:
    """Refuse a loop that ranks are given differently: they would wait for each other forever, or
    take halos of one step for those of another. Collective; one small message.
    """
    field = next((array for array in arrays if is_array(array)), None)
    if field is None or field.communicator.size == 1:
        return
    given = [f"{name}={value}" for name, value in options.items()]
    steps = ", ".join(f"{_described(stage)} on {stage.positions}" for stage in stages)
    require_alike(field.communicator, "The call of iterate", f"{', '.join(given)}, step: {steps}")


def _described(stage: _Stage | _PointsOfStep) -> str:
    return stage.kernel.name if isinstance(stage, _Stage) else stage.points.described


def _start(
    stages: Sequence[_Stage | _PointsOfStep],
    state: Sequence[DistArray],
    positions: Sequence[int],
    time: float,
    values: Mapping[str, Any],
) -> int:
    """Copy what a step does not compute; gives the position of the array written last."""
    last = positions[0] if positions else 0
    kernels = _kernels(stages)
    plans = [stage.prepare(state, time, values)[0] for stage in kernels]
    prepared = iter(plans)
    for stage in stages:
        if isinstance(stage, _PointsOfStep):
            last = stage.positions[0] if stage.points.writes else last
        elif stores := next(prepared).program.stores:
            last = stage.positions[stores[0].parameter]
    if len(positions) > 1:
        target, newest = state[positions[-1]], _newest(state, positions)
        everywhere, here = (
            _uncomputed(kernels, plans, state, positions[-1], whole=whole)
            for whole in (True, False)
        )
        if target is not newest and any(everywhere.values()):
            for position in positions:
                if state[position] is not newest:
                    _copy_boxes(newest, state[position], here)
    return last


def _uncomputed(
    stages: Sequence[_Stage],
    plans: Sequence[ApplyPlan],
    state: Sequence[DistArray],
    target: int,
    *,
    whole: bool,
) -> dict[Component, list[Box]]:
    """The points of the target that may be written and that no kernel of the step computes: of this
    rank, or of the whole domain, of which all ranks agree.
    """
    from distarray.kernels.extents import local_free_boxes

    array = state[target]
    left = {
        component: list(local_free_boxes(array, component, whole=whole))
        for component in np.ndindex(*array.components)
    }
    for stage, plan in zip(stages, plans, strict=True):
        arrays = stage.arrays(state)
        for number, position in enumerate(stage.positions):
            if position == target:
                for component, boxes in plan.written_boxes(arrays, number, whole=whole).items():
                    left[component] = without(left[component], boxes)
    return left


def _copy_boxes(
    source: DistArray, target: DistArray, boxes: Mapping[Component, Sequence[Box]]
) -> None:
    with target.writing() as values:
        for component, places in boxes.items():
            for box in places:
                values[component][box.slices()] = source.local[component][box.slices()]


def _written(state: Sequence[DistArray], positions: Sequence[int], last: int) -> DistArray:
    """The array at position `last` before the arrays rotated."""
    place = positions.index(last) - 1 if last in positions else None
    return state[last if place is None else positions[place]]


def _rotate(state: list[DistArray], positions: Sequence[int]) -> None:
    moved = [state[p] for p in positions]
    for position, array in zip(positions, moved[1:] + moved[:1], strict=True):
        state[position] = array
