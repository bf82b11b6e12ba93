"""Reductions of arrays and in kernels on any process grid: exact sums, min and max with NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import Array, layered, put, random_values, runs, same

SHAPE = (11, 9, 10)
#: Values of very different sizes: a sum in any other order than the exact one shows.
WIDE = random_values(*SHAPE) * 10.0 ** np.random.default_rng(5).integers(-30, 30, SHAPE)


@da.stencil
def exact_sums(u: Any, v: Any) -> Any:
    return (
        da.reduce.sum(u[0, 0, 0], reproducible=True),
        da.reduce.sum(u[1, 0, 0] * v[0, 0, -1], reproducible=True),
    )


@da.stencil
def diffuse(u: Any, new: Any) -> Any:
    new[0, 0] = u[0, 0] + 0.1 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])
    change = new[0, 0] - u[0, 0]
    return (
        da.reduce.max(abs(change)),
        da.reduce.min(change),
        da.reduce.sum(change, reproducible=True),
        da.reduce.sum(change * 0 + 1),
    )


def diffused(values: Array) -> Array:
    q = layered(values, (None, None))
    around = q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2]
    return values + 0.1 * (around - 4.0 * values)


def fsum(values: Array) -> float:
    return math.fsum(values.ravel().astype(float))


def test_reproducible_methods() -> None:
    total, squares = fsum(WIDE), fsum(WIDE * WIDE)
    mixed = WIDE * random_values(*SHAPE, seed=2)
    in_order = np.add.accumulate(WIDE, axis=1)[:, -1]
    for grid in runs(SHAPE, periodic=True):
        u, v = put(grid, WIDE), put(grid, random_values(*SHAPE, seed=2))
        assert u.sum(reproducible=True) == total
        assert u.mean(reproducible=True) == total / WIDE.size
        assert da.dot(u, v, reproducible=True) == fsum(mixed)
        assert da.norm(u, reproducible=True) == math.sqrt(squares)
        same(u.sum(axis=1, reproducible=True), in_order)
        assert math.isclose(u.sum(), total, rel_tol=1e-9)


def test_reproducible_sums_in_kernels() -> None:
    other = random_values(*SHAPE, seed=2)
    products = np.roll(WIDE, -1, 0) * np.roll(other, 1, 2)
    for grid in runs(SHAPE, periodic=True):
        plain, product = exact_sums(put(grid, WIDE), put(grid, other))
        assert plain.result() == fsum(WIDE)
        assert product.result() == fsum(products)


def test_sums_of_other_types() -> None:
    @da.stencil
    def total(u: Any) -> Any:
        return da.reduce.sum(u[0, 1, 0], reproducible=True)

    single = WIDE.astype(np.float32)
    many = np.random.default_rng(1).integers(-(2**61), 2**61, SHAPE)
    with np.errstate(over="ignore"):
        whole = many.sum()
    values = WIDE + 1j * WIDE[::-1]
    for grid in runs(SHAPE, periodic=True):
        found = [total(put(grid, array)).result() for array in (single, many, values)]
        assert found[0] == np.float32(fsum(single))
        assert found[0].dtype == np.float32
        assert found[1] == whole
        assert found[2] == complex(fsum(values.real), fsum(values.imag))
        assert put(grid, many).sum() == whole


def test_fused_reductions_of_a_step() -> None:
    start = random_values(17, 13)
    for dtype in (np.float32, np.float64):
        values = start.astype(dtype)
        new = diffused(values)
        change = new - values
        for grid in runs((17, 13), periodic=True):
            u = put(grid, values)
            for overlap in (True, False):
                target = grid.empty_like(u)
                largest, least, total, count = diffuse.apply(u, target, overlap=overlap)
                same(target, new)
                assert float(largest) == abs(change).max()
                assert float(least) == change.min()
                assert total.result() == dtype(fsum(change))
                assert float(count) == change.size


def test_points_that_are_not_computed_do_not_count() -> None:
    start = random_values(17, 13)
    start[0, 5] = start[16, 12] = 1e6  # in the open edge: read by others, never a change of its own
    change = (diffused(start) - start)[1:-1, 1:-1]
    for grid in runs((17, 13)):
        u = put(grid, start)
        largest, least, total, count = diffuse(u, u.copy())
        assert float(largest) == abs(change).max()
        assert float(least) == change.min()
        assert float(total) == fsum(change)
        assert float(count) == 15 * 11


def test_fixed_points_do_not_count_in_kernels_but_in_arrays() -> None:
    @da.stencil
    def double(u: Any, new: Any) -> Any:
        new[0, 0] = 2.0 * u[0, 0]
        return da.reduce.sum(new[0, 0], reproducible=True), da.reduce.max(u[0, 0])

    start = random_values(18, 13)
    for grid in runs((17, 13)):
        u = put(grid, start, location="x", boundary={"x-": da.Dirichlet(9.0)})
        total, largest = double(u, grid.empty_like(u))
        assert float(total) == fsum(2.0 * start[1:])
        assert float(largest) == start[1:].max()
        assert u.max() == 9.0


def test_nan_reaches_every_rank() -> None:
    @da.stencil
    def ends(u: Any) -> Any:
        return da.reduce.min(u[0, 0]), da.reduce.max(u[1, 0])

    for dtype in (np.float32, np.float64):
        for place in (None, (0, 0), (8, 7), (16, 12)):
            values = random_values(17, 13, dtype=dtype)
            if place is not None:
                values[place] = np.nan
            least, largest = values.min(), values.max()
            for grid in runs((17, 13), periodic=True):
                u = put(grid, values)
                for found in (ends(u)[0].result(), u.min()):
                    np.testing.assert_equal(found, least)
                for found in (ends(u)[1].result(), u.max()):
                    np.testing.assert_equal(found, largest)


def test_a_pending_value_is_a_scalar_of_the_next_kernel() -> None:
    @da.stencil
    def scale(u: Any, new: Any, *, by: float) -> None:
        new[0, 0] = u[0, 0] / by + u[-1, 0]

    start = random_values(17, 13)
    change = diffused(start) - start
    for grid in runs((17, 13), periodic=True):
        u = put(grid, start)
        new, out = grid.empty_like(u), grid.empty_like(u)
        largest, *_ = diffuse(u, new)
        scale(u, out, by=largest)
        same(out, start / abs(change).max() + np.roll(start, 1, 0))
