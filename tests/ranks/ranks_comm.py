"""The communicator of many ranks: the contract, with whole and with split messages."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray import comm
from distarray.comm import base, mpi, mpi_files
from distarray.errors import CommunicationError
from distarray.regions import Box
from distarray.testing import WatchedCommunicator
from distarray.transports import connection
from solvers.fft_poisson import FFTPoisson
from solvers.multigrid import EllipticOperator, Multigrid
from tests.communicator_contract import CommunicatorContract, error_of
from tests.ranks.on_devices import TRANSPORTS

RANKS = (1, 2, 3, 4, 8)
LIMIT = "DISTARRAY_MAX_MESSAGE"


class Whole(CommunicatorContract):
    def communicator(self):
        return comm.default(MPI.COMM_WORLD)


class Split(CommunicatorContract):
    """No message is longer than 1 KiB."""

    made = None

    def communicator(self):
        if Split.made is None:
            os.environ[LIMIT] = "1024"
            Split.made = comm.default(MPI.COMM_WORLD.Dup())
            del os.environ[LIMIT]
        return Split.made


for contract in (Whole(), Split()):
    for name in dir(contract):
        if name.startswith("test_"):
            kind = type(contract).__name__.lower()
            globals()[f"{name}_{kind}"] = getattr(contract, name)


def test_no_message_is_longer_than_the_limit():
    buffer = np.arange(1000.0).reshape(10, 100)
    parts = [part for part, _ in mpi._parts(buffer, 1024)]
    assert [part.nbytes for part in parts] == [1024] * 7 + [832]
    assert np.array_equal(np.concatenate(parts).view(float), buffer.reshape(-1))
    assert list(mpi._parts(np.empty((0, 4)), 1024)) == []


def test_a_block_of_a_file_is_cut_below_the_limit():
    box = Box((3, 2, 1), (8, 9, 200))
    parts = mpi_files._slabs(box, 8, 1024)
    assert max(part.size for part in parts) <= 128
    assert sum(part.size for part in parts) == box.size
    cells = [(i, j, k) for p in parts for i, j, k in np.ndindex(p.shape) for i, j, k in [
        (i + p.start[0], j + p.start[1], k + p.start[2])]]  # fmt: skip
    assert cells == sorted(set(cells))
    assert len(cells) == box.size


def test_limits_that_make_no_sense_are_refused():
    for text in ("1 KiB", "63", "-5", ""):
        os.environ[LIMIT] = text
        error = error_of(base.message_limit)
        del os.environ[LIMIT]
        assert isinstance(error, CommunicationError)
        assert str(error) == (
            "The variable DISTARRAY_MAX_MESSAGE must be a number of bytes, at least 64, "
            f"not {text!r}; correct or unset it."
        )


def test_the_users_communicator_is_duplicated_once():
    first = comm.default(MPI.COMM_WORLD)
    assert comm.default(MPI.COMM_WORLD) is first
    assert comm.default() is first
    mine = MPI.COMM_WORLD.Dup()
    assert comm.default(mine) is not first
    assert comm.default(mine) is comm.default(mine)


def test_a_duplicate_outlives_the_users_communicator():
    mine = MPI.COMM_WORLD.Dup()
    kept = comm.default(mine)
    mine.Free()
    assert kept.allreduce(np.array([1]), "sum").tolist() == [kept.size]


def test_duplicates_that_nobody_holds_are_freed():
    mpi._abandoned.clear()
    for turn in range(20):
        mine = MPI.COMM_WORLD.Dup()
        kept = comm.default(mine)
        mine.Free()
        assert kept.allreduce(np.array([turn]), "max").tolist() == [turn]
        del kept
        assert len(mpi._abandoned) == 1


@da.stencil
def mean_of_neighbours(u, out):
    out[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])


def exchange_halos(grid):
    sides = dict.fromkeys("xy", da.Dirichlet(1.0))
    u, v = (grid.ones(halo=1, boundary=sides) for _ in range(2))
    mean_of_neighbours(u, v)
    da.iterate(mean_of_neighbours, u, v, steps=5)


def assign_to_another_layout(grid):
    grid.divided((1, grid.size)).zeros()[...] = grid.ones()


def solve_by_multigrid(grid):
    operator = EllipticOperator(grid, boundary=dict.fromkeys("xy", da.Dirichlet(0.0)))
    Multigrid(operator).solve(grid.ones())


def solve_by_transforms(grid):
    FFTPoisson(grid, dict.fromkeys("xy", da.Dirichlet(0.0))).solve(grid.ones())


USES = {
    "redistribute": lambda grid: grid.ones().redistribute(ranks=(1, grid.size)),
    "assignment": assign_to_another_layout,
    "part": lambda grid: grid.ones()[1:-1, ::2],
    "map_along": lambda grid: da.map_along(grid.ones(), 0, np.negative),
    "map_lines": lambda grid: da.map_lines(
        grid.ones(), [(axis, lambda block, where: -block) for axis in (0, 1)]
    ),
    "halos": exchange_halos,
    "sum": lambda grid: float(grid.ones().sum()),
    "transform": lambda grid: da.fft.rfftn(grid.ones()),
    "FFTPoisson": solve_by_transforms,
    "multigrid": solve_by_multigrid,
}


def collect():
    """Collect garbage; what finalizers of the first collection have touched, the others take."""
    for _ in range(3):
        gc.collect()


def left_over(use, **options):
    """Of a communicator and those beneath it, what lives on after a use; at last whether the
    duplicate is there still once another has been made.
    """
    mpi._abandoned.clear()
    mine, freed = MPI.COMM_WORLD.Dup(), []
    key = MPI.Comm.Create_keyval(delete_fn=lambda *_: freed.append(True))
    grid = da.Grid((24, 24), comm=mine, ranks=(MPI.COMM_WORLD.size, 1), **options)
    grid.communicator.handle.Set_attr(key, True)
    backend = grid.backend
    alive = weakref.ref(grid.communicator), weakref.ref(getattr(grid.communicator, "base", grid))
    use(grid)
    del grid
    mine.Free()
    for stream in (backend.compute, backend.communication):
        stream.synchronize()
    collect()
    connection.leave_abandoned(comm.default())  # the stand-in for NCCL sends by a communicator
    collect()
    while mpi._dropped:  # reductions that nobody has waited for
        mpi._free_dropped()
    other = MPI.COMM_WORLD.Dup()
    comm.default(other)
    other.Free()
    return [*(one() is not None for one in alive), not freed]


def test_communicators_and_duplicates_die_whatever_was_done_on_them():
    for name, use in USES.items():
        found = left_over(use, device="cpu")
        assert not any(found), (name, found)


def test_those_of_devices_die():
    for transport in TRANSPORTS:
        for name in ("redistribute", "map_lines", "halos", "sum"):
            found = left_over(USES[name], device="simulated", transport=transport)
            assert not any(found), (transport, name, found)


def test_a_communicator_around_another_dies():
    for name in ("redistribute", "map_lines", "halos", "transform"):
        watched = WatchedCommunicator(MPI.COMM_WORLD)
        USES[name](da.Grid((24, 24), comm=watched, ranks=(watched.size, 1), device="cpu"))
        alive = weakref.ref(watched)
        del watched
        collect()
        assert alive() is None, name


def test_an_exchange_holds_the_duplicate_but_not_the_communicator():
    mpi._abandoned.clear()
    mine = MPI.COMM_WORLD.Dup()
    ours = comm.default(mine)
    mine.Free()
    alive, got = weakref.ref(ours), np.zeros(3)
    after, before = (ours.rank + 1) % ours.size, (ours.rank - 1) % ours.size
    exchange = ours.prepare_exchange([(after, np.full(3, 7.0))], [(before, got)])
    del ours
    assert alive() is None
    comm.default(MPI.COMM_WORLD.Dup())
    assert not mpi._abandoned
    exchange.start().wait()
    assert got.tolist() == [7.0] * 3
    del exchange
    mpi._free_dropped()
    assert len(mpi._abandoned) == 1


def test_the_memory_of_a_reduction_that_nobody_waits_for_stays_until_it_is_done():
    world = MPI.COMM_WORLD
    mine = world.Dup()
    ours = comm.default(mine)
    mine.Free()
    mpi._free_dropped()
    if ours.rank == 0:
        ours.begin_allreduce(np.ones(1000), "sum")
        assert mpi._dropped or world.size == 1
        del ours
    world.Barrier()  # the others begin later
    if world.rank:
        ours.begin_allreduce(np.ones(1000), "sum").result()
        assert not mpi._dropped
    while mpi._dropped:
        mpi._free_dropped()


def test_a_duplicate_that_one_rank_holds_stays():
    mpi._abandoned.clear()
    first = MPI.COMM_WORLD.Dup()
    held = [comm.default(first)]
    first.Free()
    if MPI.COMM_WORLD.rank:
        held.clear()
    comm.default(MPI.COMM_WORLD.Dup())
    assert len(mpi._abandoned) == (1 if MPI.COMM_WORLD.rank else 0)
    held.clear()
    comm.default(MPI.COMM_WORLD.Dup())
    assert not mpi._abandoned


def test_a_thousand_uses_take_one_duplicate():
    mine = MPI.COMM_WORLD.Dup()
    made = {id(comm.default(mine)) for _ in range(1000)}
    assert len(made) == 1


def test_messages_of_the_user_do_not_mix_with_ours():
    ours = comm.default()
    after, before = (ours.rank + 1) % ours.size, (ours.rank - 1) % ours.size
    stray = np.full(4, 5.0)
    users = MPI.COMM_WORLD.Isend(stray, after, tag=1)
    got = np.zeros(4)
    ours.exchange([(after, np.full(4, 6.0))], [(before, got)])
    assert got.tolist() == [6.0] * 4
    MPI.COMM_WORLD.Recv(got, before, tag=1)
    users.Wait()
    assert got.tolist() == [5.0] * 4


def test_a_part_of_the_ranks():
    world = MPI.COMM_WORLD
    part = world.Split(world.rank % 2, world.rank)
    ours = comm.default(part)
    assert (ours.rank, ours.size) == (part.rank, part.size)
    assert comm.default(MPI.COMM_SELF).size == 1


def test_what_is_no_communicator_is_refused():
    for value, text in ((3, "3"), ("world", "'world'"), (MPI.COMM_NULL, "a Comm")):
        error = error_of(lambda: comm.default(value))  # noqa: B023  (called at once)
        assert isinstance(error, CommunicationError)
        assert str(error) == (
            f"comm must be an mpi4py intracommunicator or None, not {text}; "
            "pass mpi4py.MPI.COMM_WORLD, a part of it, or None."
        )


def test_a_communicator_of_the_library_is_taken_as_it_is():
    ours = comm.default()
    assert comm.default(ours) is ours


def test_an_agreed_error_brings_the_traceback_of_its_rank():
    ours = comm.default()

    def fail():
        raise ValueError("only here")

    last = ours.size - 1
    mine = error_of(fail) if ours.rank == last else None
    error = error_of(lambda: ours.agree(mine))
    assert str(error) == "only here"
    if ours.rank != last:
        [note] = error.__notes__
        assert note.startswith(f"It was raised on rank {last}:\nTraceback")
        assert "in fail" in note


def test_sleeping_waits_complete():
    ours = comm.default(MPI.COMM_WORLD.Dup())
    ours._wait = mpi._sleeping_wait
    for turn in range(5):
        values = np.array([ours.rank + turn])
        assert ours.allreduce(values, "max").tolist() == [ours.size - 1 + turn]
    ours.barrier()
