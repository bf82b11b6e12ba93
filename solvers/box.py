"""What descriptions of equations in a box share: axes, sides, and rules for cells, bounds and
fields, each broken one an error of one sentence. Local, but for `field_of`.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

import distarray as da

AXES = "xyz"
#: Types of numbers that solvers work with.
DTYPES = ("float64", "float32")
_LONGEST = 80  # characters of a value in a message
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bounds = tuple[tuple[float, float], ...]
#: A number, an array over the cells of the box, or a function of the coordinates (x[, y[, z]]).
Field = float | Callable[..., Any] | np.ndarray[Any, Any]
#: A number, or a function of the time and the coordinates (t, x[, y[, z]]) of the points of a side.
SideValue = float | Callable[..., Any]


class Box:
    """What follows from the `cells`, `bounds` and `periodic` of a description."""

    cells: tuple[int, ...]
    bounds: Bounds | None
    periodic: bool | tuple[bool, ...]

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def box(self) -> Bounds:
        """The bounds of each axis."""
        return ((0.0, 1.0),) * self.ndim if self.bounds is None else self.bounds

    @property
    def spacing(self) -> tuple[float, ...]:
        """Widths of the cells along each axis."""
        return tuple((hi - lo) / n for (lo, hi), n in zip(self.box, self.cells, strict=True))

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        given = self.periodic
        return (given,) * self.ndim if isinstance(given, bool) else tuple(given)

    @property
    def side_names(self) -> tuple[str, ...]:
        """The sides, "x-", "x+", ...: two of each axis that is not periodic."""
        axes = enumerate(self.periodic_axes)
        return tuple(AXES[axis] + end for axis, wraps in axes if not wraps for end in "-+")


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the floats
        return False


def can_be_squared(value: float) -> bool:
    """Whether neither the square of a number above 0 nor 1 over it leaves the floats."""
    low = sys.float_info.min
    return low <= float(value) * float(value) <= 1.0 / low


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def shown(value: Any) -> str:
    """A value as a part of one line, the same on all ranks: without addresses."""
    text = " ".join(_ADDRESS.sub("", repr(value)).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def require_cells(cells: Any) -> None:
    """Refuse what is no number of cells along one to three axes."""
    whole = isinstance(cells, tuple) and all(is_whole(n) for n in cells)
    if not whole or not 1 <= len(cells) <= len(AXES):
        raise da.SolverError(
            f"A box has cells along one to three axes, received cells={shown(cells)}; give a whole "
            "number above 0 for each axis, as a tuple or after --cells."
        )


def require_box(box: Box) -> None:
    """Refuse what is no box."""
    if not isinstance(box.periodic, bool):
        require_per_axis("periodic", box.periodic, box.ndim)
        for wraps in box.periodic:
            require_choice("periodic", wraps, (False, True))
    require_per_axis("bounds", box.box, box.ndim)
    for limits in box.box:
        pair = isinstance(limits, Sequence) and len(limits) == 2
        if not pair or not all(map(is_number, limits)) or not limits[0] < limits[1]:
            raise da.SolverError(
                f"The bounds of an axis are (low, high) with low < high, received {shown(limits)}; "
                "change them."
            )
    for limits, n, h in zip(box.box, box.cells, box.spacing, strict=True):
        if not can_be_squared(h):
            raise da.SolverError(
                "The width of a cell, its square and 1 over that are numbers that floats can hold, "
                f"received {shown(limits)} for {n} cells; change the bounds."
            )


def require_per_axis(name: str, values: Any, ndim: int) -> None:
    """Refuse what is no sequence with one entry per axis."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != ndim:
        raise da.SolverError(
            f"'{name}' has one entry per axis, received {shown(values)} for {ndim} axes; give "
            f"{ndim} in a tuple."
        )


