"""What equations on uniform boxes of cells have in common: a frozen description, checked when it is
made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import distarray as da
from solvers.hyperbolic.kernels import AXES
from solvers.hyperbolic.reconstruction import Reconstruction, reconstruction
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
        if not 1 <= self.ndim <= len(AXES):
            raise da.SolverError(
                f"A box has one to three axes, received cells={self.cells}; give one number for "
                "each axis."
            )
        if self.dtype not in ("float64", "float32"):
            raise da.SolverError(
                f"Values are of type float64 or float32, received dtype={self.dtype!r}; choose one."
            )
        require_courant(self.courant, self.limit)

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        one = self.periodic
        return (one,) * self.ndim if isinstance(one, bool) else tuple(one)

    @property
    def values(self) -> Reconstruction:
        """How values on faces are found."""
        return reconstruction(self.scheme, self.limiter)

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
        return self.values.reach

    @property
    def conditions(self) -> dict[str, Any]:
        """The condition of every side that has one."""
        return self.completed(self.boundary)

    def completed(self, boundary: Mapping[str, Any]) -> dict[str, Any]:
        """These conditions, and `da.Outflow` on the sides that are left."""
        named = dict(boundary)
        for axis, wraps in zip(AXES, self.periodic_axes, strict=False):
            for side in () if wraps or axis in named else (axis + "-", axis + "+"):
                named.setdefault(side, da.Outflow())
        return named

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


def require_numbers(what: str, values: Sequence[Any], count: int) -> None:
    """An error unless there are so many values, each a function or a finite number. Local."""
    if len(values) != count:
        raise da.SolverError(
            f"{what} has one entry for each of {count}, received {len(values)}; give {count}."
        )
    for value in values:
        if not callable(value) and not (isinstance(value, int | float) and math.isfinite(value)):
            raise da.SolverError(
                f"{what} is a finite number or a function of the coordinates, received {value!r}; "
                "give one of these."
            )


def field_of(grid: da.Grid, value: Any, **options: Any) -> da.DistArray:
    """An array with a value everywhere, or with those of a function of the coordinates. Collective.

    Raises
    ------
    SolverError
        A value is not finite.
    """
    found = grid.from_function(value, **options) if callable(value) else grid.full(value, **options)
    if not np.isfinite(found).all():
        name = options.get("name") or "a field"
        raise da.SolverError(
            f"The values of {name} are finite, received some that are not; change its function."
        )
    return found
