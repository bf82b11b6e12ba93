"""Runs continued on other numbers of ranks: in the job of 8, from 1, 2, 3, 4 and 8 on each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

import distarray as da
from tests.ranks.common import from_root

RANKS = (1, 3, 8)
SELDOM = (1, 8)
TIMEOUT = 240

world = MPI.COMM_WORLD


@da.stencil
def advance(u, v, new_u, new_v, *, dt):
    new_u[0, 0] = u[0, 0] + dt * (v[1, 0] - v[0, 0]) + dt * (u[0, 1] - 2 * u[0, 0] + u[0, -1])
    new_v[0, 0] = v[0, 0] + dt * (u[0, 0] - u[-1, 0])


def start(grid: da.Grid) -> list[da.DistArray]:
    wall = {"y": da.Dirichlet(0.25)}
    u = grid.from_function(lambda x, y: np.sin(2 * np.pi * x) + y * y, boundary=wall)
    v = grid.from_function(lambda x, y: np.cos(2 * np.pi * x) * y, location="x")
    return [u, v]


def run(state: list[da.DistArray], steps: int) -> list[da.DistArray]:
    new = [array.copy() for array in state]
    for _ in range(steps):
        advance(*state, *new, dt=0.1)
        state, new = new, state
    return state


def on_some(count: int, body: Callable[[MPI.Intracomm], None]) -> None:
    """Call the body on the first ranks, with their communicator."""
    some = world.Split(0 if world.rank < count else MPI.UNDEFINED)
    if some != MPI.COMM_NULL:
        body(some)
        some.Free()
    world.Barrier()


def test_continued_runs_have_the_same_bits(folder: Path) -> None:
    """Written on n ranks and continued on m, as if never interrupted; from those of the most ranks
    on all process grids.
    """
    expected = from_root(
        lambda: [a.gather().tobytes() for a in run(start(made(MPI.COMM_SELF, (1, 1))), 12)]
    )
    counts = [n for n in (1, 2, 3, 4, 8) if n <= world.size]
    for n in counts:
        path = folder / f"from{n}"

        def write(comm: MPI.Intracomm, path: Path = path) -> None:
            with da.Checkpointer(path, every=5, background=comm.size % 2 == 0) as checkpoints:
                u, v = run(start(made(comm, (0, 0))), 5)
                assert checkpoints.save({"u": u, "v": v}, step=5)

        on_some(n, write)
        for m in counts:
            for ranks in process_grids_of(m) if n == counts[-1] else [(0, 0)]:

                def go_on(
                    comm: MPI.Intracomm, path: Path = path, ranks: tuple[int, int] = ranks
                ) -> None:
                    found = da.Checkpointer(path, every=5).latest(made(comm, ranks))
                    assert found is not None
                    end = run([found.arrays["u"], found.arrays["v"]], 12 - int(found.step or 0))
                    assert [a.gather().tobytes() for a in end] == expected, (path, ranks)

                on_some(m, go_on)


def made(comm: MPI.Intracomm, ranks: tuple[int, int]) -> da.Grid:
    return da.Grid((13, 11), periodic=(True, False), ranks=ranks, comm=comm)


def process_grids_of(count: int) -> list[tuple[int, int]]:
    return [(a, count // a) for a in range(1, count + 1) if count % a == 0]
