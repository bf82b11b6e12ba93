"""What an incompressible flow is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import distarray as da

AXES = "xyz"
#: A number, or a function of the coordinates (x, y[, z]).
Field = float | Callable[..., Any]
#: A number, or a function of the time and the coordinates (t, x, y[, z]) of the points of a wall.
WallValue = float | Callable[..., Any]


@dataclass(frozen=True)
class IncompressibleConfig:
    """Flow of constant density (taken as 1) in a box with walls or periodic axes.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, two or three axes.
    viscosity : float
        Kinematic viscosity, in length^2 / time.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    walls : mapping of side to velocity
        Sides are "x-", "x+", "y-", ...; the velocity has one entry per axis, each a number or,
        along the wall, a function f(t, x, y[, z]), whose values now count in the stable time step.
        The entry normal to the wall is 0. Walls not named are at rest.
    initial : tuple of (number or function f(x, y[, z])), optional
        Velocity at the start, one entry per axis; its divergence is removed. At rest by default.
    force : tuple of (number or function f(x, y[, z])), optional
        Steady body force per mass, one entry per axis.
    advection : "central" or "upwind"
        Second order and without numerical dissipation, or first order and always bounded.
    safety : float
        Share of the stable time step that `stable_dt` returns.
    measure_every : int
        Steps between two measurements of the speed and of the largest |du/dt|.
    ranks : tuple of int, optional
        Process grid. By default the first axis alone is cut as long as its blocks keep two cells,
        else all but the last axis.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    viscosity: float
    bounds: tuple[tuple[float, float], ...] | None = None
    periodic: bool | tuple[bool, ...] = False
    walls: Mapping[str, tuple[WallValue, ...]] = field(default_factory=dict)
    initial: tuple[Field, ...] | None = None
    force: tuple[Field, ...] | None = None
    advection: Literal["central", "upwind"] = "central"
    safety: float = 0.9
    measure_every: int = 20
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.cells, tuple) or len(self.cells) not in (2, 3):
            raise da.SolverError(
                f"A flow has two or three axes, received cells={self.cells}; give a tuple of two "
                f"or three numbers."
            )
        if not self.viscosity >= 0.0:
            raise da.SolverError(
                f"The viscosity is not negative, received {self.viscosity}; give 0 or more."
            )
        if self.advection not in ("central", "upwind"):
            raise da.SolverError(
                f"Advection is 'central' or 'upwind', received '{self.advection}'; "
                f"name one of them."
            )
        if not 0.0 < self.safety <= 1.0:
            raise da.SolverError(
                f"The safety factor lies in (0, 1], received {self.safety}; 0.9 is usual."
            )
        if self.measure_every < 1:
            raise da.SolverError(
                f"Measurements are at least 1 step apart, received {self.measure_every}; "
                f"give 1 or more."
            )
        if not isinstance(self.periodic, bool):
            self._check_components("periodic", self.periodic)
        for name in ("bounds", "initial", "force", "ranks"):
            self._check_components(name, getattr(self, name))
        for side, velocity in self.walls.items():
            self._check_wall(side, velocity)

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        return (
            (self.periodic,) * self.ndim
            if isinstance(self.periodic, bool)
            else tuple(self.periodic)
        )

    def wall(self, axis: int, side: str) -> tuple[WallValue, ...]:
        """Velocity of the wall at side "-" or "+" of an axis."""
        return self.walls.get(AXES[axis] + side, (0.0,) * self.ndim)

    def _check_components(self, name: str, values: tuple[Any, ...] | None) -> None:
        if values is not None and len(values) != self.ndim:
            raise da.SolverError(
                f"'{name}' has one entry per axis, received {len(values)} for {self.ndim} axes; "
                f"give {self.ndim}."
            )

    def _check_wall(self, side: str, velocity: tuple[WallValue, ...]) -> None:
        sides = [AXES[a] + s for a in range(self.ndim) if not self.periodic_axes[a] for s in "-+"]
        if side not in sides:
            raise da.SolverError(
                f"This box has the walls {', '.join(sides) or 'none'}, received '{side}'; "
                f"name one of these."
            )
        self._check_components(f"walls['{side}']", velocity)
        normal = velocity[AXES.index(side[0])]
        if callable(normal) or normal != 0.0:
            raise da.SolverError(
                f"A wall lets nothing through, received the normal velocity {normal} at '{side}'; "
                f"make that entry 0."
            )
