"""Reductions of arrays on the simulated device, against NumPy on the whole arrays."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import distarray as da
from tests.ranks.on_device import DEVICE, SHAPE, TYPES, grids, numbers, put, same

RANKS = (1, 4)
TIMEOUT = 240


def agree(found: Any, expected: Any) -> None:
    """Equal numbers of one element type."""
    assert found == expected
    assert found.dtype == expected.dtype


def test_reductions_over_all_axes() -> None:
    for dtype in TYPES:
        a = numbers(2, *SHAPE, dtype=dtype)
        for grid in grids():
            u = put(grid, a, components=(2,))
            for array, values in ((u, a), (u[1], a[1])):
                for name in ("sum", "any", "all", "mean"):
                    agree(getattr(array, name)(), getattr(np, name)(values))
                assert_allclose(array.var(), values.var(dtype=complex).real)
                assert_allclose(da.norm(array), np.linalg.norm(values.astype(complex).ravel()))
                assert da.dot(array, array) == np.vdot(values.astype(complex), values)
                if dtype == "D":
                    continue
                for name in ("min", "max", "argmin", "argmax"):
                    agree(getattr(array, name)(), getattr(np, name)(values))
            assert u[0].prod() == a[0].prod()
            assert float(da.begin_sum(u).result().real) == float(a.sum().real)


def test_extremes_pass_nan_on() -> None:
    for dtype, place in itertools.product("fd", ((0, 0), (10, 8), (5, 4))):
        a = numbers(*SHAPE, dtype=dtype)
        b = a.copy()
        b[place] = np.nan
        for grid in grids():
            assert np.isnan([put(grid, b).max(), put(grid, b).min()]).all()
            assert put(grid, b).argmin() == put(grid, b).argmax() == b.argmax()
            assert put(grid, a).max() == a.max()


def test_places_of_extremes_on_faces_in_integers_and_without_a_grid() -> None:
    for dtype in ("l", "Q", "f"):
        a = numbers(3, SHAPE[0] + 1, SHAPE[1], dtype=dtype)
        a[1, 4:7, 3] = a[2, -1, -1] = 100  # equal ones: the first counts, on whatever rank it is
        for grid in grids():
            u = put(grid, a, components=(3,), location="x")
            assert u.argmax() == a.argmax()
            assert u[2].argmax() == a[2].argmax() == a[2].size - 1
            assert u.argmin() == a.argmin()
        many = (
            np.arange(40 * 6, dtype=dtype).reshape(40, 6)[::-1].copy()
        )  # more than one pass takes
        plain = da.asarray(many, device=DEVICE)
        assert (plain.argmin(), plain.argmax()) == (many.argmin(), many.argmax())
        tall = da.Grid((6,), device=DEVICE, ranks=(1,) if grid.size == 1 else None)
        assert put(tall, many, components=(40,)).argmin() == many.argmin()


def test_exact_sums() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, *SHAPE)) * 10.0 ** rng.integers(-200, 200, size=(2, *SHAPE))
    for grid in grids():
        u = put(grid, a, components=(2,))
        assert u.sum(reproducible=True) == math.fsum(a.ravel())
        assert u[1].mean(reproducible=True) == math.fsum(a[1].ravel()) / a[1].size
        c = put(grid, a[0] + 1j * a[1])
        assert c.sum(reproducible=True) == complex(math.fsum(a[0].flat), math.fsum(a[1].flat))


@da.stencil
def _shifted(u: Any, out: Any, *, by: float) -> None:
    out[0, 0] = u[0, 0] - by


def test_pending_values_reach_kernels_on_the_device() -> None:
    for dtype in "fdD":
        a = numbers(*SHAPE, dtype=dtype)
        for grid in grids(transport="nccl"):
            u = put(grid, a)
            out = grid.empty(dtype)
            for make, expected in (
                (da.begin_sum, a.sum()), (da.begin_mean, a.mean()),
                (da.begin_norm, np.sqrt((abs(a.astype("D")) ** 2).sum()).real),
                (lambda u: da.begin_dot(u, u), np.vdot(a, a)),
            ):  # fmt: skip
                pending = make(u)
                _shifted(u, out, by=pending)
                assert_allclose(out.gather(), a - expected, rtol=1e-4 if dtype == "f" else 1e-13)
                assert_allclose(pending.result(), expected, rtol=1e-6)
            if dtype != "D":
                _shifted(u, out, by=da.begin_max(u))
                same(out, a - a.max())
                assert da.begin_min(u).device_value is not None
            assert da.begin_sum(u).device_value is not None
            assert da.begin_any(u).result()
    few = da.asarray(numbers(7, 3), device=DEVICE, transport="nccl", ranks=(1, 1))
    assert da.begin_sum(few).result() == few.sum() == numbers(7, 3).sum()


def test_reductions_over_some_axes() -> None:
    a = numbers(2, *SHAPE)
    for grid, axis in itertools.product(grids(), (0, 1, 2, (0, 2), (1, 2))):
        u = put(grid, a, components=(2,))
        for name in ("sum", "max", "any"):
            same(getattr(u, name)(axis=axis), getattr(np, name)(a, axis=axis))
        assert_allclose(u.std(axis=axis).gather(), a.std(axis=axis))
    for grid in grids():
        same(put(grid, a, components=(2,)).argmin(axis=1), a.argmin(axis=1))
