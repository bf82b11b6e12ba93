"""No stale halo, ever: kernels, writes, conditions and times in any order give NumPy's values.

A sequence of random actions, the same on all ranks, changes two arrays; what kernels write is
compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import (
    Array,
    Fill,
    dirichlet,
    layered,
    neumann,
    put,
    random_values,
    runs,
    same,
)

SHAPE = (17, 13)

#: How often each action of `act` is taken: mostly kernels, seldom new conditions.
WEIGHTS = (0.2, 0.2, 0.2, 0.12, 0.1, 0.04, 0.04, 0.1)


@da.stencil
def near(U: Any, v: Any) -> None:
    v[0, 0] = U[0][1, 0] - 0.5 * U[0][-1, 1] + 0.25 * v[0, 0]


@da.stencil
def far(U: Any, v: Any) -> None:
    v[0, 0] = 0.5 * U[0][-2, 0] + U[1][0, 0] - 0.5 * U[1][0, 2]


@da.stencil
def corners(v: Any, u: Any) -> None:
    u[0, 0] = 0.5 * v[1, 1] - 0.25 * v[-2, 1] + 0.125 * v[-1, -1]


class State:
    """The two arrays in NumPy: U with two components, periodic along y, and v."""

    def __init__(self, seed: int) -> None:
        self.U = random_values(2, *SHAPE, seed=seed)
        self.v = random_values(*SHAPE, seed=seed + 1)
        self.wall = 0.25  # of U[0] and U[1] on both sides
        self.slope: Callable[[float], float] = lambda t: 0.5 * t  # of v
        self.time = 0.0

    def layers(self, values: Array, fill: Fill) -> Callable[[int, int], Array]:
        q = layered(values, ((fill, fill), None), 2)
        return lambda i, j: q[2 + i : 19 + i, 2 + j : 15 + j]

    def near(self) -> None:
        u = self.layers(self.U[0], dirichlet(self.wall))
        self.v = u(1, 0) - 0.5 * u(-1, 1) + 0.25 * self.v

    def far(self) -> None:
        u, w = (self.layers(part, dirichlet(self.wall)) for part in self.U)
        self.v = 0.5 * u(-2, 0) + w(0, 0) - 0.5 * w(0, 2)

    def corners(self, component: int) -> None:
        v = self.layers(self.v, neumann(self.slope(self.time), 1.0 / 17))
        self.U[component] = 0.5 * v(1, 1) - 0.25 * v(-2, 1) + 0.125 * v(-1, -1)


def act(number: int, s: State, u: da.DistArray, v: da.DistArray, rng: np.random.Generator) -> None:
    """One action on the arrays and on the state."""
    component, value = int(rng.integers(2)), float(rng.uniform(-1, 1))
    overlap = bool(rng.integers(2))
    if number == 0:
        near.apply(u, v, overlap=overlap)
        s.near()
    elif number == 1:
        far.apply(u, v, overlap=overlap)
        s.far()
    elif number == 2:
        s.time = round(s.time + 0.25 * rng.integers(3), 2)
        corners.apply(v, u[component], time=s.time, overlap=overlap)
        s.corners(component)
    elif number == 3:
        u[component] *= value
        s.U[component] *= value
    elif number == 4:
        v[3:12, ::2] = value
        s.v[3:12, ::2] = value
    elif number == 5:
        u.boundary["x"] = da.Dirichlet(value)
        s.wall = value
    elif number == 6:
        v.boundary["x"] = da.Neumann(lambda t, x, y: value * t)
        s.slope = lambda t: value * t
    else:
        with u[component].writing() as block:
            block[...] = 0.5 * block + value
        s.U[component] = 0.5 * s.U[component] + value


def test_any_order_of_actions() -> None:
    for seed in range(2):
        for grid in runs(SHAPE, periodic=(False, True), halo=2):
            state, rng = State(seed), np.random.default_rng(seed)
            u = put(grid, state.U, components=2, boundary={"x": da.Dirichlet(state.wall)})
            rising = da.Neumann(lambda t, x, y: 0.5 * t)
            v = put(grid, state.v, boundary={"x": rising})
            for number in rng.choice(8, size=60, p=WEIGHTS):
                act(int(number), state, u, v, rng)
                if number in (0, 1):
                    same(v, state.v)
                elif number == 2:
                    same(u, state.U)
