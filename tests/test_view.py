"""`python -m distarray view`: the table, what is compared, and pictures, by their pixels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import distarray as da
from distarray import cli
from distarray.io import header, place, sample
from distarray.panels import Choice, panels_of
from distarray.pictures import colour_limits
from tests.harness import ROOT, clean_environment, run_ranks

BOUNDS = [(0.0, 3.0), (0.0, 2.0), (-1.0, 1.0)]
UNITS = {"x": "m", "T": "K", "time": "s"}


def number(x: Any, y: Any, z: Any) -> Any:
    """Different in all cells."""
    return x + 10.0 * y + 100.0 * z


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid((12, 8, 6), bounds=BOUNDS, periodic=(True, False, False), device="cpu")


@pytest.fixture
def path(tmp_path: Path, grid: da.Grid) -> Path:
    """A file with an array of cells, one on faces of a periodic axis, one with components."""
    wall = {"y": da.Dirichlet(0.0), "z-": da.Neumann(1.0)}
    vector = grid.zeros(components=(3,), dtype="float32")
    with vector.writing() as block:
        block[0], block[1], block[2] = 1.0, 2.0, 2.0
    arrays = {
        "T": grid.from_function(number, boundary=wall),
        "u": grid.from_function(number, location="x"),
        "w": grid.from_function(number, location="z"),
        "V": vector,
        "phase": grid.full(3.0 + 4.0j, dtype=complex),
        "on": grid.from_function(lambda x, y, z: x > 1.0 + 0 * (y + z), dtype=bool),
    }
    attrs = {"units": UNITS, "config": {"viscosity": 0.01, "cells": [12, 8, 6]}, "none": None}
    da.save(tmp_path / "a.h5", arrays, step=7, time=0.5, attrs=attrs)
    return tmp_path / "a.h5"


def view(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """What the command prints."""
    found = cli.main(["view", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert found == code, out + err
    assert bool(err) == bool(code and not out), err
    return out + err


def row(text: str, name: str) -> list[str]:
    """The cells of the row of a table that begins with a name."""
    line = next(line for line in text.splitlines() if line.split()[:1] == [name])
    return re.split(r"  +", line.strip())


# The table.


def test_the_table_says_what_is_in_the_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = view(capsys, path)
    assert text.startswith(f"{path}\n  format 2 of distarray ")
    assert "\n  step 7, time 0.5\n" in text
    assert row(text, "x") == ["x", "12", "0", "3", "0.25", "periodic"]
    assert row(text, "z") == ["z", "6", "-1", "1", "0.333333"]
    size = f"{12 * 8 * 6 * 8 / 1024:.1f} KiB"
    assert row(text, "T") == [
        "T", "12 x 8 x 6", "float64", "cells", "-", size, "Dirichlet y- y+, Neumann z-",
    ]  # fmt: skip
    assert row(text, "u")[1:5] == ["12 x 8 x 6", "float64", "x faces", "-"]
    assert row(text, "w")[1:5] == ["12 x 8 x 7", "float64", "z faces", "-"]
    assert row(text, "V")[1:5] == ["3 x 12 x 8 x 6", "float32", "cells", "3"]
    assert row(text, "phase")[2] == "complex128"
    assert row(text, "on")[2] == "bool"
    assert row(text, "config.viscosity") == ["config.viscosity", "0.01"]
    assert row(text, "config.cells") == ["config.cells", "[12, 8, 6]"]
    assert row(text, "none") == ["none", "None"]
    assert "min" not in text
    assert "verified" not in text


def test_extremes_are_those_of_numpy(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = view(capsys, path, "--minmax")
    spans = zip((12, 8, 6), BOUNDS, strict=True)
    x, y, z = ((np.arange(n) + 0.5) / n * (b - a) + a for n, (a, b) in spans)
    assert row(text, "T")[6:8] == [
        f"{number(x[0], y[0], z[0]):.6g}", f"{number(x[-1], y[-1], z[-1]):.6g}",
    ]  # fmt: skip
    assert row(text, "V")[6:8] == ["1", "2"]
    assert row(text, "phase")[6:8] == ["5", "5"]
    assert row(text, "on")[6:8] == ["0", "1"]


def test_nan_is_the_smallest_and_the_largest(
    tmp_path: Path, grid: da.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    u = grid.zeros()
    u[3, 2, 1] = np.nan
    da.save(tmp_path / "nan.h5", {"u": u})
    assert row(view(capsys, tmp_path / "nan.h5", "--minmax"), "u")[6:8] == ["nan", "nan"]


def test_a_stretched_axis_and_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faces = np.array([0.0, 0.25, 1.0])
    grid = da.Grid((4, 2), coordinates={"y": faces}, device="cpu")
    da.save(tmp_path / "s.h5", {"n": grid.zeros(location="xy"), "e": grid.zeros(dtype="i4")})
    text = view(capsys, tmp_path / "s.h5")
    assert "step none, time none" in text
    assert row(text, "y") == ["y", "2", "0", "1", "0.25 to 0.75"]
    assert row(text, "n")[1:4] == ["5 x 3", "float64", "nodes"]
    assert row(text, "e")[2:4] == ["int32", "cells"]
    assert "attribute" not in text


def test_texts_that_would_move_the_cursor_are_quoted(
    tmp_path: Path, grid: da.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    da.save(tmp_path / "t.h5", {"a\x1b[2J": grid.zeros()}, attrs={"k\n": "v\x07"})
    text = view(capsys, tmp_path / "t.h5")
    assert "'a\\x1b[2J'" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_file_of_version_1(capsys: pytest.CaptureFixture[str]) -> None:
    text = view(capsys, ROOT / "tests" / "data" / "version1.h5", "--verify", "--minmax")
    assert "format 1 of distarray" in text
    assert "step 3, time 0.25" in text
    assert row(text, "u")[1:5] == ["2 x 7 x 5", "float64", "x faces", "2"]
    assert text.endswith("not verified: files of format 1 have no checksums\n")


def test_one_rank_prints(path: Path) -> None:
    result = run_ranks("distarray", 2, args=["view", str(path)])
    assert result.stdout.count("step 7, time 0.5") == 1


# Verification.


def test_a_whole_file_is_verified(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = view(capsys, path, "--verify")  # V has one tile for each of its three components
    assert text.endswith("verified: metadata and all 8 tiles are as they were written\n")


def test_a_flipped_bit_names_its_tile(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = header.read_record(str(path))
    vector = next(array for array in record.arrays if array.name == "V")
    flip(path, vector.offset + vector.nbytes - 1)
    assert "damaged" not in view(capsys, path)
    text = view(capsys, path, "--verify", code=1)
    assert "tile (2, 0, 0, 0) of the array 'V', elements [2:3, 0:12, 0:8, 0:6], has" in text
    assert text.endswith("damaged: 1 problem, 8 tiles compared\n")


def test_damaged_metadata_are_named(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = header.read_record(str(path))
    flip(path, record.digest)
    text = view(capsys, path, "--verify", code=1)
    assert "its metadata differ from their digest" in text


def flip(path: Path, place_: int) -> None:
    with path.open("r+b") as file:
        file.seek(place_)
        octet = file.read(1)[0] ^ 1
        file.seek(place_)
        file.write(bytes([octet]))


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("no HDF5")
    for name, text in (("none", "does not exist"), ("text", "is not an HDF5 file")):
        told = view(capsys, tmp_path / name, "--verify", code=1)
        assert told.startswith(f"python -m distarray view: The file '{tmp_path}/{name}' {text}; ")
        assert told.count("\n") == 1


# What is drawn.


def panels(path: Path, *slices: str, array: str | None = None, component: Any = None) -> Any:
    record = header.read_record(str(path))
    return panels_of(str(path), record, Choice(array, component, slices))


def test_a_slice_holds_the_values_at_its_place(path: Path, grid: da.Grid) -> None:
    (panel,) = panels(path, "z=0.4")
    x, y, z = (np.squeeze(part) for part in grid.coordinates())
    k = int(np.argmin(abs(z - 0.4)))
    assert np.array_equal(panel.values, number(x[:, None], y, z[k]))
    assert panel.title == f"z = {z[k]:.4g}"
    assert panel.labels == ("x [m]", "y")
    assert np.allclose(panel.edges[0], np.linspace(0, 3, 13))
    assert np.allclose(panel.edges[1], np.linspace(0, 2, 9))


def test_three_planes_in_the_middle(path: Path, grid: da.Grid) -> None:
    x, y, z = (np.squeeze(part) for part in grid.coordinates())
    found = panels(path)
    assert [panel.labels for panel in found] == [("x [m]", "y"), ("x [m]", "z"), ("y", "z")]
    middle = x[5], y[3], z[2]  # of two as near the one below
    assert [panel.title for panel in found] == [
        f"z = {middle[2]:.4g}", f"y = {middle[1]:.4g}", f"x = {middle[0]:.4g} m",
    ]  # fmt: skip
    assert np.array_equal(found[0].values, number(x[:, None], y, middle[2]))
    assert np.array_equal(found[1].values, number(x[:, None], middle[1], z))
    assert np.array_equal(found[2].values, number(middle[0], y[:, None], z))


def test_a_line(path: Path, grid: da.Grid) -> None:
    (panel,) = panels(path, "x=0", "z=-1")
    x, y, z = (np.squeeze(part) for part in grid.coordinates())
    assert np.array_equal(panel.values, number(x[0], y, z[0]))
    assert np.array_equal(panel.positions[0], y)
    assert panel.title == f"x = {x[0]:.4g} m, z = {z[0]:.4g}"


def test_points_stand_for_what_is_nearest_to_them(path: Path) -> None:
    (panel,) = panels(path, "z=0", array="u")  # periodic: half a cell on either side
    assert np.allclose(panel.edges[0], np.linspace(-0.125, 2.875, 13))
    (panel,) = panels(path, "x=0", array="w")
    h = 1.0 / 3.0
    assert np.allclose(panel.edges[1], [-1, *(np.arange(6) * h - 1 + h / 2), 1])


def test_magnitudes_and_components(path: Path) -> None:
    assert np.array_equal(panels(path, "z=0", array="V")[0].values, np.full((12, 8), 3.0))
    one = panels(path, "z=0", array="V", component=(0,))[0]
    assert np.array_equal(one.values, np.full((12, 8), 1.0))
    assert np.array_equal(panels(path, "z=0", array="phase")[0].values, np.full((12, 8), 5.0))


def test_no_more_is_read_than_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1400 x 3 x 1300 numbers, every third along the long axes of one plane, in whole lines."""
    grid = da.Grid((1400, 3, 1300), device="cpu")
    u = grid.from_function(lambda x, y, z: x + 10 * y + 100 * z, dtype="float32")
    da.save(tmp_path / "large.h5", {"u": u})
    sizes = []

    def counted(descriptor: int, offset: int, octets: Any) -> None:
        sizes.append(memoryview(octets).nbytes)
        place_read(descriptor, offset, octets)

    place_read = place.read_at
    monkeypatch.setattr(sample.place, "read_at", counted)
    (panel,) = panels(tmp_path / "large.h5", "y=0.5")
    assert panel.values.shape == (467, 434)
    assert sum(sizes) == 467 * 1300 * 4
    assert np.array_equal(panel.values, u.gather()[::3, 1, ::3])
    sizes.clear()
    panels(tmp_path / "large.h5", "z=0.5")
    assert sum(sizes) == 467 * 3 * 4


