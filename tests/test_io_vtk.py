"""What VTK's own readers make of files: where in the world values lie, on fields that differ in x,
y and z.

Each array holds a function of position; VTK says where it puts each value, and the function of that
place must give the value.
"""

from __future__ import annotations

import errno
import os
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkFiltersCore import vtkCellCenters
from vtkmodules.vtkIOHDF import vtkHDFReader
from vtkmodules.vtkIOXdmf2 import vtkXdmfReader

import distarray as da
from tests.harness import run_ranks

BOUNDS = [(1.0, 2.0), (3.0, 5.0), (-1.0, 2.0)]
SHAPE = (5, 4, 3)
STRETCHED = {"y": 3.0 + 2.0 * np.linspace(0.0, 1.0, 5) ** 2}
#: Name, options and the value at a place, by component.
FIELDS: dict[str, tuple[dict[str, Any], list[Callable[..., Any]]]] = {
    "p": ({}, [lambda x, y, z: x + 10 * y + 100 * z]),
    "single precision": ({"dtype": "f4"}, [lambda x, y, z: x + 10 * y + 100 * z]),
    "n": ({"dtype": "i8"}, [lambda x, y, z: np.floor(0.37 + 10 * x + 100 * y + 1000 * z)]),
    "k": ({"dtype": "u2"}, [lambda x, y, z: np.floor(2000.37 + 10 * x + 100 * y + 1000 * z)]),
    "solid": ({"dtype": bool}, [lambda x, y, z: (x + 2 * y - z > 8.3) + 0 * z]),
    "velocity": (
        {"components": 3},
        [
            lambda x, y, z: x + 0 * y * z,
            lambda x, y, z: 10 * y + 0 * x * z,
            lambda x, y, z: z - x * y,
        ],
    ),
    "stress": (
        {"components": (3, 3), "dtype": "f4"},
        [lambda x, y, z, c=c: c + x + 10 * y + 100 * z for c in range(9)],
    ),
    "pair": (
        {"components": 2, "dtype": "i4"},
        [lambda x, y, z, c=c: np.floor(c + 0.37 + 10 * x + 100 * y + 1000 * z) for c in range(2)],
    ),
    "wave": ({"dtype": complex}, [lambda x, y, z: x + 1j * y + 0 * z]),
    "nodes": ({"location": "xyz"}, [lambda x, y, z: x + 10 * y + 100 * z]),
    "flux": (
        {"location": "y", "components": 2},
        [lambda x, y, z, c=c: c + x + 10 * y + 100 * z for c in range(2)],
    ),
    "B": ({"location": "zx"}, [lambda x, y, z: x + 10 * y + 100 * z]),
}


def fields(grid: da.Grid) -> dict[str, da.DistArray]:
    made = {}
    for name, (options, functions) in FIELDS.items():
        location = options.get("location")
        if location is not None and not set(location) <= set(grid.axes):
            continue

        def values(*place: Any, functions: Any = functions, options: Any = options) -> Any:
            place = (*place, *(0.0 for _ in range(3 - len(place))))
            found = [np.broadcast_to(f(*place), np.broadcast_shapes(*map(np.shape, place)))
                     for f in functions]  # fmt: skip
            components = np.atleast_1d(options.get("components", ()))
            return np.stack(found).reshape(*components, *found[0].shape)

        made[name] = grid.from_function(values, **options)
    return made


def blocks(data: Any) -> Iterator[Any]:
    """The data sets of what a reader gives."""
    if hasattr(data, "GetNumberOfBlocks"):
        for k in range(data.GetNumberOfBlocks()):
            yield from blocks(data.GetBlock(k))
    elif data is not None:
        yield data


def arrays(attributes: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for k in range(attributes.GetNumberOfArrays()):
        found = attributes.GetArray(k)
        yield found.GetName(), vtk_to_numpy(found).reshape(found.GetNumberOfTuples(), -1)


def read(path: Path) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[Any]]:
    """Each array with the world position of each of its values; and the data sets."""
    reader = vtkXdmfReader() if path.suffix == ".xdmf" else vtkHDFReader()
    assert reader.CanReadFile(str(path))
    reader.SetFileName(str(path))
    problems: list[str] = []
    reader.AddObserver("ErrorEvent", lambda *event: problems.append(str(event)))
    reader.GetExecutive().AddObserver("ErrorEvent", lambda *event: problems.append(str(event)))
    reader.Update()
    assert not problems
    found, data = {}, list(blocks(reader.GetOutputDataObject(0)))
    for block in data:
        points = np.array([block.GetPoint(k) for k in range(block.GetNumberOfPoints())])
        found |= {name: (points, values) for name, values in arrays(block.GetPointData())}
        centres = vtkCellCenters()
        centres.SetInputData(block)
        centres.Update()
        places = vtk_to_numpy(centres.GetOutput().GetPoints().GetData()).astype(float)
        found |= {name: (places, values) for name, values in arrays(block.GetCellData())}
    return found, data


