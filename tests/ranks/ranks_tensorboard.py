"""Curves for TensorBoard: rank 0 writes, and restarted runs go on."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from unittest import mock

import numpy as np

import distarray as da
from distarray.comm import default
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from tests.ranks.common import refused
from tests.tensorboard_tools import curves

RANKS = (1, 2)
COMM = default()
CONFIG = IncompressibleConfig(
    cells=(14, 9), viscosity=0.02, walls={"y+": (1.0, 0.0)}, measure_every=3
)


def test_values_are_written_once_and_restarts_go_on(folder: Path) -> None:
    with da.TensorBoard(folder / "run") as board:
        for step in (2, 4, 6):
            board.add(step, {"height": 0.5 * step, "mass": 3})
    with da.TensorBoard(folder / "run", step=4) as board:
        for step in (6, 8):
            board.add(step, {"height": -1.0 * step, "mass": 7})
    COMM.barrier()
    assert curves(folder / "run") == {
        "height": [(2, 1.0), (4, 2.0), (6, -6.0), (8, -8.0)],
        "mass": [(2, 3.0), (4, 3.0), (6, 7.0), (8, 7.0)],
    }


def test_a_callback_of_iterate_writes(folder: Path) -> None:
    @da.stencil
    def halve(u, new):
        new[0] = 0.5 * u[0]

    u = da.Grid((4 * COMM.size,)).ones()
    with da.TensorBoard(folder / "run") as board:
        da.iterate(
            halve, u, u.copy(), steps=5, every=2,
            callback=lambda step, time, arrays: board.add(step, {"peak": arrays[0].max()}),
        )  # fmt: skip
    COMM.barrier()
    assert curves(folder / "run") == {"peak": [(2, 0.25), (4, 0.0625)]}


def run(folder: Path, last: int, checkpoints: da.Checkpointer, *, resume: bool = False) -> None:
    flow = IncompressibleSolver(CONFIG)
    assert flow.resume(checkpoints) == resume
    flow.run(
        max_steps=last - flow.step_count, output=folder, every=2, checkpoints=checkpoints,
        tensorboard=True,
    )  # fmt: skip


def test_curves_of_a_restarted_run_are_the_rows_of_its_table(folder: Path) -> None:
    """Stopped after step 9, after the checkpoint of step 6: step 8 is written twice."""
    with da.Checkpointer(folder / "checkpoints", every=3) as checkpoints:
        run(folder / "out", 8, checkpoints)
        run(folder / "out", 12, checkpoints, resume=True)
    COMM.barrier()
    with (folder / "out" / "scalars.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = curves(folder / "out")
    assert [int(row["step"]) for row in rows] == [2, 4, 6, 8, 10, 12]
    speed = {"cells_per_second"} | ({"hidden_share"} if COMM.size > 1 else set())
    assert set(found) == (set(rows[0]) - {"step", "time"}) | speed
    for name, points in found.items():
        assert [step for step, _ in points] == [2, 4, 6, 8, 10, 12]
        values = np.array([value for _, value in points])
        if name not in speed:
            np.testing.assert_array_equal(values, np.float32([float(row[name]) for row in rows]))
    assert min(value for _, value in found["cells_per_second"]) > 0.0
    assert all(0.0 <= value <= 1.0 for _, value in found.get("hidden_share", []))


def test_what_is_missing_is_said_on_all_ranks(folder: Path) -> None:
    absent = {name: None for name in sys.modules if name.startswith("tensorboardX")}
    cure = "; install the extra tensorboard (in a clone: pip install '.[tensorboard]')."
    with mock.patch.dict(sys.modules, absent if COMM.rank == 0 else {}):
        refused(da.UnsupportedError, cure, lambda: da.TensorBoard(folder / "run"))


def test_a_folder_that_takes_no_files_is_named_on_all_ranks(folder: Path) -> None:
    if COMM.rank == 0:
        (folder / "file").write_text("")
    COMM.barrier()
    text = "/file' cannot take curves: File exists; give another one."
    refused(da.FileError, text, lambda: da.TensorBoard(folder / "file"))


def test_what_is_no_step_and_no_number_is_refused_on_all_ranks(folder: Path) -> None:
    text = "The step of a TensorBoard must be a whole number from 0, got "
    for step in ("a", 1.0, True, -1, None, 2**63):
        refused(da.ArrayError, text, lambda s=step: da.TensorBoard(folder / "run", step=s))
    with da.TensorBoard(folder / "run", step=np.int64(2)) as board:
        refused(da.ArrayError, text, lambda: board.add("x", {"a": 1.0}))
        text = "TensorBoard.add takes a mapping from names to numbers, got 3; write"
        refused(da.ArrayError, text, lambda: board.add(1, 3))
        refused(da.ArrayError, "Names of curves must be texts, got 3", lambda: board.add(1, {3: 1}))
        for value in ("x", "1.5", 1j, None, np.arange(2), 10**400):
            text = "The value of the curve 'a' must be a real number, got "
            refused(da.ArrayError, text, lambda v=value: board.add(1, {"b": 2.0, "a": v}))
        board.add(np.int64(3), {"a": np.float32(0.5), "b": True})
    COMM.barrier()
    assert curves(folder / "run") == {"a": [(3, 0.5)], "b": [(3, 1.0)]}


def test_curves_without_output_are_refused(folder: Path) -> None:
    flow, text = IncompressibleSolver(CONFIG), "Curves for TensorBoard are of outputs, received"
    for options in ({"output": folder / "out"}, {"every": 2}):
        refused(da.SolverError, text, lambda o=options: flow.run(1.0, tensorboard=True, **o))
    assert flow.step_count == 0
