"""Kernels that mix locations and components on any process grid."""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import (
    Field,
    Fills,
    advanced,
    both,
    centres,
    dirichlet,
    evaluate,
    layered,
    neumann,
    put,
    random_values,
    robin,
    runs,
    same,
    symmetry,
)

SHAPE = (17, 13)
DX, DY = 1.0 / 17, 1.0 / 13


@da.stencil
def project(p: Any, u: Any, v: Any, *, dt: float) -> None:
    """Each output is computed where its own reads are available."""
    u[0, 0] = u[0, 0] - dt * (p[0, 0] - p[-1, 0])
    v[0, 0] = v[0, 0] - dt * (p[0, 0] - p[0, -1])


@da.stencil
def divergence(u: Any, v: Any, out: Any, *, dx: float, dy: float) -> None:
    out[0, 0] = (u[1, 0] - u[0, 0]) / dx + (v[0, 1] - v[0, 0]) / dy


@da.stencil
def vorticity(u: Any, v: Any, out: Any) -> None:
    out[0, 0] = (v[0, 0] - v[-1, 0]) - (u[0, 0] - u[0, -1])


def test_gradient_on_faces_with_open_sides() -> None:
    p, u, v = random_values(17, 13), random_values(18, 13, seed=2), random_values(17, 14, seed=3)
    expected_u, expected_v = u.copy(), v.copy()
    expected_u[1:-1] = u[1:-1] - 0.3 * (p[1:] - p[:-1])
    expected_v[:, 1:-1] = v[:, 1:-1] - 0.3 * (p[:, 1:] - p[:, :-1])
    for grid in runs(SHAPE):
        arrays = put(grid, p), put(grid, u, location="x"), put(grid, v, location="y")
        project(*arrays, dt=0.3)
        same(arrays[1], expected_u)
        same(arrays[2], expected_v)


def test_gradient_on_faces_with_conditions() -> None:
    p, u, v = random_values(17, 13), random_values(18, 13, seed=2), random_values(17, 14, seed=3)
    q = layered(p, (both(neumann(0.4, DX)), both(dirichlet(0.2))))
    expected_u = u - 0.3 * (q[1:, 1:-1] - q[:-1, 1:-1])
    expected_v = v - 0.3 * (q[1:-1, 1:] - q[1:-1, :-1])
    expected_u[0], expected_u[-1] = 0.0, 1.5  # fixed: kernels do not write there
    for grid in runs(SHAPE):
        pressure = put(grid, p, boundary={"x": da.Neumann(0.4), "y": da.Dirichlet(0.2)})
        walls = {"x-": da.Dirichlet(0.0), "x+": da.Dirichlet(1.5)}
        arrays = pressure, put(grid, u, location="x", boundary=walls), put(grid, v, location="y")
        project(*arrays, dt=0.3)
        same(arrays[1], expected_u)
        same(arrays[2], expected_v)


def test_divergence_and_vorticity_of_staggered_components() -> None:
    u, v = random_values(18, 13, seed=2), random_values(17, 13, seed=3)  # y is periodic
    v_layers = layered(v, (both(symmetry(-1)), None))
    u_layers = layered(u, ((None, None), None))
    total = (u[1:] - u[:-1]) / DX + (np.roll(v, -1, 1) - v) / DY
    curl = (v_layers[1:, 1:-1] - v_layers[:-1, 1:-1]) - (u - u_layers[1:-1, :-2])
    for grid in runs(SHAPE, periodic=(False, True)):
        arrays = (
            put(grid, u, location="x"),
            put(grid, v, location="y", boundary={"x": da.Symmetry(-1)}),
        )
        out, nodes = grid.empty(), grid.empty(location="xy")
        divergence(*arrays, out, dx=DX, dy=DY)
        same(out, total)
        vorticity(*arrays, nodes)
        same(nodes, curl)


def test_fixed_faces_that_depend_on_time() -> None:
    @da.stencil
    def diffuse(u: Any, new: Any) -> None:
        new[0, 0] = u[0, 0] + 0.1 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])

    y = centres(13, h=DY)

    def wall(t: float, x: Any, y: Any) -> Any:
        return t * y + x

    start = expected = random_values(18, 13)
    for step in range(3):
        t = 0.5 + 0.25 * step
        expected = expected.copy()
        expected[0], expected[-1] = t * y + 0.0, t * y + 1.0
        new = expected.copy()
        q = Field(expected, ((None, None), both(neumann(0.0, DY))))
        q.box = [(1, 17), (0, 13)]
        around = q[1, 0] + q[-1, 0] + q[0, 1] + q[0, -1]
        new[1:-1] = q[0, 0] + 0.1 * (around - 4.0 * q[0, 0])
        expected = new
    for grid in runs(SHAPE):
        u = put(grid, start, location="x", boundary={"x": da.Dirichlet(wall), "y": da.Neumann(0.0)})
        same(da.iterate(diffuse, u, grid.empty_like(u), steps=3, time=0.5, dt=0.25), expected)


