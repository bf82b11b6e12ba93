"""Files that are damaged or do not fit: one error that names the file and the tile, never a crash.

The place of a byte in an array is computed here from the offset that h5py gives.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import distarray as da
from distarray.io.verify import verify
from tests.harness import ROOT, clean_environment

SHAPE = (70, 66, 5)  # two tiles along x and y
CURE = "; use an older file or copy it again."


def fields(grid: da.Grid) -> dict[str, da.DistArray]:
    return {
        "u": grid.from_function(lambda x, y, z: x + 10 * y + 100 * z),
        "v": grid.from_function(lambda x, y, z: x - y + z, components=2, dtype="f4", location="y"),
    }


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid(SHAPE)


@pytest.fixture
def path(tmp_path: Path, grid: da.Grid) -> Path:
    path = tmp_path / "a.h5"
    da.save(path, fields(grid), step=4, time=0.5, attrs={"viscosity": 0.1})
    return path


def error(path: Path, grid: da.Grid, **options: Any) -> str:
    with pytest.raises(da.FileError) as caught:
        da.load(path, grid, **options)
    text = str(caught.value)
    assert f"'{path}'" in text
    assert "\n" not in text
    return text


def flip(path: Path, place: int, bit: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (octet,) = file.read(1)
        file.seek(place)
        file.write(bytes([octet ^ bit]))


def byte_of(path: Path, name: str, element: tuple[int, ...]) -> int:
    """The place of the first byte of an element of an array."""
    with h5py.File(path) as file:
        dataset = file[name]
        flat = int(np.ravel_multi_index(element, dataset.shape))
        return dataset.id.get_offset() + flat * dataset.dtype.itemsize


@pytest.mark.parametrize(
    ("name", "element", "tile", "box"),
    [
        ("u", (0, 0, 0), (0, 0, 0), "0:64, 0:64, 0:5"),
        ("u", (63, 64, 4), (0, 1, 0), "0:64, 64:66, 0:5"),
        ("u", (69, 65, 4), (1, 1, 0), "64:70, 64:66, 0:5"),
        ("v", (1, 64, 3, 2), (1, 1, 0, 0), "1:2, 64:70, 0:64, 0:5"),
        ("v", (0, 10, 66, 0), (0, 0, 1, 0), "0:1, 0:64, 64:67, 0:5"),
    ],
)
def test_a_flipped_bit_of_a_value_names_its_tile(
    path: Path,
    grid: da.Grid,
    name: str,
    element: tuple[int, ...],
    tile: tuple[int, ...],
    box: str,
) -> None:
    with h5py.File(path) as file:
        stored = int(file[f"distarray/checksums/{name}"][tile])
    flip(path, byte_of(path, name, element) + 2, 16)
    text = error(path, grid)
    start = (
        f"The file '{path}' is damaged: tile {tile} of the array '{name}', elements [{box}], has "
        "checksum "
    )
    assert text.startswith(start)
    assert text.endswith(f" where {stored:08x} was written{CURE}")
    other = "v" if name == "u" else "u"
    assert list(da.load(path, grid, names=[other]).arrays) == [other]
    found = verify(str(path))
    assert (found.whole, found.tiles, found.problems) == (False, 12, (text,))


def test_every_damaged_tile_is_found(path: Path) -> None:
    for element in ((0, 0, 0), (69, 0, 0), (69, 65, 0)):
        flip(path, byte_of(path, "u", element))
    found = verify(str(path))
    places = ["tile (0, 0, 0)", "tile (1, 0, 0)", "tile (1, 1, 0)"]
    assert len(found.problems) == 3
    for problem, place in zip(found.problems, places, strict=True):
        assert place in problem


def test_a_whole_file_is_found_whole(path: Path) -> None:
    found = verify(str(path))
    assert (found.whole, found.tiles, found.problems) == (True, 12, ())
    assert found.record is not None
    assert [array.name for array in found.record.arrays] == ["u", "v"]
    missing = verify(str(path) + "x")
    assert (missing.whole, missing.record) == (False, None)
    assert missing.problems == (
        f"The file '{path}x' does not exist; give the path of a file written by save.",
    )


FLIPS = """
import sys
from pathlib import Path
import distarray as da
from tests.test_io_damage import flip

path, step = Path(sys.argv[1]), int(sys.argv[2])
grid = da.Grid(tuple(map(int, sys.argv[3:])))
octets = path.read_bytes()
places = [k for k in range(len(octets)) if octets[k]]
zeros = [k for k in range(len(octets)) if not octets[k]]
texts = set()
for place in sorted(places[::step] + zeros[:: 7 * step]):
    flip(path, place, 1 << place % 8)
    try:
        da.load(path, grid)
        print(place, "was not noticed")
    except da.FileError as error:
        text = str(error)
        texts.add(text.split(": ")[0])
        if f"'{path}'" not in text or "\\n" in text:
            print(place, text)
    flip(path, place, 1 << place % 8)
