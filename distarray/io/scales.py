"""Positions along the axes, as dimension scales of HDF5: coordinates of xarray and netCDF.

These look for scales where the arrays are, so they are top-level datasets, under names that no
array has: for axis x `x` (cell centres) and `x_face` (points); where an array is called so,
`x_centre`, and with as many `_` at the end as are needed. Only those that arrays use are there. An
axis of components has their numbers: `u_component`, or `u_component0` and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.geometry import AxisGeometry
from distarray.io.record import RESERVED_NAMES, ArrayRecord, FileRecord, GridRecord


def positions(grid: GridRecord, axis: int, *, staggered: bool, count: int) -> np.ndarray[Any, Any]:
    """float64 positions of the first `count` cells or points of an axis."""
    faces = grid.faces[axis]
    geometry = AxisGeometry(
        grid.cells[axis],
        *grid.bounds[axis],
        grid.periodic[axis],
        None if faces is None else np.array(faces),
    )
    found = geometry.positions(np.arange(count, dtype=np.int64), staggered)
    if staggered and count > grid.cells[axis]:
        found[-1] = grid.bounds[axis][1]
    return found


def attach(file: Any, record: FileRecord) -> None:
    """Create the scales and attach them to the arrays of an open file."""
    names = _Names(record)
    for array in record.arrays:
        dims, first = file[array.name].dims, len(array.components)
        for k, count in enumerate(array.components):
            name = names.of((array.name, k), *_component_names(array, k))
            _attach(file, dims[k], name, np.arange(count))
        for k, axis in enumerate(record.grid.axes):
            staggered = axis in (array.location or "")
            kinds = (f"{axis}_face",) if staggered else (axis, f"{axis}_centre")
            name = names.of((axis, staggered), *kinds)
            _attach(
                file,
                dims[first + k],
                name,
                positions(record.grid, k, staggered=staggered, count=array.points[k]),
            )


def _component_names(array: ArrayRecord, k: int) -> tuple[str, ...]:
    return (f"{array.name}_component{k if len(array.components) > 1 else ''}",)


def _attach(file: Any, dimension: Any, name: str, values: np.ndarray[Any, Any]) -> None:
    if name not in file:
        file.create_dataset(name, data=values).make_scale(name)
    dimension.attach_scale(file[name])


class _Names:
    """Names of scales, none of which an array or another scale has."""

    def __init__(self, record: FileRecord) -> None:
        self._taken = {*RESERVED_NAMES, *(array.name for array in record.arrays)}
        self._found: dict[Any, str] = {}

    def of(self, key: Any, *wanted: str) -> str:
        """The name of the scale with this key: the first of the wanted that is free."""
        if key not in self._found:
            name = next((name for name in wanted if name not in self._taken), wanted[-1])
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._found[key] = name
        return self._found[key]
