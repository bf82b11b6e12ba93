"""Functions of the stencil language: where, index, coordinate, spacing and reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.stencil.expression import Coordinate, Reduction, Spacing
from distarray.stencil.symbols import Symbolic
from distarray.stencil.values import current


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`: the branch on a cell's value. Local.

    Inside a kernel both are computed and one is chosen; outside it works as np.where does.

    Examples
    --------
    >>> @da.stencil
    ... def upwind(u, new, *, c):
    ...     new[0] = u[0] - c * da.where(c > 0, u[0] - u[-1], u[1] - u[0])
    """
    for operand in (condition, a, b):
        if isinstance(operand, Symbolic):
            return operand._tracer.where(condition, a, b)
    chosen = np.where(condition, a, b)
    return chosen[()] if isinstance(chosen, np.ndarray) and chosen.ndim == 0 else chosen


def index(axis: int | str) -> Any:
    """The global index of this point along an axis, int64; inside a kernel. Local.

    It wraps on a periodic axis. Python's // and % work on it.

    Raises
    ------
    StencilError
        Outside a kernel, or for an axis that the grid does not have.
    """
    return current().index(axis)


def coordinate(axis: int | str, location: str | None = None) -> Any:
    """The position of this point along an axis, float64; inside a kernel. Local.

    Parameters
    ----------
    axis : int or str
    location : str, optional
        None for the cell centre; a string with the axis' letter for the low side of the cell.

    Raises
    ------
    StencilError
        Outside a kernel, or for an axis that the grid does not have.
    """
    return current().position(Coordinate, axis, location)


def spacing(axis: int | str, location: str | None = None) -> Any:
    """The width of this cell along an axis, float64; inside a kernel. Local.

    With the axis' letter in `location`, the distance between the centres on both sides of the
    cell's low side.

    Raises
    ------
    StencilError
        Outside a kernel, or for an axis that the grid does not have.
    """
    return current().position(Spacing, axis, location)


class Reductions:
    """Reductions that a kernel computes in its own pass over memory; return them from the kernel.

    Examples
    --------
    >>> @da.stencil
    ... def diffuse(u, new, *, r):
    ...     new[0] = u[0] + r * (u[1] - 2.0 * u[0] + u[-1])
    ...     return da.reduce.max(abs(new[0] - u[0]))
    """

    @staticmethod
    def sum(value: Any, *, reproducible: bool = False) -> Reduction:
        """The sum over the points computed; if `reproducible`, the same bits on any ranks."""
        return current().reduction("sum", value, reproducible)

    @staticmethod
    def min(value: Any) -> Reduction:
        """The least value over the points computed; NaN if there is one."""
        return current().reduction("min", value, False)

    @staticmethod
    def max(value: Any) -> Reduction:
        """The greatest value over the points computed; NaN if there is one."""
        return current().reduction("max", value, False)


reduce = Reductions()
