"""The Poisson equation of the pressure, solved directly to round-off.

`lap(phi) = rhs` in the cells, with zero normal derivative at walls, is transformed axis by axis
(`transforms`), divided by the eigenvalues of the discrete Laplacian and transformed back.
`da.map_along` brings each axis in turn into one rank; on a grid whose last axes are not cut, only
the first transform and the last need messages. The lines are transformed by the host, also those of
arrays on another device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from solvers.incompressible.transforms import Array, Cosine, Hartley, Transform, along


def uniform_spacing(grid: da.Grid) -> tuple[float, ...]:
    """Width of the cells along each axis; an error on a stretched axis. Local."""
    found = tuple(h for h in grid.spacing if h is not None)
    if len(found) < grid.ndim:
        raise da.SolverError(
            f"The pressure solver needs cells of equal width, received spacing={grid.spacing}; "
            f"leave out coordinates=."
        )
    return found


class PressureSolver:
    """Direct solver on one uniform grid.

    Parameters
    ----------
    grid : Grid
        Uniform, of any number of axes; each is periodic or has walls at both ends.

    Raises
    ------
    SolverError
        An axis is stretched.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.incompressible.pressure import PressureSolver
    >>> grid = da.Grid((8, 8))
    >>> phi = grid.zeros()
    >>> PressureSolver(grid).solve(grid.zeros(), phi)
    """

    def __init__(self, grid: da.Grid) -> None:
        self._transforms: tuple[Transform, ...] = tuple(
            Hartley(n) if periodic else Cosine(n)
            for n, periodic in zip(grid.shape, grid.periodic, strict=True)
        )
        self._forward = [along(axis, t.forward) for axis, t in enumerate(self._transforms)]
        self._backward = [along(axis, t.backward) for axis, t in enumerate(self._transforms)]
        # For each axis an array that holds it whole; axes of one process grid share theirs.
        ranks = _process_grids(grid)
        kept = {chosen: grid.zeros().redistribute(ranks=chosen) for chosen in ranks}
        self._modes = [kept[chosen] for chosen in ranks]
        reciprocals = self._reciprocals(grid).redistribute(like=self._modes[0])
        self._inverse = np.array(reciprocals.local)  # on the host, where lines are transformed

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

    def _reciprocals(self, grid: da.Grid) -> da.DistArray:
        """One over the eigenvalue of each mode; zero for the mean, which no gradient sees."""
        spacing = uniform_spacing(grid)

        def reciprocal(*centres: Array) -> Array:
            total: Any = 0.0
            for t, x, (low, _), h in zip(
                self._transforms, centres, grid.bounds, spacing, strict=True
            ):
                mode = np.rint((x - low) / h - 0.5)  # cell k holds mode k
                total = total + t.eigenvalues(mode, h)
            with np.errstate(divide="ignore"):
                return np.where(total == 0.0, 0.0, 1.0 / total)

        return grid.from_function(reciprocal)


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
