"""A disk that is full, at any byte of a file: one error on all ranks, and the old file stays.

The limit of the system for the size of a file stands for the disk: a write beyond it fails in the
same way.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import distarray as da
from tests.ranks.io_fields import digest, error, world

RANKS = (1, 2)
CURE = "File too large; choose a folder that takes larger files, or raise the limit (ulimit -f)."


@contextlib.contextmanager
def full_beyond(size: int, rank: int | None = None) -> Iterator[None]:
    """No file can have more bytes, on this rank or on all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank in (None, world.rank):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refused(
    path: Path, arrays: dict[str, da.DistArray], size: int, method: str | None = None
) -> str:
    """The error of saving where files have at most this size."""
    with full_beyond(size):
        return error(lambda: da.save(path, arrays, step=2, method=method))


def saved(folder: Path) -> tuple[Path, da.Grid, int]:
    """A file, its grid, and its size."""
    path, grid = folder / "a.h5", da.Grid((12, 9))
    da.save(path, {"u": grid.ones()}, step=1)
    world.Barrier()
    return path, grid, path.stat().st_size


def test_every_size(folder: Path) -> None:
    path, grid, whole = saved(folder)
    before, u = digest(path), grid.zeros()
    for size in (*range(0, 8193, 1024), 100, 500, 1536, 2049, whole - 1):
        text = refused(path, {"u": u}, size)
        assert text == f"The file '{path}.partial' cannot be created: {CURE}"
    assert digest(path) == before
    assert [found.name for found in folder.iterdir()] == ["a.h5"]
    world.Barrier()
    with full_beyond(whole):
        da.save(path, {"u": u}, step=2)
    assert da.load(path, grid).step == 2


def test_every_method(folder: Path) -> None:
    path, grid, whole = saved(folder)
    before, u = digest(path), grid.zeros()
    for method in ("posix", "mpiio", "root"):
        for size in (600, whole - 1):
            assert CURE in refused(path, {"u": u}, size, method=method)
    assert digest(path) == before
    assert [found.name for found in folder.iterdir()] == ["a.h5"]


def test_one_rank_alone(folder: Path) -> None:
    """The header fits, and the share of one rank does not."""
    path, grid = folder / "a.h5", da.Grid((400, 40))
    u = grid.ones()
    da.save(path, {"u": u}, step=1)
    world.Barrier()
    before = digest(path)
    for method in ("posix", "mpiio"):
        with full_beyond(100_000, world.size - 1):
            text = error(partial(da.save, path, {"u": u}, step=2, method=method))
        assert f"{path}.partial" in text
        assert "\n" not in text
        assert digest(path) == before
        assert [found.name for found in folder.iterdir()] == ["a.h5"]
        world.Barrier()


def test_values_written_while_it_is_laid_out(folder: Path) -> None:
    """Coordinates of a mesh, of a mebibyte and more, go past the memory."""
    grid = da.Grid((2, 400, 400))
    path = folder / "a.h5"
    arrays = {"u": grid.ones(location="x")}
    da.save(path, arrays)
    world.Barrier()
    before = digest(path)
    for size in (0, 2_000_000, path.stat().st_size - 1):
        assert CURE in refused(path, arrays, size)
    assert digest(path) == before
    assert sorted(found.name for found in folder.iterdir()) == ["a.h5", "a.xdmf"]


def test_checkpoints(folder: Path) -> None:
    """The next one is written once there is room; the file of the failed one is gone."""
    grid = da.Grid((12, 9))
    u = grid.zeros()
    for background in (False, True):
        run = folder / f"run-{background}"
        with da.Checkpointer(run, every=1, background=background) as checkpoints:
            checkpoints.save({"u": u}, step=1)
            checkpoints.latest(grid)

            def save_and_wait(checkpoints: da.Checkpointer = checkpoints) -> None:
                checkpoints.save({"u": u}, step=2)
                checkpoints.latest(grid)

            for size in (0, 2049):
                with full_beyond(size):
                    text = error(save_and_wait)
                assert text.endswith(f"checkpoint_0000000002.h5.partial' cannot be created: {CURE}")
                assert sorted(found.name for found in run.iterdir()) == [
                    "checkpoint_0000000001.h5",
                    "latest",
                ]
            checkpoints.save({"u": u}, step=3)
            found = checkpoints.latest(grid)
            assert found is not None
            assert found.step == 3
