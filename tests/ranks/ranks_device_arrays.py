"""Elementwise functions, indices, placement and files of arrays on the simulated device, against
NumPy on the whole arrays.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import distarray as da
from tests.ranks.common import process_grids, refused
from tests.ranks.on_device import DEVICE, SHAPE, TYPES, grids, numbers, put, same

RANKS = (1, 4)
TIMEOUT = 240


def test_all_element_types() -> None:
    for dtype in ("?", *"bBhHiIqQfdFD"):
        a, b = numbers(2, *SHAPE, dtype=dtype), numbers(*SHAPE, dtype=dtype, seed=2)
        for grid in grids():
            u, v = put(grid, a, components=(2,)), put(grid, b)
            same(u + v, a + b)
            same(u[1].astype("F"), a[1].astype("F"))
            same(v.redistribute(ranks=(1, 0)), b)


def test_operators() -> None:
    for dtype in TYPES:
        a, b = numbers(3, *SHAPE, dtype=dtype), numbers(*SHAPE, dtype=dtype, seed=2)
        for grid in grids():
            u, v = put(grid, a, components=(3,)), put(grid, b)
            same(u[1] == v, a[1] == b)
            same(u + b, a + b)
            same(np.where(u == v, u, u + v), np.where(a == b, a, a + b))
            if dtype == "?":
                same(u & ~v, a & ~b)
                same(v ^ b[0], b ^ b[0])
                continue
            same(u * v - 3 * v, a * b - 3 * b)  # of these numbers NumPy's products are exact too
            same(-u[0], -a[0])
            if dtype != "D":
                same(abs(u) // 2 + np.minimum(u, v), abs(a) // 2 + np.minimum(a, b))
                same(np.clip(u, 1, 5), np.clip(a, 1, 5))


def test_complex_products_and_quotients_are_real_expansions() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=SHAPE) + 1j * rng.normal(size=SHAPE) for _ in range(2))
    product, quotient = np.empty_like(a), np.empty_like(a)
    product.real = a.real * b.real - a.imag * b.imag
    product.imag = a.real * b.imag + a.imag * b.real
    size = b.real * b.real + b.imag * b.imag
    quotient.real = (a.real * b.real + a.imag * b.imag) / size
    quotient.imag = (a.imag * b.real - a.real * b.imag) / size
    for grid in grids():
        u, v = put(grid, a), put(grid, b)
        same(u * v, product)
        same(u / v, quotient)
        u *= v
        same(u, product)
        same(u.real, product.real)
        same(u.imag, product.imag)
        same(u.conj(), product.conj())


def test_results_go_into_arrays() -> None:
    a, b = numbers(2, *SHAPE), numbers(*SHAPE, seed=2)
    for grid in grids():
        u, v = put(grid, a, components=(2,)), put(grid, b)
        out = grid.empty(np.float32, components=(2,))
        assert np.multiply(u, v, out=out) is out
        same(out, (a * b).astype(np.float32))
        u += v
        u[1] -= u[0]
        expected = a + b
        expected[1] -= expected[0]
        same(u, expected)
        whole, part = np.divmod(v, 2.0)
        same(whole, b // 2.0)
        same(part, b % 2.0)
        same(np.isclose(u, expected, rtol=1e-3), np.ones(a.shape, bool))
        same(np.round(v / 3, decimals=2), np.round(b / 3, decimals=2))


def test_profiles_and_pending_values_are_operands() -> None:
    b, along = numbers(*SHAPE), np.arange(float(SHAPE[0]))
    for grid in grids():
        v, profile = put(grid, b), grid.profile("x", along)
        same(v * profile, b * along[:, None])
        same(v + da.begin_sum(v), b + b.sum())
        v[...] = profile
        same(v, np.broadcast_to(along[:, None], SHAPE))


def test_indices() -> None:
    a = numbers(3, *SHAPE, dtype="f")
    indices = (
        (1, slice(2, 9, 3)), (slice(None), 4), (..., 3), (0, 10, 8), (slice(0, 2), 0, 0),
        (slice(1, None),), (slice(None, None, -2), slice(1, 5), slice(7, 2, -1)),
    )  # fmt: skip
    for grid, index in itertools.product(grids(), indices):
        u = put(grid, a, components=(3,))
        found, expected = u[index], a[index]
        assert_array_equal(found.gather() if isinstance(found, da.DistArray) else found, expected)
        for value in (7.0, numbers(*expected.shape, dtype="d", seed=5)):
            u[index] = value
            b = a.copy()
            b[index] = value
            same(u, b)
            u[...] = a


def test_assignment_of_arrays_placed_otherwise() -> None:
    a = numbers(*SHAPE)
    for grid in grids():
        u, target = put(grid, a), grid.zeros()
        target[::-1, 1:5] = u[:, 2:6]
        expected = np.zeros(SHAPE)
        expected[::-1, 1:5] = a[:, 2:6]
        same(target, expected)


def test_blocks_are_written_and_read_as_arrays_of_the_device() -> None:
    a = numbers(2, *SHAPE)
    for grid in grids():
        u = put(grid, a, components=(2,))
        with u.writing() as block:
            block[0] = 2.0 * block[1]
            block[1] += 1.0
            block[:, :1] = -1.0
        expected = np.stack([2.0 * a[1], a[1] + 1.0])
        first = grid.local_slices[0].start
        for start in {int(s) for s in grid.communicator.allgather(first)}:
            expected[:, start] = -1.0
        same(u, expected)
        assert u.local.shape == u.local_shape
        assert not isinstance(u.local, np.ndarray)
        assert_array_equal(np.asarray(u.local), expected[u.local_slices])
        for view in (u.local, u.padded):
            with pytest.raises(da.ArrayError, match="read-only view"):
                view[...] = 0.0


def test_functions_of_position_and_random_fields() -> None:
    for grid in grids((7, 6, 5)):
        alike = da.Grid((7, 6, 5), device="cpu", ranks=grid.ranks)
        u = grid.from_function(lambda x, y, z: (x * y, 2.0, z), components=(3,), location="x")
        x, y, z = ((np.arange(n + (n == 7)) + 0.5 * (n < 7)) * (1.0 / n) for n in (7, 6, 5))
        same(u[0], np.broadcast_to(x[:, None, None] * y[:, None], (8, 6, 5)))
        same(u[2], np.broadcast_to(z, (8, 6, 5)))
        for make, dtype in itertools.product((da.random.uniform, da.random.normal), "fd"):
            options = {"dtype": dtype, "components": (2,), "location": "yz"}
            same(make(grid, 5, 2, **options), make(alike, 5, 2, **options).gather())


def test_redistribution_and_gather() -> None:
    for dtype in "?fD":
        a = numbers(2, *SHAPE, dtype=dtype)
        for grid in grids():
            u = put(grid, a, components=(2,), name="u")
            for ranks in process_grids(2, SHAPE):
                same(u.redistribute(ranks=ranks), a)
                same(u[1].redistribute(ranks=ranks), a[1])
            root = grid.size - 1
            values = u.gather(root=root)
            assert (values is None) == (grid.rank != root)
            if values is not None:
                assert_array_equal(values, a)
            same(da.from_root(a if grid.rank == root else None, root=root, like=u), a)


def test_map_along() -> None:
    a = numbers(2, *SHAPE)

    def sums(block: Any) -> Any:
        assert isinstance(block, np.ndarray)
        return np.cumsum(block, axis=1)

    for grid in grids():
        u = put(grid, a, components=(2,))
        found = da.map_along(u, 1, sums)
        same(found, np.cumsum(a, axis=1))
        found.fill(0.0)
        da.map_along(u, "x", sums, out=found)
        same(found, np.cumsum(a, axis=1))


def test_points() -> None:
    places = [[0.03, 0.5], [0.5, 0.98], [0.51, 0.49], [0.51, 0.49]]
    for grid in grids():
        u = grid.from_function(lambda x, y: (1 + x + 2 * y, y - x), components=(2,), location="y")
        x, y = np.array(places).T
        points = grid.points(places)
        assert_allclose(points.sample(u), [1 + x + 2 * y, y - x], rtol=1e-14)
        v = grid.zeros()
        points.add(v, [1.0, 2.0, 3.0, 4.0])
        assert_allclose(v.sum() / math.prod(SHAPE), 10.0, rtol=1e-14)
        w = grid.zeros()
        points.add(w, 3.0, order=0)
        expected = np.zeros(SHAPE)
        for px, py in places:
            expected[int(px * SHAPE[0]), int(py * SHAPE[1])] += 3.0 * math.prod(SHAPE)
        assert_allclose(w.gather(), expected, rtol=1e-14)


def test_arrays_move_between_devices() -> None:
    for dtype in "?iFd":
        a = numbers(2, *SHAPE, dtype=dtype)
        for grid in grids(halo=2):
            u = put(grid, a, components=(2,), boundary={"x": da.Symmetry(1)}, name="u")
            there = u.to("cpu")
            assert there.device == there.grid.device == "cpu"
            assert (there.grid.shape, there.halo, there.name) == (grid.shape, u.halo, "u")
            assert u.to(DEVICE) is u
            assert isinstance(there.local, np.ndarray)
            assert_array_equal(there.local, a[u.local_slices])
            assert dict(there.boundary) == dict(u.boundary)
            back = there.to(DEVICE)
            assert back.grid is grid
            same(back, a)
            there.fill(1)
            same(u, a)
            assert u.to("cpu").grid is there.grid
        plain = da.asarray(a, device=DEVICE, ranks=None)
        assert_array_equal(plain.to("cpu").gather(), a)
        assert plain.to("cpu").grid is None


def test_arrays_of_different_devices_do_not_mix() -> None:
    grid = da.Grid(SHAPE, device=DEVICE)
    u = grid.ones()
    v = u.to("cpu")

    @da.stencil
    def copied(u: Any, out: Any) -> None:
        out[0, 0] = u[0, 0]

    def custom(u: Any, v: Any) -> None:
        u[0, 0] = v[1, 0]

    for call in (
        lambda: u + v,
        lambda: v.__iadd__(u),
        lambda: u.__setitem__(..., v),
        lambda: u.__setitem__(slice(1, 3), v[1:3]),
        lambda: da.dot(u, v),
        lambda: u.redistribute(like=v),
        lambda: u.redistribute(like=v.grid),
        lambda: copied(u, v),
        lambda: u.boundary.__setitem__("x", da.Custom(custom, v)),
        lambda: np.add(u, 1.0, out=v),
    ):
        refused(da.DistArrayError, "device", call)
        refused(da.DistArrayError, ".to('", call)


def test_files_go_from_device_to_device(folder: Path) -> None:
    values = {dtype: numbers(2, *SHAPE, dtype=dtype) for dtype in "?bQfD"}
    for number, grid in enumerate(grids()):
        path = folder / f"{number}.h5"
        da.save(path, {k: put(grid, v, components=(2,)) for k, v in values.items()}, step=number)
        other = da.Grid(SHAPE, device="cpu", ranks=grid.ranks)
        for snapshot in (da.load(path, grid), da.load(path, other)):
            for name, expected in values.items():
                found = snapshot.arrays[name].gather()
                assert found.dtype == expected.dtype
                assert_array_equal(found, expected)
