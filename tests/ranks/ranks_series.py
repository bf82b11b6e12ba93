"""A run that is stopped and goes on, also on other ranks, leaves the files of one that was not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpi4py import MPI

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from tests.ranks.common import from_root, refused

RANKS = (1, 2, 3)
SELDOM = (2,)
WORLD = MPI.COMM_WORLD
CONFIG = IncompressibleConfig(
    cells=(14, 9), viscosity=0.02, walls={"y+": (1.0, 0.0)}, measure_every=3
)
FILES = ("scalars.csv", "steps.vtkhdf.series", "steps.xdmf")


def flow(comm: Any = None, **changes: Any) -> IncompressibleSolver:
    return IncompressibleSolver(replace(CONFIG, **changes), comm=comm)


def run(one: IncompressibleSolver, folder: Path, last: int, **options: Any) -> None:
    one.run(max_steps=last - one.step_count, output=folder / "out", every=2, **options)


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in the folder of the output."""
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def expected(folder: Path) -> dict[str, bytes]:
    """What a run of ten steps on one rank leaves."""
    from_root(lambda: run(flow(MPI.COMM_SELF), folder / "whole", 10))
    return contents(folder / "whole")


def test_a_run_on_any_ranks_leaves_the_same_files(folder: Path) -> None:
    run(flow(), folder, 10)
    WORLD.barrier()
    files = contents(folder)
    assert files == expected(folder)
    assert set(FILES) <= files.keys()


def test_a_run_resumed_from_a_checkpoint_leaves_the_same_files(folder: Path) -> None:
    """Stopped after step 9; the newest checkpoint is of step 6, so step 8 is written twice."""

    def before() -> None:
        with da.Checkpointer(folder / "checkpoints", every=3) as checkpoints:
            run(flow(MPI.COMM_SELF), folder, 8, checkpoints=checkpoints)

    from_root(before)  # one rank before, all after
    with da.Checkpointer(folder / "checkpoints", every=3) as checkpoints:
        again = flow()
        assert again.resume(checkpoints)
        assert again.step_count == 6
        run(again, folder, 10, checkpoints=checkpoints)
    WORLD.barrier()
    assert contents(folder) == expected(folder)


def test_a_run_restored_on_one_rank_leaves_the_same_files(folder: Path) -> None:
    run(flow(), folder, 8)
    WORLD.barrier()

    def after() -> None:
        again = flow(MPI.COMM_SELF)
        again.restore(folder / "out" / "step-0000004.h5")
        run(again, folder, 10)

    from_root(after)
    assert contents(folder) == expected(folder)


def test_nothing_to_resume(folder: Path) -> None:
    with da.Checkpointer(folder / "none", every=1) as checkpoints:
        assert not flow().resume(checkpoints)


def test_another_configuration_is_refused_on_all_ranks(folder: Path) -> None:
    one = flow()
    one.run(max_steps=2)
    one.save(folder / "state.h5")
    other = flow(viscosity=0.03)
    refused(
        da.FileError,
        f"The file '{folder}/state.h5' is of another configuration: it has viscosity=0.02, this "
        "run has viscosity=0.03; give the same, or take the arrays by load to start another run "
        "from them.",
        lambda: other.restore(folder / "state.h5"),
    )
    assert other.step_count == 0


def test_another_process_grid_is_the_same_configuration(folder: Path) -> None:
    one = flow()
    one.run(max_steps=2)
    one.save(folder / "state.h5")
    other = flow(ranks=(1, WORLD.size))
    other.restore(folder / "state.h5")
    assert other.step_count == 2


def test_a_table_of_another_run_is_refused_on_all_ranks(folder: Path) -> None:
    if WORLD.rank == 0:
        (folder / "out").mkdir()
        (folder / "out" / "scalars.csv").write_text("step,mass\n1,2.0\n")
    WORLD.barrier()
    refused(
        da.FileError,
        f"The table '{folder}/out/scalars.csv' has the columns 'step,mass', this run writes "
        "'step,time,dt,residual,energy,divergence'; move it away or give another folder.",
        lambda: run(flow(), folder, 2),
    )


def test_a_folder_removed_while_running_is_one_error_on_all_ranks(folder: Path) -> None:
    one = flow()

    def remove() -> None:
        WORLD.barrier()
        if WORLD.rank == 0:
            shutil.rmtree(folder / "out")
        WORLD.barrier()

    refused(
        da.FileError,
        f"The file '{folder}/out/step-0000004.h5.partial' cannot be created",
        lambda: run(one, folder, 6, callback=remove),
    )
