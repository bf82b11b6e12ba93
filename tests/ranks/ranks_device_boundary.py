"""Conditions of arrays on the simulated device: layers by the formulas of their kinds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import distarray as da
from tests.ranks.on_device import SHAPE, Array, grids, numbers, put, same

RANKS = (1, 4)
TIMEOUT = 240


@da.stencil
def _sides(u: Any, out: Any) -> None:
    """The layers beside the outermost cells, seen from the cells."""
    out[0][0, 0] = u[-1, 0]
    out[1][0, 0] = u[1, 0]
    out[2][0, 0] = u[0, -1]
    out[3][0, 0] = u[0, 1]


def _seen(a: Array, layers: dict[str, Array]) -> Array:
    """What `_sides` sees of cells `a` between these layers."""
    return np.stack(
        [
            np.concatenate([layers["x-"][None], a[:-1]], axis=0),
            np.concatenate([a[1:], layers["x+"][None]], axis=0),
            np.concatenate([layers["y-"][:, None], a[:, :-1]], axis=1),
            np.concatenate([a[:, 1:], layers["y+"][:, None]], axis=1),
        ]
    )


def _check_layers(values: Array, boundary: dict[str, Any], layers: Any, time: float = 0.0) -> None:
    """Compare with `layers(values)`, rounded once or twice on the way."""
    expected = _seen(values, {k: np.asarray(v) for k, v in layers(values).items()})
    for grid in grids():
        u = put(grid, values, boundary=boundary)
        out = grid.empty(values.dtype, components=(4,))
        _sides(u, out, time=time)
        assert_allclose(out.gather(), expected, rtol=1e-6 if values.dtype.char in "fF" else 1e-14)


def test_conditions_with_constants() -> None:
    hx, hy = (1.0 / n for n in SHAPE)
    for dtype in "fdFD":
        a = numbers(*SHAPE, dtype=dtype)
        g = 2.0 - 0.5j if dtype in "FD" else 2.0
        along = numbers(SHAPE[0], dtype=dtype, seed=9)
        _check_layers(
            a,
            {
                "x-": da.Dirichlet(g), "x+": da.Neumann(0.5),
                "y-": da.Dirichlet(along), "y+": da.Robin(1.0, 0.5, 2.0),
            },
            lambda a, g=g, along=along: {
                "x-": 2 * g - a[0], "x+": a[-1] + hx * 0.5, "y-": 2 * along - a[:, 0],
                "y+": 2 * 2.0 * hy / (hy + 1.0) + (1.0 - hy) / (hy + 1.0) * a[:, -1],
            },
        )  # fmt: skip
        _check_layers(
            a,
            {
                "x-": da.Symmetry(1), "x+": da.Symmetry(-1),
                "y-": da.Extrapolate(1), "y+": da.Outflow(),
            },
            lambda a: {
                "x-": a[0], "x+": -a[-1], "y-": 2 * a[:, 0] - a[:, 1], "y+": a[:, -1],
            },
        )  # fmt: skip


def test_conditions_with_functions_of_time() -> None:
    x, y = ((np.arange(n) + 0.5) / n for n in SHAPE)
    for dtype, time in itertools.product("fdD", (0.0, 1.5)):
        a = numbers(*SHAPE, dtype=dtype)
        _check_layers(
            a,
            {
                "x": da.Dirichlet(lambda t, x, y: t + y),
                "y-": da.Robin(1.0, lambda t, x, y: x + t, 2.0),
                "y+": da.Piecewise(
                    lambda x, y: x < 0.4, da.Neumann(lambda t, x, y: t * x), da.Dirichlet(1.0)
                ),
            },
            lambda a, t=time: {
                "x-": 2 * (t + y) - a[0],
                "x+": 2 * (t + y) - a[-1],
                "y-": _robin(1.0, x + t, 2.0, 1.0 / SHAPE[1], a[:, 0]),
                "y+": np.where(x < 0.4, a[:, -1] + t * x / SHAPE[1], 2.0 - a[:, -1]),
            },
            time,
        )


def _robin(a: Any, b: Any, c: Any, d: float, w: Any) -> Any:
    return 2.0 * c * d / (a * d + 2.0 * b) + (2.0 * b - a * d) / (a * d + 2.0 * b) * w


def test_custom_conditions_along_every_axis_and_of_integers() -> None:
    def inward_0(u: Any, v: Any, *, time: float = 0.0) -> None:
        u[0, 0] = 2 * u[1, 0] - u[2, 0] + v[1, 0] + time

    def inward_1(u: Any, v: Any) -> None:
        u[0, 0] = u[0, 1] - 3 * v[0, 2]

    for dtype in "qdD":
        a, b = numbers(*SHAPE, dtype=dtype), numbers(*SHAPE, dtype=dtype, seed=4)
        for grid in grids():
            v = put(grid, b)
            u = put(grid, a)
            if dtype != "q":
                u.boundary["x"] = da.Custom(inward_0, v)
            else:
                u.boundary["x"] = da.Outflow()
            u.boundary["y"] = da.Custom(inward_1, v)
            out = grid.empty(dtype, components=(4,))
            for time in (0.0, 2.0):
                _sides(u, out, time=time)
                low, high = (2 * a[0] - a[1] + b[0] + time, 2 * a[-1] - a[-2] + b[-1] + time)
                if dtype == "q":
                    low, high = a[0], a[-1]
                layers = {
                    "x-": low, "x+": high,
                    "y-": a[:, 0] - 3 * b[:, 1], "y+": a[:, -1] - 3 * b[:, -2],
                }  # fmt: skip
                assert_array_equal(out.gather(), _seen(a, layers))


def test_conditions_fix_points_on_faces() -> None:
    y = (np.arange(SHAPE[1]) + 0.5) * (1.0 / SHAPE[1])
    for grid in grids():
        u = grid.ones(
            location="x",
            boundary={
                "x-": da.Dirichlet(lambda t, x, y: y),
                "x+": da.Piecewise(lambda x, y: y < 0.5, da.Dirichlet(3.0), da.Neumann(0.0)),
            },
        )
        expected = np.ones((SHAPE[0] + 1, SHAPE[1]))
        expected[0], expected[-1, y < 0.5] = y, 3.0
        same(u, expected)
        u *= 2.0
        expected[1:] *= 2.0
        expected[-1, y < 0.5] = 3.0
        same(u, expected)
        assert_allclose(u.sum(), expected.sum())
