"""Checkpoints in one process: what is found after runs that ended badly, and what is said of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.io import place
from tests.harness import ROOT, clean_environment


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid((6, 5))


def latest(folder: Path, grid: da.Grid) -> int | None:
    found = da.Checkpointer(folder, every=1).latest(grid)
    return None if found is None else found.step


def test_an_old_file_that_could_not_be_removed_stays_old(
    tmp_path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that went back from step 9 to 1, and ended before it removed what it replaced."""
    checkpoints = da.Checkpointer(tmp_path, every=1)
    checkpoints.save({"u": grid.ones()}, step=9)
    checkpoints.save({"u": grid.ones()}, step=1)

    def fail(_: str) -> None:
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patch:
        patch.setattr(place, "unlink", fail)
        with pytest.raises(da.FileError, match="Input/output error"):
            checkpoints.save({"u": grid.ones()}, step=2)
    assert (tmp_path / "checkpoint_0000000009.h5").exists()
    assert latest(tmp_path, grid) == 2
    checkpoints.save({"u": grid.ones()}, step=3)
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == [
        "checkpoint_0000000002.h5",
        "checkpoint_0000000003.h5",
    ]


def test_each_that_is_skipped_is_named_with_the_reason(
    tmp_path: Path, grid: da.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = da.Checkpointer(tmp_path, every=1, keep=3)
    for step in (1, 2, 3):
        checkpoints.save({"u": grid.ones()}, step=step)
    paths = [tmp_path / f"checkpoint_{step:010d}.h5" for step in (1, 2, 3)]
    octets = bytearray(paths[1].read_bytes())
    where = octets.index(np.float64(1.0).tobytes() * 30)
    octets[where + 8] ^= 1
    paths[1].write_bytes(octets)
    os.truncate(paths[2], 1000)
    assert latest(tmp_path, grid) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"Skipped a checkpoint: The file '{paths[2]}' is cut short")
    assert lines[1].startswith(f"Skipped a checkpoint: The file '{paths[1]}' is damaged")
    assert "tile (0, 0) of the array 'u'" in lines[1]


@pytest.mark.parametrize("content", [b"", b"\xff\x00 nothing\n", b"checkpoint_0000000001.h5\n" * 3])
def test_a_list_that_is_damaged(tmp_path: Path, grid: da.Grid, content: bytes) -> None:
    """The files themselves say what is newest."""
    checkpoints = da.Checkpointer(tmp_path, every=1)
    for step in (1, 2):
        checkpoints.save({"u": grid.ones()}, step=step)
    (tmp_path / "latest").write_bytes(content)
    assert latest(tmp_path, grid) == 2


def test_an_unfinished_file_is_not_a_checkpoint(tmp_path: Path, grid: da.Grid) -> None:
    da.save(tmp_path / "checkpoint_0000000007.h5", {"u": grid.ones()}, step=7)
    whole = tmp_path / "checkpoint_0000000007.h5"
    whole.rename(tmp_path / "checkpoint_0000000007.h5.partial")
    assert latest(tmp_path, grid) is None


def test_the_folder_is_made_with_those_above_it(tmp_path: Path, grid: da.Grid) -> None:
    folder = tmp_path / "a" / "b" / "c"
    with da.Checkpointer(folder, every=1) as checkpoints:
        checkpoints.save({"u": grid.ones()}, step=1)
    assert latest(folder, grid) == 1


