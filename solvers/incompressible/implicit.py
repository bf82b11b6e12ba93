"""Viscosity by the trapezoidal rule, solved line by line.

With d the change of a component in a step and L_j the second difference along axis j with the
homogeneous conditions of the sides,

    (1 - s L_1) (1 - s L_2) [(1 - s L_3)] d = r,  s = nu dt / 2,

stands for (1 - s lap) d = r (Kim, J., Moin, P. (1985) J. Comput. Phys. 59(2), 308-323). What the
factors add in a step is of third order in dt, they are stable for every dt, and where r = 0 they
leave a steady state alone. Lines are solved by elimination on the host, each for itself, so that
their bits do not depend on how many are solved together.
"""

from __future__ import annotations

import functools

import numpy as np

import distarray as da
from solvers.incompressible import kernels
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.metrics import AXES, Floats, Metrics, reciprocals
from solvers.incompressible.parts import Velocity
from solvers.incompressible.sides import sheds


class ImplicitViscosity:
    """The implicit half of the viscous term for one flow. Collective."""

    def __init__(self, config: IncompressibleConfig, grid: da.Grid, metrics: Metrics) -> None:
        self._viscosity = config.viscosity
        self._diffuse = metrics.bind(kernels.diffuse)
        self._changes = [grid.zeros(location=AXES[axis]) for axis in range(config.ndim)]
        self._rows = [
            [Rows(config, grid, axis, along) for along in range(config.ndim)]
            for axis in range(config.ndim)
        ]

    def diffuse(self, now: Velocity, new: Velocity, *, dt: float, time: float) -> None:
        """Add to `new` the other half of the viscous term of `now`, with the velocities that the
        sides have at a time. Collective.
        """
        for axis, (old, star) in enumerate(zip(now, new, strict=True)):
            self._diffuse(old, star, axis=axis, scale=0.5 * self._viscosity * dt, time=time)

    def solve(self, axis: int, now: da.DistArray, new: da.DistArray, *, dt: float) -> None:
        """Make of `new`, which holds an explicit step from `now`, the implicit one. Collective."""
        scale = 0.5 * self._viscosity * dt
        change = self._changes[axis]
        kernels.subtract(new, now, change)
        steps = [
            (along, functools.partial(_solved, rows.factored(scale), along))
            for along, rows in enumerate(self._rows[axis])
        ]
        da.map_lines(change, steps, out=change)
        kernels.add(now, change, new)


def _solved(factors: Factors, along: int, block: Floats, where: tuple[slice, ...]) -> Floats:
    """The solutions of lines along an axis of a block."""
    return factors.solve(block, along)


class Rows:
    """Minus the second difference along one axis of the component of another, as rows of a matrix
    with three diagonals. Local.
    """

    def __init__(
        self, config: IncompressibleConfig, grid: da.Grid, component: int, along: int
    ) -> None:
        self._periodic = grid.periodic[along]
        make = self._of_points if component == along else self._of_centres
        self._low, self._middle, self._high = make(*reciprocals(grid, along))
        for end, name in ((0, AXES[along] + "-"), (-1, AXES[along] + "+")):
            if component != along and not self._periodic:
                # What lies beyond a side is the value inside, or minus it.
                outer = (self._low, self._high)[end]
                self._middle[end] += -outer[end] if sheds(config, name, component) else outer[end]
                outer[end] = 0.0
        self._fixed = [
            component == along
            and not self._periodic
            and f"{AXES[along]}{side}" not in config.outflow
            for side in "-+"
        ]
        self._kept: tuple[float, Factors] | None = None

    def _of_points(self, cell: Floats, point: Floats) -> tuple[Floats, Floats, Floats]:
        """Diagonals for points, whose ends are given on an axis that is not periodic."""
        if self._periodic:
            low, high = point * np.roll(cell, 1), point * cell
        else:
            low, high = point * np.pad(cell, (1, 0)), point * np.pad(cell, (0, 1))
            low[-1] = high[0] = 0.0
        return low, low + high, high

    def _of_centres(self, cell: Floats, point: Floats) -> tuple[Floats, Floats, Floats]:
        """Diagonals for centres of cells."""
        low, high = cell * point[: len(cell)], cell * np.roll(point, -1)[: len(cell)]
        return low, low + high, high

    def factored(self, scale: float) -> Factors:
        """The factors of 1 + scale times these rows, kept for the next call."""
        if self._kept is None or self._kept[0] != scale:
            rows = (-scale * self._low, 1.0 + scale * self._middle, -scale * self._high)
            self._kept = scale, Factors(*rows, periodic=self._periodic, fixed=self._fixed)
        return self._kept[1]


class Factors:
    """The elimination of a matrix with diagonals `low`, `middle` and `high`, which dominates its
    diagonal. Local.

    On a periodic axis the matrix is A + (g, 0, ..., high[-1])^T (1, 0, ..., low[0] / g) with A of
    three diagonals and g = -middle[0] (Sherman, J., Morrison, W. J. (1950) Ann. Math. Stat. 21(1),
    124-127). `fixed` says which ends have the solution zero whatever the right-hand side is.
    """

    def __init__(
        self, low: Floats, middle: Floats, high: Floats, *, periodic: bool, fixed: list[bool]
    ) -> None:
        self._fixed, self._corner = fixed, 0.0
        low, middle, high = low.copy(), middle.copy(), high.copy()
        count = len(middle)
        closing = np.zeros(count)
        if periodic and count < 3:  # both neighbours are one point
            joined = low + high
            low, high = joined.copy(), joined.copy()
            middle += joined * (count == 1)
        elif periodic:
            shift = -middle[0]
            self._corner = low[0] / shift
            closing[0], closing[-1] = shift, high[-1]
            middle[0] -= shift
            middle[-1] -= high[-1] * self._corner
        self._factor, self._pivot, self._high = np.zeros(count), middle, high
        for i in range(1, count):
            self._factor[i] = low[i] / middle[i - 1]
            middle[i] -= self._factor[i] * high[i - 1]
        self._closing = self._eliminate(closing) if self._corner else closing
        self._share = 1.0 / (1.0 + self._closing[0] + self._corner * self._closing[-1])

    def solve(self, block: Floats, axis: int) -> Floats:
        """Solutions for right-hand sides along an axis of a block."""
        with np.errstate(all="ignore"):  # a state that is no longer finite is for others to notice
            x = np.array(np.moveaxis(block, axis, 0), order="C")
            for end, fixed in zip((0, -1), self._fixed, strict=True):
                if fixed:
                    x[end] = 0.0
            self._eliminate(x)
            if self._corner:
                x -= np.multiply.outer(self._closing, self._share * (x[0] + self._corner * x[-1]))
        return np.moveaxis(x, 0, axis)

    def _eliminate(self, x: Floats) -> Floats:
        """Solve for right-hand sides along the first axis, in place."""
        count = len(self._pivot)
        for i in range(1, count):
            x[i] -= self._factor[i] * x[i - 1]
        x[-1] /= self._pivot[-1]
        for i in range(count - 2, -1, -1):
            x[i] -= self._high[i] * x[i + 1]
            x[i] /= self._pivot[i]
        return x
