"""The loops of the bench that are written by hand with mpi4py do what the library does."""

from __future__ import annotations

import numpy as np

from distarray.bench import exchange, movement
from distarray.grid import Grid
from tests.ranks.common import communicator

RANKS = (2,)
CELLS = 6


def index_of(rank, axis, number):
    """A number for each field and each cell of this rank's block, periodic halo included."""
    found = np.zeros((CELLS + 2,) * 3)
    for along in range(3):
        cells = CELLS * (2 if along == axis else 1)
        start = CELLS * rank if along == axis else 0
        shape = [1] * 3
        shape[along] = CELLS + 2
        place = (np.arange(-1, CELLS + 1) + start) % cells
        found = found * 100 + place.reshape(shape)
    return found * 10 + number


def faces(values):
    """Those of the halo, without edges."""
    inner = slice(1, -1)
    return [
        values[tuple(place if a == axis else inner for a in range(3))]
        for axis in range(3)
        for place in (0, -1)
    ]


def check(exchanged, fields, axis):
    inside = (slice(1, -1),) * 3
    for number, field in enumerate(fields):
        expected = index_of(communicator().rank, axis, number)
        field[...] = -1.0
        field[inside] = expected[inside]
    exchanged()
    for number, field in enumerate(fields):
        expected = index_of(communicator().rank, axis, number)
        for found, wanted in zip(faces(field), faces(expected), strict=True):
            assert np.array_equal(found, wanted), (number, axis)


def test_all_exchanges_fill_the_same_faces():
    ranks = communicator()
    for axis in range(3):
        ours = exchange.Ours(ranks, CELLS, axis, 2)
        check(ours, [block.memory for block in ours.blocks], axis)
        by_numpy = exchange.ByNumpy(ranks, CELLS, axis)
        check(by_numpy, [by_numpy.field], axis)
        by_numpy.free()
    dense = [np.ones((CELLS + 2,) * 3) for _ in range(3)]
    for fields in (dense, [array.block.memory for array in ours.arrays]):
        by_c = exchange.ByC(ranks, fields)
        check(by_c, fields, 0)
        by_c.free()


def test_more_fields_take_no_more_messages():
    for count in (1, 8):
        ours = exchange.Ours(communicator(), CELLS, 0, count)
        ours()
        assert ours.sent == (1, count * 2 * CELLS**2 * 8)


def test_redistribution_by_hand_is_that_of_the_library():
    ranks, n = communicator(), 7
    grid = Grid((n, n, n), ranks=(ranks.size, 1, 1), comm=ranks, device="cpu")
    u = grid.from_function(lambda x, y, z: x + 10 * y + 100 * z)
    expected = u.redistribute(ranks=(1, ranks.size, 1)).local
    found = movement.by_numpy(ranks, n, np.ascontiguousarray(u.local))()
    assert np.array_equal(found, expected)
