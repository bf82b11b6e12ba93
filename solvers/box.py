"""What descriptions of equations in a box share: rules for cells, bounds and fields, each broken
one an error of one sentence. Local, but for `field_of`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

import distarray as da

AXES = "xyz"

Bounds = tuple[tuple[float, float], ...]
#: A number, an array over the cells of the box, or a function of the coordinates (x[, y[, z]]).
Field = float | Callable[..., Any] | np.ndarray[Any, Any]


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def per_axis(periodic: bool | Sequence[bool], ndim: int) -> tuple[bool, ...]:
    """Whether each axis is periodic."""
    return (periodic,) * ndim if isinstance(periodic, bool) else tuple(periodic)


def side_names(periodic: Sequence[bool]) -> tuple[str, ...]:
    """The sides of a box, "x-", "x+", ...: two of each axis that is not periodic."""
    return tuple(
        AXES[axis] + end for axis, wraps in enumerate(periodic) if not wraps for end in "-+"
    )


def require_cells(cells: Any) -> None:
    """Refuse what is no number of cells along one to three axes."""
    whole = isinstance(cells, tuple) and all(is_whole(n) for n in cells)
    if not whole or not 1 <= len(cells) <= len(AXES):
        raise da.SolverError(
            f"A box has one to three axes, received cells={cells!r}; give a tuple of one to three "
            "whole numbers above 0."
        )


def require_box(periodic: Any, bounds: Any, ndim: int) -> None:
    """Refuse what is no box."""
    if not isinstance(periodic, bool):
        require_per_axis("periodic", periodic, ndim)
    require_per_axis("bounds", bounds, ndim)
    for limits in bounds:
        pair = isinstance(limits, Sequence) and len(limits) == 2
        if not pair or not all(map(is_number, limits)) or not limits[0] < limits[1]:
            raise da.SolverError(
                f"The bounds of an axis are (low, high) with low < high, received {limits!r}; "
                "change them."
            )


def require_per_axis(name: str, values: Any, ndim: int) -> None:
    """Refuse what is no sequence with one entry per axis."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != ndim:
        raise da.SolverError(
            f"'{name}' has one entry per axis, received {values!r} for {ndim} axes; give {ndim} in "
            "a tuple."
        )


def require_choice(name: str, value: Any, known: Sequence[Any]) -> None:
    """Refuse what is none of these."""
    if isinstance(value, bool) or value not in known:
        listed = ", ".join(map(repr, known))
        raise da.SolverError(f"'{name}' is one of {listed}, received {value!r}; name one of them.")


def require_field(name: str, value: Any, cells: tuple[int, ...]) -> None:
    """Refuse what is neither a finite number, nor a function, nor an array over the cells."""
    if callable(value) or is_number(value):
        return
    shown = repr(value)
    if isinstance(value, np.ndarray):
        if value.shape == cells and np.isfinite(value).all():
            return
        shown = f"an array of shape {value.shape}"
    raise da.SolverError(
        f"'{name}' is a finite number, a function of the coordinates, or an array of finite "
        f"numbers for the cells {cells}, received {shown}; give one of these."
    )


def takes_time(function: Callable[..., Any], ndim: int, name: str) -> bool:
    """Whether a function of the coordinates also takes the time, before them.

    Raises
    ------
    SolverError
        It takes neither `ndim` arguments nor one more.
    """
    takes = [count for count in (ndim, ndim + 1) if _binds(function, count)]
    if not takes:
        places = ", ".join(AXES[:ndim])
        raise da.SolverError(
            f"'{name}' is called as f({places}) or f(t, {places}), received {function!r}, which "
            f"takes neither; write such a function."
        )
    return takes[0] > ndim


def _binds(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):  # some functions written in C do not tell
        return False
    return True


def require_safety(safety: Any) -> None:
    """Refuse what is no share of a stable time step."""
    if not (is_number(safety) and 0.0 < safety <= 1.0):
        raise da.SolverError(
            f"The safety factor lies in (0, 1], received {safety!r}; 0.9 is usual."
        )


def field_of(grid: da.Grid, value: Field, **options: Any) -> da.DistArray:
    """An array of cells with these values. Collective."""
    if callable(value):
        return grid.from_function(value, **options)
    found = grid.empty(**options)
    found[...] = value
    return found
