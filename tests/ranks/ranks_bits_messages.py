"""Only what is stale and read is sent, and nothing depends on what one rank does alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.halo.plan import ALIGNMENT
from distarray.testing import WatchedCommunicator
from tests.devices import host
from tests.ranks.bits import put, random_values, same
from tests.ranks.common import SIZE

RANKS = (2, 4)

#: Rows and columns of blocks are multiples of ALIGNMENT, to which pieces of messages are rounded.
SHAPE = (8 * SIZE, 16)
ITEM = 8


@da.stencil
def cross(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 0] + u[-1, 0] + u[0, 1] - u[0, -1]


@da.stencil
def corner(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 1] - u[0, 0]


@da.stencil
def upwind(u: Any, new: Any) -> None:
    new[0, 0] = u[0, 0] - u[-1, 0]


@da.stencil
def uneven(u: Any, new: Any) -> None:
    new[0, 0] = u[-2, 0] + u[1, 0]


def watched(**options: Any) -> tuple[WatchedCommunicator, da.Grid]:
    """A grid cut along the first axis, or as `ranks` says."""
    watcher = WatchedCommunicator()
    return watcher, da.Grid(SHAPE, comm=watcher, **{"ranks": (SIZE, 1), **options})


def messages(watcher: WatchedCommunicator) -> list[list[tuple[int, int]]]:
    """What this rank sent since the last call, in the order of exchanges; each sorted by rank."""
    found = [sorted(exchange) for exchange in watcher.sent]
    watcher.clear()
    return found


def sent(watcher: WatchedCommunicator, expected: list[list[tuple[int, int]]]) -> None:
    """Exactly these (rank, bytes) were sent since the last look."""
    found = messages(watcher)
    assert found == expected, f"{found}, not {expected}"


def rolled(values: Any, step: int, axis: int = 0) -> Any:
    """Values at this offset, around periodic axes."""
    return np.roll(values, -step, axis)


def crossed(u: Any) -> Any:
    return rolled(u, 1) + rolled(u, -1) + rolled(u, 1, 1) - rolled(u, -1, 1)


def test_fresh_halos_are_not_sent_again() -> None:
    watcher, grid = watched(periodic=True)
    start = random_values(*SHAPE)
    u, other = put(grid, start), put(grid, start)
    new = grid.empty_like(u)
    messages(watcher)
    cross(u, new)
    assert len(messages(watcher)) == 1
    for _ in range(3):
        cross(u, new)
    cross(u, other)
    sent(watcher, [])
    u += 1.0
    cross(u, new)
    assert len(messages(watcher)) == 1
    same(new, crossed(start + 1.0))
    with u.writing() as block:
        np.multiply(block, 2.0, out=block)
    cross(u, new)
    assert len(messages(watcher)) == 1
    same(new, crossed((start + 1.0) * 2.0))
    cross(new, u)  # written by a kernel
    cross(u, other)
    assert len(messages(watcher)) == 2
    same(other, crossed(crossed(crossed((start + 1.0) * 2.0))))


def test_a_rank_may_look_at_its_block_alone() -> None:
    watcher, grid = watched(periodic=True)
    start = random_values(*SHAPE)
    u = put(grid, start)
    new = grid.empty_like(u)
    cross(u, new)
    messages(watcher)
    if grid.is_root:
        assert host(u.local)[0, 0] == start[0, 0]
        assert u.padded.shape == (10, 18)
        repr(u)
        for view in (u.local, u.padded):
            with pytest.raises(ValueError, match="read-only"):
                view[...] = 0.0
    cross(u, new)
    sent(watcher, [])
    u[...] = 2.0 * start
    if grid.rank == SIZE - 1:
        assert host(u.local)[0, 0] == 2.0 * start[u.local_slices][0, 0]
    cross(u, new)
    assert len(messages(watcher)) == 1
    same(new, crossed(2.0 * start))


def test_a_pending_value_may_be_read_by_one_rank_or_none() -> None:
    @da.stencil
    def largest(u: Any) -> Any:
        return da.reduce.max(u[0, 0])

    _, grid = watched(periodic=True)
    start = random_values(*SHAPE)
    u = put(grid, start)
    for _ in range(40):  # more than the library keeps under way
        value = largest(u)
        if grid.rank == 1:
            assert float(value) == start.max()
    assert u.max() == start.max()


def test_an_upwind_kernel_sends_one_way() -> None:
    for periodic in (False, True):
        watcher, grid = watched(periodic=(periodic, False))
        u = put(grid, random_values(*SHAPE))
        messages(watcher)
        upwind(u, grid.empty_like(u))
        after = (grid.rank + 1) % SIZE
        sends = periodic or grid.rank < SIZE - 1
        receives = periodic or grid.rank > 0
        expected = [(after, SHAPE[1] * ITEM)] if sends else []
        sent(watcher, [expected] if sends or receives else [])


def test_an_uneven_reach_sends_what_is_read_of_each_side() -> None:
    watcher, grid = watched(periodic=False, halo=3)
    start = random_values(*SHAPE)
    u = put(grid, start)
    new = grid.zeros_like(u)
    messages(watcher)
    uneven(u, new)
    row = SHAPE[1] * ITEM
    expected = [(grid.rank - 1, row)] if grid.rank > 0 else []
    expected += [(grid.rank + 1, 2 * row)] if grid.rank < SIZE - 1 else []
    sent(watcher, [expected])
    wanted = np.zeros(SHAPE)
    wanted[2:-1] = start[:-3] + start[3:]
    same(new, wanted)


def test_a_wider_read_is_sent_and_a_narrower_one_is_not() -> None:
    watcher, grid = watched(periodic=False, halo=2)
    u = put(grid, random_values(*SHAPE))
    new = grid.empty_like(u)
    messages(watcher)
    upwind(u, new)
    uneven(u, new)
    assert len(messages(watcher)) == 2
    upwind(u, new)
    uneven(u, new)
    sent(watcher, [])


def test_corners_are_sent_only_if_they_are_read() -> None:
    if SIZE != 4:
        return
    watcher, grid = watched(ranks=(2, 2), periodic=False)
    start = random_values(*SHAPE)
    u = put(grid, start)
    new = grid.zeros_like(u)
    messages(watcher)
    cross(u, new)
    rows, columns = SHAPE[0] // 2, SHAPE[1] // 2
    neighbours = sorted([(grid.rank ^ 1, rows * ITEM), (grid.rank ^ 2, columns * ITEM)])
    sent(watcher, [neighbours])
    u[...] = start
    messages(watcher)
    corner(u, new)
    wanted = {
        0: [],
        1: [(0, rows * ITEM)],
        2: [(0, columns * ITEM)],
        3: [(0, ALIGNMENT), (1, columns * ITEM), (2, rows * ITEM)],
    }
    sent(watcher, [wanted[grid.rank]])
    expected = crossed(start)
    expected[:-1, :-1] = start[1:, 1:] - start[:-1, :-1]
    same(new[1:-1, 1:-1], expected[1:-1, 1:-1])


def test_one_message_to_each_rank_for_all_arrays_and_sides() -> None:
    @da.stencil
    def both(u: Any, v: Any, new: Any) -> None:
        new[0, 0] = u[1, 0] - v[-1, 0] + u[-1, 0]

    watcher, grid = watched(periodic=True)
    start = random_values(2, *SHAPE)
    u, v = put(grid, start[0]), put(grid, start[1].astype(np.float32))
    new = grid.empty_like(u)
    messages(watcher)
    both(u, v, new)
    row = SHAPE[1] * ITEM
    if SIZE == 2:  # the same rank on both sides
        expected = [(1 - grid.rank, 2 * row + row // 2)]
    else:
        after, before = (grid.rank + 1) % SIZE, (grid.rank - 1) % SIZE
        expected = sorted([(after, row + row // 2), (before, row)])
    sent(watcher, [expected])
    same(new, rolled(start[0], 1) - rolled(start[1].astype(np.float32), -1) + rolled(start[0], -1))


def test_only_components_that_are_read_are_sent() -> None:
    @da.stencil
    def second(U: Any, new: Any) -> None:
        new[0, 0] = U[1][-1, 0] + U[0][0, 0]

    @da.stencil
    def all_three(U: Any, new: Any) -> None:
        new[0, 0] = U[0][-1, 0] + U[1][-1, 0] * U[2][-1, 0]

    watcher, grid = watched(periodic=True)
    start = random_values(3, *SHAPE)
    u, new = put(grid, start, components=3), grid.empty()
    after, row = (grid.rank + 1) % SIZE, SHAPE[1] * ITEM
    messages(watcher)
    second(u, new)
    sent(watcher, [[(after, row)]])
    all_three(u, new)  # component 1 is fresh
    sent(watcher, [[(after, 2 * row)]])
    u[2] += 1.0
    all_three(u, new)
    sent(watcher, [[(after, row)]])
    low = np.roll(start, 1, 1)
    same(new, low[0] + low[1] * (low[2] + 1.0))
    u[...] = start
    all_three(u, new)
    assert messages(watcher)[-1] == [(after, 3 * row)]


def test_a_kernel_without_neighbours_sends_nothing() -> None:
    @da.stencil
    def double(u: Any, new: Any) -> None:
        new[0, 0] = 2.0 * u[0, 0] + u[0, 1]

    watcher, grid = watched(periodic=True)
    u = put(grid, random_values(*SHAPE))
    messages(watcher)
    double(u, grid.empty_like(u))
    assert [message for exchange in messages(watcher) for message in exchange] == []


def test_iterate_sends_once_a_step() -> None:
    watcher, grid = watched(periodic=True)
    u = put(grid, random_values(*SHAPE))
    messages(watcher)
    da.iterate(cross, u, grid.empty_like(u), steps=5)
    assert len(messages(watcher)) == 5


def test_two_colours_send_before_each_pass() -> None:
    @da.stencil(colours=2)
    def smooth(u: Any) -> None:
        u[0, 0] = 0.25 * (u[1, 0] + u[-1, 0])

    watcher, grid = watched(periodic=True)
    u = put(grid, random_values(*SHAPE))
    messages(watcher)
    smooth(u)
    assert len(messages(watcher)) == 2