@pytest.mark.parametrize("rows", [3, 300, 3000])
def test_any_part_is_what_numpy_cuts_out(tmp_path: Path, rows: int) -> None:
    """With lines near to one another and far apart."""
    grid = da.Grid((5, 7, rows), device="cpu")
    u = grid.from_function(number)
    da.save(tmp_path / "a.h5", {"u": u})
    (array,) = header.read_record(str(tmp_path / "a.h5")).arrays
    values = u.gather()
    for i, j, k in [
        (range(5), range(7), range(rows)),
        (range(1, 4, 2), range(2, 7, 3), range(1, rows, 2)),
        (range(4, 5), range(7), range(2, 3)),
        (range(5), range(6, 7), range(0, rows, 3)),
        (range(0, 5, 4), range(0, 7, 6), range(rows - 1, rows)),
    ]:
        found = sample.read_sample(str(tmp_path / "a.h5"), array, (i, j, k))
        assert np.array_equal(found, values[np.ix_(i, j, k)])
    assert sample.read_sample(str(tmp_path / "a.h5"), array, (range(0), j, k)).shape == (0, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--array", "q"],
            "The file has no array 'q'; it holds 'T', 'u', 'w', 'V', 'phase', 'on'.",
        ),
        (
            ["--slice", "q=1"],
            "--slice takes one of the axes x, y, z and a position, such as z=0.5, received 'q=1'.",
        ),
        (
            ["--slice", "z"],
            "--slice takes one of the axes x, y, z and a position, such as z=0.5, received 'z'.",
        ),
        (
            ["--slice", "z=5"],
            "--slice takes a position between -1 and 1 on the axis z, received '5'.",
        ),
        (
            ["--slice", "z=up"],
            "--slice takes a position between -1 and 1 on the axis z, received 'up'.",
        ),
        (
            ["--slice", "z=0", "--slice", "z=1"],
            "--slice cuts the axis z once, received it again: 'z=1'.",
        ),
        (
            ["--slice", "x=0", "--slice", "y=0", "--slice", "z=0"],
            "A picture has one, two or three axes, and 0 of 3 are not cut; give fewer --slice.",
        ),
        (["--component", "0"], "The array 'T' has no components; leave --component out."),
        (
            ["--array", "V", "--component", "3"],
            "--component takes one index, of 0 to 2, for the array 'V', received 3.",
        ),
        (
            ["--array", "V", "--component", "1", "2"],
            "--component takes one index, of 0 to 2, for the array 'V', received 1 2.",
        ),
    ],
)
def test_wrong_options_are_one_sentence(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    out = path.with_suffix(".png")
    told = view(capsys, path, "--png", out, *arguments, code=2)
    assert told == f"python -m distarray view: {text}\n"
    assert not out.exists()


def test_a_choice_without_a_picture(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = view(capsys, path, "--slice", "z=0", code=2)
    assert "--array, --component and --slice choose a picture; give --png OUT." in told


def test_a_picture_of_another_type(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = path.with_suffix(".zzz")
    assert view(capsys, path, "--png", out, code=2) == (
        f"python -m distarray view: --png writes a picture of type PNG, received '{out}'; give a "
        "name that ends in .png.\n"
    )
    assert not out.exists()


def test_the_file_itself_is_not_overwritten(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = path.read_bytes()
    told = view(capsys, path, "--png", path.parent / "." / path.name, code=2)
    assert "--png would overwrite the file" in told
    assert path.read_bytes() == before


# Pictures.


def drawn(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> Any:
    """The pixels of a picture, 0 to 1."""
    out = path.with_suffix(".png")
    assert f"wrote {out}\n" in view(capsys, path, "--png", out, *arguments)
    return imread(out)[:, :, :3]


def areas(pixels: Any, colour: Any) -> Any:
    """Rows and columns of the pixels of a colour."""
    return np.nonzero(np.abs(pixels - np.array(colour)).max(axis=2) < 0.02)


YELLOW, VIOLET, GREY = (0.993, 0.906, 0.144), (0.267, 0.005, 0.329), (0.75, 0.75, 0.75)


def test_a_picture_shows_each_value_at_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One large value at small x and large y: above on the left. One NaN below on the right."""
    grid = da.Grid((8, 4), bounds=[(0.0, 2.0), (0.0, 1.0)], device="cpu")
    u = grid.zeros()
    u[0, 3], u[7, 0] = 1.0, np.nan
    da.save(tmp_path / "a.h5", {"u": u}, time=0.25)
    pixels = drawn(capsys, tmp_path / "a.h5")
    down, across = areas(pixels, VIOLET)
    top, bottom, left, right = down.min(), down.max(), across.min(), across.max()
    # The colour bar at the right has the same colours.
    cell = np.bincount(across).argmax()
    assert left < cell < right
    width = (bottom - top) * 2  # to scale: twice as wide as high
    down, across = areas(pixels, YELLOW)
    inside = across < left + width / 2
    assert abs(down[inside].mean() - (top + (bottom - top) / 8)) < 3
    assert abs(across[inside].mean() - (left + width / 16)) < 3
    down, across = areas(pixels, GREY)
    inside = (down > top) & (down < bottom) & (across > left) & (across < left + width)
    down, across = down[inside], across[inside]
    assert abs(down.mean() - (bottom - (bottom - top) / 8)) < 3
    assert abs(across.mean() - (left + width * 15 / 16)) < 3


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--array", "V"),
        ("--array", "on", "--slice", "y=1"),
        ("--array", "phase", "--slice", "y=1", "--slice", "z=0"),
        ("--array", "V", "--component", "2", "--slice", "x=0"),
    ],
)
def test_pictures_of_all_kinds(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    pixels = drawn(capsys, path, *arguments)
    assert min(pixels.shape[:2]) > 300
    assert len(np.unique(pixels[::5, ::5].sum(axis=2))) > 20


def test_names_with_signs_of_formulas(
    tmp_path: Path, grid: da.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    da.save(tmp_path / "a$b^$.h5", {"$u_{$": grid.zeros()}, attrs={"units": {"$u_{$": "$m^"}})
    drawn(capsys, tmp_path / "a$b^$.h5")


def test_long_boxes_are_not_drawn_to_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = da.Grid((100, 4), bounds=[(0.0, 100.0), (0.0, 1.0)], device="cpu")
    da.save(tmp_path / "a.h5", {"u": grid.from_function(lambda x, y: x + y)})
    height, width, _ = drawn(capsys, tmp_path / "a.h5").shape
    assert 1.0 < width / height < 3.0


def test_version_1_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "old.png"
    view(capsys, ROOT / "tests" / "data" / "version1.h5", "--png", out)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["view", str(path), "--png", str(path.parent / "none" / "a.png")]) == 1
    out, error = capsys.readouterr()
    assert out == ""  # found before the file is read
    assert error.endswith("cannot be written: No such file or directory; give another path.\n")


def test_without_matplotlib(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["view", str(path), "--png", str(path.parent / "a.png")]) == 1
    error = capsys.readouterr().err
    assert "Pictures need matplotlib, which cannot be imported (" in error
    assert error.endswith("; install the extra plot (in a clone: pip install '.[plot]').\n")


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ([0.0, 2.0], (0.0, 2.0)),
        ([-1.0, 2.0], (-2.0, 2.0)),
        ([-0.1, 2.0], (-0.1, 2.0)),
        ([3.0, 3.0], (1.5, 4.5)),
        ([0.0, 0.0], (-0.5, 0.5)),
        ([np.nan, np.nan], (0.0, 1.0)),
        ([np.nan, 1.0, np.inf, 2.0], (1.0, 2.0)),
    ],
)
def test_colour_limits(values: list[float], limits: tuple[float, float]) -> None:
    assert colour_limits([np.array(values)]) == limits


@pytest.mark.parametrize("closed", [True, False])
def test_output_that_nobody_reads(path: Path, closed: bool) -> None:
    """A pipe without a reader, a full disk: it ends without a traceback."""
    if closed:
        reading, output = os.pipe()
        os.close(reading)
    else:
        output = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "distarray", "view", str(path)],
            cwd=ROOT, env=clean_environment(), stdout=output, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    finally:
        os.close(output)
    assert (done.returncode, done.stderr) == (1, "")


def test_attributes_are_read_before_a_picture_is_drawn(
    tmp_path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = tmp_path / "a.h5"
    monkeypatch.setattr("distarray.io.attributes.dumps", lambda *_, **__: '{"a": NaN}')
    da.save(path, {"u": grid.ones()})
    assert cli.main(["view", str(path), "--png", str(tmp_path / "a.png")]) == 1
    assert capsys.readouterr().err.startswith(
        f"python -m distarray view: The file '{path}' is damaged: "
    )
