"""The Euler and Navier-Stokes equations as one cell sees them, for any number of axes.

The state is density, momentum and energy. Kernels read its primitive variables around each cell,
one array w with components (rho, u_0, ..., p), and compute the flux of each face as one text
shifted along its axis.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import distarray as da
from solvers.euler import gas
from solvers.euler.faces import Cells, inviscid
from solvers.euler.gas import State, Symbol
from solvers.euler.mirror import around_walls, mirrored
from solvers.euler.scheme import Scheme
from solvers.euler.viscous import Around, viscous
from solvers.hyperbolic import Cell, Equation, moved, total

AXES = "xyz"


@dataclass(frozen=True)
class Gas(Equation):
    """An ideal gas.

    Its scalars are gamma; mu, the viscosity, and conductivity, that of heat, where it is viscous;
    gx, gy, gz, what gravity accelerates by, where there is gravity. Its array `solid` is above 0 in
    solid cells, where there are obstacles.
    """

    ndim: int
    scheme: Scheme
    derived = "w"

    @property
    def arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("solid",) if self.scheme.obstacles else ()

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]
        names = ["gamma"]
        if self.scheme.viscous:
            names += ["mu", "conductivity"]
        if self.scheme.gravity:
            names += [f"g{axis}" for axis in AXES[: self.ndim]]
        return tuple(names)

    def rate(self, now: State, cell: Cell) -> State:
        """What flows in, and the sources."""
        leaving = cell.divergence(lambda axis, n: self._through(cell, axis, n))
        if self.scheme.gravity:
            leaving = [a - b for a, b in zip(leaving, self._weight(cell), strict=True)]
        if self.scheme.obstacles:
            solid = cell.arrays["solid"][...] > 0.0
            leaving = [da.where(solid, 0.0, value) for value in leaving]
        return [-value for value in leaving]

    def derive(self, values: State, cell: Cell) -> State:
        """Primitive variables."""
        return gas.primitive(values, cell.scalars["gamma"])

    def speed(self, values: State, cell: Cell) -> Symbol:
        """How many cells waves and diffusion cross per time, summed over the axes; NaN where
        density or pressure is not positive. Where they are kept positive, the largest over one axis
        times the number of axes.
        """
        state = self.derive(values, cell)
        c = gas.sound_speed(state, cell.scalars["gamma"])
        rates = zip(gas.velocity(state), cell.reciprocals, strict=True)
        speeds = [(abs(u) + c) * r for u, r in rates]
        if self.scheme.positivity:
            found = self.ndim * functools.reduce(np.maximum, speeds)
        else:
            found = total(speeds)
        if self.scheme.viscous:
            found = found + self._diffusion(state[0], cell)
        return da.where(np.minimum(state[0], state[-1]) > 0.0, found, math.nan)

    def _diffusion(self, rho: Symbol, cell: Cell) -> Symbol:
        """What the largest diffusivity adds: of a stretched fluid, or of heat."""
        mu, conductivity = cell.scalars["mu"], cell.scalars["conductivity"]
        largest = np.maximum(4.0 / 3.0 * mu, conductivity * (cell.scalars["gamma"] - 1.0))
        squares = total([r * r for r in cell.reciprocals])
        return 2.0 * squares * largest / rho

    def _weight(self, cell: Cell) -> list[Symbol]:
        """What gravity does to mass, momentum and energy."""
        w = cell.arrays["w"]
        forces = [w[0][...] * cell.scalars[f"g{axis}"] for axis in AXES[: self.ndim]]
        return [0.0, *forces, gas.dot(forces, [w[1 + axis][...] for axis in range(self.ndim)])]

    def _through(self, cell: Cell, axis: int, n: int) -> State:
        """The flux through the low side of the cell n further along an axis."""
        w, gamma = cell.arrays["w"], cell.scalars["gamma"]

        @functools.cache
        def cells(k: int) -> State:
            return [w[c].shift(axis, n + k) for c in range(self.ndim + 2)]

        def diagonal(offset: Sequence[int]) -> State:
            return [w[c][moved(offset, axis, n)] for c in range(self.ndim + 2)]

        seen: Cells = cells
        around: Around = diagonal
        if self.scheme.obstacles:
            seen, around = self._with_mirrors(cells, diagonal, cell, axis, n)
        # A cell is the mean of one part for each face.
        ratio = 2.0 * self.ndim * cell.dt * cell.reciprocals[axis]
        found = inviscid(seen, self.scheme, axis, gamma=gamma, ratio=ratio)
        if not self.scheme.viscous:
            return found

        friction = viscous(
            (seen(-1), seen(0)), around, axis, rates=cell.reciprocals,
            mu=cell.scalars["mu"], conductivity=cell.scalars["conductivity"],
        )  # fmt: skip
        return [a - b for a, b in zip(found, friction, strict=True)]

    def _with_mirrors(
        self, cells: Cells, around: Around, cell: Cell, axis: int, n: int
    ) -> tuple[Cells, Around]:
        """Cells along an axis and around a face of it, fluid being mirrored in solid ones."""
        turned = range(self.ndim) if self.scheme.viscous else (axis,)

        def image(state: State) -> State:
            return [-value if c - 1 in turned else value for c, value in enumerate(state)]

        def solid(offset: Sequence[int]) -> Symbol:
            return cell.arrays["solid"][moved(offset, axis, n)] > 0.0

        def along(k: int) -> Symbol:
            return solid(moved((0,) * self.ndim, axis, k))

        return (
            mirrored(cells, along, self.scheme.faces.reach, image),
            around_walls(around, solid, axis, image),
        )
