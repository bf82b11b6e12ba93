"""Transfers between grids related by coarsen have the same bits on any process grid.

Sizes and cuts are odd, so that coarse cells lie across the ends of blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import (
    Array,
    Fills,
    both,
    dirichlet,
    layered,
    neumann,
    put,
    random_values,
    runs,
    same,
)

SHAPE = (37, 21)
COARSE = (19, 11)


@da.stencil
def restrict(f: Any, c: Any) -> None:
    low, high = f.fine[0, 0] + f.fine[1, 0], f.fine[0, 1] + f.fine[1, 1]
    c[0, 0] = 0.25 * (low + high)


@da.stencil
def restrict_wide(f: Any, c: Any) -> None:
    """Full weighting that also keeps part of what the coarse cell holds."""
    ends = 0.3 * f.fine[-1, 0] + 0.2 * f.fine[2, 1]
    c[0, 0] = 0.5 * c[0, 0] + ends + 0.1 * f.fine[0, -1] + 0.05 * f.fine[1, 2]


@da.stencil
def prolong(c: Any, f: Any) -> None:
    """Linear between cell centres, from the nearer coarse neighbour along each axis."""
    x = da.where(da.index(0) % 2 == 0, c.coarse[-1, 0], c.coarse[1, 0])
    y = da.where(da.index(1) % 2 == 0, c.coarse[0, -1], c.coarse[0, 1])
    f[0, 0] = f[0, 0] + 0.5 * c.coarse[0, 0] + 0.25 * x + 0.125 * y


def fine_at(q: Array, width: int, shape: tuple[int, ...], *offsets: int) -> Array:
    """Fine cells 2 i + d for all coarse cells i."""
    starts = [width + d for d in offsets]
    return q[tuple(slice(s, s + 2 * n - 1, 2) for s, n in zip(starts, shape, strict=True))]


def prolonged(f: Array, q: Array) -> Array:
    """Of the coarse array q, which has one layer around it."""
    i, j = (np.arange(n) for n in f.shape)
    near = np.ix_(i // 2 + 1, j // 2 + 1)
    x = q[np.ix_(i // 2 + 1 + np.where(i % 2 == 0, -1, 1), j // 2 + 1)]
    y = q[np.ix_(i // 2 + 1, j // 2 + 1 + np.where(j % 2 == 0, -1, 1))]
    return f + 0.5 * q[near] + 0.25 * x + 0.125 * y


def test_restriction() -> None:
    start = random_values(*SHAPE)
    kept = random_values(*COARSE, seed=2)
    walls = {"x": da.Dirichlet(0.5), "y": da.Neumann(-0.3)}
    rules: Fills = (both(dirichlet(0.5)), both(neumann(-0.3, 1.0 / 21)))
    cases: list[tuple[Any, dict[str, Any], Fills]] = [
        (True, {}, (None, None)),
        (False, walls, rules),
        ((False, True), {"x": da.Dirichlet(0.5)}, (rules[0], None)),
    ]
    for periodic, conditions, fills in cases:
        q = layered(start, fills, 2)
        low = fine_at(q, 2, COARSE, 0, 0) + fine_at(q, 2, COARSE, 1, 0)
        high = fine_at(q, 2, COARSE, 0, 1) + fine_at(q, 2, COARSE, 1, 1)
        ends = 0.3 * fine_at(q, 2, COARSE, -1, 0) + 0.2 * fine_at(q, 2, COARSE, 2, 1)
        wide = 0.5 * kept + ends + 0.1 * fine_at(q, 2, COARSE, 0, -1)
        wide = wide + 0.05 * fine_at(q, 2, COARSE, 1, 2)
        for grid in runs(SHAPE, periodic=periodic, halo=2, least=4):
            f = put(grid, start, boundary=conditions)
            coarse = grid.coarsen()
            c, other = coarse.empty(), put(coarse, kept)
            restrict(f, c)
            same(c, 0.25 * (low + high))
            restrict_wide(f, other)
            same(other, wide)


def test_restriction_leaves_cells_without_condition() -> None:
    start, kept = random_values(*SHAPE), random_values(*COARSE, seed=2)
    expected = kept.copy()
    inner = (18, 10)  # the last coarse cell of each odd axis holds one fine cell only
    q = start[:36, :20].reshape(18, 2, 10, 2)
    low, high = q[:, 0, :, 0] + q[:, 1, :, 0], q[:, 0, :, 1] + q[:, 1, :, 1]
    expected[: inner[0], : inner[1]] = 0.25 * (low + high)
    for grid in runs(SHAPE, least=2):
        c = put(grid.coarsen(), kept)
        restrict(put(grid, start), c)
        same(c, expected)


def test_prolongation() -> None:
    fine, start = random_values(*SHAPE), random_values(*COARSE, seed=2)
    cases: list[tuple[Any, dict[str, Any], Fills]] = [
        (True, {}, (None, None)),
        (False, {"x": da.Dirichlet(0.5), "y": da.Outflow()}, (both(dirichlet(0.5)), both(_flat))),
    ]
    for periodic, conditions, fills in cases:
        expected = prolonged(fine, layered(start, fills))
        for grid in runs(SHAPE, periodic=periodic, halo=2, least=4):
            f = put(grid, fine)
            prolong(put(grid.coarsen(), start, boundary=conditions), f)
            same(f, expected)


def _flat(inside: Any, m: int) -> Any:
    return inside(0)


def test_three_levels_down_and_up() -> None:
    shapes = [(37, 29), (19, 15), (10, 8)]
    values = [random_values(*shapes[0])]
    for shape in shapes[1:]:
        q = layered(values[-1], (None, None))
        low = fine_at(q, 1, shape, 0, 0) + fine_at(q, 1, shape, 1, 0)
        values.append(0.25 * (low + (fine_at(q, 1, shape, 0, 1) + fine_at(q, 1, shape, 1, 1))))
    back = values[2]
    for level in (1, 0):
        back = prolonged(values[level], layered(back, (None, None)))
    for grid in runs(shapes[0], periodic=True, halo=(2, 2), least=8):
        grids = [grid, grid.coarsen(), grid.coarsen().coarsen()]
        arrays = [put(grid, values[0]), *(g.empty() for g in grids[1:])]
        for level in (0, 1):
            restrict(arrays[level], arrays[level + 1])
            same(arrays[level + 1], values[level + 1])
        for level in (1, 0):
            prolong(arrays[level + 1], arrays[level])
        same(arrays[0], back)


def test_transfers_in_three_dimensions_and_between_locations() -> None:
    @da.stencil
    def restrict_faces(f: Any, c: Any) -> None:
        low = f.fine[0, 0, 0] + f.fine[0, 1, 0]
        c[0, 0, 0] = 0.25 * (low + (f.fine[0, 0, 1] + f.fine[0, 1, 1]))

    shape, coarse = (18, 17, 19), (9, 9, 10)
    start = random_values(19, 17, 19)  # x faces
    q = layered(start, ((None, None), None, None))[1:-1]
    low = q[::2, 1:19:2, 1:21:2] + q[::2, 2:20:2, 1:21:2]
    expected = 0.25 * (low + (q[::2, 1:19:2, 2:22:2] + q[::2, 2:20:2, 2:22:2]))
    assert expected.shape == (10, *coarse[1:])
    for grid in runs(shape, periodic=(False, True, True), least=2):
        c = grid.coarsen().empty(location="x")
        restrict_faces(put(grid, start, location="x"), c)
        same(c, expected)


@da.stencil
def diffuse(u: Any, new: Any) -> Any:
    new[0, 0] = u[0, 0] + 0.1 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])
    change = new[0, 0] - u[0, 0]
    return da.reduce.max(change), da.reduce.sum(change, reproducible=True)


def test_kernels_on_fewer_ranks() -> None:
    start = random_values(*COARSE)
    walls = {"x-": da.Dirichlet(0.5), "x+": da.Neumann(-0.3)}
    fills: Fills = ((dirichlet(0.5), neumann(-0.3, 1.0 / 19)), None)
    q = layered(start, fills)
    around = q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2]
    expected = start + 0.1 * (around - 4.0 * start)
    change = expected - start
    for grid in runs((38, 22), periodic=(False, True), least=2):
        for ranks in ((1, 1), (1, max(1, grid.size // 2))):
            coarse = grid.coarsen(ranks=ranks)
            u = put(coarse, start, boundary=walls)
            new = coarse.empty_like(u)
            largest, total = diffuse(u, new)
            same(new, expected)
            assert float(largest) == change.max()
            assert float(total) == math.fsum(change.ravel())


@da.stencil(static=("axis",))
def restrict_along(f: Any, c: Any, *, axis: int) -> None:
    c[0, 0] = 0.5 * (f.fine.shift(axis, 0) + f.fine.shift(axis, 1))


@da.stencil(static=("axis",))
def prolong_along(c: Any, f: Any, *, axis: int) -> None:
    f[0, 0] = f[0, 0] + c.coarse[0, 0] + 0.5 * c.coarse.shift(axis, 1)
    f[0, 0] = f[0, 0] + 0.25 * c.coarse.shift(axis, -1)


def test_transfers_along_one_axis() -> None:
    """Grids coarsened along some axes only keep the cells of the others."""
    start = random_values(*SHAPE)
    for axis in (0, 1):
        factor = (2, 1) if axis == 0 else (1, 2)
        walls = {"xy"[axis]: da.Neumann(0.0)}
        f = np.moveaxis(start, axis, 0)
        f = np.concatenate((f, f[-1:]))  # the mirror image of the last cell
        coarse = 0.5 * (f[0:-1:2] + f[1::2])
        q = np.concatenate((coarse[:1], coarse, coarse[-1:]))
        near = np.arange(len(f) - 1) // 2 + 1
        fine = f[:-1] + q[near] + 0.5 * q[near + 1] + 0.25 * q[near - 1]
        for grid in runs(SHAPE, halo=2, least=4):
            c = grid.coarsen(factor).empty(boundary=walls)
            u = put(grid, start, boundary=walls)
            restrict_along(u, c, axis=axis)
            same(c, np.moveaxis(coarse, 0, axis))
            prolong_along(c, u, axis=axis)
            same(u, np.moveaxis(fine, 0, axis))
