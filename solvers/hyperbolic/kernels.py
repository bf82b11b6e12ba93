"""The kernels of a conservation law, made of what an equation says about one cell.

A stage of a time step is one pass over memory,

    new = e + keep (start - e),  e = settle(now + dt rate(now))

which is keep start + (1 - keep) e, written so that a state at rest keeps its bits. In the last
stage of a step the same pass reduces what limits the next one, and the largest change.
"""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.box import AXES

# Arrays and scalars in a kernel are symbols while it is traced.
Symbol = Any
Symbols = Sequence[Any]
#: Fluxes of all components along an axis through the low side of the cell n further.
Flux = Callable[[int, int], Symbols]
#: Names of fields and their numbers of components, 0 for none.
Layout = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Cell:
    """What an equation knows about a cell besides the state, while a kernel is traced.

    Attributes
    ----------
    reciprocals : sequence of symbols
        1 / h, h the width of the cell along each axis.
    time : symbol
        When the state holds.
    dt : symbol
        Length of the Euler step; 0 where there is none.
    arrays : mapping of str to symbolic array
        The equation's `arrays` and what is `derived`.
    scalars : mapping of str to symbol
        The equation's `scalars`.
    """

    reciprocals: Symbols
    time: Symbol
    dt: Symbol
    arrays: Mapping[str, Symbol]
    scalars: Mapping[str, Symbol]

    @property
    def ndim(self) -> int:
        return len(self.reciprocals)

    def divergence(self, flux: Flux) -> list[Symbol]:
        """What leaves the cell of each component, per volume and time.

        `flux(axis, 1)` has to be the text of `flux(axis, 0)` with all offsets one further along the
        axis: compiled kernels then compute each face once.
        """
        along = [
            [r * (high - low) for low, high in zip(flux(axis, 0), flux(axis, 1), strict=True)]
            for axis, r in enumerate(self.reciprocals)
        ]
        return [total(parts) for parts in zip(*along, strict=True)]


def total(parts: Symbols) -> Symbol:
    """The sum of one to three numbers, of the same bits in any order, and with the other sign where
    theirs is the other: so that flows stay symmetric when axes change places. Local.
    """
    if len(parts) < 3:
        return sum(parts[1:], start=parts[0])
    a, b, c = parts
    low, high = np.minimum(a, b), np.maximum(a, b)
    middle = np.maximum(low, np.minimum(high, c))
    return (np.minimum(low, c) + np.maximum(high, c)) + middle


class Equation(abc.ABC):
    """What one cell of a conservation law does. Methods are Local, called while a kernel is traced.

    Equal equations share their kernels: make it a frozen dataclass of plain values. Numbers that
    change from run to run are better `scalars`, which need no kernel of their own.

    Attributes
    ----------
    arrays : tuple of str
        Names of given arrays that the kernels read, such as a bed or a velocity.
    scalars : tuple of str
        Names of numbers that the kernels read.
    derived : str
        Name of an array of `derive`d values that is kept beside the state, such as primitive
        variables: "" for none. Kernels read it around a cell in place of the state, of which they
        then read this cell alone, and only it needs conditions and a halo.
    """

    arrays: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    derived: str = ""

    @abc.abstractmethod
    def rate(self, now: Symbols, cell: Cell) -> Symbols:
        """du/dt of each component, from symbolic arrays, one for each component of each field."""

    @abc.abstractmethod
    def speed(self, values: Symbols, cell: Cell) -> Symbol:
        """What limits the time step, per time: a step is stable if dt times this is at most the
        Courant limit. In general the sum over the axes of the largest signal speed / h, and of
        2 nu / h^2 where something diffuses.
        """

    def settle(self, values: Symbols, cell: Cell) -> Symbols:
        """The values after an Euler step, corrected by what this cell alone decides: stiff sources,
        floors.
        """
        del cell
        return values

    def derive(self, values: Symbols, cell: Cell) -> Symbols:
        """The components of the derived array in a cell with these values."""
        del cell
        return values


def beside(u: Symbol, axis: int, n: int) -> Callable[[int], Symbol]:
    """The cells around the low side of the cell n further, as reconstructions take them. Local."""
    return lambda k: u.shift(axis, n + k)


def moved(offset: Sequence[int], axis: int, n: int) -> tuple[int, ...]:
    """The offset of the cell n further along an axis. Local."""
    return (*offset[:axis], offset[axis] + n, *offset[axis + 1 :])


