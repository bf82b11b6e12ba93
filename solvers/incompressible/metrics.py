"""Widths of cells along uniform and stretched axes, as kernels take them.

A kernel of a flow is one text for every number of axes and for uniform and stretched ones. Along a
uniform axis its widths are one scalar, the reciprocal of the spacing; along a stretched axis three
profiles:

    cell[i]   1 / h[i], h the width of cell i
    point[i]  1 / d[i], d[i] = (h[i-1] + h[i]) / 2 the distance of the centres beside point i
    low[i]    h[i-1] / (2 d[i]), the share of cell i - 1 in what lies between these centres

`per_axis` makes the kernels, `Metrics` holds the values.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import distarray as da

AXES = "xyz"
COMPONENTS = "uvw"

# Arrays and scalars in a kernel are symbols while it is traced.
Symbol = Any
Symbols = Sequence[Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]


def side_names(periodic: Sequence[bool]) -> tuple[str, ...]:
    """The sides of a box, "x-", "x+", ...: two of each axis that is not periodic. Local."""
    return tuple(
        AXES[axis] + side for axis, wraps in enumerate(periodic) if not wraps for side in "-+"
    )


class Widths:
    """The widths around a point while a kernel is traced: one entry per axis, (r,) or
    (cell, point, low).
    """

    def __init__(self, entries: Sequence[tuple[Symbol, ...]]) -> None:
        self._entries = entries

    def cell(self, axis: int, n: int = 0) -> Symbol:
        """The reciprocal of the width of the cell n further."""
        entry = self._entries[axis]
        return entry[0] if len(entry) == 1 else entry[0][n]

    def point(self, axis: int, n: int = 0) -> Symbol:
        """The reciprocal of the distance of the centres beside the point n further."""
        entry = self._entries[axis]
        return entry[0] if len(entry) == 1 else entry[1][n]

    def volume(self, axis: int | None = None) -> Symbol:
        """The volume of the cell here, or of that around the point of component `axis`."""
        found: Symbol = 1.0
        for a in range(len(self._entries)):
            found = found / (self.point(a) if a == axis else self.cell(a))
        return found

    def between(self, axis: int, low: Symbol, high: Symbol) -> Symbol:
        """Mean of values of the cells beside the point here, each weighted with its width: what the
        halves of these cells that lie around the point hold of them.
        """
        entry = self._entries[axis]
        if len(entry) == 1:
            return 0.5 * (low + high)
        share = entry[2][0]
        return share * low + (1.0 - share) * high

    def second(self, u: Symbol, axis: int, *, on_points: bool, scale: Symbol) -> Symbol:
        """The scaled second difference of u, which lies on points or in centres along the axis."""
        entry = self._entries[axis]
        low, here, high = (u.shift(axis, n) for n in (-1, 0, 1))
        if len(entry) == 1:
            return scale * entry[0] * entry[0] * (high - 2.0 * here + low)
        if on_points:
            slopes = (here - low) * self.cell(axis, -1), (high - here) * self.cell(axis)
            return scale * self.point(axis) * (slopes[1] - slopes[0])
        slopes = (here - low) * self.point(axis), (high - here) * self.point(axis, 1)
        return scale * self.cell(axis) * (slopes[1] - slopes[0])


class Metrics:
    """The widths of one grid. Local, but made on all ranks.

    Attributes
    ----------
    stretched : tuple of bool
    box : float
        The volume of the box.
    largest : tuple of float
        Largest reciprocal of a width along each axis.
    stiffness : tuple of float
        Bound of the eigenvalues of minus the second difference along each axis (Gershgorin):
        4 / h^2 on a uniform axis.
    """

    def __init__(self, grid: da.Grid) -> None:
        self.ndim = grid.ndim
        self.box = math.prod(high - low for low, high in grid.bounds)
        self.stretched = tuple(h is None for h in grid.spacing)
        self._profiles: list[da.Profile] = []
        self._scalars: dict[str, float] = {}
        largest, stiffness = [], []
        for axis in range(grid.ndim):
            cell, point = reciprocals(grid, axis)
            if self.stretched[axis]:
                before = np.pad(cell, 1, "wrap" if grid.periodic[axis] else "edge")[: len(point)]
                low = point / (2.0 * before)
                self._profiles += [grid.profile(axis, values) for values in (cell, point, low)]
            else:
                self._scalars[f"r{AXES[axis]}"] = float(cell[0])
            largest.append(float(max(cell.max(), point.max())))
            stiffness.append(_stiffness(cell, point, grid.periodic[axis]))
        self.largest, self.stiffness = tuple(largest), tuple(stiffness)

    def bind(self, factory: Callable[[int, tuple[bool, ...]], Any]) -> Callable[..., Any]:
        """The kernel that `per_axis` made, to be called with its arrays and scalars alone."""
        kernel = factory(self.ndim, self.stretched)
        profiles, reciprocal = self._profiles, self._scalars

        def call(*arrays: Any, **scalars: Any) -> Any:
            return kernel(*arrays, *profiles, **reciprocal, **scalars)

        return call


def reciprocals(grid: da.Grid, axis: int) -> tuple[Floats, Floats]:
    """1 / h of all cells along an axis and 1 / d of all points. Local."""
    spacing, cells = grid.spacing[axis], grid.shape[axis]
    points = cells + (not grid.periodic[axis])
    if spacing is not None:
        return np.full(cells, 1.0 / spacing), np.full(points, 1.0 / spacing)
    along = grid.geometry[axis]
    return 1.0 / along.widths(np.arange(cells)), 1.0 / along.centre_distances(np.arange(points))


def _stiffness(cell: Floats, point: Floats, periodic: bool) -> float:
    """Twice the largest diagonal entry of minus the second difference, of centres and of points."""
    high = np.roll(point, -1) if periodic else point[1:]
    low = np.roll(cell, 1) if periodic else cell[:-1]
    own = cell if periodic else cell[1:]
    middle = point if periodic else point[1:-1]
    centres = cell * (point[: len(cell)] + high)
    points = middle * (low + own)
    return 2.0 * float(max(centres.max(), points.max(initial=0.0)))


def per_axis(
    *components: str, static: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[[int, tuple[bool, ...]], Any]]:
    """Make a kernel of each number of axes out of one body.

    The body's positional parameters are its arrays and, last, its `Widths`; those named in
    `components` are lists with one array per axis. Its keyword-only parameters are the scalars. The
    decorated name is a function of the number of axes and of which are stretched, whose result is
    called with the arrays in the body's order, lists written out, then the profiles of the
    stretched axes; and with the scalars and the reciprocals rx, ry, rz of the uniform spacings (see
    `Metrics.bind`).

    Examples
    --------
    >>> import distarray as da
    >>> @per_axis("velocity")
    ... def divergence(velocity, out, widths, *, scale):
    ...     parts = [widths.cell(i) * (u.shift(i, 1) - u[...]) for i, u in enumerate(velocity)]
    ...     out[...] = scale * sum(parts[1:], start=parts[0])
    >>> divergence(2, (False, True))
    <stencil divergence(velocity_u, velocity_v, out, cell_y, point_y, low_y, *, scale, rx)>
    """

    def decorate(body: Callable[..., Any]) -> Callable[[int, tuple[bool, ...]], Any]:
        @functools.cache
        def made(ndim: int, stretched: tuple[bool, ...]) -> Any:
            return _kernel(body, components, static, stretched[:ndim])

        made.__doc__ = body.__doc__
        return made

    return decorate


def _kernel(
    body: Callable[..., Any],
    components: Sequence[str],
    static: Sequence[str],
    stretched: tuple[bool, ...],
) -> Any:
    parameters = inspect.signature(body).parameters.values()
    *positional, _ = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    scalars = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    ndim = len(stretched)
    groups = [
        [f"{name}_{c}" for c in COMPONENTS[:ndim]] if name in components else [name]
        for name in positional
    ]
    widths = [
        [f"{word}_{AXES[a]}" for word in ("cell", "point", "low")] if wide else [f"r{AXES[a]}"]
        for a, wide in enumerate(stretched)
    ]
    profiles = [name for names in widths if len(names) > 1 for name in names]
    uniform = [names[0] for names in widths if len(names) == 1]

    def traced(*arrays: Symbol, **values: Symbol) -> Any:
        given = {**dict(zip(arrays_in_order, arrays, strict=True)), **values}
        lists = [
            [given[n] for n in names] if name in components else given[names[0]]
            for name, names in zip(positional, groups, strict=True)
        ]
        entries = [tuple(given[n] for n in names) for names in widths]
        return body(*lists, Widths(entries), **{name: given[name] for name in scalars})

    arrays_in_order = [name for names in groups for name in names] + profiles
    traced.__name__ = traced.__qualname__ = body.__name__
    traced.__doc__ = body.__doc__
    positional_only = inspect.Parameter.POSITIONAL_OR_KEYWORD
    traced.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, positional_only) for name in arrays_in_order]
        + [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in [*scalars, *uniform]]
    )
    return da.stencil(static=static)(traced)
