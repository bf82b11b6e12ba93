"""The model of Smagorinsky for the stresses of eddies smaller than the cells.

Smagorinsky, J. (1963) Mon. Weather Rev. 91(3), 99-164: `nu_t = (Cs D)^2 |S|` with the strain rate
`S_ij = (du_i/dx_j + du_j/dx_i) / 2`, `|S| = sqrt(2 S_ij S_ij)` and the filter width D, the cube
root of a cell's volume (with two axes its square root). Near walls D may be damped by the factor of
van Driest, E. R. (1956) J. Aeronaut. Sci. 23(11), 1007-1011, `1 - exp(-y+ / A)`.

nu_t lies in the cells, on edges it is the mean of the four cells around. A step uses the nu_t of
the velocity at its start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.box import is_number, shown
from solvers.incompressible.advection import at
from solvers.incompressible.metrics import (
    AXES,
    Metrics,
    Symbol,
    Symbols,
    Widths,
    per_axis,
    side_names,
)
from solvers.incompressible.parts import Limit, Part, Stage, Velocity


@dataclass(frozen=True)
class Smagorinsky:
    """What the model is made of.

    Parameters
    ----------
    constant : float
        Cs, usually 0.1 in channels and 0.17 in isotropic turbulence.
    friction_velocity : float, optional
        With it D is damped near walls.
    damping : float
        A of van Driest.

    Raises
    ------
    SolverError
        What is given is no number, or a negative one.
    """

    constant: float = 0.1
    friction_velocity: float | None = None
    damping: float = 25.0

    def __post_init__(self) -> None:
        numbers = is_number(self.constant) and is_number(self.damping)
        if not (numbers and self.constant >= 0.0 and self.damping > 0.0):
            raise da.SolverError(
                f"The model of Smagorinsky takes constants that are not negative, received "
                f"constant={shown(self.constant)}, damping={shown(self.damping)}; 0.1 and 25 are "
                "usual."
            )
        speed = self.friction_velocity
        if speed is not None and not (is_number(speed) and speed > 0.0):
            raise da.SolverError(
                f"A friction velocity is above 0, received {shown(speed)}; leave it out for no "
                "damping."
            )


class EddyViscosity(Part):
    """The model in one flow. Collective.

    Parameters
    ----------
    model : Smagorinsky
    config : with `viscosity` and `sides`; walls are the sides that are no inflow, outflow or slip
    grid : Grid

    Attributes
    ----------
    viscosity : DistArray, float64, in the cells
        nu_t of the velocity at the start of the last step.
    """

    measured = 1

    def __init__(self, model: Smagorinsky, config: Any, grid: da.Grid) -> None:
        sides = dict.fromkeys(side_names(grid.periodic), da.Neumann(0.0))
        self.viscosity = grid.zeros(boundary=sides, name="nu_t")
        self.fields = {"nu_t": self.viscosity}
        self._length = grid.from_function(_mixing_length(model, config, grid))
        metrics = Metrics(grid)
        self._eddies, self._stress = metrics.bind(eddies), metrics.bind(stress)

    def begin(self, velocity: Velocity, *, time: float, dt: float) -> None:
        self._eddies(*velocity, self._length, self.viscosity, time=time)

    def push(self, now: Velocity, new: Velocity, stage: Stage, *, scale: float) -> None:
        for axis, u in enumerate(new):
            self._stress(*now, self.viscosity, u, axis=axis, scale=scale, time=stage.time)

    def rates(self) -> list[Any]:
        return [largest(self.viscosity)]

    def limit(self, values: Sequence[float]) -> Limit:
        # 2 S holds each diagonal derivative twice.
        return Limit(viscosity=2.0 * values[0])

    def scalars(self) -> dict[str, float]:
        return {"eddy_viscosity": float(self.viscosity.max())}


@per_axis("velocity")
def eddies(velocity: Symbols, length: Symbol, out: Symbol, widths: Widths) -> None:
    """`out = length^2 |S|` in the cells."""
    out[...] = length[...] * length[...] * np.sqrt(2.0 * _strain_squared(velocity, widths))


@per_axis("velocity", static=("axis",))
def stress(
    velocity: Symbols, eddy: Symbol, new: Symbol, widths: Widths, *, axis: int, scale: Symbol
) -> None:
    """`new += scale d(nu_t (du_i/dx_j + du_j/dx_i))/dx_j` for the component of an axis."""
    rate: Any = 0.0
    for j in range(len(velocity)):
        if j == axis:
            low, high = (
                2.0 * eddy.shift(axis, n) * widths.cell(axis, n)
                * (velocity[axis].shift(axis, n + 1) - velocity[axis].shift(axis, n))
                for n in (-1, 0)
            )  # fmt: skip
            rate = rate + widths.point(axis) * (high - low)
        else:
            low, high = (
                _on_edge(eddy, axis, j, n, widths)
                * 2.0
                * _shear(velocity, (axis, 0), (j, n), widths)
                for n in (0, 1)
            )
            rate = rate + widths.cell(j) * (high - low)
    new[...] = new[...] + scale * rate


@da.stencil
def largest(eddy: Symbol) -> Any:
    """Largest nu_t."""
    return da.reduce.max(eddy[...])


def _strain_squared(velocity: Symbols, widths: Widths) -> Symbol:
    """S_ij S_ij in a cell; squares of the shear are means over the four edges around."""
    total: Any = 0.0
    for i, u in enumerate(velocity):
        normal = widths.cell(i) * (u.shift(i, 1) - u[...])
        total = total + normal * normal
        for j in range(i):
            shears = [_shear(velocity, (i, m), (j, n), widths) for n in (0, 1) for m in (0, 1)]
            # S_ij and S_ji, a quarter of the four squares each.
            total = total + 0.5 * sum(s * s for s in shears)
    return total


def _shear(
    velocity: Symbols, one: tuple[int, int], other: tuple[int, int], widths: Widths
) -> Symbol:
    """S_ij on the edge of a cell at point m along i and point n along j: (i, m), (j, n)."""
    (i, m), (j, n), ndim = one, other, len(velocity)
    u, v = velocity[i], velocity[j]
    across = at(u, ndim, (i, m), (j, n)) - at(u, ndim, (i, m), (j, n - 1))
    along = at(v, ndim, (j, n), (i, m)) - at(v, ndim, (j, n), (i, m - 1))
    return 0.5 * (across * widths.point(j, n) + along * widths.point(i, m))


def _on_edge(eddy: Symbol, i: int, j: int, n: int, widths: Widths) -> Symbol:
    """nu_t on the edge at the point here along i and point n along j."""
    ndim = eddy.ndim
    sums = [0.5 * (at(eddy, ndim, (i, k), (j, n - 1)) + at(eddy, ndim, (i, k), (j, n)))
            for k in (-1, 0)]  # fmt: skip
    return widths.between(i, *sums)


def _mixing_length(model: Smagorinsky, config: Any, grid: da.Grid) -> Callable[..., Any]:
    """Cs D as a function of the position of cells."""
    walls = [side for side in config.sides if not _passes(config, side)]

    def length(*coords: Any) -> Any:
        volume = math.prod(_widths(grid, axis, x) for axis, x in enumerate(coords))
        found = model.constant * volume ** (1.0 / grid.ndim)
        if model.friction_velocity is None or not walls:
            return found
        nearest = np.inf
        for side in walls:
            axis = AXES.index(side[0])
            bound = grid.bounds[axis][side[1] == "+"]
            nearest = np.minimum(nearest, abs(coords[axis] - bound))
        plus = nearest * model.friction_velocity / config.viscosity
        return found * -np.expm1(-plus / model.damping)

    return length


def _widths(grid: da.Grid, axis: int, centres: Any) -> Any:
    """Widths of the cells with these centres along an axis, in their shape."""
    along = grid.geometry[axis]
    index = np.arange(grid.shape[axis])
    found = np.searchsorted(along.point_positions(index), centres, side="right") - 1
    return along.widths(found)


def _passes(config: Any, side: str) -> bool:
    return any(side in getattr(config, kind) for kind in ("inflow", "outflow", "slip"))
