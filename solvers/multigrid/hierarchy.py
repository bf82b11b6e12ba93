"""The levels of a multigrid method: coarser and coarser, on fewer and fewer ranks.

An axis is coarsened if its cells are about as wide as the narrowest (semi-coarsening), so that a
point smoother reduces all that a coarser level cannot hold. What is coarsened depends on the cells
alone, not on the ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import distarray as da
from solvers.multigrid import kernels
from solvers.multigrid.discrete import Discrete
from solvers.multigrid.transfer import Descent, Path, coarsened

#: Cells per rank below which a level moves to fewer ranks.
LEAST_CELLS = 20000

#: Unknowns that are solved for directly.
DIRECT = 128

#: Axes are coarsened whose cells are at most so many times as wide as the narrowest.
ASPECT = 1.5


@dataclass(eq=False)
class Level:
    """One level: the operator, iterate u, right-hand side f, residual r.

    w is a second iterate for smoothers that need one. `below` leads to the next coarser level; None
    on the last one.
    """

    discrete: Discrete
    u: da.DistArray
    f: da.DistArray
    r: da.DistArray
    w: da.DistArray | None = field(default=None)
    below: Descent | None = field(default=None)

    @classmethod
    def of(cls, discrete: Discrete) -> Level:
        """A level with arrays of zeros. Collective."""
        u, f, r = (discrete.zeros() for _ in range(3))
        return cls(discrete, u, f, r)

    def clear(self) -> None:
        """Set the iterate to zero. Collective."""
        with self.u.writing() as block:
            block[...] = 0

    def compute_residual(self) -> None:
        """Make r the residual, f - A u. Collective."""
        discrete = self.discrete
        kernels.residual(discrete.form)(self.u, self.f, self.r, *discrete.coefficients)

    def begin_square(self, reproducible: bool) -> Any:
        """The sum of squares of f - A u, pending. Collective."""
        discrete = self.discrete
        kernel = kernels.square(discrete.form)
        return kernel(self.u, self.f, *discrete.coefficients, reproducible=reproducible)


def build(discrete: Discrete, *, adjoint: bool, levels: int | None = None) -> list[Level]:
    """All levels, the finest first, on the ranks that its grid has if they allow coarsening.
    Collective.
    """
    found: list[Level] = []
    while True:
        axes = coarsened_axes(discrete)
        full = levels is not None and len(found) + 1 >= levels
        last = full or not axes or _unknowns(discrete) <= DIRECT
        path = None if last else _path(discrete, axes)
        if path is None:
            found.append(Level.of(_alone(discrete)))
            return found
        discrete = discrete.on(path.grids[0])
        level = Level.of(discrete)
        coarse, links = coarsened(discrete, path)
        level.below = Descent(discrete, path, level.r, links, adjoint=adjoint)
        found.append(level)
        discrete = _on_fewer(coarse)


def coarsened_axes(discrete: Discrete) -> tuple[int, ...]:
    """The axes along which the next level is coarser. Collective."""
    shape, form = discrete.grid.shape, discrete.form
    widths = np.array([float(np.median(axis.widths)) for axis in discrete.axes])
    if discrete.links is not None:  # a strong coupling counts as a short distance
        means = [float(link.mean(reproducible=True)) for link in discrete.links]
        widths = widths / np.sqrt(np.maximum(means, np.finfo(float).tiny))
    eligible = [n for n in range(form.ndim) if shape[n] > 2]
    narrowest = min((widths[n] for n in eligible), default=0.0)
    return tuple(n for n in eligible if widths[n] <= ASPECT * narrowest)


def _path(discrete: Discrete, axes: tuple[int, ...]) -> Path | None:
    """The way to the next level, from this grid or from itself on fewer ranks."""
    grid = discrete.grid
    while True:
        if _wide_enough(grid, axes):
            try:
                return Path.of(grid, axes)
            except da.DecompositionError:  # its halo is too wide for coarser blocks
                if math.prod(grid.ranks) == 1:
                    return None
        grid = grid.divided(_fewer(grid.ranks))


def _wide_enough(grid: da.Grid, axes: tuple[int, ...]) -> bool:
    """Whether coarse blocks hold the two layers that prolongation may read of a neighbour's."""
    if math.prod(grid.ranks) == 1:
        return True
    factors = tuple(1 + (n in axes) for n in range(grid.ndim))
    try:
        coarse = grid.decomposition.coarsen(factors)
    except da.DecompositionError:  # more ranks along an axis than coarse cells
        return False
    parts = zip(coarse.axes, grid.ranks, strict=True)
    return all(ranks == 1 or part.narrowest >= 2 for part, ranks in parts)


def _fewer(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Half as many ranks, along the axis that is cut most often."""
    axis = ranks.index(max(ranks))
    return tuple(n // 2 if a == axis else n for a, n in enumerate(ranks))


def _on_fewer(discrete: Discrete) -> Discrete:
    """On as many ranks as there is work for; on one where it is solved directly."""
    grid = discrete.grid
    if _unknowns(discrete) <= DIRECT:
        return _alone(discrete)
    ranks = grid.ranks
    while math.prod(ranks) > 1 and math.prod(grid.shape) < LEAST_CELLS * math.prod(ranks):
        ranks = _fewer(ranks)
    return discrete.on(grid.divided(ranks))


def _alone(discrete: Discrete) -> Discrete:
    return discrete.on(discrete.grid.divided((1,) * discrete.grid.ndim))


def _unknowns(discrete: Discrete) -> int:
    return math.prod(axis.count for axis in discrete.axes)


class Direct:
    """The solution on a level of few unknowns that one rank holds. Creation is Collective.

    The matrix is what the kernel makes of unit vectors; weighted by volumes it is symmetric, and
    its pseudo-inverse gives the solution of least size where it is singular.
    """

    def __init__(self, level: Level) -> None:
        self._level = level
        discrete, u, out = level.discrete, level.u, level.r
        kernel, columns = kernels.apply(discrete.form), []
        for place in np.ndindex(u.shape):
            with u.writing() as block:
                block[...] = 0
                if block.size:
                    block[place] = 1
            kernel(u, out, *discrete.coefficients)
            columns.append(np.array(out.local, float).ravel())
        level.clear()
        self._inverse: Any = None
        if columns[0].size:
            self._inverse = self._inverted(np.stack(columns, axis=1))

    def _inverted(self, matrix: Any) -> Any:
        volumes: Any = np.ones(1)
        for axis in self._level.discrete.axes:
            volumes = np.multiply.outer(volumes, axis.volumes).ravel()
        weighted = volumes[:, None] * matrix
        return np.linalg.pinv(0.5 * (weighted + weighted.T), hermitian=True) * volumes

    def solve(self) -> None:
        """Make u the solution of A u = f. Collective."""
        level = self._level
        with level.u.writing() as block:
            if self._inverse is not None:
                f = np.asarray(level.f.local, float)
                block[...] = (self._inverse @ f.ravel()).reshape(f.shape)
