"""Stencils of the shallow-water solver besides those of the conservation law, for any number of
axes. Symbols as in `equation`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from solvers.shallow_water.equation import hurry, velocity

Symbol = Any


@da.stencil(static=("rotating", "rubbing", "last"))
def force(
    h: Symbol, q: Symbol, new_h: Symbol, new_q: Symbol,
    *, rotating: bool, rubbing: bool, last: bool, dt: Symbol, f: Symbol, beta: Symbol,
    friction: Symbol, drag: Symbol, g: Symbol, thin: Symbol, rx: Symbol, ry: Symbol,
) -> Any:  # fmt: skip
    """What the rotation of the ground and friction do to the discharge within dt, depths standing.
    Where `last`, returns the largest speed as `ShallowWater` counts it, and the largest change from
    what was in `new`.

    dq/dt = (f + beta y) (q_y, -q_x) turns it, by a Cayley transform, so that its length stays.
    dq/dt = -(friction / h^(1/3) + drag) |q| q / h^2 shortens it and has the exact solution
    q / (1 + k |q| dt): friction stops thin water and never turns it around.
    """
    ndim, depth = h.ndim, h[...]
    parts = [q[i][...] for i in range(ndim)]
    if rotating:
        a = 0.5 * dt * (f + beta * da.coordinate(1))
        cosine, sine = (1.0 - a * a) / (1.0 + a * a), 2.0 * a / (1.0 + a * a)
        parts = [cosine * parts[0] + sine * parts[1], cosine * parts[1] - sine * parts[0]]
    if rubbing:
        size = np.sqrt(sum((p * p for p in parts[1:]), start=parts[0] * parts[0]))
        root = np.cbrt(depth)
        # Both sides of the quotient times h^(7/3), which may be zero.
        held = root * depth * depth
        whole = held + dt * size * (friction + drag * root)
        parts = [p * (held / da.where(whole > 0.0, whole, 1.0)) for p in parts]
    changes = [depth - new_h[...], *(p - new_q[i][...] for i, p in enumerate(parts))]
    new_h[...] = depth
    for i, value in enumerate(parts):
        new_q[i][...] = value
    if not last:
        return None
    speeds = [velocity(depth, new_q[i][...], thin) for i in range(ndim)]
    largest = functools.reduce(np.maximum, map(abs, changes))
    return da.reduce.max(hurry(depth, speeds, (rx, ry)[:ndim], g)[1]), da.reduce.max(largest)


def beyond(axis: int, components: tuple[int, ...]) -> Callable[[Symbol, Symbol], None]:
    """What fills the layers beyond a side normal to an axis: the outermost cell of another array.
    Local.
    """

    def layer(u: Symbol, start: Symbol) -> None:
        inside = tuple(int(a == axis) for a in range(start.ndim))
        if components:
            for c in range(components[0]):
                u[c][...] = start[c][inside]
        else:
            u[...] = start[inside]

    return layer


@da.stencil
def fill(h: Symbol, b: Symbol) -> None:
    """The depth of water whose surface is given: what is above the bed."""
    h[...] = np.maximum(h[...] - b[...], 0.0)


@da.stencil
def least(h: Symbol) -> Any:
    """The smallest depth."""
    return da.reduce.min(h[...])


@da.stencil
def contents(h: Symbol, q: Symbol, b: Symbol, *, g: Symbol, thin: Symbol) -> Any:
    """Sums over the cells of depth, discharges, and energy h |u|^2 / 2 + g h (h / 2 + b)."""
    parts = [q[i][...] for i in range(h.ndim)]
    squares = [p * velocity(h[...], p, thin) for p in parts]
    energy = 0.5 * sum(squares[1:], start=squares[0]) + g * h[...] * (0.5 * h[...] + b[...])
    return tuple(da.reduce.sum(value, reproducible=True) for value in (h[...], *parts, energy))
