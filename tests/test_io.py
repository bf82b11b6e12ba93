"""Files in one process: what h5py reads, what comes back, which checkpoints are kept and found."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import distarray as da
from tests.harness import run_ranks, run_serial
from tests.io_tools import sealed_again

PROGRAM = """
import sys
import numpy as np
import distarray as da

grid = da.Grid((11, 7, 5), periodic=(False, True, False))
u = grid.from_function(
    lambda x, y, z: x + 10 * y + 100 * z,
    components=2,
    location="xz",
    boundary={"x": da.Neumann(0.5)},
)
n = grid.from_function(lambda x, y, z: x > y, dtype=bool)
da.save(sys.argv[1], {"u": u, "n": n}, step=1, time=2.0, attrs={"name": "heat"})
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_process_and_several_ranks_write_the_same_bytes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run_serial(program, args=[str(tmp_path / "serial.h5")])
    run_ranks(program, 3, args=[str(tmp_path / "3.h5")])
    assert len({digest(path) for path in tmp_path.glob("*.h5")}) == 1
    # What three ranks have written comes back here, in a process without MPI.
    grid = da.Grid((11, 7, 5), periodic=(False, True, False))
    found = da.load(tmp_path / "3.h5", grid)
    x, y, z = grid.coordinates("xz")
    expected = np.broadcast_to(x + 10 * y + 100 * z, (2, 12, 7, 6))
    np.testing.assert_array_equal(found.arrays["u"].gather(), expected)
    assert (found.step, found.time, found.attrs) == (1, 2.0, {"name": "heat"})
    assert found.arrays["n"].dtype == bool
    assert found.arrays["u"].boundary["x"].value == 0.5


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid((6, 5), bounds=[(0.0, 3.0), (1.0, 2.0)])


def test_values_and_attributes_with_h5py(tmp_path: Path, grid: da.Grid) -> None:
    u = grid.from_function(lambda x, y: x - 2 * y, dtype="f4", location="y")
    da.save(tmp_path / "a.h5", {"u": u}, step=np.int64(3), time=np.float32(0.5))
    with h5py.File(tmp_path / "a.h5") as file:
        values = file["u"]
        x = 0.25 + 0.5 * np.arange(6)
        y = 1.0 + 0.2 * np.arange(6)
        np.testing.assert_allclose(values[()], x[:, None] - 2 * y, rtol=1e-6)
        assert values.dtype == np.float32
        assert values.attrs["location"] == b"y"
        assert (file.attrs["step"], file.attrs["time"]) == (3, 0.5)
        assert list(file.attrs["shape"]) == [6, 5]
        assert json.loads(file["distarray/attrs"][()]) == {}


def test_step_time_and_attributes_are_optional(tmp_path: Path, grid: da.Grid) -> None:
    da.save(tmp_path / "a.h5", {"u": grid.ones()})
    found = da.load(str(tmp_path / "a.h5"), grid)
    assert (found.step, found.time, found.attrs) == (None, None, {})


def test_attributes_come_back(tmp_path: Path, grid: da.Grid) -> None:
    attrs = {
        "solver": {"Re": 100.0, "scheme": "rk3", "seed": 2**70},
        "nan": float("nan"),
        "w": [1, None],
    }
    da.save(tmp_path / "a.h5", {"u": grid.ones()}, attrs=attrs | {"table": np.eye(2, dtype="f4")})
    found = da.load(tmp_path / "a.h5", grid).attrs
    np.testing.assert_array_equal(found.pop("table"), np.eye(2, dtype="f4"), strict=True)
    assert np.isnan(found.pop("nan"))
    attrs.pop("nan")
    assert found == attrs


def conditions(array: da.DistArray, tmp_path: Path) -> Any:
    assert array.grid is not None
    da.save(tmp_path / "a.h5", {"u": array})
    return da.load(tmp_path / "a.h5", array.grid).arrays["u"].boundary


