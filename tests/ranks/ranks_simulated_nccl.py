"""What stands in for NCCL, on ranks of MPI that run their work at different times."""

from __future__ import annotations

import itertools

import numpy as np

from distarray import comm
from distarray.backends.simulated import SimulatedDriver
from distarray.comm import nccl
from tests.simulated_tools import Block

COMM = comm.default()
RANK, SIZE = COMM.rank, COMM.size
RANKS = (1, 2, 3)
SELDOM = (2,)


def devices():
    """New devices under several seeds, each with a group of its own."""
    for seed in range(2):
        driver = SimulatedDriver(10 * seed + RANK)
        yield driver, nccl.connect(driver.nccl_binding(), COMM)
        driver.finish()


def message(driver, count, dtype="f8"):
    """Memory that the communication stream uses first, and so none of the pool's."""
    return Block(driver, count, dtype, pooled=False)


def upload(driver, block, values):
    values = np.asarray(values, block.dtype)
    driver.to_device(values, block.writes(), driver.communication, pinned=False)


def download(driver, block):
    found = np.empty(block.count, block.dtype)
    driver.to_host(block.reads(), found, driver.communication, pinned=False)
    return found


def test_rings_whose_ranks_look_at_their_streams_at_different_steps():
    for (driver, ranks), count in itertools.product(devices(), [7, 300_000]):
        ring(driver, ranks, count)


def ring(driver, ranks, count):
    sent, received = message(driver, count), message(driver, count)
    following, previous = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for step in range(6):
        upload(driver, sent, np.arange(count) + RANK + 100 * step)
        nccl.exchange(
            ranks,
            [(following, sent.address, 8 * count)],
            [(previous, received.address, 8 * count)],
            1 << 20,
            driver.communication.pointer,
        )
        if step % SIZE == RANK:
            expected = np.arange(count) + previous + 100 * step
            np.testing.assert_array_equal(download(driver, received), expected)
    np.testing.assert_array_equal(download(driver, received), np.arange(count) + previous + 500)


def test_work_that_nobody_looked_at_before_the_host_communicates():
    """Ranks enter collectives of the host with work of their streams still waiting."""
    for driver, ranks in devices():
        mixture(driver, ranks)


def mixture(driver, ranks):
    block = message(driver, 1000, "i8")
    upload(driver, block, np.full(1000, RANK + 1))
    collectives = nccl.Collectives(ranks, SIZE, 1 << 30)
    stream = driver.communication.pointer
    collectives.all_reduce(block.address, block.address, 1000, block.dtype, "sum", stream)
    if RANK == 0:
        assert (download(driver, block) == SIZE * (SIZE + 1) // 2).all()
    assert COMM.allgather(RANK) == list(range(SIZE))
    collectives.broadcast(block.address, block.count * 8, SIZE - 1, stream)
    COMM.barrier()
    assert (download(driver, block) == SIZE * (SIZE + 1) // 2).all()


def test_collectives_give_the_same_whatever_the_limit():
    for (driver, ranks), limit in itertools.product(devices(), [64, 1 << 30]):
        gather_and_scatter(driver, ranks, limit)


def gather_and_scatter(driver, ranks, limit):
    collectives, stream = nccl.Collectives(ranks, SIZE, limit), driver.communication.pointer
    own, gathered, part = message(driver, 50), message(driver, 50 * SIZE), message(driver, 50)
    upload(driver, own, np.arange(50) * (RANK + 1))
    collectives.all_gather(own.address, gathered.address, 400, stream)
    collectives.reduce_scatter(gathered.address, part.address, 50, np.dtype(float), "max", stream)
    expected = np.concatenate([np.arange(50.0) * (r + 1) for r in range(SIZE)])
    np.testing.assert_array_equal(download(driver, gathered), expected)
    np.testing.assert_array_equal(download(driver, part), np.arange(50.0) * (RANK + 1))


def test_a_group_is_left_when_all_is_done():
    for driver, ranks in devices():
        block = message(driver, 3)
        upload(driver, block, [1, 2, 3])
        stream = driver.communication
        ranks.broadcast(block.address, block.address, 3, "float64", 0, stream.pointer)
        stream.synchronize()
        ranks.destroy()