def check(found: dict[str, tuple[Any, Any]], names: set[str], count: dict[str, int]) -> None:
    """What was read are these arrays, each value where it belongs."""
    assert set(found) == names
    for name, (places, values) in found.items():
        base, _, component = name.rpartition(" ")
        functions = FIELDS[name if name in FIELDS else base][1]
        if name not in FIELDS:  # one component alone
            functions = [functions[int(component)]]
        assert len(values) == count.get(name, count[""]), name
        expected = np.stack([f(*places.T) for f in functions], axis=1)
        # The places of VTK are float32 in part, and some functions have steps.
        error = np.abs(values - expected)
        step = 1.0 if values.dtype.kind in "iu" else 2e-5 * (1 + np.abs(expected))
        assert (error <= step).all(), (name, error.max())
        if values.dtype.kind in "iu" and "solid" not in name:
            assert (error == 0).mean() > 0.8, name


CELLS = {"p", "single precision", "n", "k", "solid", "velocity", "stress", "pair"}
FACES = {"flux 0", "flux 1", "B"}


def test_uniform_grid(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    da.save(path, fields(da.Grid(SHAPE, bounds=BOUNDS)), time=2.5)
    found, (image,) = read(path)
    check(found, CELLS | {"nodes"}, {"": 60, "nodes": 120})
    assert image.GetClassName() == "vtkImageData"
    assert vtk_to_numpy(image.GetFieldData().GetArray("TimeValue")).tolist() == [2.5]
    solid = found["solid"][1].reshape(SHAPE).astype(bool)
    with h5py.File(path) as file:
        assert np.array_equal(solid, file["solid"][()])
        assert 0 < solid.sum() < solid.size
        # Stored once: the same object by two names, or a virtual dataset.
        for name in ("p", "n", "k"):
            assert file[f"VTKHDF/CellData/{name}"] == file[name]
        for name in ("velocity", "solid", "pair"):
            assert file[f"VTKHDF/CellData/{name}"].is_virtual
        assert file["VTKHDF/CellData/velocity"].shape == (*SHAPE, 3)
        assert "wave" not in file["VTKHDF/CellData"]
    faces, _ = read(tmp_path / "a.xdmf")
    check(faces, FACES, {"flux 0": 75, "flux 1": 75, "B": 96, "": 0})


def test_stretched_grid(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    da.save(path, fields(da.Grid(SHAPE, bounds=BOUNDS, coordinates=STRETCHED)), time=2.5)
    with h5py.File(path) as file:
        assert "VTKHDF" not in file
    found, _ = read(tmp_path / "a.xdmf")
    pairs = {"pair 0", "pair 1"}
    names = (CELLS - {"pair"}) | FACES | {"nodes"} | pairs
    count = {"": 60, "nodes": 120, "flux 0": 75, "flux 1": 75, "B": 96}
    check(found, names, count)
    reader = vtkXdmfReader()
    reader.SetFileName(str(tmp_path / "a.xdmf"))
    reader.UpdateInformation()
    steps = vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    assert reader.GetOutputInformation(0).Get(steps) == (2.5,)


def test_periodic_grid(tmp_path: Path) -> None:
    """Points on a periodic axis are as many as cells; the last face is the first."""
    path = tmp_path / "a.h5"
    da.save(path, fields(da.Grid(SHAPE, bounds=BOUNDS, periodic=(True, True, False))))
    check(read(path)[0], CELLS, {"": 60})
    faces, _ = read(tmp_path / "a.xdmf")
    check(faces, FACES | {"nodes"}, {"flux 0": 60, "flux 1": 60, "B": 80, "nodes": 80, "": 0})


@pytest.mark.parametrize("stretched", [False, True])
def test_grid_of_two_axes(tmp_path: Path, stretched: bool) -> None:
    path = tmp_path / "a.h5"
    options = {"coordinates": STRETCHED} if stretched else {}
    da.save(path, fields(da.Grid(SHAPE[:2], bounds=BOUNDS[:2], **options)))
    faces, _ = read(tmp_path / "a.xdmf")
    if stretched:
        names = (CELLS - {"pair"}) | {"pair 0", "pair 1", "flux 0", "flux 1"}
        check(faces, names, {"": 20, "flux 0": 25, "flux 1": 25})
    else:
        check(read(path)[0], CELLS, {"": 20})
        check(faces, {"flux 0", "flux 1"}, {"": 25})


def test_grid_of_one_axis(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    da.save(path, fields(da.Grid((5,), bounds=BOUNDS[:1])))
    check(read(path)[0], CELLS, {"": 5})
    assert not (tmp_path / "a.xdmf").exists()


PROGRAM = """
import sys
import distarray as da
from tests.test_io_vtk import BOUNDS, SHAPE, fields

da.save(sys.argv[1], fields(da.Grid(SHAPE, bounds=BOUNDS)), time=2.5)
"""


@pytest.mark.slow
def test_three_ranks_write_the_same_file(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run_ranks(program, 3, args=[str(tmp_path / "a.h5")])
    da.save(tmp_path / "b.h5", fields(da.Grid(SHAPE, bounds=BOUNDS)), time=2.5)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    texts = [(tmp_path / name).read_text() for name in ("a.xdmf", "b.xdmf")]
    assert texts[0].replace("a.h5", "b.h5") == texts[1]


# The file beside it.


def test_names_that_xml_must_escape(tmp_path: Path) -> None:
    grid = da.Grid(SHAPE, bounds=BOUNDS, coordinates=STRETCHED)
    name = "<a & 'b' \"c\" größe>"
    da.save(tmp_path / "a.h5", {name: grid.from_function(FIELDS["p"][1][0]), "a:b": grid.ones()})
    found, _ = read(tmp_path / "a.xdmf")
    assert list(found) == [name]  # readers would take "a" for the name of a file
    places, values = found[name]
    np.testing.assert_allclose(values[:, 0], FIELDS["p"][1][0](*places.T), rtol=1e-6)
    assert ET.parse(tmp_path / "a.xdmf").getroot().tag == "Xdmf"


def test_the_file_beside_goes_when_nothing_needs_it(tmp_path: Path) -> None:
    grid = da.Grid(SHAPE)
    path, beside = tmp_path / "a.h5", tmp_path / "a.xdmf"
    da.save(path, {"u": grid.zeros(location="x")})
    assert beside.exists()
    da.save(path, {"u": grid.zeros()})
    assert not beside.exists()
    beside.write_text("somebody's own")
    da.save(path, {"u": grid.zeros()})
    assert beside.read_text() == "somebody's own"


# Scales.


def test_dimension_scales_give_the_positions(tmp_path: Path) -> None:
    grid = da.Grid(SHAPE, bounds=BOUNDS, coordinates=STRETCHED, periodic=(True, False, False))
    da.save(tmp_path / "a.h5", fields(grid))
    x = 1.0 + 0.2 * np.arange(5)
    y = STRETCHED["y"]
    z = -1.0 + np.arange(4.0)
    expected = {
        "p": [("x", x + 0.1), ("y", (y[:-1] + y[1:]) / 2), ("z", z[:3] + 0.5)],
        "nodes": [("x_face", x), ("y_face", y), ("z_face", z)],
        "flux": [("flux_component", [0, 1]), ("x", x + 0.1), ("y_face", y), ("z", z[:3] + 0.5)],
    }
    with h5py.File(tmp_path / "a.h5") as file:
        for name, scales in expected.items():
            dims = file[name].dims
            assert len(dims) == len(scales)
            for dimension, (scale, positions) in zip(dims, scales, strict=True):
                assert list(dimension.keys()) == [scale]
                np.testing.assert_allclose(dimension[0][()], positions, rtol=1e-14)
                assert dimension[0] == file[scale]
        assert [list(d.keys()) for d in file["stress"].dims][:2] == [
            ["stress_component0"],
            ["stress_component1"],
        ]
        # netCDF takes attributes of one axis at most, and every axis needs a scale.
        assert all(value.ndim <= 1 for value in map(np.asarray, file.attrs.values()))
        for name in FIELDS:
            assert all(len(dimension) == 1 for dimension in file[name].dims)


def test_scales_give_way_to_arrays(tmp_path: Path) -> None:
    grid = da.Grid((3, 2))
    names = ["x", "y", "y_centre", "y_centre_", "x_face"]
    made = {name: grid.zeros() for name in names} | {"u": grid.zeros(location="x", components=1)}
    da.save(tmp_path / "a.h5", made)
    with h5py.File(tmp_path / "a.h5") as file:
        assert [list(d.keys()) for d in file["x"].dims] == [["x_centre"], ["y_centre__"]]
        assert [list(d.keys()) for d in file["u"].dims] == [
            ["u_component"],
            ["x_face_"],
            ["y_centre__"],
        ]
    assert list(da.load(tmp_path / "a.h5", grid).arrays) == [*names, "u"]


def test_a_file_of_the_user_beside_it_is_left_alone(tmp_path: Path) -> None:
    path, beside = tmp_path / "a.h5", tmp_path / "a.xdmf"
    grid = da.Grid((4, 3))
    beside.write_text("mine")
    with pytest.raises(da.FileError) as caught:
        da.save(path, {"u": grid.ones(location="x")})
    assert str(caught.value) == (
        f"The file '{beside}' was not written by save, which would replace it beside 'a.h5'; "
        "rename it or give another path."
    )
    assert [item.name for item in tmp_path.iterdir()] == ["a.xdmf"]
    da.save(path, {"u": grid.ones()})  # needs none
    assert beside.read_text() == "mine"


def test_the_file_beside_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: str, _text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path, grid = tmp_path / "a.h5", da.Grid((4, 3))
    monkeypatch.setattr("distarray.io.place.write_text", full)
    with pytest.raises(da.FileError) as caught:
        da.save(path, {"u": grid.ones(location="x")})
    assert str(caught.value) == (
        f"The file '{path}' is in place, but '{tmp_path / 'a.xdmf'}' cannot be written: No space "
        "left on device; free some space there, or choose another folder."
    )
    assert float(da.load(path, grid).arrays["u"].max()) == 1.0
