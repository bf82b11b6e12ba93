"""Values moved between placements, gathered and scattered, on any number of ranks."""

from __future__ import annotations

import numpy as np

from distarray.block import Block
from distarray.collect import gather, scatter
from distarray.decomposition import Decomposition, choose_ranks, factorisations
from distarray.errors import ArrayError
from distarray.layout import Layout
from distarray.redistribute import Redistribution
from distarray.transfer import Selection, Stride
from tests.devices import host
from tests.ranks.common import backend, communicator

SELDOM = (4,)


def block_of(shape, ranks, *, components=(), dtype=float, halo=1, staggered=None):
    flags = staggered or (False,) * len(shape)
    layout = Layout(
        Decomposition(shape, ranks), flags, (halo,) * len(shape), components, np.dtype(dtype)
    )
    return Block(layout, communicator().rank, backend())


def numbers(shape, dtype=float):
    """A different value for each index, by formula."""
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def filled(block):
    """The block with its part of `numbers`, and a halo that must never be seen."""
    block.memory[...] = -1
    whole = numbers(block.layout.shape, block.layout.dtype)
    block.owned_memory[...] = whole[(..., *block.owned.slices())]
    return block


def holds(block, expected):
    return np.array_equal(host(block.owned_memory), expected[(..., *block.owned.slices())])


def redistribute(source, target, communicator, **options):
    """Move values once."""
    Redistribution(source.layout, target.layout, communicator.rank, **options).run(
        source, target, communicator
    )


def process_grids(ndim):
    """All process grids of all ranks, and one of a part of them."""
    size = communicator().size
    return [*factorisations(size, ndim), (1,) * ndim]


def test_every_process_grid_to_every_other():
    shape = (13, 9)
    for components, dtype in (((), np.float64), ((3,), np.complex128), ((), np.bool_)):
        for before in process_grids(2):
            for after in process_grids(2):
                source = filled(block_of(shape, before, components=components, dtype=dtype))
                target = block_of(shape, after, components=components, dtype=dtype, halo=2)
                redistribute(source, target, communicator())
                assert holds(target, numbers(source.layout.shape, dtype))


def test_points_on_faces_and_a_cast():
    for after in process_grids(2):
        first = process_grids(2)[0]
        source = filled(block_of((11, 8), first, staggered=(True, False)))
        target = block_of((11, 8), after, staggered=(True, False), dtype=np.float32)
        redistribute(source, target, communicator())
        assert holds(target, numbers((12, 8), np.float32))


def test_a_kept_redistribution_is_replayed_for_other_blocks():
    ranks, back = process_grids(2)[0], process_grids(2)[-2]
    source, target = block_of((16, 12), ranks), block_of((16, 12), back)
    move = Redistribution(source.layout, target.layout, communicator().rank)
    for offset in range(3):
        filled(source).owned_memory[...] += offset
        move.run(source, target, communicator())
        assert holds(target, numbers((16, 12)) + offset)
    other = filled(block_of((16, 12), ranks))
    move.run(other, target, communicator())
    assert holds(target, numbers((16, 12)))


def test_strided_selection_and_held_index():
    source = filled(block_of((12, 9, 5), choose_ranks((12, 9, 5), communicator().size)))
    expected = numbers((12, 9, 5))[11:1:-3, 7, 1:5]
    for ranks in process_grids(2):
        if ranks[0] > 4 or ranks[1] > 4:
            continue
        target = block_of((4, 4), ranks)
        chosen = Selection(
            (Stride(11, -3, 4), 7, Stride(1, 1, 4)), (Stride(0, 1, 4), Stride(0, 1, 4))
        )
        redistribute(source, target, communicator(), selection=chosen)
        assert holds(target, expected)


def test_assignment_to_itself_reads_before_it_writes():
    block = filled(block_of((12, 9), process_grids(2)[0]))
    chosen = Selection((Stride(0, 1, 11), Stride(0, 1, 9)), (Stride(1, 1, 11), Stride(0, 1, 9)))
    redistribute(block, block, communicator(), selection=chosen)
    expected = numbers((12, 9))
    expected[1:] = numbers((12, 9))[:-1]
    assert holds(block, expected)


def test_repeated_index_fills_an_axis():
    source = filled(block_of((12, 9), process_grids(2)[0]))
    target = block_of((12, 9), process_grids(2)[-2])
    chosen = Selection((Stride(5, 0, 12), Stride(0, 1, 9)), (Stride(0, 1, 12), Stride(0, 1, 9)))
    redistribute(source, target, communicator(), selection=chosen)
    assert holds(target, np.broadcast_to(numbers((12, 9))[5], (12, 9)))


def test_selected_components():
    source = filled(block_of((12, 9), process_grids(2)[0], components=(3, 2)))
    target = block_of((12, 9), process_grids(2)[-2], components=(2,))
    redistribute(source, target, communicator(), source_component=(slice(0, 3, 2), 1))
    assert holds(target, numbers((3, 2, 12, 9))[::2, 1])


def test_gather_to_one_and_to_all():
    size = communicator().size
    for ranks in process_grids(2):
        block = filled(block_of((13, 9), ranks, components=(2,)))
        whole = numbers((2, 13, 9))
        for root in {None, 0, size - 1}:
            got = gather(block, communicator(), root)
            if root in (None, communicator().rank):
                assert np.array_equal(got, whole)
            else:
                assert got is None
        assert np.array_equal(gather(block, communicator(), component=(1,)), whole[1])


def test_scatter_from_each_rank():
    whole = numbers((2, 13, 9))
    for root in range(communicator().size):
        for ranks in process_grids(2):
            block = block_of((13, 9), ranks, components=(2,), dtype=np.float32)
            scatter(whole if communicator().rank == root else None, block, communicator(), root)
            assert holds(block, whole.astype(np.float32))


def test_refusals_are_the_same_on_all_ranks():
    ones = (1, 1)
    block, other = block_of((13, 9), ones), block_of((9, 13), ones)
    messages = []
    for attempt in (
        lambda: redistribute(block, other, communicator()),
        lambda: redistribute(block, block_of((13, 9), ones, components=(2,)), communicator()),
        lambda: scatter(np.zeros((9, 13)), block, communicator()),
    ):
        try:
            attempt()
        except ArrayError as error:
            messages.append(str(error))
    assert messages == [
        "An array of (13, 9) points cannot be redistributed to (9, 13); both need the same shape.",
        "Components of shape () cannot go to components of shape (2,); "
        "select components of one shape on both sides.",
        "Values of shape (9, 13) cannot fill an array of shape (13, 9); "
        "pass an array of that shape on root.",
    ]
