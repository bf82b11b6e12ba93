"""Pictures, and those of fields of cells: lines along one axis, images on two, the middle plane of
three. The only file of solvers that needs matplotlib (the extra `plot`), and only when it draws.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import distarray as da
from solvers.box import centres

Picture = np.ndarray[Any, np.dtype[Any]]


def picture(
    grid: da.Grid,
    path: str | os.PathLike[str],
    size: tuple[float, float],
    paint: Callable[[Any], None],
) -> bool:
    """Write what `paint` draws on a figure of matplotlib; says whether matplotlib was there. Local:
    rank 0 draws, the others do nothing.

    Parameters
    ----------
    path : path
        Its ending says the format.
    size : pair of float
        Width and height in inches.
    paint : function of the figure
    """
    if not grid.is_root:
        return True
    try:
        import matplotlib.figure as drawing
    except ImportError:
        return False
    figure = drawing.Figure(figsize=size, layout="constrained")
    paint(figure)
    figure.savefig(path, dpi=150)
    return True


def draw(
    grid: da.Grid,
    fields: Mapping[str, da.DistArray],
    path: str | os.PathLike[str],
    *,
    title: str,
    exact: Mapping[str, Picture] | None = None,
) -> bool:
    """Draw fields side by side; says whether matplotlib was there. Collective.

    Parameters
    ----------
    grid : Grid
    fields : mapping of str to DistArray
        Values of its cells, without components.
    title : str
    exact : mapping of str to ndarray, optional
        Values along the one axis, drawn as lines beneath.
    """
    planes = {name: _plane(u, grid) for name, u in fields.items()}

    def paint(figure: Any) -> None:
        for place, (name, values) in enumerate(planes.items(), 1):
            axes = figure.add_subplot(1, len(planes), place, xlabel=grid.axes[0], title=name)
            if values.ndim == 1:
                _line(axes, grid, values, (exact or {}).get(name))
            else:
                figure.colorbar(_image(axes, grid, values))
        figure.suptitle(title)

    return picture(grid, path, (5.5 * len(planes), 4.5), paint)


def _plane(u: da.DistArray, grid: da.Grid) -> Any:
    """The values as a host array on root, those of the middle plane where there are three axes."""
    return (u[:, :, grid.shape[2] // 2] if grid.ndim == 3 else u).gather(root=0)


def _line(axes: Any, grid: da.Grid, values: Picture, exact: Picture | None) -> None:
    (x,) = centres(grid)
    if exact is not None:
        axes.plot(x, exact, color="black", linewidth=0.8, label="exact")
    axes.plot(x, values, "o", markersize=math.sqrt(600.0 / max(values.size, 24)), label="computed")
    axes.legend()


def _image(axes: Any, grid: da.Grid, values: Picture) -> Any:
    axes.set_ylabel(grid.axes[1])
    extent = [end for ends in grid.bounds[:2] for end in ends]
    return axes.imshow(values.T, origin="lower", extent=extent, cmap="viridis")
