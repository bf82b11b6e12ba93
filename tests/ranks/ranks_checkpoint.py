"""Checkpoints on many ranks that are written behind the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.io import place
from tests.ranks.common import refused

RANKS = (1, 2, 4)

world = MPI.COMM_WORLD


def field(grid: da.Grid, number: float) -> da.DistArray:
    return grid.from_function(lambda x, y: np.sin(3 * x) * (y + number) + number)


def names(folder: Path) -> list[str]:
    """What the folder holds, at one moment for all ranks."""
    return world.bcast(sorted(path.name for path in folder.iterdir()) if world.rank == 0 else None)


class Held:
    """Holds what threads write until it is let go."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self._real = place.write_at

    def __enter__(self) -> Held:
        def wait(*arguments: Any) -> None:
            if threading.current_thread() is not threading.main_thread():
                assert self._gate.wait(60)
            self._real(*arguments)

        place.write_at = wait
        return self

    def let_go(self) -> None:
        self._gate.set()

    def __exit__(self, *_: object) -> None:
        self._gate.set()
        place.write_at = self._real


def test_the_run_goes_on_while_a_checkpoint_is_written(folder: Path) -> None:
    grid = da.Grid((23, 17))
    u = field(grid, 1.0)
    da.save(folder / "expected.h5", {"u": u}, step=10, time=0.5, attrs={"a": [1, 2]})
    checkpoints = da.Checkpointer(folder / "run", every=10, background=True)
    with Held() as held:
        assert checkpoints.save({"u": u}, step=10, time=0.5, attrs={"a": [1, 2]})
        u.fill(np.nan)  # what is written is the state at the call
        for step in range(11, 20):
            assert not checkpoints.save({"u": u}, step=step)
        # A thread creates it, perhaps later than this.
        assert set(names(folder / "run")) <= {"checkpoint_0000000010.h5.partial"}
        held.let_go()
        step = 20
        while "latest" not in names(folder / "run"):
            assert not checkpoints.save({"u": u}, step=9)
            step += 1
            assert step < 10000
    assert names(folder / "run") == ["checkpoint_0000000010.h5", "latest"]
    written = (folder / "run" / "checkpoint_0000000010.h5").read_bytes()
    assert written == (folder / "expected.h5").read_bytes()
    checkpoints.close()


def test_one_at_most_is_under_way_and_closing_finishes_it(folder: Path) -> None:
    grid = da.Grid((23, 17))
    with da.Checkpointer(folder, every=1, keep=2, background=True) as checkpoints:
        for step in range(1, 6):
            assert checkpoints.save({"u": field(grid, step)}, step=step)
            assert f"checkpoint_{step - 1:010d}.h5" in [*names(folder), "checkpoint_0000000000.h5"]
    assert names(folder) == ["checkpoint_0000000004.h5", "checkpoint_0000000005.h5", "latest"]
    found = da.Checkpointer(folder, every=1).latest(grid)
    assert found is not None
    np.testing.assert_array_equal(found.arrays["u"].gather(), field(grid, 5).gather())


def test_what_is_under_way_is_found(folder: Path) -> None:
    grid = da.Grid((23, 17))
    checkpoints = da.Checkpointer(folder, every=1, background=True)
    arrays = {"u": field(grid, 1.0), "v": grid.full(2, dtype=int, components=(3,))}
    checkpoints.save(arrays, step=1)
    found = checkpoints.latest(grid)
    assert found is not None
    assert found.step == 1
    np.testing.assert_array_equal(found.arrays["v"].gather(), arrays["v"].gather())


def test_where_root_writes_alone_the_run_is_held(folder: Path) -> None:
    grid = da.Grid((23, 17))
    with da.Checkpointer(folder, every=1, background=True, method="root") as checkpoints:
        assert checkpoints.save({"u": field(grid, 1.0)}, step=1)
        finished = "checkpoint_0000000001.h5" in names(folder)
        assert finished or world.size == 1  # one rank writes behind the run all the same
        found = checkpoints.latest(grid)
        assert found is not None
        np.testing.assert_array_equal(found.arrays["u"].gather(), field(grid, 1.0).gather())


def test_states_of_other_shapes_after_one_another(folder: Path) -> None:
    """The memory of the copy is used again where it fits."""
    with da.Checkpointer(folder, every=1, keep=9, background=True) as checkpoints:
        for step, shape in enumerate([(23, 17), (23, 17), (12, 9), (23, 17)]):
            grid = da.Grid(shape)
            arrays = {"u": field(grid, step), "f": grid.full(step, dtype="f4", location="x")}
            checkpoints.save(arrays, step=step)
    for step, shape in enumerate([(23, 17), (23, 17), (12, 9), (23, 17)]):
        grid = da.Grid(shape)
        loaded = da.load(folder / f"checkpoint_{step:010d}.h5", grid).arrays
        np.testing.assert_array_equal(loaded["u"].gather(), field(grid, step).gather())
        np.testing.assert_array_equal(loaded["f"].gather(), np.full(loaded["f"].shape, step, "f4"))


def test_an_error_behind_the_run_comes_with_a_later_call(folder: Path) -> None:
    grid = da.Grid((23, 17))
    arrays = {"u": field(grid, 1.0)}
    for rank in range(world.size):
        path = folder / str(rank)
        checkpoints = da.Checkpointer(path, every=10, background=True)
        checkpoints.save(arrays, step=10)
        checkpoints.latest(grid)
        real = place.write_at

        def fail(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with Held() as held:
            if world.rank == rank:
                place.write_at = fail
            assert checkpoints.save(arrays, step=20)
            held.let_go()
            refused(da.FileError, "No space left on device", until_refused(checkpoints, arrays))
        place.write_at = real
        assert names(path) == ["checkpoint_0000000010.h5", "latest"]
        checkpoints.save(arrays, step=30)
        checkpoints.close()
        assert names(path)[-2:] == ["checkpoint_0000000030.h5", "latest"]


def until_refused(checkpoints: da.Checkpointer, arrays: Any) -> Callable[[], None]:
    def call() -> None:
        for _ in range(10000):
            checkpoints.save(arrays, step=21)
            time.sleep(1e-3)  # lets the writer come to its error

    return call


def test_steps_and_settings_that_differ(folder: Path) -> None:
    """A rank for which a checkpoint is due learns of it at once, the others in their next call."""
    if world.size == 1:
        return
    u, last = field(da.Grid((23, 17)), 1.0), world.rank == world.size - 1
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"every": 1 if last else 2}, 1, "every, from 1 to 2"),
        ({"every": 3 if last else 2}, 6, "every, from 2 to 3"),
        ({"every": 10}, 10 if last else 9, "step, from 9 to 10"),
        ({"every": 10}, 3 if last else 4, "step, from 3 to 4"),
        ({"every": 1, "keep": 2 + last}, 1, "keep, from 2 to 3"),
        ({"every": 1, "background": last}, 1, "background, from 0 to 1"),
        ({"every": 1, "allow_nan": last}, 1, "allow_nan, from 0 to 1"),
    ]
    for options, step, text in cases:
        checkpoints = da.Checkpointer(folder, **options)

        def save_twice(checkpoints: da.Checkpointer = checkpoints, step: int = step) -> None:
            if not checkpoints.save({"u": u}, step=step):
                checkpoints.save({"u": u}, step=step)

        name, values = text.split(",")
        message = f"{name} of a Checkpointer differs between ranks,{values}; pass the same on all"
        refused(da.CommunicationError, message, save_twice)
        assert not list(folder.iterdir())
        checkpoints.close()
