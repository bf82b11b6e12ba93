"""The sides of a box of gas: walls, inflow, outflow, and two of them on one side. Immutable
descriptions, and the conditions that they make of the primitive variables.

A condition fills the layers of cells beyond a side by a kernel. Values that a user gives as
functions are traced into it: they are called with the time and the coordinates of the layer's
cells, and may use what kernels may, NumPy functions and `da.where`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.euler.gas import State, Symbol

AXES = "xyz"
#: A number, or a function f(t, x[, y[, z]]).
Value = float | Callable[..., Any]
#: Pressures and temperatures in layers stay above this share of what they are mirrored from.
_LEAST = 0.1


@dataclass(frozen=True)
class Wall:
    """A wall, or a plane of symmetry. Sides that are not named are walls at rest.

    Parameters
    ----------
    velocity : tuple of (number or function f(t, x[, y[, z]])), optional
        One entry per axis; at rest by default. The normal entry makes a piston whose stroke is
        small beside a cell. The others drag a viscous gas along.
    temperature : number or function, optional
        p / rho of the wall; by default no heat passes. For a viscous gas alone.
    slip : bool
        No stress along the wall, for a viscous gas: a plane of symmetry.
    """

    velocity: tuple[Value, ...] | None = None
    temperature: Value | None = None
    slip: bool = False


@dataclass(frozen=True)
class Inflow:
    """Beyond the side is gas of a given state: density, velocities, pressure, each a number or a
    function f(t, x[, y[, z]]). All of it enters if it flows faster than sound, else what the waves
    at the side let in.
    """

    state: tuple[Value, ...]


@dataclass(frozen=True)
class Outflow:
    """The gas beyond the side is that at the side: waves leave."""


@dataclass(frozen=True)
class Split:
    """A side that is of one kind where `mask(t, x[, y[, z]])` holds, and of another elsewhere."""

    mask: Callable[..., Any]
    first: Wall | Inflow | Outflow
    second: Wall | Inflow | Outflow


Side = Wall | Inflow | Outflow | Split


@dataclass(frozen=True)
class Layers:
    """What a layer of cells beyond a side knows while its kernel is traced.

    Attributes
    ----------
    axis : int
        Of the normal of the side.
    inside : function
        The primitive state of the k-th cell inside, from 1.
    layer : symbol
        Number of this layer, from 1.
    reach : int
        Number of layers.
    place : sequence of symbols
        The time and the coordinates.
    viscous : bool
    pull : symbol
        What gravity adds to the pressure from a cell to the next one outward, per density.
    """

    axis: int
    inside: Callable[[int], State]
    layer: Symbol
    reach: int
    place: Sequence[Symbol]
    viscous: bool
    pull: float

    def fill(self, side: Side) -> State:
        """The primitive state in the layer."""
        if isinstance(side, Split):
            mask = side.mask(*self.place)
            pairs = zip(self.fill(side.first), self.fill(side.second), strict=True)
            return [da.where(mask, a, b) for a, b in pairs]
        if isinstance(side, Inflow):
            return [self._value(value) for value in side.state]
        return self._wall(side) if isinstance(side, Wall) else self.inside(1)

    def _wall(self, wall: Wall) -> State:
        rho, *u, p = self._image()
        sticky = self.viscous and not wall.slip
        given = wall.velocity or (0.0,) * len(u)
        for axis in range(len(u)):
            if axis == self.axis or sticky:
                still = not callable(given[axis]) and given[axis] == 0.0
                u[axis] = -u[axis] if still else 2.0 * self._value(given[axis]) - u[axis]
        if self.pull:
            p = np.maximum(p + (2.0 * self.layer - 1.0) * (self.pull * rho), _LEAST * p)
        if wall.temperature is not None:
            here, there = p / rho, self._value(wall.temperature)
            rho = p / np.maximum(2.0 * there - here, _LEAST * there)
        return [rho, *u, p]

    def _image(self) -> list[Symbol]:
        """The state as far inside as the layer is outside."""
        found = list(self.inside(self.reach))
        for k in range(self.reach - 1, 0, -1):
            pairs = zip(self.inside(k), found, strict=True)
            found = [da.where(self.layer == k, a, b) for a, b in pairs]
        return found

    def _value(self, value: Value) -> Symbol:
        return value(*self.place) if callable(value) else value


def condition(
    side: Side, name: str, grid: da.Grid, *, reach: int, viscous: bool, gravity: Sequence[float]
) -> da.Condition:
    """The condition of the primitive variables at a side such as "x-". Local."""
    axis, high, ndim = AXES.index(name[0]), name[1] == "+", grid.ndim
    cells, h = grid.shape[axis], grid.spacing[axis] or 0.0
    pull = (gravity[axis] if high else -gravity[axis]) * h

    def fill(w: Symbol, *, time: Symbol) -> None:
        def inside(k: int) -> State:
            offset = tuple(k * (a == axis) for a in range(ndim))
            return [w[c][offset] for c in range(ndim + 2)]

        number = da.index(axis) - (cells - 1) if high else -da.index(axis)
        place = (time, *(da.coordinate(a) for a in range(ndim)))
        layers = Layers(axis, inside, number, reach, place, viscous, pull)
        for c, value in enumerate(layers.fill(side)):
            w[c][...] = value

    return da.Custom(fill)
