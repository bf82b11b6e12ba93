"""Pictures of a flow, by matplotlib if it is there."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from solvers.box import centres
from solvers.incompressible.reference import faces
from solvers.incompressible.solver import IncompressibleSolver
from solvers.plot import picture


def streamlines(flow: IncompressibleSolver, path: str | os.PathLike[str]) -> bool:
    """Draw streamlines over the speed, in the middle plane of a 3-D flow; says whether matplotlib
    was there. Collective.
    """
    planes = [_middle_plane(flow, component) for component in (0, 1)]
    return picture(flow.grid, path, (6.0, 5.0), lambda figure: _paint(figure, flow, planes))


def _middle_plane(flow: IncompressibleSolver, component: int) -> Any:
    """A velocity component in the cell centres of the x-y plane, as a host array on root.
    Collective.
    """
    u = flow.fields["uv"[component]]
    if flow.config.ndim == 3:
        u = u[:, :, flow.config.cells[2] // 2]
    values = u.gather(root=0)
    if values is None:
        return None
    following = np.roll(values, -1, component)
    cells = [slice(n) for n in flow.config.cells[:2]]
    return (0.5 * (values + following))[tuple(cells)]


def _paint(figure: Any, flow: IncompressibleSolver, planes: list[Any]) -> None:
    (left, right), (bottom, top) = flow.grid.bounds[:2]
    axes = figure.add_subplot(
        aspect="equal", xlabel="x", ylabel="y", xlim=(left, right), ylim=(bottom, top)
    )
    speed = _speed(axes, flow, np.hypot(*planes))
    x, y = centres(flow.grid)[:2]
    if min(x.size, y.size) > 1:  # one cell alone has no lines
        u, v = (_evenly(flow, values) for values in planes)
        axes.streamplot(x, y, u.T, v.T, density=1.8, color="white", linewidth=0.6, arrowsize=0.7)
    axes.set_title(f"{' x '.join(map(str, flow.config.cells))} cells, time {flow.time:.2f}")
    figure.colorbar(speed, label="speed")


def _speed(axes: Any, flow: IncompressibleSolver, values: Any) -> Any:
    """An image, or on a stretched grid its cells where they lie."""
    if None in flow.grid.spacing[:2]:
        return axes.pcolormesh(faces(flow, 0), faces(flow, 1), values.T, cmap="viridis")
    return axes.imshow(
        values.T,
        origin="lower",
        extent=[end for ends in flow.grid.bounds[:2] for end in ends],
        cmap="viridis",
        interpolation="bilinear",
    )


def _evenly(flow: IncompressibleSolver, values: Any) -> Any:
    """Values at the centres of as many cells of equal width, which streamlines are drawn through:
    linear between the centres of stretched axes.
    """
    for axis, even in enumerate(centres(flow.grid)[:2]):
        if flow.grid.spacing[axis] is None:
            ends = faces(flow, axis)
            middles = 0.5 * (ends[1:] + ends[:-1])
            lines = np.moveaxis(values, axis, 1)
            lines = np.array([np.interp(even, middles, line) for line in lines])
            values = np.moveaxis(lines, 1, axis)
    return values
