"""Halo exchanges on ranks: every halo cell that is read holds its global index afterwards.

The halo is wiped first, and proved wiped. Grids are even and uneven, periodic or not along each
axis, kernels reach 1 to 4 cells as stars and as boxes.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from distarray.block import Block, reads_of_offsets
from distarray.decomposition import Decomposition, factorisations
from distarray.errors import CommunicationError, DecompositionError
from distarray.halo.exchange import HaloExchange
from distarray.halo.plan import HaloPlan
from distarray.layout import Layout
from distarray.topology import Topology
from tests.communicator_contract import error_of
from tests.devices import host
from tests.ranks.common import backend, communicator

SELDOM = (4,)
WIPED = -1


def star(ndim, reach):
    return {
        tuple(step if axis == along else 0 for axis in range(ndim))
        for along in range(ndim)
        for step in range(-reach, reach + 1)
        if step
    }


def box(ndim, reach):
    return {offset for offset in product(range(-reach, reach + 1), repeat=ndim) if any(offset)}


def make(grid, halo, *, components=(), staggered=None, dtype=np.float64):
    flags = staggered or (False,) * grid.ndim
    layout = Layout(grid, flags, halo, components, np.dtype(dtype))
    return Block(layout, communicator().rank, backend())


def value(layout, index):
    """A number that names component and global index, index arrays broadcast."""
    return np.ravel_multi_index(np.broadcast_arrays(*index), layout.shape)


def fill(block, turn=0):
    """Owned points by formula, everything else wiped."""
    block.memory[...] = WIPED
    layout, owned = block.layout, block.owned
    shape = layout.components + owned.shape
    if not owned.empty:
        index = np.indices(shape)
        for axis, start in enumerate(owned.start):
            index[len(layout.components) + axis] += start
        block.owned_memory[...] = value(layout, index) + turn


def expectation(block, offsets):
    """Where each owned point reads, by component, and what it must find there."""
    layout, owned = block.layout, block.owned
    read, found = np.zeros(block.memory.shape, bool), np.zeros(block.memory.shape)
    for component in np.ndindex(*layout.components) if not owned.empty else ():
        for offset in closed(offsets.get(component, set()) | {(0,) * layout.ndim}):
            index = [
                np.arange(lo, hi) + step
                for lo, hi, step in zip(owned.start, owned.stop, offset, strict=True)
            ]
            for axis, periodic in enumerate(layout.decomposition.periodic):
                n = layout.points[axis]
                if not periodic:
                    index[axis] = index[axis][(index[axis] >= 0) & (index[axis] < n)]
            local = np.ix_(*(i - o for i, o in zip(index, block.padded.start, strict=True)))
            around = [i % n for i, n in zip(index, layout.points, strict=True)]
            if all(len(i) for i in index):
                read[component][local] = True
                found[component][local] = value(layout, [*component, *np.ix_(*around)])
    return read, found


def check(block, offsets, turn=0):
    """Everything that is read is there; nothing else in the halo is touched."""
    compare(block, expectation(block, offsets), turn)


def compare(block, expected, turn):
    read, found = expected
    if not block.owned.empty:
        assert np.array_equal(host(block.memory), np.where(read, found + turn, WIPED))


def closed(offsets):
    """The offsets and those between them and zero: a corner brings its edges and faces."""
    return {
        part
        for offset in offsets
        for part in product(*(range(min(step, 0), max(step, 0) + 1) for step in offset))
    }


def exchange_of(blocks, offsets):
    grid = blocks[0].layout.decomposition
    here = Topology(grid, communicator())
    fields = [
        (block.layout, reads_of_offsets(read)) for block, read in zip(blocks, offsets, strict=True)
    ]
    return HaloExchange(HaloPlan.build(grid, here.coords, fields), blocks, communicator())


def run(blocks, offsets):
    exchange = exchange_of(blocks, offsets)
    expected = [expectation(block, read) for block, read in zip(blocks, offsets, strict=True)]
    for turn in range(3):
        for block in blocks:
            fill(block, turn)
            wiped = np.count_nonzero(host(block.memory) == WIPED)
            assert wiped == block.memory.size - block.owned_memory.size
        pending = exchange.begin()
        if turn == 1:
            while not pending.poll():
                pass
        pending.finish()
        for block, wanted in zip(blocks, expected, strict=True):
            compare(block, wanted, turn)


def grids(shape, halo):
    """All process grids and all choices of periodic axes that the halo allows."""
    for ranks in factorisations(communicator().size, len(shape)):
        for periodic in product((False, True), repeat=len(shape)):
            try:
                yield Decomposition(shape, ranks, periodic=periodic, halo=halo)
            except DecompositionError:
                continue


def test_stars_and_boxes_of_every_reach():
    for reach in (1, 2, 3, 4):
        for grid in grids((37, 35), reach):
            run([make(grid, (reach, reach))], [{(): star(2, reach)}])
            if reach < 3:
                run([make(grid, (reach, reach))], [{(): box(2, reach)}])


def test_even_blocks_as_narrow_as_the_halo():
    for grid in grids((16, 16), 2):
        run([make(grid, (2, 2))], [{(): box(2, 2)}])


def test_three_dimensions():
    for grid in grids((11, 9, 8), 1):
        if grid.periodic not in ((True, True, True), (False, True, False)):
            continue
        run([make(grid, (1, 1, 1))], [{(): box(3, 1)}])


def test_one_dimension_wide_halo_narrow_reach():
    for grid in grids((33,), 4):
        run([make(grid, (4,))], [{(): {(-1,), (2,)}}])


def test_upwind_reads_come_from_one_side_only():
    for grid in grids((24, 16), 2):
        run([make(grid, (2, 2))], [{(): {(-1, 0), (-2, 0)}}])


def test_points_on_faces_edges_and_nodes():
    for staggered in ((True, False), (True, True)):
        for grid in grids((19, 16), 2):
            run([make(grid, (2, 2), staggered=staggered)], [{(): box(2, 2)}])


def test_all_fields_travel_together_only_what_is_read_of_each():
    for grid in grids((16, 17), 2):
        blocks = [
            make(grid, (1, 1), components=(3,), dtype=np.complex128),
            make(grid, (2, 2), dtype=np.float32),
            make(grid, (1, 2), staggered=(True, False), dtype=np.int64),
        ]
        offsets = [
            {(0,): {(1, 0)}, (2,): star(2, 1)},
            {(): {(0, -2), (1, 1)}},
            {(): set()},
        ]
        run(blocks, offsets)


def test_one_message_per_neighbouring_rank():
    size = communicator().size
    grid = Decomposition((8 * size, 8), (size, 1), periodic=True, halo=1)
    blocks = [make(grid, (1, 1), components=(2,)), make(grid, (1, 1))]
    reads = [{(0,): box(2, 1), (1,): box(2, 1)}, {(): box(2, 1)}]
    plan = exchange_of(blocks, reads).plan
    neighbours = {(communicator().rank + step) % size for step in (-1, 1)} - {communicator().rank}
    assert {message.rank for message in plan.sends} == neighbours
    assert len(plan.sends) == len(plan.receives) == len(neighbours)
    run(blocks, reads)


def test_ranks_without_a_block_take_part():
    grid = Decomposition((9, 8), (1, 1), periodic=True, halo=1)
    run([make(grid, (1, 1))], [{(): box(2, 1)}])


def test_two_exchanges_under_way():
    for grid in grids((16, 16), 1):
        blocks = [make(grid, (1, 1)), make(grid, (1, 1))]
        first, second = (exchange_of([block], [{(): star(2, 1)}]) for block in blocks)
        for block, turn in zip(blocks, (5, 9), strict=True):
            fill(block, turn)
        pending = first.begin(), second.begin()
        pending[1].finish()
        pending[0].finish()
        for block, turn in zip(blocks, (5, 9), strict=True):
            check(block, {(): star(2, 1)}, turn)


def test_owned_cells_may_change_while_messages_fly():
    size = communicator().size
    grid = Decomposition((8 * size, 8), (size, 1), periodic=True, halo=1)
    block = make(grid, (1, 1))
    exchange = exchange_of([block], [{(): star(2, 1)}])
    fill(block)
    pending = exchange.begin()
    block.owned_memory[...] = 7.0
    pending.finish()
    halo = block.memory.copy()
    fill(block)
    block.memory[0], block.memory[-1] = halo[0], halo[-1]
    block.memory[:, 0], block.memory[:, -1] = halo[:, 0], halo[:, -1]
    check(block, {(): star(2, 1)})


def test_beginning_twice_is_refused():
    size = communicator().size
    grid = Decomposition((8 * size, 8), (size, 1), periodic=True, halo=1)
    exchange = exchange_of([make(grid, (1, 1))], [{(): star(2, 1)}])
    pending = exchange.begin()
    error = error_of(exchange.begin)
    pending.finish()
    assert isinstance(error, CommunicationError)
    assert str(error) == (
        "A halo exchange was begun again before it was finished; finish the pending exchange first."
    )


def test_a_process_grid_larger_than_the_job_is_refused():
    size = communicator().size
    grid = Decomposition((4 * size, 4), (size, 2))
    error = error_of(lambda: Topology(grid, communicator()))
    assert isinstance(error, CommunicationError)
    assert str(error) == (
        f"The process grid ({size}, 2) needs {2 * size} ranks, the communicator has {size}; "
        "start more ranks or use a smaller process grid."
    )


def test_topology_names_the_position_of_each_rank():
    rank, size = communicator().rank, communicator().size
    assert Topology(Decomposition((4 * size,), (size,)), communicator()).coords == (rank,)
    few = Topology(Decomposition((4,), (1,)), communicator())
    assert few.coords == (None if rank else (0,))
