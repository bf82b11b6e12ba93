"""What compiled kernels are handed of one rank's memory: addresses, strides, tables and scalars.
Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.errors import StencilError
from distarray.stencil.expression import Program
from distarray.stencil.frame import Table
from distarray.stencil.launch import ArrayView, LaunchGeometry

_SCALAR_FORMATS = {bool: "q8x", int: "q8x", float: "d8x", complex: "dd"}


def origin(program: Program, number: int, view: ArrayView, geometry: LaunchGeometry) -> int:
    """Bytes from the first element of an array to what the kernel calls index 0 of component 0.

    A fine array is read at 2 l + d and a coarse one at global // 2 + d, so their origins are
    shifted accordingly.
    """
    array = program.arrays[number]
    grid = view.memory.strides[len(array.components) :]
    axes = range(len(geometry.start)) if array.profile_axis is None else (array.profile_axis,)
    index = list(view.origin)
    for place, axis in enumerate(axes):
        if array.level and axis not in array.kept:
            start = 2 * geometry.start[axis] if array.level > 0 else 0
            index[place] += start - view.start[place]
    return sum(i * int(stride) for i, stride in zip(index, grid, strict=True))


def strides(arrays: Sequence[ArrayView], *, last: bool = False) -> list[int]:
    """Strides in elements of all arrays, each with its last axis or without."""
    return [
        int(stride) // view.memory.itemsize
        for view in arrays
        for stride in view.memory.strides[: None if last else -1]
    ]


class TableValues:
    """Values over an axis as far as the arrays reach; local index 0 is `origin` bytes behind the
    first.
    """

    def __init__(self, table: Table, arrays: Sequence[ArrayView], geometry: LaunchGeometry) -> None:
        kind, axis, staggered = table
        low, high = _reach(arrays, axis, geometry)
        indices = np.arange(low, high, dtype=np.int64) + geometry.start[axis]
        self.values = _positions(kind, indices, axis, staggered, geometry)
        self.origin = -low * self.values.itemsize


def scalar_format(program: Program) -> struct.Struct:
    """How the scalars of a program lie in memory: 16 bytes each, an integer or two reals."""
    return struct.Struct("=" + "".join(_SCALAR_FORMATS[kind] for _, kind in program.scalars))


def flat_scalars(program: Program, values: Sequence[complex]) -> Sequence[Any]:
    """The values as `scalar_format` takes them: complex ones as two numbers."""
    if not any(kind is complex for _, kind in program.scalars):
        return values
    flat: list[Any] = []
    for value, (_, kind) in zip(values, program.scalars, strict=True):
        flat += [complex(value).real, complex(value).imag] if kind is complex else [value]
    return flat


def _reach(arrays: Sequence[ArrayView], axis: int, geometry: LaunchGeometry) -> tuple[int, int]:
    """Local indices that any array of the iteration grid holds along an axis."""
    ndim = len(geometry.start)
    own = [view for view in arrays if len(view.origin) == ndim]
    low = min((-view.origin[axis] for view in own), default=0)
    extents = [
        view.memory.shape[view.memory.ndim - ndim + axis] - view.origin[axis] for view in own
    ]
    return low, max(extents, default=geometry.cells[axis]) + 1


def _positions(
    kind: str, indices: HostArray, axis: int, staggered: bool, geometry: LaunchGeometry
) -> HostArray:
    if kind == "index":
        return indices % max(geometry.cells[axis], 1) if geometry.periodic[axis] else indices
    if geometry.axes is None:
        raise StencilError(
            "A kernel uses da.coordinate or da.spacing on arrays that lie on no grid; create them "
            "with a da.Grid."
        )
    along = geometry.axes[axis]
    found = (
        along.positions(indices, staggered)
        if kind == "coordinate"
        else along.spacings(indices, staggered)
    )
    return np.ascontiguousarray(found, np.float64)
