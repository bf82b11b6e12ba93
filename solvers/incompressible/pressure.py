"""The Poisson equation of the pressure, solved directly to round-off.

`lap(phi) = rhs` in the cells, with zero normal derivative at walls, is transformed axis by axis
(`transforms`), divided by the eigenvalues of the discrete Laplacian and transformed back.
`da.map_along` brings each axis in turn into one rank; on a grid whose last axes are not cut, only
the first transform and the last need messages.
"""

from __future__ import annotations

import numpy as np

import distarray as da
from solvers.incompressible.transforms import Array, Cosine, Hartley, Transform, along


class PressureSolver:
    """Direct solver on one uniform grid.

    Parameters
    ----------
    grid : Grid
        Uniform, of any number of axes; each is periodic or has walls at both ends.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.incompressible.pressure import PressureSolver
    >>> grid = da.Grid((8, 8))
    >>> phi = PressureSolver(grid).solve(grid.zeros())
    """

    def __init__(self, grid: da.Grid) -> None:
        self._spacing: tuple[float, ...] = tuple(grid.spacing)
        self._transforms: tuple[Transform, ...] = tuple(
            Hartley(n) if periodic else Cosine(n)
            for n, periodic in zip(grid.shape, grid.periodic, strict=True)
        )
        self._forward = [along(axis, t.forward) for axis, t in enumerate(self._transforms)]
        self._backward = [along(axis, t.backward) for axis, t in enumerate(self._transforms)]
        self._inverse: da.DistArray | None = None

    def solve(self, rhs: da.DistArray) -> da.DistArray:
        """The solution of zero mean, float64, placed as `rhs` is; the mean of `rhs` is dropped.
        Collective.
        """
        axes = range(rhs.ndim)
        modes = rhs
        for axis in reversed(axes):
            modes = da.map_along(modes, axis, self._forward[axis])
        if self._inverse is None:
            self._inverse = self._reciprocals(rhs.shape).redistribute(like=modes)
        modes *= self._inverse
        for axis in axes:
            modes = da.map_along(modes, axis, self._backward[axis])
        return modes.redistribute(like=rhs)

    def _reciprocals(self, shape: tuple[int, ...]) -> da.DistArray:
        """One over the eigenvalue of each mode; zero for the mean, which no gradient sees."""
        # On this grid the coordinate of cell k is the mode number k itself.
        numbers = da.Grid(shape, bounds=[(-0.5, n - 0.5) for n in shape])

        def reciprocal(*modes: Array) -> Array:
            parts = [
                t.eigenvalues(k, h)
                for t, k, h in zip(self._transforms, modes, self._spacing, strict=True)
            ]
            total: Array = sum(parts[1:], start=parts[0])
            with np.errstate(divide="ignore"):
                return np.where(total == 0.0, 0.0, 1.0 / total)

        return numbers.from_function(reciprocal)
