"""What is kept of a transfer is its plan and its buffers, not the arrays that it was made for."""

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np

import distarray as da
from distarray import placement
from distarray.redistribute import Redistribution
from tests import devices
from tests.ranks.common import SIZE


def grid_cut_along_rows():
    return da.Grid((16, 12), ranks=(SIZE, 1))


def memory_of(array):
    """A weak reference to what holds the bytes of an array."""
    return weakref.ref(devices.owner(array.block.memory))


def test_arrays_that_were_moved_can_be_dropped():
    grid = grid_cut_along_rows()
    u = grid.from_function(lambda x, y: x + y)
    v = u.redistribute(ranks=(1, SIZE))
    part = u[1:-1, ::2]
    v[...] = u
    da.map_along(u, 0, np.negative)
    kept = [memory_of(array) for array in (u, v, part)]
    assert all(memory() is not None for memory in kept)
    del u, v, part
    gc.collect()
    assert [memory() for memory in kept] == [None] * 3


@contextlib.contextmanager
def counted_plans():
    """A list that grows by one with each plan that is made."""
    made = []

    def counted(*args, **options):
        made.append(args)
        return Redistribution(*args, **options)

    placement.Redistribution = counted
    try:
        yield made
    finally:
        placement.Redistribution = Redistribution


def test_the_same_part_is_planned_once():
    for u in (grid_cut_along_rows().zeros(components=(2,)), da.zeros((2, 7, 10))):
        with counted_plans() as made:
            for number in range(3):
                part = u[:, 1:-1, 2:9:3]
                u[:, 1:-1, 2:9:3] = part + number
                u[1, 0:5] = u[0, 1:6]
            assert len(made) == 4
        expected = np.zeros(u.shape)
        for number in range(3):
            expected[:, 1:-1, 2:9:3] += number
            expected[1, 0:5] = expected[0, 1:6]
        assert np.array_equal(u.gather(), expected)


def test_other_parts_and_element_types_have_their_own_plans():
    u = grid_cut_along_rows().from_function(lambda x, y: 100 * x + y)
    whole = u.gather()
    with counted_plans() as made:
        for _ in range(2):
            assert np.array_equal(u[1:-1].gather(), whole[1:-1])
            assert np.array_equal(u[2:].gather(), whole[2:])
            single = u.astype(np.float32)
            assert np.array_equal(single[2:].gather(), whole.astype(np.float32)[2:])
    assert len(made) == 3
