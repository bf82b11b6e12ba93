"""The harness itself: the launcher and the library belong together and all ranks are there."""

from __future__ import annotations

import os
from pathlib import Path

from mpi4py import MPI

SELDOM = ()
world = MPI.COMM_WORLD


def test_every_rank_is_there() -> None:
    assert world.allreduce(world.Get_rank()) == world.Get_size() * (world.Get_size() - 1) // 2


def test_each_rank_has_one_thread() -> None:
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_folder_is_shared(folder: Path) -> None:
    (folder / str(world.Get_rank())).write_text("here")
    world.Barrier()
    assert sorted(int(path.name) for path in folder.iterdir()) == list(range(world.Get_size()))
