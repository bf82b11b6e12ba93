"""The Poisson equation of the pressure: `lap(phi) = rhs` in the cells, with zero normal derivative
at the sides.

`PressureSolver` solves it directly to round-off: transformed axis by axis (`transforms`, `modes`),
divided by the eigenvalues of the discrete Laplacian and transformed back. `da.map_along` brings
each axis in turn into one rank; on a grid whose last axes are not cut, only the first transform and
the last need messages. The lines are transformed by the host, also those of arrays on another
device.

`MultigridPressure` solves it by cycles over coarser grids, to a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import distarray as da
from solvers.incompressible.metrics import (
    AXES,
    Metrics,
    Symbol,
    Widths,
    per_axis,
    reciprocals,
)
from solvers.incompressible.modes import Modes
from solvers.incompressible.transforms import Array, Cosine, Hartley, along
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
        transforms = [_transform(grid, axis) for axis in range(grid.ndim)]
        self._forward = [along(axis, t.forward) for axis, t in enumerate(transforms)]
        self._backward = [along(axis, t.backward) for axis, t in enumerate(transforms)]
        # For each axis an array that holds it whole; axes of one process grid share theirs.
        ranks = _process_grids(grid)
        kept = {chosen: grid.zeros().redistribute(ranks=chosen) for chosen in ranks}
        self._modes = [kept[chosen] for chosen in ranks]
        values = [_eigenvalues(grid, axis, t) for axis, t in enumerate(transforms)]
        self._inverse = _reciprocal_sums(values, self._modes[0].local_slices)

    def solve(self, rhs: da.DistArray, out: da.DistArray) -> None:
        """Put the solution of zero mean into `out`; the mean of `rhs` is dropped. Collective."""
        held = rhs
        for axis in reversed(range(1, rhs.ndim)):
            held = self._map(held, axis, self._forward[axis])
        held = self._map(held, 0, self._divide)
        for axis in range(1, rhs.ndim):
            held = self._map(held, axis, self._backward[axis])
        out[...] = held

    def _map(
        self, held: da.DistArray, axis: int, function: Callable[[Array], Array]
    ) -> da.DistArray:
        """Apply a function to lines along `axis`, on the ranks that hold them whole."""
        target = self._modes[axis]
        if held.ranks != target.ranks:
            target[...] = held
            held = target
        return da.map_along(held, axis, function, out=target)

    def _divide(self, block: Array) -> Array:
        """Transform the first axis of a block, divide by the eigenvalues and transform back."""
        return self._backward[0](self._forward[0](block) * self._inverse)


class MultigridPressure:
    """Solver by cycles on one grid.

    Parameters
    ----------
    grid : Grid
    tolerance : float
        Of the residual relative to the right-hand side.
    """

    def __init__(self, grid: da.Grid, tolerance: float) -> None:
        sides = {AXES[a]: da.Neumann(0.0) for a, wraps in enumerate(grid.periodic) if not wraps}
        operator = EllipticOperator(grid, boundary=sides or None)
        self._cycles = Multigrid(operator, reproducible=True)
        self._tolerance = tolerance
        self._total = Metrics(grid).bind(total)
        self._share = 1.0 / math.prod(high - low for low, high in grid.bounds)
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


def _transform(grid: da.Grid, axis: int) -> Cosine | Hartley | Modes:
    if grid.spacing[axis] is None:
        return Modes(*reciprocals(grid, axis), periodic=grid.periodic[axis])
    return (Hartley if grid.periodic[axis] else Cosine)(grid.shape[axis])


def _eigenvalues(grid: da.Grid, axis: int, transform: Cosine | Hartley | Modes) -> Array:
    if isinstance(transform, Modes):
        return transform.eigenvalues()
    low, high = grid.bounds[axis]
    return transform.eigenvalues(
        np.arange(transform.length, dtype=float), (high - low) / grid.shape[axis]
    )


def _reciprocal_sums(values: list[Array], owned: tuple[slice, ...]) -> Array:
    """One over the eigenvalue of each mode owned here; zero for the mean: no gradient sees it."""
    total = np.zeros((1,) * len(values))
    for axis, (along_axis, part) in enumerate(zip(values, owned, strict=True)):
        shape = (1,) * axis + (-1,) + (1,) * (len(values) - axis - 1)
        total = total + along_axis[part].reshape(shape)
    with np.errstate(divide="ignore"):
        return np.where(total == 0.0, 0.0, 1.0 / total)


def _process_grids(grid: da.Grid) -> list[tuple[int, ...]]:
    """For each axis a process grid that leaves it whole.

    The cuts of an axis move to the axis after it, which has been transformed already, so that only
    the ranks of one row exchange values; where they do not fit, fewer ranks take part.
    """
    ranks = list(grid.ranks)
    found = []
    for axis in reversed(range(grid.ndim)):
        after = (axis + 1) % grid.ndim
        if ranks[axis] > 1:
            cuts = ranks[axis] * ranks[after] if axis + 1 == grid.ndim else ranks[axis]
            ranks[axis], ranks[after] = 1, min(cuts, grid.shape[after])
        found.append(tuple(ranks))
    return found[::-1]
