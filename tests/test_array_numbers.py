"""Random fields, points and products on one rank, against mathematics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

import distarray as da
from distarray.random import philox

#: Published test vectors of Random123 (kat_vectors, philox4x32 10): counter, key, output.
VECTORS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_philox_gives_the_published_numbers(counter: Any, key: Any, expected: Any) -> None:
    assert tuple(int(word) for word in philox(counter, key)) == expected


def test_uniform_follows_the_counter() -> None:
    grid = da.Grid((3, 4))
    u = da.random.uniform(grid, seed=5 + (7 << 32), stream=11, components=(2,)).gather()
    for flat in (0, 1, 13, 23):
        low, high, *_ = philox((flat, 0, 11, 0), (5, 7))
        assert u.ravel()[flat] == ((int(high) << 32 | int(low)) >> 11) / 2**53


def test_uniform_is_uniform() -> None:
    u = da.random.uniform(da.Grid((200, 100)), 1, low=-1.0, high=3.0).gather().ravel()
    assert -1.0 <= u.min() < -0.99
    assert 2.99 < u.max() < 3.0
    assert stats.kstest(u, stats.uniform(-1.0, 4.0).cdf).pvalue > 1e-3


def test_normal_is_normal() -> None:
    u = da.random.normal(da.Grid((200, 100)), 2, mean=1.0, std=2.0).gather().ravel()
    assert stats.kstest(u, stats.norm(1.0, 2.0).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.03


def test_streams_and_seeds_differ() -> None:
    grid = da.Grid((100, 100))
    fields = [da.random.normal(grid, *key) for key in ((0, 0), (0, 1), (1, 0), (2**64 - 1, 0))]
    values = np.stack([field.gather().ravel() for field in fields])
    assert np.abs(np.corrcoef(values) - np.eye(4)).max() < 0.05


def test_single_precision_stays_below_one() -> None:
    u = da.random.uniform(da.Grid((300, 300)), 3, dtype=np.float32)
    assert u.dtype == np.float32
    assert u.max() < 1.0
    assert_array_equal(u.gather() * 2**24 % 1, 0.0)


def test_long_rows_and_many_axes_are_split() -> None:
    row = da.random.uniform(da.Grid((70000,)), 9).gather()
    box = da.random.uniform(da.Grid((7, 100, 100)), 9).gather()
    assert_array_equal(row, box.ravel())


@pytest.mark.parametrize("bad", [-1, 2**64, 0.5, "a"])
def test_seeds_are_whole_numbers(bad: Any) -> None:
    grid = da.Grid((3,))
    with pytest.raises(da.ArrayError, match="seed of a random field"):
        da.random.uniform(grid, bad)
    with pytest.raises(da.ArrayError, match="stream of a random field"):
        da.random.normal(grid, 0, bad)
    with pytest.raises(da.UnsupportedError, match="float32 or float64"):
        da.random.normal(grid, 0, dtype=int)


def linear(*coordinates: Any) -> Any:
    return 1 + sum((axis + 2) * x for axis, x in enumerate(coordinates))


@pytest.mark.parametrize("location", [None, "x", "y", "xy"])
def test_sample_is_exact_for_linear_functions(location: str | None) -> None:
    faces = np.linspace(0, 1, 8) ** 2
    grid = da.Grid((5, 7), bounds=[(1, 2), (0, 1)], coordinates={"y": faces})
    where = np.random.default_rng(0).uniform((1, 0), (2, 1), (50, 2))
    where = np.vstack([where, [(1, 0), (2, 1), (1.5, 1)]])
    u = grid.from_function(linear, location=location)
    found = grid.points(where).sample(u)
    np.testing.assert_allclose(found, linear(*where.T), rtol=0, atol=1e-13)


def test_sample_across_a_periodic_seam() -> None:
    grid = da.Grid((4,), periodic=True)
    u = grid.empty()
    u[...] = [0.0, 1.0, 2.0, 3.0]
    points = grid.points([[0.0], [1.0], [0.0625], [-0.125], [1.125], [0.9375]])
    np.testing.assert_allclose(points.sample(u), [1.5, 1.5, 0.75, 3.0, 0.0, 2.25], atol=1e-14)
    v = grid.empty(location="x")
    v[...] = [0.0, 1.0, 2.0, 3.0]
    np.testing.assert_allclose(points.sample(v), [0, 0, 0.25, 3.5 - 2 * 1.0, 0.5, 0.75], atol=1e-14)


def test_sample_components_and_nearest() -> None:
    grid = da.Grid((4, 4))
    u = grid.from_function(lambda x, y: (4 * x, 4 * y), components=2, dtype=int)
    points = grid.points([[0.3, 0.9], [0.6, 0.1]])
    found = points.sample(u, order=0)
    assert found.dtype == u.dtype
    assert_array_equal(found, [[1, 2], [3, 0]])
    assert points.sample(u).shape == (2, 2)
    z = grid.ones(complex) * (1 + 2j)
    assert_array_equal(points.sample(z), [1 + 2j] * 2)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("order", [0, 1])
def test_add_conserves_and_is_adjoint(periodic: bool, order: int) -> None:
    rng = np.random.default_rng(1)
    faces = np.linspace(0, 1, 7) ** 1.5
    grid = da.Grid((5, 6), periodic=(periodic, False), coordinates={"y": faces})
    points = grid.points(rng.uniform(size=(30, 2)))
    strengths = rng.normal(size=30)
    u = grid.zeros()
    points.add(u, strengths, order)
    volume = (1 / 5) * np.diff(faces)
    assert (u.gather() * volume).sum() == pytest.approx(strengths.sum(), abs=1e-12)
    v = da.random.normal(grid, 1)
    left = np.dot(points.sample(v, order), strengths)
    assert (u.gather() * v.gather() * volume).sum() == pytest.approx(left, abs=1e-12)


def test_add_to_one_cell() -> None:
    grid = da.Grid((4, 4))
    u = grid.zeros(components=(2,))
    points = grid.points([0.375, 0.625])
    points.add(u, [[1.0], [2.0]])
    expected = np.zeros((2, 4, 4))
    expected[:, 1, 2] = [16.0, 32.0]
    np.testing.assert_allclose(u.gather(), expected, atol=1e-14)
    points.add(u, 1.0)
    assert u.sum() == pytest.approx(16 * 5)
    with pytest.raises(da.ArrayError, match="real part"):
        points.add(u, 1j)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, float, complex])
def test_dot_and_norm(dtype: Any) -> None:
    grid = da.Grid((6, 5))
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-9, 9, size=(2, 6, 5)) for _ in range(2))
    u, v = grid.empty(dtype, (2,)), grid.empty(dtype, (2,))
    u[...], v[...] = x, y
    if u.dtype.kind == "c":
        u *= 1 + 1j
        x = x * (1 + 1j)
    for exact in (False, True):
        found = da.dot(u, v, reproducible=exact)
        assert found == np.vdot(x, y)
        assert found.dtype == np.vdot(x.astype(dtype), y.astype(dtype)).dtype or dtype is np.int32
        size = da.norm(u, reproducible=exact)
        assert size == pytest.approx(math.sqrt(np.sum(np.abs(x) ** 2)), rel=1e-6)
        assert size.dtype == (np.float32 if dtype is np.float32 else np.float64)
    with pytest.raises(da.ArrayError, match="differ in shape or location"):
        da.dot(u, grid.ones(location="x"))