da.load(path, grid)
print("done", len(texts) > 0)
"""


@pytest.mark.parametrize(
    "step", [47, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_one_flipped_bit_anywhere_is_an_error_and_never_a_crash(tmp_path: Path, step: int) -> None:
    """Every `step`-th byte that is not zero, and some that are. In a child process, which a crash
    of HDF5 would end.
    """
    grid = da.Grid((5, 4, 3))
    path = tmp_path / "a.h5"
    da.save(path, fields(grid), step=4, time=0.5, attrs={"viscosity": 0.1})
    result = subprocess.run(
        [sys.executable, "-c", FLIPS, str(path), str(step), "5", "4", "3"],
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert (result.returncode, result.stdout.split("\n")) == (0, ["done True", ""]), result.stderr


@pytest.mark.parametrize("lost", [1, 8, 1000, 0.5, 0.999])
def test_a_file_that_is_cut_short(path: Path, grid: da.Grid, lost: float) -> None:
    size = path.stat().st_size
    os.truncate(path, size - int(lost if lost >= 1 else lost * size))
    text = error(path, grid)
    assert text.startswith(f"The file '{path}' is cut short (")
    assert text.endswith(CURE)


def test_a_file_that_something_was_added_to(path: Path, grid: da.Grid) -> None:
    with path.open("ab") as file:
        file.write(b"x")
    assert error(path, grid) == (
        f"The file '{path}' is damaged: its metadata differ from their digest, since bytes were "
        f"lost or another program wrote into it{CURE}"
    )


def test_a_file_that_another_program_wrote_into(path: Path, grid: da.Grid) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["time"] = 0.75
    assert "another program wrote into it" in error(path, grid)


def test_a_file_of_a_newer_version(path: Path, grid: da.Grid) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["distarray_format"] = 3
    assert error(path, grid) == (
        f"The file '{path}' has format version 3, this library reads up to 2; "
        "read it with a newer version of distarray."
    )


def test_a_file_cannot_switch_off_that_it_is_compared(path: Path, grid: da.Grid) -> None:
    """A digest stored otherwise, as by a program that packs files anew, is not taken for none."""
    with h5py.File(path, "r+") as file:
        seal = file["distarray/digest"]
        values, kind = seal[()], seal.dtype
        del file["distarray/digest"]
        file.create_dataset("distarray/digest", data=values, dtype=kind, chunks=values.shape)
    assert "is not stored in one run of this file" in error(path, grid)


def test_a_file_of_version_0(path: Path, grid: da.Grid) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["distarray_format"] = 0
    assert "it has format version 0" in error(path, grid)


def test_a_file_of_version_1_is_read() -> None:
    """Written by the library before files had checksums."""
    path = ROOT / "tests" / "data" / "version1.h5"
    grid = da.Grid(
        (6, 5),
        bounds=[(0.0, 3.0), (1.0, 2.0)],
        coordinates={"y": 1 + np.linspace(0, 1, 6) ** 2},
    )
    found = da.load(path, grid)
    assert (found.step, found.time, found.attrs) == (3, 0.25, {"name": "old"})
    x, y = grid.coordinates("x")
    expected = np.broadcast_to(x + 10 * y, (2, 7, 5))
    np.testing.assert_array_equal(found.arrays["u"].gather(), expected)
    assert found.arrays["u"].location == "x"
    assert found.arrays["u"].boundary["y-"].value == 0.5
    x, y = grid.coordinates()
    np.testing.assert_array_equal(found.arrays["n"].gather(), x > y)
    result = verify(str(path))
    assert (result.whole, result.tiles) == (True, 0)


# What does not fit.


def test_an_array_of_another_shape(path: Path) -> None:
    assert error(path, da.Grid((70, 66, 6))) == (
        f"The file '{path}' has shape (70, 66, 5), the grid has shape (70, 66, 6); "
        "load it onto a grid like the one it was saved from."
    )


def test_element_types_change_only_when_asked(path: Path, grid: da.Grid) -> None:
    u, v = fields(grid).values()
    found = da.load(path, grid).arrays
    assert (found["u"].dtype, found["v"].dtype) == (np.float64, np.float32)
    found = da.load(path, grid, dtype="float32").arrays
    assert (found["u"].dtype, found["v"].dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(found["u"].gather(), u.gather().astype("f4"))
    found = da.load(path, grid, dtype={"v": np.float64}).arrays
    assert (found["u"].dtype, found["v"].dtype) == (np.float64, np.float64)
    np.testing.assert_array_equal(found["v"].gather(), v.gather().astype("f8"))


def test_complex_numbers_and_integers_take_a_common_precision(tmp_path: Path) -> None:
    grid = da.Grid((4, 3))
    path = tmp_path / "a.h5"
    z = grid.from_function(lambda x, y: x + 1j * y, dtype=complex)
    n = grid.from_function(lambda x, y: x > y, dtype=int)
    da.save(path, {"z": z, "n": n})
    found = da.load(path, grid, dtype=np.float32).arrays
    assert (found["z"].dtype, found["n"].dtype) == (np.complex64, int)
    np.testing.assert_array_equal(found["z"].gather(), z.gather().astype("c8"))


KINDS = "load takes an element type of bool, integers, float32, float64, complex64 or complex128"


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (
            {"u": int},
            "The array 'u' of the file '$path' is float64 and cannot be read as int64; "
            "load it as it is and convert it by astype.",
        ),
        ({"w": "f4"}, "The file '$path' has no array 'w'; it holds u, v."),
        (
            int,
            "load takes one real element type for all arrays, received dtype=int64; "
            "give a dict of names and element types for others.",
        ),
        (
            "text",
            f"{KINDS}, received 'text'; give one such as 'float32'.",
        ),
        (
            {"u": object},
            f"{KINDS}, received a type; give one such as 'float32'.",
        ),
        ("f2", f"{KINDS}, received 'f2'; give one such as 'float32'."),
        ({"u": "f2"}, f"{KINDS}, received 'f2'; give one such as 'float32'."),
    ],
)
def test_element_types_that_are_refused(path: Path, grid: da.Grid, dtype: Any, text: str) -> None:
    with pytest.raises(da.FileError) as caught:
        da.load(path, grid, dtype=dtype)
    assert str(caught.value) == text.replace("$path", str(path))


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (
            "fast",
            "method must be one of posix, mpiio, h5py, root or None, received 'fast'; "
            "None takes the fastest that is safe.",
        ),
        (
            "h5py",
            "method='h5py' needs an h5py that was built for MPI, and the installed one is not; "
            "use method='mpiio', which writes the same bytes.",
        ),
    ],
)
def test_methods_that_are_refused(
    tmp_path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch, method: str, text: str
) -> None:
    monkeypatch.setattr("distarray.io.hdf5.is_parallel", lambda: False)
    with pytest.raises(da.FileError) as caught:
        da.save(tmp_path / "a.h5", {"u": grid.ones()}, method=method)
    assert str(caught.value) == text
    assert not list(tmp_path.iterdir())


def test_values_that_change_before_they_are_read_back(
    path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that loses a bit: the file never gets its name, and the old one stays."""
    from distarray.io import write

    before = path.read_bytes()
    combine = write.WritePlan.combine

    def damaged(plan: write.WritePlan) -> None:
        combine(plan)
        flip(Path(plan.partial), plan.record.arrays[0].offset + 9)

    monkeypatch.setattr(write.WritePlan, "combine", damaged)
    with pytest.raises(da.FileError) as caught:
        da.save(path, fields(grid))
    assert str(caught.value).startswith(
        f"The file '{path}.partial' is damaged: tile (0, 0, 0) of the array 'u', elements "
    )
    assert path.read_bytes() == before
    assert sorted(item.name for item in path.parent.iterdir()) == ["a.h5", "a.xdmf"]


