"""Diffusion under every boundary condition has the same bits on any process grid."""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import (
    Fills,
    advanced,
    both,
    centres,
    dirichlet,
    line,
    neumann,
    outflow,
    put,
    random_values,
    robin,
    runs,
    same,
    symmetry,
)

SHAPE = (17, 11)
H = (1.0 / 17, 1.0 / 11)
BOX = (9, 10, 11)
H3 = (1.0 / 9, 1.0 / 10, 1.0 / 11)


@da.stencil
def diffuse(u: Any, new: Any, *, r: float) -> None:
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


@da.stencil
def diffuse3(u: Any, new: Any, *, r: float) -> None:
    around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
    new[0, 0, 0] = u[0, 0, 0] + r * (around - 6.0 * u[0, 0, 0])


@da.stencil
def diagonal(u: Any, new: Any, *, r: float) -> None:
    """Reads corners too."""
    cross = u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1]
    corners = u[1, 1] + u[-1, 1] + u[1, -1] + u[-1, -1]
    new[0, 0] = u[0, 0] + r * (4.0 * cross + corners - 20.0 * u[0, 0])


def check(
    kernel: Any,
    shape: tuple[int, ...],
    conditions: dict[str, Any],
    fills: Fills,
    *,
    periodic: Any = False,
    least: int = 0,
) -> None:
    """Three steps of iterate, and single calls with and without overlap, equal NumPy's."""
    start = random_values(*shape)
    after = [advanced(kernel, start, n, fills, r=0.1) for n in (1, 3)]
    for grid in runs(shape, periodic=periodic, least=least):
        u = put(grid, start, boundary=conditions)
        new = grid.empty_like(u)
        for overlap in (True, False):
            new.fill(7.0)
            kernel.apply(u, new, r=0.1, overlap=overlap)
            same(new, after[0])
        same(da.iterate(kernel, u, new, steps=3, r=0.1), after[1])


def test_periodic() -> None:
    check(diffuse, SHAPE, {}, (None, None), periodic=True)
    check(diagonal, SHAPE, {}, (None, None), periodic=True)
    check(diffuse3, BOX, {}, (None, None, None), periodic=True)


def test_periodic_by_rolling() -> None:
    start = random_values(*SHAPE)
    around = (
        np.roll(start, -1, 0) + np.roll(start, 1, 0) + np.roll(start, -1, 1) + np.roll(start, 1, 1)
    )
    expected = start + 0.1 * (around - 4.0 * start)
    for grid in runs(SHAPE, periodic=True):
        u = put(grid, start)
        new = grid.empty_like(u)
        diffuse(u, new, r=0.1)
        same(new, expected)


def test_large_odd_sizes() -> None:
    start = random_values(37, 53, 29)
    fills: Fills = (None, (dirichlet(0.5), neumann(-1.5, 1.0 / 53)), None)
    expected = advanced(diffuse3, start, 2, fills, r=0.1)
    conditions = {"y-": da.Dirichlet(0.5), "y+": da.Neumann(-1.5)}
    for grid in runs(start.shape, periodic=(True, False, True)):
        u = put(grid, start, boundary=conditions)
        same(da.iterate(diffuse3, u, grid.empty_like(u), steps=2, r=0.1), expected)


def test_dirichlet() -> None:
    conditions = {"x": da.Dirichlet(0.3), "y": da.Dirichlet(-1.7)}
    check(diagonal, SHAPE, conditions, (both(dirichlet(0.3)), both(dirichlet(-1.7))))
    conditions["z"] = da.Dirichlet(0.9)
    fills = both(dirichlet(0.3)), both(dirichlet(-1.7)), both(dirichlet(0.9))
    check(diffuse3, BOX, conditions, fills)


def test_neumann() -> None:
    conditions = {"x": da.Neumann(0.3), "y": da.Neumann(-1.7)}
    fills = [both(neumann(0.3, H[0])), both(neumann(-1.7, H[1]))]
    check(diagonal, SHAPE, conditions, fills)
    conditions["z"] = da.Neumann(0.9)
    check(
        diffuse3,
        BOX,
        conditions,
        [both(neumann(g, h)) for g, h in zip((0.3, -1.7, 0.9), H3, strict=True)],
    )


def test_robin() -> None:
    conditions = {"x": da.Robin(1.5, 0.7, 0.3), "y": da.Robin(0.1, 1.1, -2.0)}
    fills = [both(robin(1.5, 0.7, 0.3, H[0])), both(robin(0.1, 1.1, -2.0, H[1]))]
    check(diagonal, SHAPE, conditions, fills)
    conditions["z"] = da.Robin(0.0, 1.0, 0.3)
    last = (0.0, 1.0, 0.3)
    values = zip(((1.5, 0.7, 0.3), (0.1, 1.1, -2.0), last), H3, strict=True)
    check(diffuse3, BOX, conditions, [both(robin(*abc, h)) for abc, h in values])


def test_mixed() -> None:
    conditions = {
        "x-": da.Dirichlet(0.3),
        "x+": da.Neumann(1.1),
        "y-": da.Robin(1.5, 0.7, 0.3),
        "y+": da.Symmetry(-1),
    }
    fills: Fills = (
        (dirichlet(0.3), neumann(1.1, H[0])),
        (robin(1.5, 0.7, 0.3, H[1]), symmetry(-1)),
    )
    check(diagonal, SHAPE, conditions, fills)
    del conditions["x-"], conditions["x+"]
    check(diagonal, SHAPE, conditions, (None, fills[1]), periodic=(True, False))


