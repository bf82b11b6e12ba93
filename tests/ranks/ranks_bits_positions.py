"""Stretched axes, profiles, indices and positions in kernels on any process grid."""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import (
    Field,
    advanced,
    put,
    random_values,
    runs,
    same,
)

SHAPE = (17, 13)
DX, DY = 1.0 / 17, 1.0 / 13
FACES = np.cumsum(np.concatenate([[0.25], 0.05 + 0.1 * random_values(13, seed=8) ** 2]))
MIDDLES = 0.5 * (FACES[:-1] + FACES[1:])
WIDTHS = FACES[1:] - FACES[:-1]


def test_a_stretched_axis() -> None:
    @da.stencil
    def diffuse(u: Any, new: Any) -> None:
        above = (u[0, 1] - u[0, 0]) / (da.coordinate("y") - 1.25)
        new[0, 0] = (above - u[1, 0] * da.spacing("x")) / da.spacing("y") + da.coordinate("y", "y")

    start = random_values(*SHAPE)
    d = 2.0 * (FACES[-1] - MIDDLES[-1])
    q = Field(start, (None, (None, lambda inside, m: inside(0) + d * 0.8)))
    q.box = [(0, n) for n in SHAPE]
    expected = ((q[0, 1] - q[0, 0]) / (MIDDLES - 1.25) - q[1, 0] * DX) / WIDTHS + FACES[:-1]
    for grid in runs(SHAPE, periodic=(True, False), coordinates={"y": FACES}):
        u = put(grid, start, boundary={"y+": da.Neumann(0.8)})
        new = grid.empty_like(u)
        diffuse(u, new)
        same(new, expected)


def test_a_gradient_on_stretched_faces() -> None:
    @da.stencil
    def gradient(p: Any, v: Any) -> None:
        v[0, 0] = (p[0, 0] - p[0, -1]) / da.spacing("y", "y") * da.coordinate("y", "y")

    p = random_values(*SHAPE)
    expected = np.zeros((17, 14))
    expected[:, 1:-1] = (p[:, 1:] - p[:, :-1]) / (0.5 * (WIDTHS[:-1] + WIDTHS[1:])) * FACES[1:-1]
    for grid in runs(SHAPE, coordinates={"y": FACES}):
        v = grid.zeros(location="y")
        gradient(put(grid, p), v)
        same(v, expected)


def test_a_stretched_axis_with_points_on_the_face() -> None:
    @da.stencil
    def copy(v: Any, new: Any) -> None:
        new[0, 0] = v[0, 2] - 2.0 * v[0, -1] + v[0, -2]

    def low(inside: Any, m: int) -> Any:
        return inside(m) + 2.0 * (FACES[m] - FACES[0]) * 0.8

    def high(inside: Any, m: int) -> Any:
        return inside(m) + 2.0 * (FACES[-1] - FACES[-1 - m]) * 0.8

    start = random_values(17, 14)
    expected = advanced(copy, start, 2, (None, (low, high)), width=2)
    for grid in runs(SHAPE, periodic=(True, False), coordinates={"y": FACES}, halo=2, least=3):
        v = put(grid, start, location="y", boundary={"y": da.Neumann(0.8)})
        same(da.iterate(copy, v, grid.empty_like(v), steps=2), expected)


def test_profiles_indices_and_positions() -> None:
    @da.stencil
    def mixed(u: Any, w: Any, new: Any, *, axis_length: int) -> None:
        i, j = da.index("x"), da.index(1)
        odd = (i + 3 * j) % 4 - i // 3
        slope = w[1] * u[0, 0] - w[-1] * u[-1, 0]
        new[0, 0] = (
            slope + odd * da.coordinate("x") + (i - axis_length) % 5 * da.coordinate("y", "y")
        )

    start, profile = random_values(*SHAPE), random_values(17, seed=3)
    i, j = np.arange(17)[:, None], np.arange(13)[None, :]
    x, y = -1.0 + (i + 0.5) * (3.0 / 17), 0.0 + j * DY
    odd = (i + 3 * j) % 4 - i // 3
    w = profile[:, None]
    slope = np.roll(w, -1, 0) * start - np.roll(w, 1, 0) * np.roll(start, 1, 0)
    expected = slope + odd * x + (i - 17) % 5 * y
    for grid in runs(SHAPE, periodic=(True, False), bounds=[(-1.0, 2.0), (0.0, 1.0)]):
        new = grid.empty()
        mixed(put(grid, start), grid.profile("x", profile), new, axis_length=17)
        same(new, expected)


def test_a_profile_of_points() -> None:
    @da.stencil
    def widths(w: Any, new: Any, nodes: Any) -> None:
        new[0, 0] = w[1] - w[0]
        nodes[0, 0] = 2.0 * w[0] + da.index("y")

    for grid in runs(SHAPE, coordinates={"y": FACES}):
        outputs = grid.empty(), grid.empty(location="y")
        widths(grid.profile("y", FACES), *outputs)
        same(outputs[0], np.broadcast_to(WIDTHS, SHAPE))
        same(outputs[1], np.broadcast_to(2.0 * FACES + np.arange(14), (17, 14)))


def test_from_function_and_coordinates() -> None:
    x = -1.0 + (np.arange(17)[:, None] + 0.5) * (3.0 / 17)
    y = 0.0 + np.arange(14)[None, :] * DY
    for grid in runs(SHAPE, bounds=[(-1.0, 2.0), (0.0, 1.0)]):
        u = grid.from_function(lambda x, y: x * y - 2.0 * x, location="y")
        same(u, x * y - 2.0 * x)
