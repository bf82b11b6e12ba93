"""What ParaView finds in a file: views of arrays in the form that VTK reads, and /VTKHDF.

VTK takes the last axis of a dataset as its first, i. The extent and the spacing are therefore
reversed, and Direction is the permutation that turns them back: a point at (i, j, k) lies at Origin
+ Direction (Spacing (i, j, k)), which is (x, y, z) = Origin + (k dx, j dy, i dz). Axes that a grid
does not have are flat.

VTK wants components last. Arrays without components are there by a hard link; others, and arrays of
bool, by a virtual dataset in /distarray/view that shows the values in the form that VTK reads.
Nothing is stored twice. Complex numbers and numbers of 16 bytes are left out.

/VTKHDF is an ImageData: it is there on uniform grids of up to three axes, with the arrays of cell
centres as cell data and those of all points (no axis periodic, where VTK wants one point more) as
point data. Arrays at other locations and stretched grids are told of in an XDMF file (see `xdmf`).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from distarray.io.record import ArrayRecord, FileRecord, GridRecord
from distarray.regions import Box

#: Version of VTKHDF: the first, which every reader knows.
_VERSION = (1, 0)


def is_shown(grid: GridRecord, array: ArrayRecord) -> bool:
    """Whether VTK can read the numbers of an array at all."""
    dtype = np.dtype(array.dtype)
    return (
        len(grid.cells) <= 3
        and dtype.kind in "biuf"
        and dtype.itemsize <= 8
        and math.prod(array.shape) > 0
    )


def data_of(grid: GridRecord, array: ArrayRecord) -> str | None:
    """Where an array belongs in an ImageData: "CellData", "PointData" or None."""
    if not is_shown(grid, array) or any(faces is not None for faces in grid.faces):
        return None
    if array.location is None:
        return "CellData"
    everywhere = set(array.location) == set(grid.axes) and not any(grid.periodic)
    return "PointData" if everywhere else None


def component_count(array: ArrayRecord) -> int:
    """Components of an array, counted over all their axes."""
    return math.prod(array.components)


def is_plain(array: ArrayRecord) -> bool:
    """Whether the dataset of an array can be read by VTK as it is."""
    return not array.components and np.dtype(array.dtype).kind != "b"


def view_name(array: ArrayRecord) -> str:
    """The dataset that shows an array with components last and in numbers that VTK knows."""
    return f"/{array.name}" if is_plain(array) else f"/distarray/view/{array.name}"


def view_dtype(array: ArrayRecord) -> np.dtype[Any]:
    """The element type in which an array is shown."""
    dtype = np.dtype(array.dtype)
    return np.dtype(np.int8) if dtype.kind == "b" else dtype


def add(file: Any, record: FileRecord, h5py: Any) -> None:
    """The views of arrays and /VTKHDF in an open file."""
    for array in record.arrays:
        if is_shown(record.grid, array) and not is_plain(array):
            _add_view(file, array, h5py)
    _add_image(file, record)


def _add_view(file: Any, array: ArrayRecord, h5py: Any) -> None:
    """The virtual dataset of an array that VTK cannot read as it is."""
    shape = array.points + ((component_count(array),) if array.components else ())
    layout = VirtualLayout(shape, h5py)
    points, none = array.points, (0,) * len(array.points)
    for c, index in enumerate(itertools.product(*map(range, array.components))):
        one = tuple(i + 1 for i in index)
        last, after = ((c,), (c + 1,)) if array.components else ((), ())
        source, target = Box(index + none, one + points), Box(none + last, points + after)
        layout.show(array.name, array.shape, source, target)
    layout.create(file, view_name(array), view_dtype(array))


class VirtualLayout:
    """A dataset of HDF5 that shows parts of other datasets of its file."""

    def __init__(self, shape: tuple[int, ...], h5py: Any) -> None:
        self._shape, self._h5py = shape, h5py
        self._creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._creation.set_obj_track_times(False)
        self._target = h5py.h5s.create_simple(shape)

    def show(self, name: str, shape: tuple[int, ...], source: Box, target: Box) -> None:
        """Show a box of the dataset `name`, of this shape, in a box of as many elements."""
        from_ = self._h5py.h5s.create_simple(shape)
        from_.select_hyperslab(source.start, source.shape)
        self._target.select_hyperslab(target.start, target.shape)
        self._creation.set_virtual(self._target, b".", name.encode(), from_)

    def create(self, file: Any, name: str, dtype: np.dtype[Any]) -> None:
        h5py = self._h5py
        space = h5py.h5s.create_simple(self._shape)
        kind = h5py.h5t.py_create(dtype)
        identity = h5py.h5d.create(file.id, None, kind, space, self._creation)
        group, _, own = name.rpartition("/")
        file.require_group(group or "/")[own] = h5py.Dataset(identity)


def _add_image(file: Any, record: FileRecord) -> None:
    """The group /VTKHDF with links to what an ImageData can hold; no group if that is nothing."""
    grid = record.grid
    placed = [(array, where) for array in record.arrays if (where := data_of(grid, array))]
    if not placed:
        return
    image = file.create_group("VTKHDF")
    missing = 3 - len(grid.cells)
    cells = grid.cells + (0,) * missing
    widths = [(high - low) / n for (low, high), n in zip(grid.bounds, grid.cells, strict=True)]
    image.attrs["Version"] = np.array(_VERSION, np.int64)
    image.attrs.create("Type", np.bytes_("ImageData"))
    image.attrs["WholeExtent"] = np.array([e for n in cells[::-1] for e in (0, n)], np.int64)
    image.attrs["Origin"] = np.array([low for low, _ in grid.bounds] + [0.0] * missing)
    image.attrs["Spacing"] = np.array((widths + [1.0] * missing)[::-1])
    image.attrs["Direction"] = np.eye(3)[::-1].reshape(-1).copy()
    for array, where in placed:
        image.require_group(where)[array.name] = file[view_name(array)]
    if record.time is not None:
        image.create_dataset("FieldData/TimeValue", data=np.array([record.time]))
