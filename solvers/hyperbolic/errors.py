"""How far fields are from an exact solution, in tables. Collective; the same bits on any ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import distarray as da
from solvers.box import centres
from solvers.comparison import Row


def error_rows(
    name: str,
    u: da.DistArray,
    grid: da.Grid,
    exact: Callable[..., Any],
    *,
    mean: float | None = None,
    rms: float | None = None,
) -> tuple[Row, ...]:
    """The mean, root mean square and largest error of a field of cells, beside 0. Collective.

    Parameters
    ----------
    exact : function of the coordinates
        Values at the centres of the cells.
    mean, rms : float, optional
        Largest errors that are accepted.
    """
    off = abs(u - grid.from_function(exact, dtype=u.dtype))
    found = (
        ("mean error", float(off.mean(reproducible=True)), mean),
        ("rms error", math.sqrt(float((off * off).mean(reproducible=True))), rms),
        ("largest error", float(off.max()), None),
    )
    return tuple(Row(f"{what} of {name}", value, 0.0, gate) for what, value, gate in found)


def positions(grid: da.Grid) -> Any:
    """The centres of the cells along the one axis, as a host array. Local."""
    (found,) = centres(grid)
    return found