@functools.cache
def stage_kernel(equation: Equation, layout: Layout, ndim: int) -> Any:
    """The kernel of a stage, called with the fields now, at the start and new, then the derived
    arrays now and new, if there are, and the equation's arrays; its scalars are keep, dt, time,
    last (static), rx, ry, rz and the equation's. Where `last`, it returns the largest `speed` and
    the largest |new - start|. Local.
    """

    def stage(*given: Symbol, **numbers: Symbol) -> Any:
        count = len(layout)
        groups = (given[i * count : (i + 1) * count] for i in range(3))
        now, start, new = (_components(group, layout) for group in groups)
        rest = given[3 * count :]
        if equation.derived:
            after, rest = rest[1], (rest[0], *rest[2:])
        cell = _cell(equation, rest, numbers, ndim)
        dt, keep = numbers["dt"], numbers["keep"]
        rates = equation.rate(now, cell)
        ahead = [u[...] + dt * rate for u, rate in zip(now, rates, strict=True)]
        for u, old, e in zip(new, start, equation.settle(ahead, cell), strict=True):
            u[...] = e + keep * (old[...] - e)
        if equation.derived:
            _keep(after, equation.derive([u[...] for u in new], cell))
        if not numbers["last"]:
            return None
        changes = [abs(u[...] - old[...]) for u, old in zip(new, start, strict=True)]
        speed = equation.speed([u[...] for u in new], cell)
        return da.reduce.max(speed), da.reduce.max(functools.reduce(np.maximum, changes))

    arrays = [f"{name}_{when}" for when in ("now", "start", "new") for name, _ in layout]
    if equation.derived:
        arrays += [equation.derived, f"{equation.derived}_new"]
    return _kernel(stage, arrays, ["keep", "dt", "time", "last"], equation, ndim)


@functools.cache
def speed_kernel(equation: Equation, layout: Layout, ndim: int) -> Any:
    """The kernel that returns the largest `speed` of the fields, and writes the derived array, if
    there is one. Called with the fields, that and the equation's arrays. Local.
    """

    def speed(*given: Symbol, **numbers: Symbol) -> Any:
        values = [u[...] for u in _components(given[: len(layout)], layout)]
        rest = given[len(layout) :]
        cell = _cell(equation, rest, {**numbers, "dt": 0.0}, ndim)
        if equation.derived:
            _keep(rest[0], equation.derive(values, cell))
        return da.reduce.max(equation.speed(values, cell))

    arrays = [name for name, _ in layout]
    if equation.derived:
        arrays.append(equation.derived)
    return _kernel(speed, arrays, ["time"], equation, ndim)


def _keep(array: Symbol, values: Symbols) -> None:
    """Write values to the components of an array."""
    for c, value in enumerate(values):
        array[c][...] = value


def _components(group: Symbols, layout: Layout) -> list[Symbol]:
    found: list[Symbol] = []
    for u, (_, count) in zip(group, layout, strict=True):
        found += [u[c] for c in range(count)] if count else [u]
    return found


def _given(equation: Equation) -> tuple[str, ...]:
    """Names of the arrays that kernels read besides the state."""
    return (equation.derived, *equation.arrays) if equation.derived else equation.arrays


def _cell(equation: Equation, arrays: Symbols, numbers: Mapping[str, Symbol], ndim: int) -> Cell:
    return Cell(
        reciprocals=[numbers[f"r{axis}"] for axis in AXES[:ndim]],
        time=numbers["time"],
        dt=numbers["dt"],
        arrays=dict(zip(_given(equation), arrays, strict=True)),
        scalars={name: numbers[name] for name in equation.scalars},
    )


def _kernel(
    body: Callable[..., Any],
    arrays: Sequence[str],
    scalars: Sequence[str],
    equation: Equation,
    ndim: int,
) -> Any:
    """A kernel whose parameters are named here, as many as the equation has."""
    keywords = [*scalars, *(f"r{axis}" for axis in AXES[:ndim]), *equation.scalars]
    kinds = inspect.Parameter
    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in [*arrays, *equation.arrays]]
        + [kinds(n, kinds.KEYWORD_ONLY) for n in keywords]
    )
    body.__name__ = body.__qualname__ = f"{type(equation).__name__.lower()}_{body.__name__}"
    return da.stencil(static=("last",) if "last" in scalars else ())(body)
