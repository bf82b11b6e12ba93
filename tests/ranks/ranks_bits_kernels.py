"""Upwind, wide, 27-point and two-colour kernels, and chains of kernels, on any process grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import (
    Array,
    Field,
    Fills,
    advanced,
    both,
    dirichlet,
    evaluate,
    neumann,
    outflow,
    put,
    random_values,
    runs,
    same,
)

SELDOM = (4, 8)
SHAPE = (17, 13)


@da.stencil
def upwind(u: Any, new: Any, *, c: float) -> None:
    new[0, 0] = u[0, 0] - c * (u[0, 0] - u[-1, 0]) - 0.5 * c * (u[0, 1] - u[0, 0])


@da.stencil
def upwind_by_sign(u: Any, a: Any, new: Any) -> None:
    """Where the velocity turns, the side that is read turns."""
    low, high = u[0, 0] - u[-1, 0], u[1, 0] - u[0, 0]
    new[0, 0] = u[0, 0] - a[0, 0] * da.where(a[0, 0] > 0.0, low, high)


@da.stencil
def fourth_order(u: Any, new: Any, *, r: float) -> None:
    total = 0.0
    for axis in range(2):
        total = total + (
            16.0 * (u.shift(axis, 1) + u.shift(axis, -1)) - (u.shift(axis, 2) + u.shift(axis, -2))
        )
    new[0, 0] = u[0, 0] + r * (total - 60.0 * u[0, 0])


@da.stencil
def fourth_order3(u: Any, new: Any, *, r: float) -> None:
    total = -90.0 * u[0, 0, 0]
    for axis in range(3):
        total = total + 16.0 * (u.shift(axis, 1) + u.shift(axis, -1))
        total = total - (u.shift(axis, 2) + u.shift(axis, -2))
    new[0, 0, 0] = u[0, 0, 0] + r * total


@da.stencil
def all_neighbours(u: Any, new: Any) -> None:
    """27 points with different weights, so that no two neighbours can be exchanged unnoticed."""
    total = 0.0
    for number, offsets in enumerate(itertools.product((-1, 0, 1), repeat=3)):
        total = total + (0.01 + 0.003 * number) * u[offsets]
    new[0, 0, 0] = total


def test_upwind_advection() -> None:
    start = random_values(*SHAPE)
    cases: list[tuple[Any, dict[str, Any], Fills]] = [
        (True, {}, (None, None)),
        ((False, True), {"x-": da.Dirichlet(0.7)}, ((dirichlet(0.7), None), None)),
    ]
    for periodic, conditions, fills in cases:
        expected = advanced(upwind, start, 3, fills, c=0.4)
        for grid in runs(SHAPE, periodic=periodic):
            u = put(grid, start, boundary=conditions)
            same(da.iterate(upwind, u, grid.empty_like(u), steps=3, c=0.4), expected)


def test_upwind_by_the_sign_of_a_velocity() -> None:
    start, speed = random_values(*SHAPE), random_values(*SHAPE, seed=2)
    fills: Fills = (both(outflow()), None)
    new = Field(start)
    evaluate(upwind_by_sign, Field(start, fills), Field(speed), new)
    for grid in runs(SHAPE, periodic=(False, True)):
        u, a = put(grid, start, boundary={"x": da.Outflow()}), put(grid, speed)
        target = grid.empty_like(u)
        upwind_by_sign(u, a, target)
        same(target, new.values)


def test_reach_of_two() -> None:
    start = random_values(*SHAPE)
    fills: Fills = ((dirichlet(0.3), neumann(1.2, 1.0 / 17)), None)
    conditions = {"x-": da.Dirichlet(0.3), "x+": da.Neumann(1.2)}
    for periodic, given, rules in ((True, {}, (None, None)), ((False, True), conditions, fills)):
        expected = advanced(fourth_order, start, 3, rules, width=2, r=0.01)
        for grid in runs(SHAPE, halo=2, periodic=periodic):
            u = put(grid, start, boundary=given)
            same(da.iterate(fourth_order, u, grid.empty_like(u), steps=3, r=0.01), expected)


def test_reach_of_two_in_three_dimensions() -> None:
    start = random_values(17, 18, 19)
    expected = advanced(fourth_order3, start, 2, (None, None, None), width=2, r=0.01)
    for grid in runs(start.shape, halo=2, periodic=True):
        u = put(grid, start)
        same(da.iterate(fourth_order3, u, grid.empty_like(u), steps=2, r=0.01), expected)


def test_27_points() -> None:
    start = random_values(9, 10, 11)
    conditions = {"x-": da.Dirichlet(0.3), "x+": da.Neumann(1.1), "z": da.Neumann(-0.4)}
    fills: Fills = ((dirichlet(0.3), neumann(1.1, 1.0 / 9)), None, both(neumann(-0.4, 1.0 / 11)))
    cases: list[tuple[Any, dict[str, Any], Fills]] = [
        (True, {}, (None, None, None)),
        ((False, True, False), conditions, fills),
    ]
    for periodic, given, rules in cases:
        expected = advanced(all_neighbours, start, 2, rules)
        for grid in runs(start.shape, periodic=periodic):
            u = put(grid, start, boundary=given)
            same(da.iterate(all_neighbours, u, grid.empty_like(u), steps=2), expected)


def test_one_dimension() -> None:
    @da.stencil
    def spread(u: Any, new: Any) -> None:
        new[0] = 0.5 * u[0] + 0.25 * u[-1] - 0.125 * u[2] + da.where(u[1] > 0.0, u[-2], u[1])

    start = random_values(37)
    cases: list[tuple[Any, dict[str, Any], Fills]] = [
        (True, {}, (None,)),
        (False, {"x-": da.Dirichlet(0.3), "x+": da.Outflow()}, ((dirichlet(0.3), outflow()),)),
    ]
    for periodic, conditions, fills in cases:
        expected = advanced(spread, start, 3, fills, width=2)
        for grid in runs(start.shape, halo=2, periodic=periodic):
            u = put(grid, start, boundary=conditions)
            same(da.iterate(spread, u, grid.empty_like(u), steps=3), expected)


# ---- two colours


@da.stencil(colours=2)
def smooth(u: Any, f: Any, *, h: float) -> None:
    u[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - h * f[0, 0])


@da.stencil(colours=2)
def smooth3(u: Any, f: Any, *, h: float) -> Any:
    before = u[0, 0, 0] + 0.0
    around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
    u[0, 0, 0] = (around - h * f[0, 0, 0]) / 6.0
    return da.reduce.max(abs(u[0, 0, 0] - before))


def smoothed(values: Array, f: Array, fills: Fills, formula: Callable[[Field], Array]) -> Array:
    """One sweep: even cells from the values before, then odd cells from these."""
    parity = sum(np.ix_(*map(np.arange, values.shape))) % 2
    for colour in (0, 1):
        u = Field(values, fills)
        u.box = [(0, n) for n in values.shape]
        values = np.where(parity == colour, formula(u), values)
    return values


def test_red_black_smoothing() -> None:
    start, f = random_values(*SHAPE), random_values(*SHAPE, seed=2)

    def formula(u: Field) -> Array:
        return 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 0.3 * f)

    walls = {"x": da.Dirichlet(0.5), "y-": da.Neumann(0.3), "y+": da.Dirichlet(-1.0)}
    rules: Fills = (both(dirichlet(0.5)), (neumann(0.3, 1.0 / 13), dirichlet(-1.0)))
    cases: list[tuple[Any, dict[str, Any], Fills]] = [
        (False, walls, rules),
        (True, {}, (None, None)),  # 17 x 13: both axes are odd
        ((True, False), {k: v for k, v in walls.items() if k != "x"}, (None, rules[1])),
    ]
    for periodic, conditions, fills in cases:
        expected = start
        for _ in range(3):
            expected = smoothed(expected, f, fills, formula)
        for grid in runs(SHAPE, periodic=periodic):
            u, right = put(grid, start, boundary=conditions), put(grid, f)
            for overlap in (True, False, None):
                smooth.apply(u, right, h=0.3, overlap=overlap)
            same(u, expected)


def test_red_black_on_even_and_odd_periodic_axes_in_three_dimensions() -> None:
    start, f = random_values(9, 8, 11), random_values(9, 8, 11, seed=2)

    def formula(u: Field) -> Array:
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
        return (around - 0.3 * f) / 6.0

    expected = smoothed(start, f, (None, None, None), formula)
    change = np.abs(expected - start).max()
    for grid in runs(start.shape, periodic=True):
        u = put(grid, start)
        assert float(smooth3(u, put(grid, f), h=0.3)) == change
        same(u, expected)


# ---- chains


@da.stencil
def half(u: Any, middle: Any, *, dt: float) -> None:
    middle[0, 0] = u[0, 0] - 0.5 * dt * (u[1, 0] - u[-1, 0] + 2.0 * (u[0, 1] - u[0, -1]))


@da.stencil
def full(u: Any, middle: Any, new: Any, *, dt: float, decay: float) -> None:
    slope = middle[1, 0] - middle[-1, 0] + 2.0 * (middle[0, 1] - middle[0, -1])
    new[0, 0] = u[0, 0] - dt * (slope + decay * middle[1, 1])


def test_a_chain_of_kernels() -> None:
    start = random_values(*SHAPE)
    fills: Fills = (both(dirichlet(0.2)), None)
    expected = start
    for step in range(3):
        middle, new = Field(start, fills), Field(start)
        evaluate(half, Field(expected, fills), middle, dt=0.05)
        again = Field(middle.values, fills)
        evaluate(full, Field(expected, fills), again, new, dt=0.05, decay=0.5 + step)
        expected = new.values
    for grid in runs(SHAPE, periodic=(False, True)):
        u = put(grid, start, boundary={"x": da.Dirichlet(0.2)})
        new, middle = grid.empty_like(u), grid.empty_like(u)
        result = da.iterate(
            [(half, (0, 2)), (full, (0, 2, 1))],
            *(u, new, middle),
            steps=3,
            dt=0.05,
            decay=lambda step: 0.5 + step,
        )
        same(result, expected)
        same(middle, again.values)


@da.stencil
def wave(old: Any, now: Any, new: Any, *, c: float) -> None:
    around = now[1, 0] + now[-1, 0] + now[0, 1] + now[0, -1] - 4.0 * now[0, 0]
    new[0, 0] = 2.0 * now[0, 0] - old[0, 0] + c * around


@da.stencil
def source(new: Any, shape: Any, *, time: float) -> None:
    new[0, 0] = new[0, 0] + time * shape[0, 0]


def test_three_states_that_rotate_with_open_edges() -> None:
    states = [random_values(*SHAPE, seed=n) for n in range(3)]
    shape = random_values(*SHAPE, seed=9)
    # `source` computes all points of new, so that none is copied before the first step.
    expected = list(states)
    for step in range(4):
        old, now, new = map(Field, expected)
        evaluate(wave, old, now, new, box=[(1, 16), (1, 12)], c=0.1)
        values = new.values + (0.5 + step * 0.25) * shape
        expected = [now.values, values, old.values]
    for grid in runs(SHAPE):
        arrays = [put(grid, state) for state in states]
        fixed = put(grid, shape)
        result = da.iterate(
            [(wave, (0, 1, 2)), (source, (2, 3))],
            *(*arrays, fixed),
            steps=4,
            rotate=(0, 1, 2),
            time=0.5,
            dt=0.25,
            c=0.1,
        )
        assert result is arrays[(2 + 3) % 3]
        for found, wanted in zip((arrays[1], arrays[2], arrays[0]), expected, strict=True):
            same(found, wanted)


def test_points_not_computed_are_copied_from_the_newest_state() -> None:
    states = [random_values(*SHAPE, seed=n) for n in range(3)]
    expected = [state.copy() for state in states]
    for other in (0, 2):
        edge = np.ones(SHAPE, bool)
        edge[1:-1, 1:-1] = False
        expected[other][edge] = states[1][edge]
    for _ in range(4):
        old, now, new = map(Field, expected)
        evaluate(wave, old, now, new, box=[(1, 16), (1, 12)], c=0.1)
        expected = [now.values, new.values, old.values]
    for grid in runs(SHAPE):
        arrays = [put(grid, state) for state in states]
        result = da.iterate(wave, *arrays, steps=4, rotate=(0, 1, 2), c=0.1)
        same(result, expected[1])
        for found, wanted in zip((arrays[1], arrays[2], arrays[0]), expected, strict=True):
            same(found, wanted)
