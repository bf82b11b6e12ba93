"""Messages through memory that ranks share: right in every order in which exchanges may be begun,
finished and made anew, and left to MPI where places are too small or held.
"""

from __future__ import annotations

import os
import time
from unittest import mock

import numpy as np

from distarray.backends.cpu import CpuBackend
from distarray.block import reads_of_offsets
from distarray.comm import default
from distarray.decomposition import Decomposition
from distarray.grid import Grid
from distarray.halo import shared
from distarray.halo.exchange import HaloExchange
from distarray.halo.plan import HaloPlan
from distarray.kernels.apply import stencil
from distarray.topology import Topology
from tests.ranks.ranks_halo import box, check, fill, make, star

RANKS = (2, 3, 4, 8)


def communicator():
    """All ranks; unlike that of other tests, Local."""
    return default()


def channels():
    found = shared.channels(communicator(), CpuBackend())
    assert found is not None
    return found


def row(periodic=True, cells=6):
    size = communicator().size
    return Decomposition((cells * size, 8), (size, 1), periodic=periodic, halo=2)


def through_memory(blocks, offsets, near=None):
    grid = blocks[0].layout.decomposition
    coords = Topology(grid, communicator()).coords
    fields = [
        (block.layout, reads_of_offsets(read)) for block, read in zip(blocks, offsets, strict=True)
    ]
    plan = HaloPlan.build(grid, coords, fields)
    exchange = HaloExchange(plan, blocks, communicator(), near or channels())
    assert isinstance(exchange._messages, shared.SharedExchange)
    return exchange


def test_every_pair_of_this_node_has_a_channel():
    others = set(range(communicator().size)) - {communicator().rank}
    assert set(channels().outgoing) == set(channels().incoming) == others
    assert channels() is channels()


def test_halos_are_right_turn_by_turn():
    for periodic in (True, False):
        block = make(row(periodic), (2, 2))
        exchange = through_memory([block], [{(): box(2, 2)}])
        for turn in range(7):
            fill(block, turn)
            pending = exchange.begin()
            if turn % 2:
                while not pending.poll():
                    pass
            pending.finish()
            check(block, {(): box(2, 2)}, turn)


def test_messages_one_way_only_wait_for_slow_receivers():
    """Nothing comes back, so that only the marks of empty places hold the sender up."""
    block = make(row(), (2, 2))
    exchange = through_memory([block], [{(): {(-1, 0), (-2, 0)}}])
    for turn in range(6):
        fill(block, turn)
        exchange.begin().finish()
        if communicator().rank % 2:
            time.sleep(0.02)
        check(block, {(): {(-1, 0), (-2, 0)}}, turn)


def test_more_exchanges_under_way_than_places():
    count = 2 * shared.SLOTS + 1
    blocks = [make(row(), (1, 1)) for _ in range(count)]
    exchanges = [through_memory([block], [{(): star(2, 1)}]) for block in blocks]
    for turn in range(3):
        for order in (range(count), reversed(range(count)), (2, 0, 4, 1, 3)):
            for number, block in enumerate(blocks):
                fill(block, 10 * turn + number)
            pending = [exchange.begin() for exchange in exchanges]
            for number in order:
                pending[number].finish()
            for number, block in enumerate(blocks):
                check(block, {(): star(2, 1)}, 10 * turn + number)


def test_an_exchange_made_anew_on_some_ranks_pairs_with_the_old_one_of_others():
    block = make(row(), (1, 1))
    exchange = through_memory([block], [{(): star(2, 1)}])
    for turn in range(5):
        if (communicator().rank + turn) % 2:
            exchange = through_memory([block], [{(): star(2, 1)}])
        fill(block, turn)
        exchange.begin().finish()
        check(block, {(): star(2, 1)}, turn)


def test_messages_larger_than_a_place_go_by_mpi():
    small = shared.Channels.__new__(shared.Channels)
    vars(small).update(vars(channels()))
    blocks = [make(row(), (1, 1)), make(row(), (1, 1), components=(3,))]
    for nbytes in (0, 1 << 9):
        small.nbytes = nbytes
        for near in (small, channels()):
            exchange = through_memory(blocks, [{(): star(2, 1)}, {(1,): star(2, 1)}], near)
            for turn in range(3):
                for block in blocks:
                    fill(block, turn)
                exchange.begin().finish()
                check(blocks[0], {(): star(2, 1)}, turn)
                check(blocks[1], {(1,): star(2, 1)}, turn)


def test_ranks_that_wait_let_reductions_go_on():
    """Rank 0 waits for a message that others send when a reduction is done, to which it has come
    but which it does not wait for.
    """
    block = make(row(), (1, 1))
    exchange = through_memory([block], [{(): star(2, 1)}])
    for turn in range(3):
        fill(block, turn)
        request = communicator().begin_allreduce(np.ones(50_000), "sum")
        if communicator().rank:
            request.result()
        pending = exchange.begin()
        pending.finish()
        assert request.result()[0] == communicator().size
        check(block, {(): star(2, 1)}, turn)


def test_the_variable_leaves_all_messages_to_mpi():
    handle = default().handle.Dup()
    os.environ["DISTARRAY_SHARED_MEMORY"] = "0"
    try:
        alone = default(handle)
        assert shared.channels(alone, CpuBackend()) is None
        grid = Grid((4 * alone.size, 4), ranks=(alone.size, 1), periodic=True, comm=alone)
        u, new = grid.from_function(lambda x, y: x + 0 * y), grid.zeros()
        shift(u, new)
    finally:
        del os.environ["DISTARRAY_SHARED_MEMORY"]
    assert np.array_equal(new.gather(), np.roll(u.gather(), 1, axis=0))
    one_exchange()  # through memory still, where others have none


def one_exchange():
    block = make(row(), (1, 1))
    exchange = through_memory([block], [{(): star(2, 1)}])
    fill(block, 1)
    exchange.begin().finish()
    check(block, {(): star(2, 1)}, 1)


def test_what_may_be_compiled_later_does_not_matter():
    """Nor on which ranks: all of them take the memory that they have made."""
    channels()
    for unlike in (0, 1, None):
        numpy = {"DISTARRAY_EXECUTOR": "numpy"} if communicator().rank != unlike else {}
        with mock.patch.dict(os.environ, numpy):
            one_exchange()


@stencil
def shift(u, new):
    new[0, 0] = u[-1, 0]


def test_nothing_is_left_behind():
    channels()
    default().barrier()
    found = [name for name in os.listdir("/dev/shm") if name.startswith("distarray-")]
    default().barrier()
    mine = {os.stat(f"/dev/shm/{name}").st_uid for name in found} & {os.getuid()}
    assert not mine or _others_run(), found


def _others_run():
    """Files of other jobs that start right now are seen for an instant."""
    time.sleep(1.0)
    return not [name for name in os.listdir("/dev/shm") if name.startswith("distarray-")]