def test_a_relative_folder(tmp_path: Path, grid: da.Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("run", "."):
        with da.Checkpointer(folder, every=1, background=True) as checkpoints:
            checkpoints.save({"u": grid.ones()}, step=1)
        assert latest(Path(folder), grid) == 1


def test_a_device_array_is_copied_before_it_changes(tmp_path: Path) -> None:
    """What is written behind the run is the state at the call, on every device."""
    grid = da.Grid((16, 12))
    u = grid.from_function(lambda x, y: x + 10 * y, components=(2,))
    expected: Any = u.gather()
    with da.Checkpointer(tmp_path, every=1, background=True) as checkpoints:
        checkpoints.save({"u": u}, step=1)
        u *= 0.0
    found = da.Checkpointer(tmp_path, every=1).latest(grid)
    assert found is not None
    np.testing.assert_array_equal(found.arrays["u"].gather(), expected)


def test_another_precision_is_read_when_asked_for(tmp_path: Path, grid: da.Grid) -> None:
    with da.Checkpointer(tmp_path, every=1) as checkpoints:
        checkpoints.save({"u": grid.full(1 / 3)}, step=1)
        for dtype in (None, "float32"):
            found = checkpoints.latest(grid, dtype=dtype)
            assert found is not None
            assert found.arrays["u"].dtype == np.dtype(dtype or "float64")
            assert found.arrays["u"].max() == np.dtype(dtype or "float64").type(1 / 3)


def test_a_checkpoint_that_was_never_finished_is_named(
    tmp_path: Path, grid: da.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = da.Checkpointer(tmp_path, every=1, background=True)
    checkpoints.save({"u": grid.ones()}, step=1)
    del checkpoints
    assert capsys.readouterr().err == (
        f"distarray: the checkpoint '{tmp_path / 'checkpoint_0000000001.h5'}' was not finished, "
        "since its checkpointer was not closed.\n"
    )
    assert latest(tmp_path, grid) is None
    with da.Checkpointer(tmp_path, every=1, background=True) as checkpoints:
        checkpoints.save({"u": grid.ones()}, step=1)
    assert latest(tmp_path, grid) == 1
    assert capsys.readouterr().err == ""


def test_folders_that_have_names_of_checkpoints(tmp_path: Path, grid: da.Grid) -> None:
    for name in ("checkpoint_0000000001.h5", "checkpoint_0000000009.h5.partial"):
        (tmp_path / name).mkdir()
    checkpoints = da.Checkpointer(tmp_path, every=1, keep=1)
    for step in (2, 3):
        assert checkpoints.save({"u": grid.ones()}, step=step)
    assert latest(tmp_path, grid) == 3
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "checkpoint_0000000001.h5",
        "checkpoint_0000000003.h5",
        "checkpoint_0000000009.h5.partial",
        "latest",
    ]


def test_a_folder_in_place_of_the_list(tmp_path: Path, grid: da.Grid) -> None:
    da.save(tmp_path / "checkpoint_0000000004.h5", {"u": grid.ones()}, step=4)
    (tmp_path / "latest").mkdir()
    assert latest(tmp_path, grid) == 4
    with pytest.raises(da.FileError) as caught:
        da.Checkpointer(tmp_path, every=1).save({"u": grid.ones()}, step=5)
    assert str(caught.value) == (
        f"The folder '{tmp_path}/latest' has the name of the list of checkpoints; rename it."
    )
    assert not list(tmp_path.glob("*5.h5*"))


OTHER_JOB = """
import sys
import distarray as da
from distarray.io.write import begin_save

u = da.Grid((6, 5)).zeros()
plan = begin_save(sys.argv[1], {"u": u}, step=7)
plan.lay_out()
print("begun", flush=True)
sys.stdin.readline()
plan.write([u])
plan.finish()
"""


def test_a_file_that_another_job_is_writing(tmp_path: Path, grid: da.Grid) -> None:
    path = tmp_path / "checkpoint_0000000007.h5"
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_JOB, str(path)],
        cwd=ROOT, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as job:  # fmt: skip
        assert job.stdout is not None
        assert job.stdout.readline() == "begun\n"
        with pytest.raises(da.FileError) as caught:
            da.save(path, {"u": grid.ones()})
        assert str(caught.value) == (
            f"The file '{path}.partial' cannot be created: another job is writing it; wait for "
            "that job, or give another name or folder."
        )
        assert da.Checkpointer(tmp_path, every=1).save({"u": grid.ones()}, step=1)
        job.communicate("go on\n", timeout=60)
        assert job.returncode == 0
    assert float(da.load(path, grid).arrays["u"].max()) == 0.0
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "checkpoint_0000000001.h5", "checkpoint_0000000007.h5", "latest",
    ]  # fmt: skip
    da.save(path, {"u": grid.ones()})  # the lock went with the job
