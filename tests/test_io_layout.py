"""The layout of files and their plain data, without arrays or MPI: checked with h5py and NumPy."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distarray.comm.base import BlockPiece
from distarray.comm.serial import SerialCommunicator
from distarray.errors import FileError
from distarray.io import attributes, hdf5, header, place
from distarray.io.image import Image
from distarray.io.record import (
    ArrayRecord,
    FileRecord,
    GridRecord,
    name_problem,
    points_of,
)
from distarray.regions import Box

GRID = GridRecord(
    cells=(7, 5),
    bounds=((0.0, 1.0), (-1.0, 0.1)),
    axes=("x", "y"),
    periodic=(True, False),
    faces=(None, (-1.0, -0.9, -0.5, -0.2, 0.0, 0.1)),
)


def array(
    name: str, dtype: str = "<f8", location: str | None = None, components: tuple[int, ...] = ()
) -> ArrayRecord:
    return ArrayRecord(name, dtype, location, components, points_of(GRID, location), (1, 2), "{}")


def record(*arrays: ArrayRecord, grid: GridRecord = GRID) -> FileRecord:
    return FileRecord(grid, arrays, 12, 0.1, '{"a": 1}', "1.2.3")


def lay_out(path: Path, *arrays: ArrayRecord) -> FileRecord:
    return hdf5.lay_out(str(path), record(*arrays))


DTYPES = ("|b1", "|i1", "|u1", "<i4", "<u8", "<f4", "<f8", "<c8", "<c16")


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    numbers = np.arange(math.prod(shape)).reshape(shape)
    if np.dtype(dtype).kind == "b":
        return np.asarray(numbers % 3 == 0)
    return np.asarray(numbers * (1 + 2j) if np.dtype(dtype).kind == "c" else numbers).astype(dtype)


def test_values_written_at_the_offsets_are_read_by_h5py(tmp_path: Path) -> None:
    arrays = [array(f"u{k}", dtype) for k, dtype in enumerate(DTYPES)]
    arrays.append(array("größe", "<f8", "xy", (2, 3)))
    path = tmp_path / "a.h5"
    placed = lay_out(path, *arrays)
    with path.open("r+b") as file:
        for item in placed.arrays:
            file.seek(item.offset)
            file.write(values(item.shape, item.dtype).tobytes())
    with h5py.File(path) as file:
        for item in arrays:
            found = file[item.name][()]
            assert found.dtype == np.dtype(item.dtype)
            np.testing.assert_array_equal(found, values(item.shape, item.dtype))
        assert file["größe"].shape == (
            2,
            3,
            7,
            6,
        )  # points on y are one more than cells, on periodic x not


def test_attributes_are_plain_for_h5py(tmp_path: Path) -> None:
    lay_out(tmp_path / "a.h5", array("u", location="y", components=(3,)), array("p"))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["distarray_format"] == 2
        assert file.attrs["library_version"] == b"1.2.3"
        assert list(file.attrs["shape"]) == [7, 5]
        np.testing.assert_array_equal(file.attrs["bounds"], [0.0, 1.0, -1.0, 0.1])
        assert list(file.attrs["axes"]) == [b"x", b"y"]
        assert list(file.attrs["periodic"]) == [True, False]
        assert list(file.attrs["arrays"]) == [b"u", b"p"]
        assert (file.attrs["step"], file.attrs["time"]) == (12, 0.1)
        assert file["u"].attrs["location"] == b"y"
        assert list(file["u"].attrs["components"]) == [3]
        assert list(file["u"].attrs["halo"]) == [1, 2]
        assert file["p"].attrs["location"] == b""
        assert file["p"].attrs["components"].size == 0
        assert json.loads(file["distarray/attrs"][()]) == {"a": 1}
        np.testing.assert_array_equal(file["distarray/faces_y"], GRID.faces[1])
        assert "faces_x" not in file["distarray"]
        assert sorted(file) == ["distarray", "p", "u", "u_component", "x", "y", "y_face"]
        assert file["u"].chunks is None


def test_record_survives(tmp_path: Path) -> None:
    arrays = (array("u", location="y", components=(3,)), array("p", "<c8"), array("m", "|b1"))
    placed = lay_out(tmp_path / "a.h5", *arrays)
    assert header.read_record(str(tmp_path / "a.h5")) == placed
    assert replace(placed, digest=0, arrays=tuple(item.at(0) for item in placed.arrays)) == (
        record(*arrays)
    )


def test_step_and_time_may_be_absent(tmp_path: Path) -> None:
    bare = FileRecord(GRID, (array("u"),), None, None, "{}", "1")
    hdf5.lay_out(str(tmp_path / "a.h5"), bare)
    found = header.read_record(str(tmp_path / "a.h5"))
    assert (found.step, found.time) == (None, None)


def test_array_without_elements(tmp_path: Path) -> None:
    placed = lay_out(tmp_path / "a.h5", array("none", components=(0,)), array("u"))
    assert placed.arrays[0].offset == 0
    assert header.read_record(str(tmp_path / "a.h5")).arrays[0].shape == (0, 7, 5)


def test_large_metadata_fits(tmp_path: Path) -> None:
    """Attributes of HDF5 hold 64 KiB; face positions, attributes and conditions may need more."""
    cells = 50_000
    grid = GridRecord(
        (cells,), ((0.0, 1.0),), ("x",), (False,), (tuple(np.linspace(0, 1, cells + 1)),)
    )
    long = json.dumps({"text": "x" * 200_000})
    one = ArrayRecord("u", "<f8", None, (), (cells,), (1,), long)
    hdf5.lay_out(str(tmp_path / "a.h5"), FileRecord(grid, (one,), 0, 0.0, long, "1"))
    found = header.read_record(str(tmp_path / "a.h5"))
    assert (found.grid, found.attrs, found.arrays[0].boundary) == (grid, long, long)


def test_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for name in ("a.h5", "b.h5"):
        lay_out(tmp_path / name, array("u"), array("v", "<c16", "xy", (2,)))
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


# Errors.


def problem(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        header.read_record(str(path))
    return str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.h5"
    assert (
        problem(path)
        == f"The file '{path}' does not exist; give the path of a file written by save."
    )


@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 5000])
def test_not_hdf5(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.h5"
    path.write_bytes(content)
    assert (
        problem(path)
        == f"The file '{path}' is not an HDF5 file; give the path of a file written by save."
    )


def test_folder_instead_of_a_file(tmp_path: Path) -> None:
    assert problem(tmp_path).startswith(f"The file '{tmp_path}' cannot be read: ")


def test_hdf5_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["u"] = np.zeros(3)
    assert problem(path) == (
        f"The file '{path}' is HDF5 but was not written by save "
        "(it has no attribute distarray_format); read it with h5py."
    )


def test_newer_format(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u"))
    with h5py.File(path, "r+") as file:
        file.attrs["distarray_format"] = 3
    assert problem(path) == (
        f"The file '{path}' has format version 3, this library reads up to 2; "
        "read it with a newer version of distarray."
    )


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_cut_short(tmp_path: Path, part: float) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u", components=(100,)))
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    text = problem(path)
    assert text.startswith(f"The file '{path}' is cut short (")
    assert text.endswith("; use an older file or copy it again.")


def test_array_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u"), array("v"))
    with h5py.File(path, "r+") as file:
        del file["v"]
    assert (
        problem(path)
        == f"The file '{path}' lists the array 'v' but does not hold it; use an older file."
    )


def replace_dataset(path: Path, **options: Any) -> None:
    with h5py.File(path, "r+") as file:
        attributes = dict(file["u"].attrs)
        del file["u"]
        file.create_dataset("u", **options).attrs.update(attributes)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (
            {"data": np.zeros((7, 4))},
            "the array 'u' has shape (7, 4) where the grid and its location say (7, 5)",
        ),
        (
            {"data": np.zeros((7, 5)), "chunks": (7, 5)},
            "the values of the array 'u' are not stored in one run of this file",
        ),
        (
            {"data": np.zeros((7, 5), ">f8")},
            "the array 'u' has the byte order of another machine (>f8)",
        ),
        ({"shape": (7, 5), "dtype": h5py.string_dtype()}, "element type '|O' is no number"),
        (
            {"shape": (7, 5), "dtype": "f8", "external": [("secret", 0, 280)]},
            "the values of the array 'u' are not stored in one run of this file",
        ),
    ],
)
def test_dataset_of_another_kind(tmp_path: Path, options: dict[str, Any], what: str) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u"))
    replace_dataset(path, **options)
    assert (
        problem(path)
        == f"The file '{path}' is damaged: {what}; use an older file or copy it again."
    )


def test_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u"))
    lay_out(tmp_path / "b.h5", array("u"))
    with h5py.File(path, "r+") as file:
        del file["u"]
        file["u"] = h5py.ExternalLink(str(tmp_path / "b.h5"), "/u")
    assert "the array 'u' is no dataset of this file" in problem(path)


@pytest.mark.parametrize(
    "name", ["shape", "bounds", "axes", "periodic", "arrays", "library_version"]
)
def test_missing_attribute(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u"))
    with h5py.File(path, "r+") as file:
        del file.attrs[name]
    assert problem(path).startswith(f"The file '{path}' is damaged: ")


def test_inconsistent_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    lay_out(path, array("u"))
    with h5py.File(path, "r+") as file:
        file.attrs["shape"] = np.array([7, 5, 3])
    assert (
        "is damaged: the attributes shape, bounds, axes and periodic have different lengths"
        in problem(path)
    )


def test_one_changed_byte_gives_a_record_or_an_error(tmp_path: Path) -> None:
    """Whatever becomes of a byte of the header, there is a FileError or a readable record."""
    path = tmp_path / "a.h5"
    lay_out(path, array("u"))
    content = path.read_bytes()
    random = np.random.default_rng(1)
    for position in random.integers(0, len(content), 100):
        changed = bytearray(content)
        changed[position] ^= 1 << int(random.integers(8))
        path.write_bytes(bytes(changed))
        with contextlib.suppress(FileError):
            assert header.read_record(str(path)).arrays


def test_folder_for_the_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        lay_out(tmp_path / "none" / "a.h5", array("u"))
    assert str(caught.value).startswith(
        f"The file '{tmp_path / 'none' / 'a.h5'}' cannot be created: "
    )


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (3, "names must be strings"),
        ("", "names must not be empty, '.' or '..', nor contain '/' or a zero byte"),
        (".", "names must not be empty, '.' or '..', nor contain '/' or a zero byte"),
        ("a/b", "names must not be empty, '.' or '..', nor contain '/' or a zero byte"),
        ("distarray", "the names distarray, VTKHDF are kept for the library"),
        ("u", None),
        ("velocity x", None),
    ],
)
def test_names(name: Any, rule: str | None) -> None:
    assert name_problem(name) == rule


def test_grid_mismatch() -> None:
    same = GridRecord(GRID.cells, GRID.bounds, GRID.axes, GRID.periodic, GRID.faces)
    assert GRID.mismatch(same) is None
    other = GridRecord((7, 6), GRID.bounds, GRID.axes, GRID.periodic, GRID.faces)
    assert GRID.mismatch(other) == "shape (7, 5), the grid has shape (7, 6)"
    other = GridRecord(GRID.cells, GRID.bounds, GRID.axes, GRID.periodic, (None, None))
    assert GRID.mismatch(other) == "other face positions along axis y than the grid"


# Blocks in a file.


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    pairs = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    return shape, Box(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


@given(boxes(), st.sampled_from(["f8", "c8", "?"]))
def test_any_block_is_written_where_it_belongs(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[tuple[int, ...], Box], dtype: str
) -> None:
    shape, box = place
    expected = np.zeros(shape, dtype)
    expected[box.slices()] = values(box.shape, dtype)
    path = tmp_path_factory.mktemp("blocks") / "a"
    path.write_bytes(bytes(16 + expected.nbytes + 16))
    SerialCommunicator().write_blocks(
        str(path), [BlockPiece(16, shape, box, values(box.shape, dtype))]
    )
    assert path.read_bytes() == bytes(16) + expected.tobytes() + bytes(16)


# Plain data.


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    if isinstance(a, complex) and isinstance(b, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
KEYS = st.text() | st.sampled_from(["__float__", "__complex__", "__array__", "__dict__"])


@given(
    st.recursive(
        SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20
    )
)
def test_plain_data_survives(value: Any) -> None:
    text = attributes.dumps(value, "attrs")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert same(attributes.loads(text), value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3)])
def test_small_arrays_survive(dtype: str, shape: tuple[int, ...]) -> None:
    start = values(shape, dtype)
    found = attributes.loads(attributes.dumps({"a": start}, "attrs"))["a"]
    assert found.dtype == start.dtype
    np.testing.assert_array_equal(found, start)


def test_special_values_in_arrays_keep_their_bits() -> None:
    start = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1])
    found = attributes.loads(attributes.dumps(start, "attrs"))
    assert found.tobytes() == start.tobytes()
    pair = start.view(np.complex128)
    assert attributes.loads(attributes.dumps(pair, "attrs")).tobytes() == pair.tobytes()


def test_numpy_scalars_and_tuples_become_plain() -> None:
    start = {
        "a": np.float32(0.1),
        "b": np.int8(3),
        "c": np.bool_(True),
        "d": (1, 2),
        "e": np.complex64(1j),
    }
    expected = {"a": float(np.float32(0.1)), "b": 3, "c": True, "d": [1, 2], "e": 1j}
    assert same(attributes.loads(attributes.dumps(start, "attrs")), expected)


LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"run": {"f": len}},
            "attrs['run']['f'] is a builtin_function_or_method; attributes may be numbers, "
            "strings, None, small arrays, lists and dicts of these.",
        ),
        ({"a": [b"bytes"]}, "attrs['a'][0] is a bytes; "),
        ({1: 2}, "attrs has the key 1; keys of attributes must be strings."),
        (
            {"a": np.array(["text"])},
            "attrs['a'] is an array of <U4; give bool, integer, float or complex values",
        ),
        (
            {"a": [np.ma.array([1, 2], mask=[False, True])]},
            "attrs['a'][0] is a masked array; give its values, by filled(), and its mask.",
        ),
        (
            {"a": np.zeros(200_000)},
            "attrs['a'] is an array of 1600000 bytes, attributes take at most 1048576; save it",
        ),
        (LOOP, "attrs is nested too deeply or contains itself; flatten it."),
    ],
)
def test_attributes_that_are_refused(value: Any, text: str) -> None:
    with pytest.raises(FileError) as caught:
        attributes.dumps(value, "attrs")
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "NaN",
        '{"__float__": "x"}',
        '{"__array__": [1], "dtype": "O", "shape": [1]}',
        '{"__complex__": [1]}',
        '{"__array__": [1, 2], "dtype": "<f8", "shape": [3]}',
    ],
)
def test_damaged_text(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        attributes.loads(text)


@pytest.mark.parametrize("text", ["f8,(", "f8,f8", "(2,)f8", "S4", "O", "V8", "f3", "float", ""])
def test_element_types_that_are_no_plain_numbers(text: str) -> None:
    """NumPy would evaluate some of these, to a SyntaxError."""
    with pytest.raises(ValueError, match="is no number"):
        attributes.numeric_dtype(text)
    with pytest.raises(ValueError, match="is no number"):
        attributes.loads(json.dumps({"__array__": [1], "dtype": text, "shape": [1]}))


@pytest.mark.parametrize("value", [2**2048 - 1, -(2**2048) + 1])
def test_the_widest_integers_come_back(value: int) -> None:
    assert attributes.loads(attributes.dumps(value, "attrs")) == value
    with pytest.raises(FileError, match="is an integer of 2049 bits"):
        attributes.dumps(2 * value, "attrs")


def test_an_image_ends_as_a_file_that_was_written_directly(tmp_path: Path) -> None:
    """Writes of all sizes, some past the memory, over pages that were begun; reads in between."""
    random = np.random.default_rng(5)
    plain, path = io.BytesIO(), tmp_path / "a"
    path.touch()
    with place.opened(str(path), write=True) as descriptor:
        image = Image(descriptor)
        for size in (1, 4096, 5000, (1 << 20) - 1, 1 << 20, (1 << 20) + 4097, 3 << 20, 10, 70_000):
            at = int(random.integers(1 << 22))
            octets = random.bytes(size)
            for file in (plain, image):
                file.seek(at)
                assert file.write(octets) == size
                assert file.tell() == at + size
            image.seek(at)
            assert image.read(size) == octets
        for file in (plain, image):
            file.seek(0, os.SEEK_END)
        assert plain.tell() == image.tell()
        image.truncate(image.tell() + 12_345)
        image.store()
    assert path.read_bytes() == plain.getvalue() + bytes(12_345)