def replace_after(
    patch: pytest.MonkeyPatch, owner: Any, name: str, path: Path, files: list[bytes]
) -> None:
    """Put one of these files in the place of another each time after a function was called."""
    inner = getattr(owner, name)

    def called(*arguments: Any) -> Any:
        result = inner(*arguments)
        if files:
            fresh = path.with_name("fresh")
            fresh.write_bytes(files.pop(0))
            fresh.replace(path)
        return result

    patch.setattr(owner, name, called)


@pytest.mark.parametrize("stage", ["sound_record", "stored_table", "read_values"])
@pytest.mark.parametrize("times", [1, 4])
def test_a_file_that_is_replaced_while_it_is_read(
    path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch, stage: str, times: int
) -> None:
    """Two files of equal layout: what is loaded is all of one, or nothing."""
    from distarray.io import snapshot
    from distarray.io import verify as verifying

    other = path.with_name("b.h5")
    da.save(other, {name: u * 2.0 for name, u in fields(grid).items()}, step=5, time=0.5)
    files = ([other.read_bytes(), path.read_bytes()] * 2)[:times]
    owner = snapshot if stage == "read_values" else verifying
    replace_after(monkeypatch, owner, stage, path, files)
    if times == 1:
        found = da.load(path, grid)
        assert (found.step, found.attrs) == (5, {})
        for name, u in fields(grid).items():
            np.testing.assert_array_equal(found.arrays[name].gather(), 2.0 * u.gather())
    else:
        assert error(path, grid) == (
            f"The file '{path}' was replaced while it was read, also at a second attempt; read it "
            "when nothing writes it."
        )


