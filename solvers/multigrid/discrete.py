"""`-div(a grad u) + c u` on one grid, in the form that kernels of all levels take: weights along
each axis, and arrays where a or c vary.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import distarray as da
from solvers.multigrid import kernels
from solvers.multigrid.kernels import Form
from solvers.multigrid.weights import FIXED, Axis, Coupling, coupling

#: Layers around private arrays: a block may begin or end within a coarse cell.
HALO = 2


@dataclass(frozen=True)
class Side:
    """A homogeneous condition `a u + b du/dn = 0`; `fixed` where the unknowns' end points have
    values.
    """

    a: float
    b: float
    fixed: bool = False

    def factor(self, distance: float) -> float | None:
        """What multiplies the mirror value at that distance, beyond the side."""
        if self.fixed:
            return FIXED
        return (2.0 * self.b - self.a * distance) / (2.0 * self.b + self.a * distance)


#: The sides that have conditions, by their names ("x-").
Sides = Mapping[str, Side]


@dataclass(eq=False)
class Discrete:
    """The operator on one grid. Creation is Collective.

    Attributes
    ----------
    grid : Grid
    location : str or None
        Of the unknowns.
    sides : Sides
    links : tuple of DistArray, or None
        The coefficient a on the links along each axis: at the points of an axis along which the
        unknowns are cells, in the cells otherwise; None where it is the number `a`.
    c : float or DistArray
    dtype : dtype
    """

    grid: da.Grid
    location: str | None
    sides: Sides
    a: float = 1.0
    links: tuple[da.DistArray, ...] | None = None
    c: Any = 0.0
    dtype: Any = float
    axes: tuple[Axis, ...] = field(init=False)
    couplings: tuple[Coupling, ...] = field(init=False)
    form: Form = field(init=False)

    def __post_init__(self) -> None:
        self.axes = tuple(map(self.axis, range(self.grid.ndim)))
        self.couplings = tuple(map(coupling, self.axes))
        is_field = isinstance(self.c, da.DistArray)
        self.form = Form(tuple(axis.points for axis in self.axes), self.links is not None, is_field)

    def axis(self, number: int) -> Axis:
        """The unknowns along an axis of the grid. Local."""
        return axis_of(self.grid, self.location, self.sides, number)

    @functools.cached_property
    def coefficients(self) -> tuple[Any, ...]:
        """What kernels take beside u and f, in the order of `Form.names`."""
        shift = 0.0 if self.form.field else float(self.c)
        found: list[Any] = []
        for name in self.form.weights:
            for number, weights in enumerate(self.couplings):
                values = self.a * getattr(weights, name)
                if number == 0 and name.startswith("own") and shift and not self.form.links:
                    values = values + shift
                found.append(self.profile(number, values))
        found += self.links or ()
        return (*found, self.c) if self.form.field else tuple(found)

    def profile(self, axis: int, values: Any) -> da.Profile:
        """Values along an axis, of the element type of the unknowns. Collective."""
        return self.grid.profile(axis, np.asarray(values, self.dtype))

    @functools.cached_property
    def volumes(self) -> tuple[da.Profile, ...]:
        """Widths that belong to the unknowns, along each axis."""
        return tuple(self.profile(n, axis.volumes) for n, axis in enumerate(self.axes))

    @property
    def singular(self) -> bool:
        """Whether it maps constants to zero."""
        return not self.form.field and self.c == 0.0 and self.closed

    @property
    def closed(self) -> bool:
        """Whether nothing flows through the sides. Local."""
        return all(axis.periodic or all(end == 1.0 for end in axis.ends) for axis in self.axes)

    @property
    def stretched(self) -> bool:
        """Whether the cells along some axis have different widths. Local."""
        return any(spacing is None for spacing in self.grid.spacing)

    def zeros(self, grid: da.Grid | None = None) -> da.DistArray:
        """An array that all kernels may read, on this grid or on another one. Collective."""
        return private(self.grid if grid is None else grid, self.location, self.dtype, self.sides)

    def on(self, grid: da.Grid) -> Discrete:
        """The same operator over another process grid. Collective."""
        if grid is self.grid:
            return self
        links = self.links and tuple(moved(array, grid) for array in self.links)
        c = moved(self.c, grid) if self.form.field else self.c
        return replace(self, grid=grid, links=links, c=c)


def axis_of(grid: da.Grid, location: str | None, sides: Sides, number: int) -> Axis:
    """The unknowns along an axis. Local."""
    name, periodic = grid.axes[number], grid.periodic[number]
    points = name in (location or "")
    widths = grid.geometry[number].widths(np.arange(grid.shape[number]))
    ends: tuple[float | None, float | None] = (1.0, 1.0)
    if not periodic:
        reach = 2.0 if points else 1.0
        ends = (
            sides[f"{name}-"].factor(reach * widths[0]),
            sides[f"{name}+"].factor(reach * widths[-1]),
        )
    return Axis(widths, periodic, points, ends)


def private(
    grid: da.Grid, location: str | None, dtype: Any, sides: Sides | None = None
) -> da.DistArray:
    """An array of zeros whose layers hold finite values, which weights of zero meet. Collective."""
    boundary: dict[str, da.Condition] = {}
    for name, periodic in zip(grid.axes, grid.periodic, strict=False):
        for side in () if periodic else (f"{name}-", f"{name}+"):
            fixed = sides is not None and sides[side].fixed
            boundary[side] = da.Dirichlet(0.0) if fixed else da.Symmetry(1)
    halo = grid.decomposition.narrowed((HALO,) * grid.ndim)
    return grid.zeros(dtype, location=location, boundary=boundary, halo=halo)


def moved(array: da.DistArray, grid: da.Grid) -> da.DistArray:
    """A private array with the same values over another process grid. Collective."""
    found = private(grid, array.location, array.dtype)
    found[...] = array
    return found


def link_location(location: str | None, name: str, names: Sequence[str]) -> str | None:
    """Where the links along the axis of this name lie between unknowns at a location."""
    chosen = set(location or "") ^ {name}
    return "".join(letter for letter in names if letter in chosen) or None


def mean_of(discrete: Discrete, u: da.DistArray, *, reproducible: bool) -> float:
    """The mean of u, weighted by volumes. Collective."""
    kernel = kernels.weighted_sum(discrete.form.ndim)
    total = kernel(u, *discrete.volumes, reproducible=reproducible).result()
    return float(total) / float(np.prod([axis.volumes.sum() for axis in discrete.axes]))
