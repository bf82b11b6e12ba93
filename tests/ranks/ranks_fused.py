"""Expressions that are computed later, on several ranks: the values of NumPy, whatever the order in
which ranks ask for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

import distarray as da
from distarray import elementwise
from distarray.fused import executor
from distarray.testing import assert_same_on_all_ranks
from tests.devices import host
from tests.ranks.common import SIZE, process_grids, refused

RANKS = (1, 2, 3, 4)
SELDOM = (3, 4)

SHAPE = (11, 9)


@contextlib.contextmanager
def put_off(cells: int = 0) -> Iterator[None]:
    """Small arrays as large ones, forms compiled after so many cells."""
    kept = elementwise.LEAST_SIZE, elementwise.LEAST_ROW, executor.CELLS_BEFORE_COMPILING
    elementwise.LEAST_SIZE = elementwise.LEAST_ROW = 1
    executor.CELLS_BEFORE_COMPILING = cells
    try:
        yield
    finally:
        (
            elementwise.LEAST_SIZE,
            elementwise.LEAST_ROW,
            executor.CELLS_BEFORE_COMPILING,
        ) = kept


def field(grid: da.Grid, seed: int, location: str | None = None, components: Any = ()) -> Any:
    u = grid.zeros(location=location, components=components)
    values = np.random.default_rng(seed).uniform(-2.0, 2.0, u.shape)
    u[...] = values
    return u, values


def test_expressions_on_all_process_grids() -> None:
    with put_off():
        for ranks in process_grids(2):
            grid = da.Grid(SHAPE, ranks=ranks)
            for location in (None, "x", "xy"):
                u, a = field(grid, 1, location)
                v, b = field(grid, 2, location)
                for number in (2, 3, 4):  # from the second on it is compiled
                    r = number * u + np.sqrt(np.abs(v)) * u - v / 3
                    assert r.block.deferred is not None
                    assert r.location == location
                    assert_array_equal(r.gather(), number * a + np.sqrt(np.abs(b)) * a - b / 3)
                np.add(2 * u, v, out=u)
                assert_array_equal(u.gather(), 2 * a + b)


def test_functions_have_the_same_bits_on_any_process_grid_and_in_any_form() -> None:
    found = []
    for cells in (0, 1 << 60):
        with put_off(cells):
            for ranks in process_grids(2):
                u, _ = field(da.Grid(SHAPE, ranks=ranks), 3)
                for _ in range(2):
                    r = np.exp(u) + np.sin(u) * np.tanh(u) - np.arctan2(u, 2.0)
                    found.append(r.gather())
    u, _ = field(da.Grid(SHAPE), 3)
    found.append((np.exp(u) + np.sin(u) * np.tanh(u) - np.arctan2(u, 2.0)).gather())  # at once
    for values in found:
        assert_array_equal(values, found[0])
    assert_same_on_all_ranks(found[0])


def test_values_may_be_asked_for_on_one_rank_alone() -> None:
    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0] + u[0, 1]

    with put_off():
        grid = da.Grid(SHAPE, periodic=True)
        u, a = field(grid, 4)
        new = grid.zeros()
        for _ in range(3):
            r, s = 2 * u + 1, u * u - 1
            if grid.is_root:
                assert host(s.local).size  # computed here, and not elsewhere
            shift(r, new)
            expected = 2 * a + 1
            expected = np.roll(expected, 1, 0) + np.roll(expected, -1, 1)
            assert_array_equal(new.gather(), expected)
            u[...] = s
            a = a * a - 1
            assert_array_equal(u.gather(), a)
            assert_array_equal(s.gather(), a)


def test_what_waits_keeps_the_values_from_before_a_target_is_written() -> None:
    with put_off():
        u = da.asarray(np.arange(48.0).reshape(8, 6), ranks=(SIZE, 1))
        for write in (
            lambda out: da.map_along(out, 1, np.negative, out=out),
            lambda out: da.map_lines(out, [(0, lambda lines, _: -lines)], out=out),
            lambda out: da.fft.dctn(out, out=out),
        ):
            before, doubled = u.gather(), 2 * u
            write(u)
            assert_array_equal(doubled.gather(), 2 * before)
            assert not np.array_equal(u.gather(), before)


def test_ranks_that_own_nothing_take_part() -> None:
    with put_off():
        u = da.asarray(np.arange(3.0))
        r = 2 * u + np.square(u)
        assert_array_equal(r.gather(), [0.0, 3.0, 8.0])
        u += r
        assert_array_equal(u.gather(), [0.0, 4.0, 10.0])
        assert r.max() == 8.0


def test_refusals_come_on_all_ranks_when_an_expression_is_written() -> None:
    with put_off():
        grid = da.Grid(SHAPE)
        u, _ = field(grid, 5)
        faces, _ = field(grid, 6, "x")
        refused(da.ArrayError, "differ in shape or location", lambda: 2 * u + faces)
        refused(da.UnsupportedError, "does not take bool and bool", lambda: (u > 0) - (u < 0))
        if grid.size > 1:
            other = u.redistribute(ranks=(1, grid.size) if u.ranks[0] > 1 else (grid.size, 1))
            refused(da.ArrayError, "spread differently", lambda: u * 2 + other)
