"""The sides of the box: the conditions of each component, and what flows through. Functions are
Local.

The flow through sides with a given velocity is summed over the whole side by every rank alike, from
the values that the conditions give to the points there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.metrics import AXES

#: Shares of a time at which functions are looked at in advance.
LOOKS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: A net flow below this share of what flows through the sides is round-off.
_ROUND_OFF = 1e-12


def place(side: str) -> tuple[int, bool]:
    """The axis that a side is normal to, and whether it is the high one."""
    return AXES.index(side[0]), side[1] == "+"


def still(config: IncompressibleConfig, axis: int) -> dict[str, da.Condition]:
    """The homogeneous conditions of the component of an axis: those of its change in time where
    the velocity of the sides is constant.
    """
    return {
        side: da.Neumann(0.0) if sheds(config, side, axis) else da.Dirichlet(0.0)
        for side in config.sides
    }


def sheds(config: IncompressibleConfig, side: str, axis: int) -> bool:
    """Whether a component has no normal derivative at a side."""
    return side in (*config.outflow, *config.slip) and place(side)[0] != axis


class Sides:
    """The sides of one flow. Collective.

    Attributes
    ----------
    areas : dict of side to float
        Of the sides that the flow passes.
    varies : bool
        Whether a velocity is given by a function.

    Raises
    ------
    SolverError
        What enters cannot leave.
    """

    def __init__(self, config: IncompressibleConfig, grid: da.Grid) -> None:
        self._config, self._grid = config, grid
        self._given = {side: velocity[place(side)[0]] for side, velocity in config.inflow.items()}
        self.areas = {side: self._area(side) for side in (*config.inflow, *config.outflow)}
        self.varies = any(callable(v) for given in config.moving.values() for v in given)
        # Normal velocities that may be corrected: functions, whose means over faces are not exact.
        self._corrected = {s for s, v in self._given.items() if callable(v)}
        if config.outflow:
            self._corrected = set()
        elif not self._corrected:
            self._require_balance()
        self.entering = functools.lru_cache(maxsize=8)(self._entering)

    def conditions(self, axis: int) -> dict[str, da.Condition]:
        """The conditions of the component of an axis."""
        found = still(self._config, axis)
        for side, velocity in self._config.moving.items():
            value = velocity[axis]
            if place(side)[0] == axis and side in self._corrected:
                value = self._balanced(side, value)
            found[side] = da.Dirichlet(value)
        for side in self._config.outflow:
            if place(side)[0] == axis:
                found[side] = da.Outflow()  # leaves the points on the side to `outflow`
        return found

    def largest(self, axis: int, time: float, ahead: float = 0.0) -> float:
        """Largest magnitude of the given velocities along an axis at a time and, of functions, at
        some times until `ahead` later. Local, and the same on all ranks: the fluid at rest is about
        to be dragged along.
        """
        times = [time + share * ahead for share in LOOKS] if ahead else [time]
        return max(
            (
                float(np.max(abs(self._values(side, axis, velocity[axis], t))))
                for side, velocity in self._config.moving.items()
                for t in (times if callable(velocity[axis]) else times[:1])
            ),
            default=0.0,
        )

    def _entering(self, time: float) -> float:
        """Volume per time that enters by the given velocities."""
        return math.fsum(self._inward(side, value, time) for side, value in self._given.items())

    def _require_balance(self) -> None:
        flows = [self._inward(side, value, 0.0) for side, value in self._given.items()]
        if abs(math.fsum(flows)) > _ROUND_OFF * math.fsum(map(abs, flows)):
            raise da.SolverError(
                f"What enters a box must leave it, received a net inflow of {math.fsum(flows):g} "
                f"through {', '.join(self._given)}; name a side in 'outflow', or change the "
                f"velocities."
            )

    def _balanced(self, side: str, value: Any) -> Callable[..., Any]:
        """The normal velocity at a side, without its share of the net flow into the closed box."""
        outward = 1.0 if place(side)[1] else -1.0
        area = math.fsum(self.areas[name] for name in self._corrected)

        @functools.wraps(value)
        def corrected(t: float, *coords: Any) -> Any:
            return value(t, *coords) + outward * self.entering(t) / area

        return corrected

    def _inward(self, side: str, value: Any, time: float) -> float:
        """Volume per time that a normal velocity carries in through a side."""
        axis, high = place(side)
        values = self._values(side, axis, value, time)
        for a, widths in enumerate(self._widths()):
            if a != axis:
                values = values * _along(widths, a, self._config.ndim)
        return (-1.0 if high else 1.0) * float(np.sum(values))

    def _area(self, side: str) -> float:
        return abs(self._inward(side, 1.0, 0.0))

    def _widths(self) -> list[Any]:
        cells = self._grid.shape
        return [g.widths(np.arange(n)) for g, n in zip(self._grid.geometry, cells, strict=True)]

    def _values(self, side: str, axis: int, value: Any, time: float) -> Any:
        """A velocity along `axis` at the points of a whole side, float64."""
        normal, high = place(side)
        coords, shape = [], []
        for a, geometry in enumerate(self._grid.geometry):
            staggered = a == axis
            count = self._grid.shape[a] + (staggered and not self._grid.periodic[a])
            positions = geometry.positions(np.arange(count), staggered)
            if a == normal:
                positions = np.array([self._grid.bounds[a][high]])
            coords.append(_along(positions, a, self._config.ndim))
            shape.append(len(positions))
        values = np.asarray(value(time, *coords) if callable(value) else value, np.float64)
        try:
            return np.broadcast_to(values, shape)
        except ValueError:
            raise da.SolverError(
                f"A velocity of a side has one value or one per point, received the shape "
                f"{values.shape} for {tuple(shape)} points of '{side}'; return such an array."
            ) from None


def _along(values: Any, axis: int, ndim: int) -> Any:
    """A 1-D array turned along an axis."""
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))
