"""The Poisson equation of the pressure: `lap(phi) = rhs` in the cells, with zero normal derivative
at the sides.

`PressureSolver` solves it directly to round-off (`solvers.fft_poisson`).

`MultigridPressure` solves it by cycles over coarser grids, to a tolerance.
"""

from __future__ import annotations

from typing import Any, Protocol

import distarray as da
from solvers.fft_poisson import FFTPoisson
from solvers.incompressible.metrics import Metrics, Symbol, Widths, per_axis, side_names
from solvers.multigrid import EllipticOperator, Multigrid


class PoissonSolver(Protocol):
    """What a flow needs of a solver of the pressure equation."""

    def solve(self, rhs: da.DistArray, out: da.DistArray) -> None:
        """Put the solution of zero mean into `out`; the mean of `rhs` is dropped. Collective."""


def poisson_solver(grid: da.Grid, method: str, tolerance: float) -> PoissonSolver:
    """The solver for one grid: "multigrid", or else the direct one. Collective."""
    if method == "multigrid":
        return MultigridPressure(grid, tolerance)
    return PressureSolver(grid)


def _closed(grid: da.Grid) -> dict[str, da.Condition] | None:
    """A zero normal derivative at all sides."""
    return dict.fromkeys(side_names(grid.periodic), da.Neumann(0.0)) or None


class PressureSolver:
    """Direct solver on one grid.

    Parameters
    ----------
    grid : Grid
        Of any number of axes, uniform or stretched; each is periodic or has sides at both ends.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.incompressible.pressure import PressureSolver
    >>> grid = da.Grid((8, 8))
    >>> phi = grid.zeros()
    >>> PressureSolver(grid).solve(grid.zeros(), phi)
    """

    def __init__(self, grid: da.Grid) -> None:
        self._direct = FFTPoisson(grid, _closed(grid))

    def solve(self, rhs: da.DistArray, out: da.DistArray) -> None:
        """Put the solution of zero mean into `out`; the mean of `rhs` is dropped. Collective."""
        self._direct.solve_into(rhs, out, scale=-1.0)


class MultigridPressure:
    """Solver by cycles on one grid.

    Parameters
    ----------
    grid : Grid
    tolerance : float
        Of the residual relative to the right-hand side.
    """

    def __init__(self, grid: da.Grid, tolerance: float) -> None:
        operator = EllipticOperator(grid, boundary=_closed(grid))
        self._cycles = Multigrid(operator, reproducible=True)
        self._tolerance = tolerance
        metrics = Metrics(grid)
        self._total, self._share = metrics.bind(total), 1.0 / metrics.box
        self._balanced = grid.zeros()

    def solve(self, rhs: da.DistArray, out: da.DistArray) -> None:
        """Put the solution of zero mean into `out`; the mean of `rhs` is dropped. Collective.

        Raises
        ------
        SolverError
            The cycles do not reach the tolerance.
        """
        balance(rhs, self._balanced, total=self._total(rhs), share=self._share)
        found = self._cycles.solve(self._balanced, rtol=self._tolerance)
        if not found.converged:
            raise da.SolverError(
                f"Multigrid does not solve the pressure equation: {found.reason} Choose "
                f"pressure='fft', or a larger pressure_tolerance than {self._tolerance:g}."
            )
        out[...] = found.x


@per_axis()
def total(rhs: Symbol, widths: Widths) -> Any:
    """The sum of rhs dV over all cells."""
    return da.reduce.sum(widths.volume() * rhs[...], reproducible=True)


@da.stencil
def balance(rhs: Symbol, out: Symbol, *, total: Symbol, share: Symbol) -> None:
    """`out = share * total - rhs`, whose mean is zero."""
    out[...] = share * total - rhs[...]