def test_mixed_in_three_dimensions() -> None:
    conditions = {
        "x-": da.Outflow(),
        "x+": da.Extrapolate(1),
        "z-": da.Neumann(0.2),
        "z+": da.Dirichlet(0.6),
    }
    fills: Fills = ((outflow(), line()), None, (neumann(0.2, H3[2]), dirichlet(0.6)))
    check(diffuse3, (17, 17, 11), conditions, fills, periodic=(False, True, False), least=2)
    del conditions["x-"], conditions["x+"]  # open: the outermost planes are not computed
    start = random_values(17, 17, 11)
    box = [(1, 16), (0, 17), (0, 11)]
    after = advanced(diffuse3, start, 2, ((None, None), *fills[1:]), box=box, r=0.1)
    for grid in runs((17, 17, 11), periodic=(False, True, False)):
        u = put(grid, start, boundary=conditions)
        same(da.iterate(diffuse3, u, grid.empty_like(u), steps=2, r=0.1), after)


def test_sides_without_conditions_keep_their_values() -> None:
    start = random_values(*SHAPE)
    box = [(1, SHAPE[0]), (1, SHAPE[1] - 1)]
    fills: Fills = ((None, dirichlet(0.4)), (None, None))
    after = advanced(diagonal, start, 3, fills, box=box, r=0.1)
    for grid in runs(SHAPE):
        u = put(grid, start, boundary={"x+": da.Dirichlet(0.4)})
        target = grid.empty_like(u)
        result = da.iterate(diagonal, u, target, steps=3, r=0.1)
        same(result, after)
        other = u if result is target else target
        same(other, advanced(diagonal, start, 2, fills, box=box, r=0.1))


def test_values_that_depend_on_position_and_time() -> None:
    def low(t: float, x: Any, y: Any) -> Any:
        return 0.25 + t * y - x

    def high(t: float, x: Any, y: Any) -> Any:
        return t * t + 0.5 * x * y

    x = centres(SHAPE[0], 1, h=H[0])[:, None]
    y = centres(SHAPE[1], 1, h=H[1])[None, :]
    edge = random_values(SHAPE[1], seed=3)
    reflected = np.concatenate([edge[:1], edge, edge[-1:]])[None, :]

    def fills(step: int) -> Fills:
        t = 0.5 + step * 0.125
        return (
            (dirichlet(low(t, 0.0, y)), dirichlet(reflected)),
            (neumann(high(t, x, 0.0), H[1]), neumann(high(t, x, 1.0), H[1])),
        )

    start = random_values(*SHAPE)
    conditions = {"x-": da.Dirichlet(low), "x+": da.Dirichlet(edge), "y": da.Neumann(high)}
    expected = advanced(diagonal, start, 4, fills, r=0.1)
    for grid in runs(SHAPE):
        u = put(grid, start, boundary=conditions)
        new = grid.empty_like(u)
        same(da.iterate(diagonal, u, new, steps=4, time=0.5, dt=0.125, r=0.1), expected)
        u[...] = start
        for step in range(4):
            diagonal(u, new, r=0.1, time=0.5 + step * 0.125)
            u, new = new, u
        same(u, expected)


def test_time_alone_makes_layers_stale() -> None:
    start = random_values(*SHAPE)
    for grid in runs(SHAPE, periodic=(False, True)):
        u = put(grid, start, boundary={"x": da.Dirichlet(lambda t, x, y: t + 0 * y)})
        new = grid.empty_like(u)
        for t in (0.0, 0.5, 0.25):
            diffuse(u, new, r=0.1, time=t)
            same(new, advanced(diffuse, start, 1, (both(dirichlet(t)), None), r=0.1))
        u.boundary["x"] = da.Dirichlet(3.0)
        diffuse(u, new, r=0.1)
        same(new, advanced(diffuse, start, 1, (both(dirichlet(3.0)), None), r=0.1))


def test_piecewise_with_periodic_axis() -> None:
    y = centres(SHAPE[1], 1, h=H[1], periodic=True)[None, :]

    def left(inside: Any, m: int) -> Any:
        return np.where(y < 0.4, dirichlet(0.5)(inside, m), neumann(2.0, H[0])(inside, m))

    mixed = da.Piecewise(lambda x, y: y < 0.4, da.Dirichlet(0.5), da.Neumann(2.0))
    conditions = {"x-": mixed, "x+": da.Dirichlet(1.0)}
    check(diagonal, SHAPE, conditions, ((left, dirichlet(1.0)), None), periodic=(False, True))


def test_custom_condition() -> None:
    def wall(u: Any, *, weight: float = 0.75) -> None:
        u[0, 0] = weight * u[1, 0] + 0.5 * u[2, 1]

    start = random_values(*SHAPE)
    fills: Fills = ((_custom, _custom), None)
    for grid in runs(SHAPE, periodic=(False, True), least=2):
        u = put(grid, start, boundary={"x": da.Custom(wall)})
        new = grid.empty_like(u)
        diffuse(u, new, r=0.1)
        same(new, advanced(diffuse, start, 1, fills, r=0.1))


def _custom(inside: Any, m: int) -> Any:
    """What `wall` writes; the ends of the periodic axis are not read."""
    return 0.75 * inside(0) + 0.5 * np.roll(inside(1), -1, axis=1)
