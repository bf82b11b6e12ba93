"""What equations on uniform boxes of cells have in common: a frozen description, checked when it is
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import distarray as da
from solvers.box import (
    DTYPES,
    Box,
    require_box,
    require_cells,
    require_choice,
    require_conditions,
)
from solvers.hyperbolic.integrators import INTEGRATORS
from solvers.hyperbolic.limiters import LIMITERS
from solvers.hyperbolic.reconstruction import RECONSTRUCTIONS, reconstruction
from solvers.hyperbolic.solver import require_courant
from solvers.hyperbolic.stability import USUAL, courant_limit


@dataclass(frozen=True, kw_only=True)
class BoxConfig(Box):
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
    courant : float, optional
        Courant number of automatic time steps, see `solvers.hyperbolic.stability`; 0.4 by default.
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
    courant: float | None = None
    dtype: Literal["float64", "float32"] = "float64"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells)
        require_box(self)
        self._require_boundary()
        for name, known in {
            "scheme": self.schemes(), "limiter": LIMITERS, "integrator": ("auto", *INTEGRATORS),
            "dtype": DTYPES,
        }.items():  # fmt: skip
            require_choice(name, getattr(self, name), known)
        require_courant(self.courant_number, self.limit)

    def _require_boundary(self) -> None:
        require_conditions("boundary", self.boundary, self)

    @staticmethod
    def schemes() -> tuple[str, ...]:
        """Names that `scheme` takes."""
        return RECONSTRUCTIONS

    @property
    def scheme_name(self) -> str:
        """The scheme, if "auto" the usual one."""
        return self.scheme

    @property
    def integrator_name(self) -> str:
        """The integrator, if "auto" the usual one."""
        return (
            USUAL.get(self.scheme_name, "euler") if self.integrator == "auto" else self.integrator
        )

    @property
    def courant_number(self) -> float:
        """The Courant number of automatic time steps."""
        return 0.4 if self.courant is None else self.courant

    @property
    def limit(self) -> float:
        """The largest Courant number of a time step."""
        return courant_limit(self.scheme_name, self.limiter, self.integrator_name)

    @property
    def reach(self) -> int:
        """Cells on each side that a step of Euler reads."""
        return reconstruction(self.scheme_name, self.limiter).reach

    @property
    def conditions(self) -> dict[str, Any]:
        """The condition of every side that has one."""
        return self.completed(self.boundary)

    def completed(self, boundary: Mapping[str, Any]) -> dict[str, Any]:
        """These conditions, and `da.Outflow` on the sides that are left."""
        sides = [side for side in self.side_names if side[0] not in boundary]
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