def test_constant_conditions_come_back(tmp_path: Path, grid: da.Grid) -> None:
    given = {
        "x-": da.Dirichlet(0.1),
        "x+": da.Robin(1.0, np.linspace(0, 1, 5), -1 / 3),
        "y-": da.Outflow(),
        "y+": da.Symmetry(-1),
    }
    found = conditions(grid.zeros(boundary=given), tmp_path)
    assert {side: type(found[side]) for side in found} == {s: type(c) for s, c in given.items()}
    assert found["x-"].value == 0.1
    np.testing.assert_array_equal(found["x+"].b, np.linspace(0, 1, 5))
    assert (found["x+"].a, found["x+"].c) == (1.0, -1 / 3)
    assert found["y+"].sign == -1


def test_conditions_of_components_come_back(tmp_path: Path, grid: da.Grid) -> None:
    given = {
        "x-": [da.Dirichlet(1.0), None],
        "y": da.Symmetry((1, -1)),
        "x+": da.Dirichlet((2.0, 3.0)),
    }
    found = conditions(grid.zeros(components=2, boundary=given), tmp_path)
    assert found["x-"][0].value == 1.0
    assert found["x-"][1] is None
    assert found["y-"].sign == (1, -1)
    assert found["x+"].value == (2.0, 3.0)


def test_complex_values_of_conditions_come_back(tmp_path: Path, grid: da.Grid) -> None:
    u = grid.zeros(dtype=complex, boundary={"x": da.Dirichlet(1 - 2j)})
    assert conditions(u, tmp_path)["x"].value == 1 - 2j


@pytest.mark.parametrize(
    "condition",
    [
        da.Dirichlet(lambda t, x, y: t),
        da.Robin(1.0, 0.0, lambda t, x, y: t),
        da.Piecewise(lambda x, y: y > 1.5, da.Dirichlet(1.0), da.Neumann(0.0)),
    ],
)
def test_conditions_with_functions_must_be_set_again(
    tmp_path: Path, grid: da.Grid, condition: Any
) -> None:
    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0]

    u = grid.ones(boundary={"x-": condition, "x+": da.Neumann(0.0)})
    da.save(tmp_path / "a.h5", {"u": u})
    loaded = da.load(tmp_path / "a.h5", grid).arrays["u"]
    assert loaded.sum() == 30.0  # owned values need no condition
    new = grid.zeros()
    with pytest.raises(da.BoundaryError) as caught:
        shift(loaded, new)
    assert str(caught.value) == (
        f"The condition {type(condition).__name__} on x- of 'u' was given by a function when "
        f"'{tmp_path / 'a.h5'}' was saved; set it again before it is read: "
        'u.boundary["x-"] = ...'
    )
    loaded.boundary["x-"] = da.Dirichlet(3.0)
    shift(loaded, new)
    np.testing.assert_array_equal(new.gather()[0], 5.0)


def test_nothing_is_evaluated_or_unpickled(tmp_path: Path, grid: da.Grid) -> None:
    """A condition of an unknown kind in a file is an error, whatever its name."""
    da.save(tmp_path / "a.h5", {"u": grid.ones(boundary={"x": da.Dirichlet(1.0)})})
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        text = file["distarray/boundary/u"][()].replace(b"Dirichlet", b"os.system")
        file["distarray/boundary/u"][()] = text
    sealed_again(tmp_path / "a.h5")
    with pytest.raises(da.FileError) as caught:
        da.load(tmp_path / "a.h5", grid)
    assert str(caught.value) == (
        f"The file '{tmp_path / 'a.h5'}' is damaged: the boundary of 'u' is not readable (the "
        "condition on x- is of the unknown kind 'os.system'); use an older file or copy it again."
    )


def test_overwriting_a_file_replaces_it(tmp_path: Path, grid: da.Grid) -> None:
    path = tmp_path / "a.h5"
    da.save(path, {"u": grid.ones(), "v": grid.ones()})
    with h5py.File(path, locking=False) as old:  # a reader keeps what it has opened
        da.save(path, {"u": grid.zeros()})
        assert old["u"][0, 0] == 1.0
    found = da.load(path, grid).arrays
    assert list(found) == ["u"]
    assert found["u"].max() == 0.0


