"""The communicator of many ranks: the contract, with whole and with split messages."""

from __future__ import annotations

import os

import numpy as np
from mpi4py import MPI

from distarray import comm
from distarray.comm import base, mpi, mpi_files
from distarray.errors import CommunicationError
from distarray.regions import Box
from tests.communicator_contract import CommunicatorContract, error_of

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