@pytest.mark.parametrize("times", [1, 4])
def test_a_file_that_is_replaced_while_it_is_verified(
    path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    from distarray.io import verify as verifying

    content = path.read_bytes()
    replace_after(monkeypatch, verifying, "stored_table", path, [content] * times)
    found = verify(str(path))
    assert found.whole == (times == 1)
    assert all("was replaced while it was read" in problem for problem in found.problems)


def test_nan_is_refused_where_that_is_asked(tmp_path: Path, grid: da.Grid) -> None:
    from distarray.io.write import begin_save

    path = tmp_path / "a.h5"
    u = fields(grid)["u"]
    u[65, 3, 2] = np.nan
    da.save(path, {"u": u})  # a file may hold NaN
    assert np.isnan(da.load(path, grid).arrays["u"].gather()[65, 3, 2])
    before = path.read_bytes()
    plan = begin_save(path, {"u": u}, refuse_nan=True)
    plan.lay_out()
    with pytest.raises(da.FileError) as caught:
        plan.write([u])
    plan.abandon()
    assert str(caught.value) == (
        f"The file '{path}' was not written, and files before it are as they were: the array 'u' "
        "holds NaN at (65, 3, 2), in its tile (1, 0, 0); look for the cause in the run, such as "
        "too long a time step."
    )
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["a.h5"]


def change(path: Path, **entries: Any) -> None:
    """Put other datasets in the place of those in /distarray, as another program might."""
    with h5py.File(path, "r+") as file:
        for name, options in entries.items():
            del file[f"distarray/{name}"]
            file["distarray"].create_dataset(name, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shape": (6,), "dtype": "f8", "chunks": (2,)}, "is not stored in one run"),
        ({"data": [0.0, 1.0, np.nan, 3.0, 4.0, 5.0]}, "axis x are not finite and ascending"),
        ({"data": [0.0, 1.0, 2.0, 2.0, 4.0, 5.0]}, "axis x are not finite and ascending"),
        ({"shape": (1 << 40,), "dtype": "f8", "chunks": (2,)}, "of shape (1099511627776,)"),
    ],
)
def test_face_positions_that_are_damaged(
    tmp_path: Path, options: dict[str, Any], text: str
) -> None:
    path = tmp_path / "a.h5"
    grid = da.Grid((5, 5), coordinates={"x": [0.0, 1.0, 2.0, 3.0, 4.5, 5.0]})
    da.save(path, {"u": grid.ones()})
    change(path, faces_x=options)
    assert text in error(path, grid)


def test_a_text_that_is_longer_than_the_file(path: Path, grid: da.Grid) -> None:
    change(path, attrs={"shape": (), "dtype": "S2000000000"})  # never written: no space is taken
    assert "'/distarray/attrs' ends beyond the file" in error(path, grid)


@pytest.mark.parametrize("bounds", [[1.0, 0.0], [0.0, np.nan], [0.0, np.inf], [2.0, 2.0]])
def test_bounds_that_are_damaged(path: Path, grid: da.Grid, bounds: list[float]) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["bounds"] = np.array([*bounds, 0.0, 1.0, 0.0, 1.0])
    assert "are not finite and ascending" in error(path, grid)


@pytest.mark.parametrize("wrong", ["", "folder/"])
def test_paths_that_are_no_file(grid: da.Grid, wrong: str) -> None:
    for caller, call in (
        ("save", lambda: da.save(wrong, {"u": grid.ones()})),
        ("load", lambda: da.load(wrong, grid)),
    ):
        with pytest.raises(da.FileError) as caught:
            call()
        assert str(caught.value) == (
            f"{caller} takes the path of a file, received {wrong!r}; give its name."
        )


def test_text_that_utf8_cannot_hold(tmp_path: Path, grid: da.Grid) -> None:
    path, u = tmp_path / "a.h5", grid.ones()
    for attrs, subject in (({"a": "\ud800"}, "attrs['a']"), ({"\udfff": 1}, "a key of attrs")):
        with pytest.raises(da.FileError) as caught:
            da.save(path, {"u": u}, attrs=attrs)
        assert str(caught.value) == (
            f"{subject} is text with lone surrogates, which UTF-8 does not have; remove them."
        )
    with pytest.raises(da.FileError, match="without lone surrogates"):
        da.save(path, {"u\udc00": u})
    assert not list(tmp_path.iterdir())
