"""Loops in tiles give the bits of single steps, on any ranks and process grid."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray import spans
from distarray.bench.heat import diffuse
from distarray.comm import default
from distarray.tiling import loop

SIZE = default().size


@da.stencil
def spread(u, new, *, r):
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0])


@da.stencil
def lopsided(u, new, c, *, r):
    new[0, 0] = u[0, 0] + r * c[1, 0] * (u[2, 0] + u[-1, 0] + u[1, -2] - 3 * u[-1, 1])


@da.stencil
def leap(old, u, new, *, r):
    new[0, 0] = (
        2 * u[0, 0] - old[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0])
    )


@da.stencil
def pairs(u, new, *, r):
    new[0][0, 0] = u[0][0, 0] + r * (u[1][1, 0] - u[1][-1, 0])
    new[1][0, 0] = u[1][0, 0] - r * (u[0][0, 1] - u[0][0, -1])


@da.stencil
def numbered(u, new, *, time, dt):
    new[0, 0] = u[-1, 0] + dt * da.index(0) * u[0, 1] + time


CASES = {
    "one kernel": (spread, 2, 0, {"r": 0.1}),
    "lopsided with a coefficient": (lopsided, 2, 1, {"r": 0.01}),
    "three states": (leap, 3, 0, {"r": 0.2}),
    "a scalar of the step": (spread, 2, 0, {"r": lambda m: 0.01 * m}),
    "a chain": ([(spread, (0, 2)), (spread, (2, 1))], 2, 1, {"r": 0.1}),
    "index, time and dt": (numbered, 2, 0, {"dt": 0.25, "time": 1.0}),
}


def results(case, shape, periodic, tile, *, ranks=None, steps=13):
    """All arrays afterwards, and how many tiles there were."""
    step, states, coefficients, options = CASES[case]
    grid = da.Grid(shape, periodic=periodic, halo=2, ranks=ranks)
    arrays = [grid.empty() for _ in range(states + coefficients)]
    for number, array in enumerate(arrays):
        array[...] = np.random.default_rng(number).random(shape)
    with spans.record() as recording:
        newest = da.iterate(step, *arrays, steps=steps, rotate=range(states), tile=tile, **options)
    return [array.gather() for array in (newest, *arrays)], len(recording.named("tile"))


def test_tiles_have_the_bits_of_single_steps():
    for periodic in (True, False, (True, False), (False, True)):
        for case in CASES:
            compare(case, periodic)


def compare(case, periodic):
    shape = (12 * SIZE + 13, 41)
    expected, none = results(case, shape, periodic, 1)
    assert none == 0
    for tile in (2, 3, 4, 6) if SIZE < 8 else (4,):
        found, tiles = results(case, shape, periodic, tile)
        assert (tiles > 0) == (tile >= CASES[case][1])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_chain_that_comes_back():
    """No array rotates, so that any number of steps may share a tile."""
    for periodic in (True, False):
        found = []
        for tile in (1, 3):
            grid = da.Grid((8 * SIZE + 13, 24), periodic=periodic)
            u, v = grid.empty(), grid.zeros()
            u[...] = np.random.default_rng(5).random(grid.shape)
            step = [(spread, (0, 1)), (spread, (1, 0))]
            with spans.record() as recording:
                da.iterate(step, u, v, steps=7, rotate=(), tile=tile, r=0.1)
            found.append((u.gather(), v.gather()))
        assert len(recording.named("tile")) == 2
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_any_process_grid():
    shape = (9 * SIZE, 10 * SIZE + 1)
    for ranks in ((0, 1), (1, 0), (0, 0)):
        expected, _ = results("one kernel", shape, (True, False), 1, ranks=ranks)
        found, tiles = results("one kernel", shape, (True, False), 4, ranks=ranks)
        assert tiles == 3
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_three_axes():
    for periodic in (True, (False, True, False)):
        found = []
        for tile in (1, 4):
            grid = da.Grid((19, 11 * SIZE, 13), periodic=periodic)
            u = grid.empty(np.float32)
            u[...] = np.random.default_rng(7).random(grid.shape, np.float32)
            found.append(da.iterate(diffuse, u, u.copy(), steps=9, tile=tile, r=0.1).gather())
        np.testing.assert_array_equal(*found)


def test_components():
    found = []
    for tile in (1, 4):
        grid = da.Grid((8 * SIZE + 3, 17), periodic=True)
        u = grid.empty(components=2)
        u[...] = np.random.default_rng(9).random((2, *grid.shape))
        found.append(da.iterate(pairs, u, u.copy(), steps=9, tile=tile, r=0.1).gather())
    np.testing.assert_array_equal(*found)


def test_blocks_that_are_narrow_take_fewer_steps():
    """A block of three rows has no halo of four."""
    found = []
    for tile in (1, 8):
        grid = da.Grid((3 * SIZE, 20), periodic=True, ranks=(SIZE, 1))
        u = grid.empty()
        u[...] = np.random.default_rng(11).random(grid.shape)
        with spans.record() as recording:
            found.append(da.iterate(spread, u, u.copy(), steps=12, tile=tile, r=0.1).gather())
    assert len(recording.named("tile")) == 6
    np.testing.assert_array_equal(*found)


def test_other_ranks_may_find_another_number_of_steps_fastest():
    """Rows of ranks keep what they measured to themselves; their columns would disagree."""
    rank, half = MPI.COMM_WORLD.rank, max(1, SIZE // 2)
    row = MPI.COMM_WORLD.Split(rank // half, rank)
    column = MPI.COMM_WORLD.Split(rank % half, rank)
    worth, loop.WORTH_TILING = loop.WORTH_TILING, 0
    found = []
    try:
        for comm in (row, column, row, column):
            grid = da.Grid((48, 24), periodic=True, comm=comm)
            u = grid.from_function(lambda x, y: np.sin(7 * x) + np.cos(9 * y))
            found.append(da.iterate(spread, u, u.copy(), steps=96, r=0.1).gather())
            if len(found) == 1:  # the rows find different numbers of steps, whatever they measured
                kept = spread.depths_on(grid.communicator)
                kept.update(dict.fromkeys(kept, (4, 12)[rank // half % 2]))
    finally:
        loop.WORTH_TILING = worth
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_arrays_with_old_conditions_are_let_go():
    """Loops on several ranks have arrays of their own, with wider halos and the same conditions."""
    made = []
    original, loop._with_halo = loop._with_halo, lambda *given: kept(original(*given))

    def kept(array):
        made.append(weakref.ref(array.block))
        return array

    def change(done, time, arrays):
        gc.collect()
        alive.append(len({block() for block in made} - {None}))
        for array in arrays:
            array.boundary["x-"] = da.Dirichlet(float(done))

    grid, alive = da.Grid((12 * SIZE, 20), ranks=(SIZE, 1)), []
    boundary = {side: da.Neumann(0.0) for side in ("x", "y")}
    arrays = [grid.ones(boundary=boundary) for _ in range(2)]
    try:
        da.iterate(spread, *arrays, steps=60, every=10, callback=change, tile=4, r=0.1)
    finally:
        loop._with_halo = original
    assert len(made) >= len(alive) == 6
    assert max(alive) <= alive[0]


def test_the_number_of_steps_that_is_measured():
    """Steps that are tried count, whatever turns out to be fastest, and a later loop knows."""
    least = loop.LEAST_STEPS, loop.WORTH_TILING
    loop.LEAST_STEPS, loop.WORTH_TILING = 1, 0
    try:
        for again in range(2):
            expected, _ = results("one kernel", (12 * SIZE, 24), True, 1, steps=100)
            found, tiles = results("one kernel", (12 * SIZE, 24), True, "auto", steps=100)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
            assert again or tiles >= 2 * loop.PASSES
    finally:
        loop.LEAST_STEPS, loop.WORTH_TILING = least
    assert len(set(default().allgather(tuple(spread.depths_on(default()).values())))) == 1
