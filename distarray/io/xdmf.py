"""The XDMF file beside a file, for what an ImageData of VTK cannot show: stretched grids, and
arrays on faces, edges and periodic points.

XDMF takes the last axis as its first, as VTK does, and has no permutation that would turn a mesh of
axes back; so each mesh is curvilinear, with the coordinates of every node. These are virtual
datasets in /distarray/mesh that repeat a plane (a line on grids of two axes): they take little
space. Arrays of cell centres are cell data on the mesh of the cells' corners; others are node data
on a mesh of their own points. Grids of one axis have no such file: XDMF has no lines.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from distarray.errors import FileError
from distarray.io import place
from distarray.io.record import ArrayRecord, FileRecord
from distarray.io.scales import positions
from distarray.io.vtk import (
    VirtualLayout,
    component_count,
    data_of,
    is_shown,
    view_dtype,
    view_name,
)
from distarray.regions import Box

_HEADER = '<?xml version="1.0" ?>\n<!-- Written by distarray -->\n'
#: What XDMF calls arrays of so many components.
_KINDS = {1: "Scalar", 3: "Vector", 9: "Tensor"}
_TYPES = {"i": "Int", "u": "UInt", "f": "Float"}


def shown_here(record: FileRecord) -> dict[str | None, list[ArrayRecord]]:
    """The arrays that an XDMF file tells of, by location."""
    found: dict[str | None, list[ArrayRecord]] = {}
    for array in record.arrays if len(record.grid.cells) > 1 else ():
        elsewhere = data_of(record.grid, array) is not None
        # Readers take what is before a colon for the name of a file.
        if is_shown(record.grid, array) and not elsewhere and ":" not in array.name:
            location = "".join(axis for axis in record.grid.axes if axis in (array.location or ""))
            found.setdefault(location or None, []).append(array)
    return found


def path_beside(path: str) -> str:
    """Where the XDMF file of a file lies."""
    for ending in (".h5", ".hdf5"):
        path = path.removesuffix(ending)
    return f"{path}.xdmf"


def require_room(path: str, record: FileRecord) -> None:
    """Refuse to put an XDMF file where another program's file lies. Local.

    Raises
    ------
    FileError
        There is such a file, and the file of this path needs one.
    """
    beside = path_beside(path)
    if shown_here(record) and os.path.lexists(beside) and not _is_own(beside):
        raise FileError(
            f"The file '{beside}' was not written by save, which would replace it beside "
            f"'{os.path.basename(path)}'; rename it or give another path."
        )


def put_beside(path: str, record: FileRecord) -> None:
    """Write the XDMF file of a file that is in place, or remove one that is out of date. Local.

    Raises
    ------
    FileError
        As `require_room`.
    """
    beside = path_beside(path)
    text = text_of(record, os.path.basename(path))
    if text is not None:
        require_room(path, record)
        place.write_text(beside, text)
    elif _is_own(beside):
        place.unlink(beside)


def _is_own(path: str) -> bool:
    """Whether a file was written by this library."""
    if os.path.islink(path):
        return False
    with contextlib.suppress(OSError), place.opened(path) as descriptor:
        start = bytearray(len(_HEADER))
        place.read_at(descriptor, 0, start)
        return bytes(start) == _HEADER.encode()
    return False


# The meshes, in the HDF5 file.


def add_meshes(file: Any, record: FileRecord, h5py: Any) -> None:
    """The coordinates of the meshes of all locations that the XDMF file tells of."""
    for location, arrays in shown_here(record).items():
        shape = _nodes(record, arrays[0])
        group = f"/distarray/mesh/{location or 'cells'}"
        for k in range(len(shape)):
            staggered = location is None or record.grid.axes[k] in location
            along = positions(record.grid, k, staggered=staggered, count=shape[k])
            _add_coordinates(file, f"{group}/{'xyz'[k]}", (along, k), shape, h5py)
        if len(shape) < 3:  # never written, so that it takes no space
            file.create_dataset(f"{group}/zero", shape, np.float64, chunks=True)


def _nodes(record: FileRecord, array: ArrayRecord) -> tuple[int, ...]:
    """Nodes of the mesh of an array along each axis."""
    if array.location is None:
        return tuple(n + 1 for n in record.grid.cells)
    return array.points


def _add_coordinates(
    file: Any,
    name: str,
    line: tuple[np.ndarray[Any, Any], int],
    shape: tuple[int, ...],
    h5py: Any,
) -> None:
    """A dataset of this shape that holds the values of a line along its axis everywhere."""
    values, axis = line
    repeated = 1 if axis == 0 else 0
    whole = Box.of_shape(shape)
    plane = tuple(n for k, n in enumerate(shape) if k != repeated)
    column = values.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    file.create_dataset(
        f"{name}_plane", data=np.broadcast_to(column.squeeze(repeated), plane).copy()
    )
    layout = VirtualLayout(shape, h5py)
    for i in range(shape[repeated]):
        target = whole.with_axis(repeated, i, i + 1)
        layout.show(f"{name}_plane", plane, Box.of_shape(plane), target)
    layout.create(file, name, np.dtype(np.float64))


# The text.


def text_of(record: FileRecord, name: str) -> str | None:
    """The XDMF text for a file of this name in the same folder; None if nothing needs it."""
    shown = shown_here(record)
    if not shown:
        return None
    grids = "".join(_grid(record, name, location, arrays) for location, arrays in shown.items())
    return (
        f'{_HEADER}<Xdmf Version="2.0">\n  <Domain>\n'
        f'    <Grid Name="arrays" GridType="Collection" CollectionType="Spatial">\n{grids}'
        "    </Grid>\n  </Domain>\n</Xdmf>\n"
    )


def _grid(record: FileRecord, name: str, location: str | None, arrays: list[ArrayRecord]) -> str:
    nodes = _nodes(record, arrays[0])
    group = f"/distarray/mesh/{location or 'cells'}"
    names = [f"{group}/{axis}" for axis in "xyz"[: len(nodes)]]
    names += [f"{group}/zero"] * (3 - len(nodes))
    geometry = "".join(_item(f"{name}:{path}", nodes, np.dtype(np.float64)) for path in names)
    attributes = "".join(part for array in arrays for part in _attributes(name, array))
    time = "" if record.time is None else f'        <Time Value="{record.time!r}"/>\n'
    return (
        f'      <Grid Name="{location or "cells"}" GridType="Uniform">\n{time}'
        f'        <Topology TopologyType="{len(nodes)}DSMesh" Dimensions="{_text(nodes)}"/>\n'
        f'        <Geometry GeometryType="X_Y_Z">\n{geometry}        </Geometry>\n'
        f"{attributes}      </Grid>\n"
    )


def _attributes(name: str, array: ArrayRecord) -> Iterator[str]:
    """An array as one attribute, or each of its components where XDMF has no word for as many."""
    points, count, dtype = array.points, component_count(array), view_dtype(array)
    content = f"{name}:{view_name(array)}"
    centre = "Cell" if array.location is None else "Node"
    if not array.components:
        item = _item(content, points, dtype)
        yield _attribute(array.name, "Scalar", centre, item)
    elif count in _KINDS:
        item = _item(content, (*points, count), dtype)
        yield _attribute(array.name, _KINDS[count], centre, item)
    else:
        whole = _item(content, (*points, count), dtype)
        for c in range(count):
            item = _slab(whole, (*(0 for _ in points), c), (*points, 1))
            yield _attribute(f"{array.name} {c}", "Scalar", centre, item)


def _attribute(name: str, kind: str, centre: str, item: str) -> str:
    return (
        f'        <Attribute Name={quoteattr(name)} AttributeType="{kind}" Center="{centre}">\n'
        f"{item}        </Attribute>\n"
    )


def _slab(whole: str, start: tuple[int, ...], count: tuple[int, ...]) -> str:
    """A box of the dataset of an item."""
    ones = (1,) * len(start)
    selection = " ".join(_text(part) for part in (start, ones, count))
    return (
        f'          <DataItem ItemType="HyperSlab" Dimensions="{_text(count[:-1])}">\n'
        f'          <DataItem Dimensions="3 {len(start)}" Format="XML">{selection}</DataItem>\n'
        f"{whole}          </DataItem>\n"
    )


def _item(content: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    number = "Char" if dtype == np.int8 else "UChar" if dtype == np.uint8 else _TYPES[dtype.kind]
    if dtype == np.uint64:  # which readers do not have
        number = "Int"
    return (
        f'          <DataItem Dimensions="{_text(shape)}" NumberType="{number}" '
        f'Precision="{dtype.itemsize}" Format="HDF">{escape(content)}</DataItem>\n'
    )


def _text(shape: tuple[int, ...]) -> str:
    return " ".join(map(str, shape))
