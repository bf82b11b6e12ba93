"""The way between two levels: one axis after the other, over grids coarsened along some axes only.

Restriction begins with the first axis and prolongation ends with it, so that the large arrays are
read along their rows. A coarse level may lie on fewer ranks: the last step is then a
redistribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.multigrid import kernels
from solvers.multigrid.discrete import Discrete, axis_of, link_location, private
from solvers.multigrid.weights import Floats, Transfer, inject, series, share_weights, transfer

#: A kernel along an axis and the profiles that it takes.
Step = tuple[da.StencilKernel, tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Path:
    """The grids from a level to the next coarser one, which has the same process grid."""

    grids: tuple[da.Grid, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, grid: da.Grid, axes: Sequence[int]) -> Path:
        """The grids that are coarsened along one axis after the other. Collective."""
        grids = [grid]
        for axis in axes:
            grids.append(grids[-1].coarsen(tuple(1 + (n == axis) for n in range(grid.ndim))))
        return cls(tuple(grids), tuple(axes))


class Descent:
    """Moves residuals down a path and corrections up. Creation is Collective.

    Parameters
    ----------
    fine : Discrete
    path : Path
        From the grid of `fine`.
    residual : DistArray
        Holds what is to be restricted.
    adjoint : bool
        Whether the restriction is the adjoint of the prolongation.
    """

    def __init__(
        self,
        fine: Discrete,
        path: Path,
        residual: da.DistArray,
        links: Mapping[int, da.DistArray] | None = None,
        *,
        adjoint: bool,
    ) -> None:
        self.arrays = [residual, *(fine.zeros(grid) for grid in path.grids[1:])]
        self._down: list[Step] = []
        self._up: list[tuple[Step, Step]] = []
        ndim = fine.grid.ndim
        for axis, before, after in zip(path.axes, path.grids, path.grids[1:], strict=False):
            if links is not None and axis in links:
                self._add_shares(fine, axis, (before, after), links[axis], adjoint=adjoint)
                continue
            weights = _weights(fine, axis, before, after, adjoint=adjoint)
            offsets = tuple(weights.restrict)
            down = (_profile(fine, after, axis, w) for w in weights.restrict.values())
            self._down.append((kernels.restrict(ndim, axis, offsets), tuple(down)))
            up = tuple(_profile(fine, before, axis, w) for w in weights.prolong)
            self._up.append(
                (
                    (kernels.prolong(ndim, axis, add=False), up),
                    (kernels.prolong(ndim, axis, add=True), up),
                )
            )

    def _add_shares(
        self,
        fine: Discrete,
        axis: int,
        grids: tuple[da.Grid, da.Grid],
        link: da.DistArray,
        *,
        adjoint: bool,
    ) -> None:
        """The steps along an axis of varying coefficient."""
        (before, after), ndim = grids, fine.grid.ndim
        own, coarse = (axis_of(grid, fine.location, fine.sides, axis) for grid in grids)
        between = series(own, coarse)
        share = private(before, fine.location, fine.dtype)
        lengths = (between.near, between.middle, between.far, between.up)
        profiles = (_profile(fine, before, axis, values) for values in lengths)
        kernels.shares(ndim, axis, points=own.points)(link, share, *profiles)
        if adjoint or own.points:
            weights = share_weights(own, coarse, between)
            down = (_profile(fine, after, axis, w) for w in weights.values())
            kernel = kernels.restrict_by_shares(ndim, axis, tuple(weights))
            self._down.append((kernel, (share, *down)))
        else:
            means = transfer(own, coarse, adjoint=False).restrict
            down = (_profile(fine, after, axis, w) for w in means.values())
            self._down.append((kernels.restrict(ndim, axis, tuple(means)), tuple(down)))
        flags = (_profile(fine, before, axis, values) for values in (between.low, between.high))
        up = (share, *flags)
        replace, add = (kernels.prolong_by_shares(ndim, axis, add=add) for add in (False, True))
        self._up.append(((replace, up), (add, up)))

    @property
    def landing(self) -> da.DistArray:
        """The coarse array, over the process grid of the fine level."""
        return self.arrays[-1]

    def restrict(self, target: da.DistArray) -> None:
        """Put the restricted residual into `target`, on any process grid. Collective."""
        ends = [*self.arrays[1:-1], self._landing(target)]
        for (kernel, profiles), fine, coarse in zip(self._down, self.arrays, ends, strict=False):
            kernel(fine, coarse, *profiles)
        if ends[-1] is not target:
            target[...] = ends[-1]

    def prolong(self, source: da.DistArray, target: da.DistArray, *, add: bool) -> None:
        """Interpolate `source` to `target`, which it is added to or replaces. Collective."""
        coarse = self._landing(source)
        if coarse is not source:
            coarse[...] = source
        fines = [target, *self.arrays[1:-1]]
        for number in reversed(range(len(fines))):
            kernel, profiles = self._up[number][add and number == 0]
            kernel(coarse, fines[number], *profiles)
            coarse = fines[number]

    def _landing(self, array: da.DistArray) -> da.DistArray:
        return array if array.grid is self.landing.grid else self.landing


def _weights(
    fine: Discrete, axis: int, before: da.Grid, after: da.Grid, *, adjoint: bool
) -> Transfer:
    coarse = axis_of(after, fine.location, fine.sides, axis)
    return transfer(axis_of(before, fine.location, fine.sides, axis), coarse, adjoint=adjoint)


def _profile(fine: Discrete, grid: da.Grid, axis: int, values: Floats) -> da.Profile:
    return grid.profile(axis, np.asarray(values, fine.dtype))


def coarsened(fine: Discrete, path: Path) -> tuple[Discrete, dict[int, da.DistArray]]:
    """The operator on the last grid of a path, discretised anew. Collective.

    Along its axis a coefficient on links is taken where links of both grids lie at the same points,
    or, between points, from both links in series; across it is the mean of the links that are
    joined.
    """
    links, met = [], {}
    for axis, array in enumerate(fine.links or ()):
        held = _carry(fine, path, array, _link_weights(fine, path, axis))
        links.append(held[-1])
        if axis in path.axes:
            met[axis] = held[path.axes.index(axis)]
    c = fine.c
    if fine.form.field:
        c = _carry(fine, path, c, {n: (_shares(fine, path, n), False) for n in path.axes})[-1]
    grid = path.grids[-1]
    coarse = Discrete(grid, fine.location, fine.sides, fine.a, tuple(links) or None, c, fine.dtype)
    return coarse, met


#: For an axis the restriction's weights by offset, and whether the mean is a harmonic one.
_Carriage = Mapping[int, tuple[dict[int, Floats], bool]]


def _shares(fine: Discrete, path: Path, axis: int) -> dict[int, Floats]:
    """Weights of a mean over the unknowns that are joined along an axis."""
    place = path.axes.index(axis)
    return _weights(fine, axis, path.grids[place], path.grids[place + 1], adjoint=False).restrict


def _link_weights(fine: Discrete, path: Path, along: int) -> _Carriage:
    found: dict[int, tuple[dict[int, Floats], bool]] = {}
    for axis in path.axes:
        if axis != along:
            shares = _shares(fine, path, axis)
            total = sum(shares.values())  # below 1 at ends of axes of points
            found[axis] = {d: w / total for d, w in shares.items()}, False
        elif fine.axes[axis].points:
            cells, name = fine.grid, fine.grid.axes[axis]
            plain = link_location(fine.location, name, cells.axes)
            place = path.axes.index(axis)
            ends = (axis_of(path.grids[n], plain, fine.sides, axis) for n in (place, place + 1))
            found[axis] = transfer(*ends, adjoint=False).restrict, True
        else:
            fine_count, coarse_count = (
                grid.shape[axis] + (not grid.periodic[axis]) for grid in (fine.grid, path.grids[-1])
            )
            found[axis] = inject(fine_count, coarse_count), False
    return found


def _carry(
    fine: Discrete, path: Path, array: da.DistArray, weights: _Carriage
) -> list[da.DistArray]:
    """A coefficient on all grids of a path."""
    held = [array]
    for axis, grid in zip(path.axes, path.grids[1:], strict=False):
        along, harmonic = weights[axis]
        target = private(grid, array.location, fine.dtype)
        kernel = kernels.restrict(grid.ndim, axis, tuple(along), inverse=harmonic)
        kernel(
            held[-1],
            target,
            *(grid.profile(axis, np.asarray(w, fine.dtype)) for w in along.values()),
        )
        held.append(target)
    return held


def to_links(a: da.DistArray, location: str | None, axis: int, *, harmonic: bool) -> da.DistArray:
    """A coefficient of the cells on the links along an axis. Collective."""
    grid = a.grid
    if grid is None:
        raise da.SolverError(f"The coefficient {a!r} lies on no grid; make it by a da.Grid.")
    wanted = link_location(location, grid.axes[axis], grid.axes) or ""
    found = private(grid, None, a.dtype)
    found[...] = a
    reached = ""
    for number, name in enumerate(grid.axes[: grid.ndim]):
        if name in wanted:
            reached += name
            target = private(grid, reached, a.dtype)
            below, above = _distance_shares(grid, number)
            profiles = (grid.profile(number, np.asarray(w, a.dtype)) for w in (below, above))
            kernel = kernels.mean(grid.ndim, number, harmonic=harmonic and number == axis)
            kernel(found, target, *profiles)
            found = target
    return found


def _distance_shares(grid: da.Grid, axis: int) -> tuple[Any, Any]:
    """The shares that the cells below and above points have of the distance between centres."""
    h = grid.geometry[axis].widths(np.arange(grid.shape[axis]))
    if grid.periodic[axis]:
        below, above = np.roll(h, 1), h
    else:
        below, above = np.append(h[0], h), np.append(h, h[-1])
    return below / (below + above), above / (below + above)