def require_choice(name: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse what is none of these, or of another type."""
    names = list(known)
    if not any(_same(value, one) for one in names):
        listed = ", ".join(map(repr, names))
        raise da.SolverError(
            f"'{name}' is one of {listed}, received {shown(value)}; name one of them."
        )


def _same(value: Any, one: Any) -> bool:
    kind = Integral if is_whole(one) else type(one)
    alike = isinstance(value, kind) and isinstance(value, bool) == isinstance(one, bool)
    return bool(alike and value == one)


def require_sides(name: str, values: Any, box: Box, *, axes: bool = False) -> None:
    """Refuse what is no mapping from sides of the box, or, where `axes`, from their axes, too."""
    if not isinstance(values, Mapping):
        raise da.SolverError(
            f"'{name}' names sides and what they have, received {shown(values)}; give a dict."
        )
    sides = box.side_names
    known = {*sides, *(side[0] for side in sides if axes)}
    for side in values:
        if side not in known:
            also = ", or its axis" if axes else ""
            raise da.SolverError(
                f"This box has the sides {', '.join(sides) or 'none'}, received {shown(side)} in "
                f"'{name}'; name one of these{also}."
            )


def require_conditions(name: str, values: Any, box: Box) -> None:
    """Refuse what is no mapping from sides or axes of the box to conditions."""
    require_sides(name, values, box, axes=True)
    for side, condition in values.items():
        if not isinstance(condition, da.Condition):
            raise da.SolverError(
                f"A side has a condition such as da.Dirichlet(0.0), received {shown(condition)} "
                f"for {side!r}; give one."
            )
        for field in condition.value_fields:
            if not _finite(getattr(condition, field)):
                raise da.SolverError(
                    f"The values of a side are finite, received {shown(condition)} for {side!r}; "
                    "change them."
                )


def _finite(value: Any) -> bool:
    """Whether no number among these values of a condition is infinite or nan."""
    if isinstance(value, tuple | list):
        return all(map(_finite, value))
    numbers = isinstance(value, Real | np.ndarray)
    return not numbers or bool(np.isfinite(value).all())


def require_value(name: str, value: Any, ndim: int, *, time: bool = False) -> None:
    """Refuse what is neither a finite number nor a function of the coordinates, where `time` of the
    time and these.
    """
    if callable(value):
        require_call(f"'{name}'", value, *(["t"] * time), *AXES[:ndim])
    elif not is_number(value):
        raise da.SolverError(
            f"'{name}' is a finite number or a function, received {shown(value)}; give one of them."
        )


def require_call(subject: str, function: Any, *places: str) -> None:
    """Refuse what cannot be called with arguments of these names. Without calling it."""
    call = f"f({', '.join(places)})"
    if not callable(function):
        raise da.SolverError(
            f"{subject} is a function, called as {call}, received {shown(function)}; write one."
        )
    if _binds(function, len(places)) is False:
        raise da.SolverError(
            f"{subject} is called as {call}, received {shown(function)}, which takes other "
            "arguments; write such a function."
        )


def require_field(name: str, value: Any, cells: tuple[int, ...]) -> None:
    """Refuse what is neither a finite number, nor a function, nor an array over the cells."""
    if callable(value) or is_number(value):
        require_value(name, value, len(cells))
        return
    text = shown(value)
    if isinstance(value, np.ndarray):
        if value.shape == cells and value.dtype.kind in "biuf" and np.isfinite(value).all():
            return
        text = f"an array of shape {value.shape}"
    raise da.SolverError(
        f"'{name}' is a finite number, a function of the coordinates, or an array of finite "
        f"numbers for the cells {cells}, received {text}; give one of these."
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
            f"'{name}' is called as f({places}) or f(t, {places}), received {shown(function)}, "
            f"which takes neither; write such a function."
        )
    return takes[0] > ndim


def _binds(function: Callable[..., Any], count: int) -> bool | None:
    """Whether it takes so many arguments; None for functions written in C that do not tell."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def require_safety(safety: Any) -> None:
    """Refuse what is no share of a stable time step."""
    if not (is_number(safety) and 0.0 < safety <= 1.0):
        raise da.SolverError(
            f"The safety factor lies in (0, 1], received {shown(safety)}; 0.9 is usual."
        )


def centres(grid: da.Grid) -> list[Floats]:
    """Positions of the centres of all cells along each axis of a uniform grid, as host arrays on
    every rank.
    """
    return [
        low + (np.arange(n) + 0.5) * (high - low) / n
        for (low, high), n in zip(grid.bounds, grid.shape, strict=True)
    ]


def require_known(what: str, values: da.DistArray) -> None:
    """An error on all ranks if values are nan somewhere. Collective."""
    if int(da.where(values != values, 1, 0).max()):  # noqa: PLR0124 - nan alone differs from itself
        raise da.SolverError(
            f"{what} is a number everywhere, received a function that gives nan in some places; "
            f"give another."
        )


def finite_field(grid: da.Grid, value: Field, **options: Any) -> da.DistArray:
    """An array with these values. Collective.

    Raises
    ------
    SolverError
        A value is not finite.
    """
    found = field_of(grid, value, **options)
    if not np.isfinite(found).all():
        raise da.SolverError(
            f"The values of '{options['name']}' are finite, received some that are not; change "
            "their function."
        )
    return found


def field_of(grid: da.Grid, value: Field, **options: Any) -> da.DistArray:
    """An array of cells with these values. Collective."""
    if callable(value):
        return grid.from_function(value, **options)
    found = grid.empty(**options)
    found[...] = value
    return found
