"""Numbers that have the same bits on any process grid: random fields, exact sums, points.

The reference is the same call on one rank, which every rank makes for itself; that this is right is
tested in `tests/test_array_*.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

import distarray as da
from distarray.comm import SerialCommunicator
from tests.ranks.common import process_grids, refused

SHAPE = (13, 7, 5)


def grids(shape: tuple[int, ...] = SHAPE, **options: Any) -> Iterator[da.Grid]:
    for ranks in process_grids(len(shape), shape):
        yield da.Grid(shape, ranks=ranks, **options)


def alone(shape: tuple[int, ...] = SHAPE, **options: Any) -> da.Grid:
    return da.Grid(shape, comm=SerialCommunicator(), **options)


def test_random_fields() -> None:
    for make in (da.random.uniform, da.random.normal):
        for options in (
            {"location": "x", "components": (2,)},
            {"dtype": np.float32},
            {"location": "xyz"},
        ):
            expected = make(alone(), 7, 3, **options).gather()
            for grid in grids():
                found = make(grid, 7, 3, **options).gather()
                assert found.dtype == expected.dtype
                assert_array_equal(found, expected)


def test_exact_sums() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=SHAPE) * 10.0 ** rng.integers(-200, 200, size=SHAPE)
    values[3, 2, 1], values[12, 6, 4] = 1e300, -1e300
    total = math.fsum(values.ravel())
    squares = math.fsum((values[:, :, :2] / 1e200).ravel() ** 2)
    for grid in grids():
        u = grid.empty()
        u[...] = values
        assert u.sum(reproducible=True) == total
        assert u.mean(reproducible=True) == total / values.size
        assert float(da.begin_sum(u, reproducible=True)) == total
        assert float(da.begin_mean(u, reproducible=True)) == total / values.size
        v = u[:, :, :2] / 1e200
        assert da.dot(v, v, reproducible=True) == squares
        assert da.norm(v, reproducible=True) == math.sqrt(squares)


def test_exact_sums_of_complex_and_single_precision() -> None:
    single = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    values = single * (1 + 2j)
    exact = complex(math.fsum(values.real.ravel()), math.fsum(values.imag.ravel()))
    for grid in grids():
        u, v = grid.empty(np.float32), grid.empty(np.complex128)
        u[...], v[...] = single, values
        assert u.sum(reproducible=True) == np.float32(math.fsum(single.ravel().astype(float)))
        assert u.sum(reproducible=True).dtype == np.float32
        assert v.sum(reproducible=True) == exact
        expected = math.fsum((single.ravel().astype(float)) ** 2)
        assert da.dot(u, u, reproducible=True) == np.float32(expected)


def test_sums_over_axes_keep_bits_when_reproducible() -> None:
    values = np.random.default_rng(2).normal(size=SHAPE)
    reference = alone().empty()
    reference[...] = values
    for grid in grids():
        u = grid.empty()
        u[...] = values
        for axis in (0, 1, 2, (0, 1), (0, 2), (1, 2)):
            expected = reference.sum(axis=axis, reproducible=True).gather()
            assert_array_equal(u.sum(axis=axis, reproducible=True).gather(), expected)
            np.testing.assert_allclose(expected, values.sum(axis=axis), rtol=0, atol=1e-12)


def test_points() -> None:
    rng = np.random.default_rng(3)
    where = rng.uniform(-0.3, 1.3, size=(40, 3))
    where[:, 1:] = np.clip(where[:, 1:], 0, 1)
    faces = np.linspace(0, 1, SHAPE[1] + 1) ** 1.5
    options: dict[str, Any] = {"periodic": (True, False, False), "coordinates": {"y": faces}}
    one = alone(**options)
    strengths = rng.normal(size=(2, 40))
    for location in (None, "x", "y", "xz"):
        start = da.random.normal(one, 1, components=(2,), location=location)
        expected = [one.points(where).sample(start, order) for order in (0, 1)]
        one.points(where).add(start, strengths)
        for grid in grids(**options):
            points = grid.points(where)
            u = da.random.normal(grid, 1, components=(2,), location=location)
            assert_array_equal(points.sample(u, 0), expected[0])
            assert_array_equal(points.sample(u), expected[1])
            points.add(u, strengths)
            assert_array_equal(u.gather(), start.gather())


def test_points_refuse_what_lies_outside() -> None:
    grid = da.Grid(SHAPE)
    refused(da.ArrayError, "outside the domain", lambda: grid.points([[0.5, 0.5, 1.5]]))
    refused(da.ArrayError, "must have shape", lambda: grid.points([[0.5, 0.5]]))
    points = grid.points([[0.5, 0.5, 0.5]])
    refused(da.ArrayError, "nearest", lambda: points.sample(grid.ones(), order=2))
    refused(da.ArrayError, "another grid", lambda: points.sample(da.zeros(SHAPE)))


def test_operators_keep_bits() -> None:
    def formula(u: Any, v: Any) -> Any:
        return np.sqrt(np.abs(u / v + u * v)) - np.exp(v) * np.sin(u) + np.log1p(u * u) / 3

    for dtype in (np.float32, np.float64):
        results = [
            formula(*(da.random.normal(g, 1, stream, dtype=dtype) for stream in (0, 1))).gather()
            for g in (alone(), *grids())
        ]
        for result in results[1:]:
            assert_array_equal(result, results[0])
    results = [
        ((u := da.random.normal(g, 1) * (1 + 2j)) * np.conjugate(u) / (u + 3)).gather()
        for g in (alone(), *grids())
    ]
    for result in results[1:]:
        assert_array_equal(result, results[0])


def test_ranks_that_own_nothing_take_part() -> None:
    fine = da.Grid((16, 8), periodic=(True, False))
    one = alone((16, 8), periodic=(True, False)).coarsen()
    for ranks in ((1, 1), (1, 0)):
        small = fine.coarsen(ranks=ranks)
        expected, u = da.random.normal(one, 5), da.random.normal(small, 5)
        assert_array_equal(u.gather(), expected.gather())
        where = [[0.1, 0.2], [0.9, 1.0]]
        assert_array_equal(small.points(where).sample(u), one.points(where).sample(expected))
        assert u.sum(reproducible=True) == expected.sum(reproducible=True)
        np.testing.assert_allclose(u.std(), expected.gather().std(), rtol=1e-14)
        mapped = da.map_along(u, 0, lambda block: np.cumsum(block, axis=0))
        assert_array_equal(mapped.gather(), np.cumsum(expected.gather(), axis=0))
        moved = u.redistribute(like=fine.coarsen())
        assert moved.ranks == fine.ranks
        assert_array_equal(moved.redistribute(like=small).gather(), expected.gather())
        u[2:4] = u[0:2]
        assert u[3, 1] == expected.gather()[1, 1]
        assert (u * 2).max() == u.gather().max() * 2


def test_blocks_one_cell_wide() -> None:
    """Their only axis of more than one cell has the stride of a padded row."""
    for ranks in process_grids(2, (9, 8)):
        u = da.asarray(np.arange(72.0).reshape(9, 8), ranks=ranks)
        values = u.gather()
        kept = da.zeros((9, 8), ranks=ranks)
        np.negative(u, out=kept)
        for found, expected in ((-u, -values), (kept, -values), (u * u, values * values)):
            assert np.array_equal(found.gather(), expected)
        quotient, rest = np.divmod(u, 5.0)
        assert np.array_equal((quotient * 5.0 + rest).gather(), values)
