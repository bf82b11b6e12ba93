"""What is about to be saved, checked and described as a `FileRecord`. No communication."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from distarray.array import DistArray
from distarray.errors import FileError
from distarray.grid import Grid
from distarray.io import attributes, conditions
from distarray.io.record import (
    ArrayRecord,
    FileRecord,
    GridRecord,
    halo_problem,
    library_version,
    name_problem,
)


def grid_of(arrays: Mapping[str, DistArray]) -> Grid:
    """The grid of all arrays, or one that differs in its cuts alone. Local; alike on all ranks."""
    if not isinstance(arrays, Mapping) or not arrays:
        raise FileError(
            "save takes a dict of names and arrays with at least one entry, "
            f"received {_brief(arrays)}."
        )
    for name, array in arrays.items():
        if problem := name_problem(name):
            raise FileError(f"The array name {name!r} cannot be stored: {problem}.")
        if not isinstance(array, DistArray):
            raise FileError(
                f"The array '{name}' is a {type(array).__name__}; save takes DistArrays."
            )
        if array.grid is None:
            raise FileError(
                f"The array '{name}' belongs to no grid; "
                "save takes arrays made by the methods of a Grid."
            )
    grids = [array.grid for array in arrays.values() if array.grid is not None]
    first, shape = next(iter(arrays)), grids[0].shape
    for name, grid in zip(arrays, grids, strict=True):
        if not _alike(grid, grids[0]):
            raise FileError(
                f"The arrays '{first}' and '{name}' belong to different grids "
                f"(shapes {shape} and {grid.shape}); save one file per grid."
            )
    return grids[0]


def _alike(grid: Grid, other: Grid) -> bool:
    """Whether one file can hold arrays of both: equal cells and ranks, cut in any way."""
    return grid is other or (
        grid.communicator == other.communicator and grid_record(grid) == grid_record(other)
    )


def _brief(value: Any) -> str:
    return "an empty dict" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def describe(
    grid: Grid, arrays: Mapping[str, DistArray], step: Any, time: Any, attrs: Any
) -> FileRecord:
    """The record of a file with these arrays, their offsets not yet known. Local."""
    if attrs is not None and not isinstance(attrs, Mapping):
        raise FileError(f"attrs must be a dict, received a {type(attrs).__name__}.")
    return FileRecord(
        grid=grid_record(grid),
        arrays=tuple(_array_record(name, array, grid) for name, array in arrays.items()),
        step=_step(step),
        time=_time(time),
        attrs=attributes.dumps(attrs or {}, "attrs"),
        library_version=library_version(),
    )


def _step(step: Any) -> int | None:
    try:
        number = None if step is None else operator.index(step)
    except TypeError:
        raise FileError(f"step must be an integer, received {step!r}.") from None
    if number is not None and not -(2**63) <= number < 2**63:
        raise FileError(f"step must fit into 64 bits, received {number_text(number)}.")
    return number


def _time(time: Any) -> float | None:
    try:
        return None if time is None else float(time)
    except (TypeError, ValueError):
        raise FileError(f"time must be a number, received {time!r}.") from None
    except OverflowError:
        raise FileError(f"time must fit into a float, received {number_text(time)}.") from None


def number_text(value: Any) -> str:
    """A number as it is written, unless Python could refuse to write it. Local."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def grid_record(grid: Grid) -> GridRecord:
    """The cells of a grid and where they lie; how they are cut does not enter. Local."""
    return GridRecord(
        cells=tuple(grid.shape),
        bounds=tuple((float(low), float(high)) for low, high in grid.bounds),
        axes=tuple(grid.axes),
        periodic=tuple(grid.periodic),
        faces=tuple(
            None if axis.faces is None else tuple(axis.faces.tolist()) for axis in grid.geometry
        ),
    )


def _array_record(name: str, array: DistArray, grid: Grid) -> ArrayRecord:
    if array.dtype.kind not in attributes.NUMERIC_KINDS:
        raise FileError(
            f"The array '{name}' has element type {array.dtype}; "
            "files take bool, integer, float and complex."
        )
    if problem := halo_problem(grid_record(grid), array.layout.halo):
        raise FileError(
            f"The array '{name}' with halo {array.layout.halo} cannot be stored: {problem}; "
            "save a copy with a smaller halo."
        )
    return ArrayRecord(
        name=name,
        dtype=array.dtype.str,
        location=array.location,
        components=array.layout.components,
        points=array.layout.points,
        halo=array.layout.halo,
        boundary=conditions.describe(name, array),
    )
