"""Pictures of a flow, by matplotlib if it is there."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

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
    x, y = (
        lo + (np.arange(n) + 0.5) * (hi - lo) / n
        for (lo, hi), n in zip(flow.grid.bounds[:2], flow.config.cells, strict=False)
    )
    axes = figure.add_subplot(
        aspect="equal", xlabel="x", ylabel="y", xlim=(left, right), ylim=(bottom, top)
    )
    speed = axes.imshow(
        np.hypot(*planes).T,
        origin="lower",
        extent=(left, right, bottom, top),
        cmap="viridis",
        interpolation="bilinear",
    )
    if min(x.size, y.size) > 1:  # one cell alone has no lines
        axes.streamplot(
            x, y, planes[0].T, planes[1].T, density=1.8, color="white", linewidth=0.6, arrowsize=0.7
        )
    axes.set_title(f"{' x '.join(map(str, flow.config.cells))} cells, time {flow.time:.2f}")
    figure.colorbar(speed, label="speed")
