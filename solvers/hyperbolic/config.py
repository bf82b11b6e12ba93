"""What equations on uniform boxes of cells have in common: a frozen description, checked when it is
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import distarray as da
from solvers.box import (
    Field,
    field_of,
    per_axis,
    require_box,
    require_cells,
    require_choice,
    side_names,
)
from solvers.hyperbolic.reconstruction import reconstruction
from solvers.hyperbolic.solver import require_courant
from solvers.hyperbolic.stability import USUAL, courant_limit


@dataclass(frozen=True, kw_only=True)
class BoxConfig:
    """A box of cells and how an equation is solved on it.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, one to three axes.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    boundary : mapping of side to condition
        `da.Dirichlet`, `da.Neumann`, ..., for "x", "x-", "x+", "y", ...; of sides that are neither
        periodic nor named, `da.Outflow`.
    scheme : str
        Values on faces, see `solvers.hyperbolic.reconstruction`.
    limiter : str
        Slopes of "muscl", see `solvers.hyperbolic.limiters`.
    integrator : str
        "euler", "ssp_rk2" or "ssp_rk3"; "auto" takes what goes with the scheme.
    courant : float
        Courant number of automatic time steps, see `solvers.hyperbolic.stability`.
    dtype : "float64" or "float32"
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    bounds: tuple[tuple[float, float], ...] | None = None
    periodic: bool | tuple[bool, ...] = True
    boundary: Mapping[str, Any] = field(default_factory=dict)
    scheme: str = "muscl"
    limiter: str = "van_leer"
    integrator: str = "auto"
    courant: float = 0.4
    dtype: Literal["float64", "float32"] = "float64"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells)
        require_box(self.periodic, self.bounds or ((0.0, 1.0),) * self.ndim, self.ndim)
        require_choice("dtype", self.dtype, ("float64", "float32"))
        require_courant(self.courant, self.limit)

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        return per_axis(self.periodic, self.ndim)

    @property
    def integrator_name(self) -> str:
        """The integrator, if "auto" the usual one."""
        return USUAL.get(self.scheme, "euler") if self.integrator == "auto" else self.integrator

    @property
    def limit(self) -> float:
        """The largest Courant number of a time step."""
        return courant_limit(self.scheme, self.limiter, self.integrator_name)

    @property
    def reach(self) -> int:
        """Cells on each side that a step of Euler reads."""
        return reconstruction(self.scheme, self.limiter).reach

    @property
    def conditions(self) -> dict[str, Any]:
        """The condition of every side that has one."""
        return self.completed(self.boundary)

    def completed(self, boundary: Mapping[str, Any]) -> dict[str, Any]:
        """These conditions, and `da.Outflow` on the sides that are left."""
        whole = {side for side in side_names(self.periodic_axes) if side[0] in boundary}
        sides = [side for side in side_names(self.periodic_axes) if side not in whole]
        return {**dict.fromkeys(sides, da.Outflow()), **boundary}

    def grid(self, comm: Any = None, device: str = "auto") -> da.Grid:
        """The cells, spread over ranks. Collective."""
        return da.Grid(
            self.cells,
            bounds=self.bounds,
            periodic=self.periodic_axes,
            halo=self.reach,
            ranks=self.ranks,
            comm=comm,
            device=device,
        )


def finite_field(grid: da.Grid, value: Field, **options: Any) -> da.DistArray:
    """An array with these values. Collective.

    Raises
    ------
    SolverError
        A value is not finite.
    """
    found = field_of(grid, value, **options)
    if not np.isfinite(found).all():
        raise da.SolverError(
            f"The values of '{options['name']}' are finite, received some that are not; change "
            "their function."
        )
    return found