def test_points_on_a_face_are_left_to_the_kernel_by_other_conditions() -> None:
    start = random_values(18, 13)
    walls = {"x-": da.Neumann(0.6), "x+": da.Symmetry(-1), "y": da.Robin(1.5, 0.7, 0.3)}
    rules = neumann(0.6, DX, on_face=1), symmetry(-1, on_face=1)
    fills: Fills = (rules, both(robin(1.5, 0.7, 0.3, DY)))
    for width in (1, 2):
        expected = advanced(wide if width == 2 else diagonal, start, 2, fills, width=width)
        for grid in runs(SHAPE, halo=width, least=width + 1):
            u = put(grid, start, location="x", boundary=walls)
            kernel = wide if width == 2 else diagonal
            same(da.iterate(kernel, u, grid.empty_like(u), steps=2), expected)


@da.stencil
def diagonal(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 1] - 2.0 * u[-1, 1] + 0.5 * u[1, -1] + u[-1, -1] * u[0, 0]


@da.stencil
def wide(u: Any, new: Any) -> None:
    new[0, 0] = u[2, 1] - 2.0 * u[-2, 0] + 0.5 * u[0, -2] + u[-1, 2] * u[0, 0]


def test_edges_of_a_box() -> None:
    @da.stencil
    def curl(u: Any, v: Any, w: Any, ez: Any, ex: Any) -> None:
        ez[0, 0, 0] = (v[0, 0, 0] - v[-1, 0, 0]) - (u[0, 0, 0] - u[0, -1, 0])
        ex[0, 0, 0] = (w[0, 0, 0] - w[0, -1, 0]) - (v[0, 0, 0] - v[0, 0, -1])

    shape = (9, 10, 11)  # z is periodic
    u, v, w = random_values(10, 10, 11), random_values(9, 11, 11), random_values(9, 10, 11)
    ez, ex = random_values(10, 11, 11, seed=5), random_values(9, 11, 11, seed=6)
    expected_z, expected_x = ez.copy(), ex.copy()
    expected_z[1:-1, 1:-1] = (v[1:, 1:-1] - v[:-1, 1:-1]) - (u[1:-1, 1:] - u[1:-1, :-1])
    expected_x[:, 1:-1] = (w[:, 1:] - w[:, :-1]) - (v - np.roll(v, 1, 2))[:, 1:-1]
    for grid in runs(shape, periodic=(False, False, True)):
        arrays = [
            put(grid, a, location=at)
            for a, at in zip((u, v, w, ez, ex), ("x", "y", "z", "xy", "yz"), strict=True)
        ]
        curl(*arrays)
        same(arrays[3], expected_z)
        same(arrays[4], expected_x)


def test_components() -> None:
    @da.stencil
    def transport(U: Any, g: Any, new: Any) -> None:
        for c in range(2):
            along = U[0][0, 0] * (U[c][1, 0] - U[c][-1, 0])
            new[c][0, 0] = (
                U[c][0, 0] - 0.1 * (along + U[1][0, 0] * (U[c][0, 1] - U[c][0, -1])) * g[1, 0][0, 0]
            )

    U, g = random_values(2, *SHAPE), random_values(2, 2, *SHAPE, seed=4)
    conditions = {"x": da.Dirichlet([0.3, -0.6]), "y-": da.Symmetry([1, -1]), "y+": da.Neumann(0.5)}
    fills: list[Fills] = [
        (both(dirichlet(value)), (symmetry(sign), neumann(0.5, DY)))
        for value, sign in ((0.3, 1), (-0.6, -1))
    ]
    new = [Field(part) for part in U]
    evaluate(
        transport,
        [Field(part, rules) for part, rules in zip(U, fills, strict=True)],
        _Tensor(g),
        new,
    )
    for grid in runs(SHAPE):
        u = put(grid, U, components=2, boundary=conditions)
        target = grid.empty_like(u)
        transport(u, put(grid, g, components=(2, 2)), target)
        same(target, np.stack([part.values for part in new]))


class _Tensor(list[Field]):
    """Components chosen by a pair of indices."""

    def __init__(self, values: Any) -> None:
        super().__init__(Field(part) for part in values.reshape(-1, *SHAPE))

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(2 * index[0] + index[1])


def test_views_of_components_share_memory_and_conditions() -> None:
    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0] + 2.0 * u[0, 1]

    U = random_values(3, *SHAPE)
    expected = U.copy()
    q = Field(U[2], (both(dirichlet(0.7)), None))
    q.box = [(0, n) for n in SHAPE]
    expected[0] = q[-1, 0] + 2.0 * q[0, 1]
    for grid in runs(SHAPE, periodic=(False, True)):
        u = put(grid, U, components=3, boundary={"x": da.Dirichlet([0.0, 0.5, 0.7])})
        shift(u[2], u[0])
        same(u, expected)
