"""Pictures of shallow water, by matplotlib if it is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.box import centres
from solvers.plot import picture
from solvers.shallow_water.solver import ShallowWaterSolver


def draw(
    flow: ShallowWaterSolver,
    path: str | os.PathLike[str],
    exact: Callable[..., Any] | None = None,
) -> bool:
    """Draw the surface over the bed, on one axis beside the exact one, on two axes from above; says
    whether matplotlib was there. Collective.

    Parameters
    ----------
    exact : function of the coordinates, optional
        The exact depth.
    """
    gathered = [flow.fields[name].gather(root=0) for name in ("depth", "bathymetry")]

    def paint(figure: Any) -> None:
        h, b = (np.asarray(values, np.float64) for values in gathered)
        axes = figure.add_subplot()
        if flow.config.ndim == 1:
            _profile(axes, flow, (h, b), exact)
        else:
            _map(figure, axes, flow, (h, b))
        axes.set_title(f"{' x '.join(map(str, flow.config.cells))} cells, time {flow.time:.4g}")

    return picture(flow.grid, path, (6.5, 4.5), paint)


def _profile(
    axes: Any, flow: ShallowWaterSolver, values: tuple[Any, Any], exact: Callable[..., Any] | None
) -> None:
    (x,), (h, b) = centres(flow.grid), values
    axes.fill_between(x, b, min(b.min(), 0.0) - 0.05 * np.ptp(h + b), color="tan", label="bed")
    if exact is not None:
        axes.plot(x, exact(x) + b, color="black", linewidth=0.8, label="exact")
    axes.plot(x, h + b, ".-", markersize=3, linewidth=0.8, color="tab:blue", label="surface")
    axes.set(xlabel="x", ylabel="height")
    axes.legend()


def _map(figure: Any, axes: Any, flow: ShallowWaterSolver, values: tuple[Any, Any]) -> None:
    h, b = values
    wet = np.where(h > flow.thin, h + b, np.nan)
    (left, right), (bottom, top) = flow.grid.bounds
    x, y = centres(flow.grid)
    axes.contour(x, y, b.T, colors="tan", linewidths=0.6)
    image = axes.imshow(wet.T, origin="lower", extent=(left, right, bottom, top), cmap="viridis")
    axes.set(xlabel="x", ylabel="y", aspect="equal")
    figure.colorbar(image, label="surface")
