"""Element types, min, max, sqrt, where, exp and the like, and random fields on any process grid."""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from distarray.backends.device_executors import Calls, Kernels
from distarray.comm import SerialCommunicator
from distarray.stencil.compile import NativeLaunch
from distarray.stencil.evaluate import NumpyLaunch
from tests.ranks.bits import (
    Array,
    Fills,
    advanced,
    both,
    compiled,
    dirichlet,
    executor,
    layered,
    neumann,
    put,
    random_values,
    runs,
    same,
)

SHAPE = (17, 13)


@da.stencil
def diffuse(u: Any, new: Any, *, r: Any) -> None:
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


def neighbours(q: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Centre, both along x and both along y of an array with one layer."""
    return q[1:-1, 1:-1], q[2:, 1:-1], q[:-2, 1:-1], q[1:-1, 2:], q[1:-1, :-2]


def test_both_executors_are_what_they_seem() -> None:
    grid = da.Grid(SHAPE, periodic=True)
    kinds = []
    for name in ("", "numpy"):
        with executor(name):
            plan, _ = diffuse.prepare([grid.empty(), grid.empty()], {"r": 0.1})
            # A device has one kind of launch, for what runs as CUDA text or as NumPy.
            kinds.append(type(getattr(plan._launch, "_executor", plan._launch)))
    # A GPU has no NumPy.
    expected = {"cpu": [NativeLaunch, NumpyLaunch], "simulated": [Kernels, Calls]}
    assert kinds == expected.get(grid.device, [Kernels, Kernels])


def test_single_precision() -> None:
    start = random_values(*SHAPE, dtype=np.float32)
    fills: Fills = ((dirichlet(0.3), neumann(1.2, 1.0 / 17)), None)
    expected = advanced(diffuse, start, 3, fills, r=0.1)
    assert expected.dtype == np.float32
    for grid in runs(SHAPE, periodic=(False, True)):
        u = put(grid, start, boundary={"x-": da.Dirichlet(0.3), "x+": da.Neumann(1.2)})
        same(da.iterate(diffuse, u, grid.empty_like(u), steps=3, r=0.1), expected)


def test_complex_numbers_by_their_real_expansion() -> None:
    start = random_values(*SHAPE, dtype=complex)
    weight = 0.3 - 0.7j
    parts = []
    for part in (start.real, start.imag):
        q = layered(part, (both(dirichlet(0.25)), None))
        centre, east, west, north, south = neighbours(q)
        parts.append((centre, east + west + north + south - 4.0 * centre))
    (real, a), (imag, b) = parts
    expected = np.empty(SHAPE, complex)
    expected.real = real + (weight.real * a - weight.imag * b)
    expected.imag = imag + (weight.real * b + weight.imag * a)
    for grid in runs(SHAPE, periodic=(False, True)):
        u = put(grid, start, boundary={"x": da.Dirichlet(0.25 + 0.25j)})
        new = grid.empty_like(u)
        diffuse(u, new, r=weight)
        same(new, expected)


def test_products_and_quotients_of_complex_numbers() -> None:
    @da.stencil
    def combine(u: Any, v: Any, product: Any, quotient: Any) -> None:
        product[0, 0] = u[-1, 0] * v[0, 1]
        quotient[0, 0] = u[-1, 0] / v[0, 1]

    for dtype in (np.complex64, np.complex128):
        u, v = (random_values(*SHAPE, dtype=dtype, seed=n) for n in (1, 2))
        left, right = np.roll(u, 1, 0), np.roll(v, -1, 1)
        a, b, c, d = left.real, left.imag, right.real, right.imag
        den = c * c + d * d
        product, quotient = np.empty(SHAPE, dtype), np.empty(SHAPE, dtype)
        product.real, product.imag = a * c - b * d, a * d + b * c
        quotient.real, quotient.imag = (a * c + b * d) / den, (b * c - a * d) / den
        for grid in runs(SHAPE, periodic=True):
            outputs = grid.empty(dtype), grid.empty(dtype)
            combine(put(grid, u), put(grid, v), *outputs)
            same(outputs[0], product)
            same(outputs[1], quotient)


def test_mixed_types_and_integers() -> None:
    @da.stencil
    def mix(u: Any, n: Any, flags: Any, new: Any, count: Any, *, shift: int) -> None:
        new[0, 0] = u[1, 0] * n[0, -1] + 0.1
        count[0, 0] = (n[-1, 0] + shift) // 3 - n[0, 1] % 4
        flags[0, 0] = (u[0, 1] > new[0, 0]) & (n[0, 0] != 2)

    u = random_values(*SHAPE, dtype=np.float32)
    n = np.random.default_rng(3).integers(-9, 9, SHAPE).astype(np.int32)
    new = np.roll(u, -1, 0) * np.roll(n, 1, 1) + 0.1
    assert new.dtype == np.float64  # float32 with int32
    count = (np.roll(n, 1, 0) + 5) // 3 - np.roll(n, -1, 1) % 4
    flags = (np.roll(u, -1, 1) > new.astype(np.float32)) & (n != 2)
    for grid in runs(SHAPE, periodic=True):
        outputs = grid.empty(bool), grid.empty(np.float32), grid.empty(np.int64)
        mix(put(grid, u), put(grid, n), *outputs, shift=5)
        same(outputs[0], flags)
        same(outputs[1], new.astype(np.float32))
        same(outputs[2], count.astype(np.int64))


def test_min_max_sqrt_and_where_with_nan() -> None:
    @da.stencil
    def limit(u: Any, new: Any, root: Any) -> None:
        low = np.minimum(np.minimum(u[1, 0], u[-1, 0]), u[0, 1])
        high = np.maximum(u[0, 0], u[0, -1])
        new[0, 0] = da.where(u[0, 0] > 0.0, low, high) / 3.0
        root[0, 0] = np.sqrt(u[0, 0]) + np.sqrt(abs(u[1, 1]))

    for dtype in (np.float32, np.float64):
        start = random_values(*SHAPE, dtype=dtype)
        start[3, 4], start[16, 12], start[0, 6], start[8, 0] = np.nan, np.nan, np.inf, -np.inf
        c, e, w, n, s = neighbours(layered(start, (None, None)))
        corner = np.roll(start, (-1, -1), (0, 1))
        with np.errstate(invalid="ignore"):
            low, high = np.minimum(np.minimum(e, w), n), np.maximum(c, s)
            expected = np.where(c > 0.0, low, high) / dtype(3.0)
            root = np.sqrt(c) + np.sqrt(abs(corner))
        for grid in runs(SHAPE, periodic=True):
            outputs = grid.empty(dtype), grid.empty(dtype)
            limit(put(grid, start), *outputs)
            same(outputs[0], expected, sign_of_zero=False)
            same(outputs[1], root)


def test_transcendental_functions_within_two_units() -> None:
    @da.stencil
    def many(u: Any, a: Any, b: Any) -> None:
        a[0, 0] = np.exp(u[1, 0]) + 0.0 * u[-1, 0]
        b[0, 0] = np.arctan2(u[0, 1], u[0, -1])

    @da.stencil
    def more(u: Any, a: Any, b: Any) -> None:
        a[0, 0] = np.sin(3.0 * u[0, 0])
        b[0, 0] = np.log(abs(u[0, 1]))

    for dtype in (np.float32, np.float64):
        start = random_values(*SHAPE, dtype=dtype)
        c, e, _, n, s = neighbours(layered(start, (None, None)))
        pairs = [
            (many, np.exp(e), np.arctan2(n, s)),
            (more, np.sin(dtype(3.0) * c), np.log(abs(n))),
        ]
        for kernel, *expected in pairs:
            first: list[Array] = []
            for grid in runs(SHAPE, periodic=True):
                outputs = grid.empty(dtype), grid.empty(dtype)
                kernel(put(grid, start), *outputs)
                found = [output.gather() for output in outputs]
                for values, wanted in zip(found, expected, strict=True):
                    assert (abs(values - wanted) <= 2 * np.spacing(abs(wanted))).all()
                first = first or found
                if compiled():
                    for values, before in zip(found, first, strict=True):
                        same(values, before)


def test_random_fields_through_a_kernel() -> None:
    alone = da.Grid(SHAPE, periodic=True, comm=SerialCommunicator())
    for make, dtype in ((da.random.uniform, np.float64), (da.random.normal, np.float32)):
        start = make(alone, 11, 3, dtype=dtype).gather()
        assert len(np.unique(start)) > 200
        expected = advanced(diffuse, start, 2, (None, None), r=0.1)
        for grid in runs(SHAPE, periodic=True):
            u = make(grid, 11, 3, dtype=dtype)
            same(u, start)
            same(da.iterate(diffuse, u, grid.empty_like(u), steps=2, r=0.1), expected)