def test_without_h5py(tmp_path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(da.FileError) as caught:
        da.save(tmp_path / "a.h5", {"u": grid.ones()})
    assert str(caught.value).startswith("Files need h5py, which cannot be imported (")
    assert str(caught.value).endswith("); run: pip install h5py")


# Checkpoints.


def names(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder."""
    return sorted(int(path.stem.split("_")[1]) for path in folder.glob("checkpoint_*.h5"))


def write(checkpoints: da.Checkpointer, grid: da.Grid, steps: Any) -> list[int]:
    return [step for step in steps if checkpoints.save({"u": grid.full(float(step))}, step=step)]


def test_steps_that_jump_over_a_multiple_are_due(tmp_path: Path, grid: da.Grid) -> None:
    checkpoints = da.Checkpointer(tmp_path, every=100, keep=9)
    assert write(checkpoints, grid, [30, 60, 90, 120, 150, 200, 200, 390, 399]) == [
        120,
        200,
        200,
        390,
    ]


def test_the_last_few_are_kept(tmp_path: Path, grid: da.Grid) -> None:
    checkpoints = da.Checkpointer(tmp_path / "a" / "b", every=1, keep=3)
    write(checkpoints, grid, range(6))
    assert names(tmp_path / "a" / "b") == [3, 4, 5]
    found = checkpoints.latest(grid)
    assert found is not None
    assert found.arrays["u"].max() == 5.0


def test_a_run_that_went_back_continues_from_there(tmp_path: Path, grid: da.Grid) -> None:
    write(da.Checkpointer(tmp_path, every=100), grid, [100, 200])
    checkpoints = da.Checkpointer(tmp_path, every=50)
    write(checkpoints, grid, [150])
    found = checkpoints.latest(grid)
    assert found is not None
    assert found.step == 150
    assert names(tmp_path) == [150, 200]
    write(checkpoints, grid, [200, 250])
    assert names(tmp_path) == [200, 250]


def test_checkpoint_that_was_not_listed(tmp_path: Path, grid: da.Grid) -> None:
    """A job that ended between the rename of a checkpoint and its listing."""
    checkpoints = da.Checkpointer(tmp_path, every=1)
    write(checkpoints, grid, [1, 2])
    before = (tmp_path / "latest").read_text()
    write(checkpoints, grid, [3])
    (tmp_path / "latest").write_text(before)
    found = checkpoints.latest(grid)
    assert found is not None
    assert found.step == 3
    (tmp_path / "latest").unlink()
    found = checkpoints.latest(grid)
    assert found is not None
    assert found.step == 3


def test_unreadable_checkpoints_are_skipped_and_named(
    tmp_path: Path, grid: da.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = da.Checkpointer(tmp_path, every=1)
    write(checkpoints, grid, [1, 2])
    newest = tmp_path / "checkpoint_0000000002.h5"
    newest.write_bytes(b"damaged")
    found = checkpoints.latest(grid)
    assert found is not None
    assert found.step == 1
    captured = capsys.readouterr()
    assert captured.err == (
        f"Skipped a checkpoint: The file '{newest}' is not an HDF5 file; "
        "give the path of a file written by save.\n"
    )
    assert captured.out == ""


def test_no_checkpoint_can_be_read(tmp_path: Path, grid: da.Grid) -> None:
    checkpoints = da.Checkpointer(tmp_path, every=1)
    write(checkpoints, grid, [1, 2])
    with pytest.raises(da.FileError) as caught:
        checkpoints.latest(da.Grid((6, 6)))
    assert str(caught.value).startswith(
        f"No checkpoint in '{tmp_path}' can be read. The newest: The file "
        f"'{tmp_path / 'checkpoint_0000000002.h5'}' has shape (6, 5), the grid has shape (6, 6)"
    )


def test_unfinished_files_are_removed(tmp_path: Path, grid: da.Grid) -> None:
    (tmp_path / "checkpoint_0000000007.h5.partial").write_text("half")
    (tmp_path / "notes.txt").write_text("mine")
    write(da.Checkpointer(tmp_path, every=1), grid, [1])
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["checkpoint_0000000001.h5", "latest", "notes.txt"]


def test_folder_that_is_a_file(tmp_path: Path, grid: da.Grid) -> None:
    (tmp_path / "a").write_text("")
    checkpoints = da.Checkpointer(tmp_path / "a", every=1)
    with pytest.raises(da.FileError) as caught:
        write(checkpoints, grid, [1])
    assert str(caught.value) == (
        f"The folder '{tmp_path / 'a'}' cannot be made: File exists; check the path, its folder "
        "and the free space."
    )
