"""The stencils of the incompressible solver, for any number of axes, uniform and stretched.

Velocity component i lies on the faces normal to axis i (a MAC grid: Harlow, F. H., Welch, J. E.
(1965) Phys. Fluids 8(12), 2182-2189), pressure in the cells. Point n of component i is the low face
of cell n, so that the divergence reads one point up and a gradient one cell down.

Symbols: p pressure; phi correction of the pressure; nu viscosity; dt time step. Each name here is a
function that makes the kernel of a number of axes, see `metrics.per_axis`.
"""

from __future__ import annotations

from typing import Any

import distarray as da
from solvers.incompressible.advection import convection
from solvers.incompressible.metrics import Symbol, Symbols, Widths, per_axis


@per_axis("now", "old", "new", static=("advection",))
def momentum(
    now: Symbols, p: Symbol, old: Symbols, new: Symbols, widths: Widths,
    *, advection: str, nu: Symbol, dt: Symbol, keep: Symbol,
) -> None:  # fmt: skip
    """A stage `new = keep old + (1 - keep) (now + dt (-grad p - div(u u) + nu lap u))`."""
    for i, u in enumerate(now):
        rate = _fall(p, i, widths)
        for j in range(len(now)):
            rate -= convection(now, i, j, widths, advection)
            rate += widths.second(u, j, on_points=i == j, scale=nu)
        new[i][...] = keep * old[i][...] + (1.0 - keep) * (u[...] + dt * rate)


@per_axis("now", "carried", "new", static=("advection",))
def extrapolate(
    now: Symbols, p: Symbol, carried: Symbols, new: Symbols, widths: Widths,
    *, advection: str, nu: Symbol, dt: Symbol, ahead: Symbol, before: Symbol,
) -> None:  # fmt: skip
    """The explicit part of an Adams-Bashforth step with half of the viscous term,
    `new = now + dt (-grad p - ahead div(u u) + before carried + nu / 2 lap u)`, after which
    `carried` holds -div(u u).
    """
    for i, u in enumerate(now):
        rate = _fall(p, i, widths)
        here: Symbol = 0.0
        for j in range(len(now)):
            here -= convection(now, i, j, widths, advection)
            rate += widths.second(u, j, on_points=i == j, scale=0.5 * nu)
        rate += ahead * here + before * carried[i][...]
        carried[i][...] = here
        new[i][...] = u[...] + dt * rate


@per_axis(static=("axis",))
def diffuse(u: Symbol, new: Symbol, widths: Widths, *, axis: int, scale: Symbol) -> None:
    """`new += scale lap u` for the component of an axis."""
    for j in range(u.ndim):
        new[...] = new[...] + widths.second(u, j, on_points=axis == j, scale=scale)


@per_axis("velocity")
def divergence(velocity: Symbols, out: Symbol, widths: Widths, *, scale: Symbol) -> None:
    """`out = scale * div(u)`."""
    parts = [widths.cell(i) * (u.shift(i, 1) - u[...]) for i, u in enumerate(velocity)]
    out[...] = scale * sum(parts[1:], start=parts[0])


@per_axis("velocity", "new")
def correct(
    velocity: Symbols, phi: Symbol, new: Symbols, p: Symbol, widths: Widths, *, dt: Symbol
) -> None:  # fmt: skip
    """The end of a step: `new = u - dt grad(phi)` and `p += phi`."""
    for i, u in enumerate(velocity):
        new[i][...] = u[...] + _fall(phi, i, widths, dt)
    p[...] = p[...] + phi[...]


@per_axis(static=("axis",))
def change(
    u: Symbol, phi: Symbol, u_old: Symbol, widths: Widths, *, axis: int, dt: Symbol
) -> Any:  # fmt: skip
    """Largest change that `correct` is about to make to the component of an axis, and the largest
    |u| / d of the new one.
    """
    new = u[...] + _fall(phi, axis, widths, dt)
    return da.reduce.max(abs(new - u_old[...])), da.reduce.max(abs(new) * widths.point(axis))


@per_axis(static=("axis",))
def speed(u: Symbol, widths: Widths, *, axis: int) -> Any:
    """Largest |u| / d of the component of an axis."""
    return da.reduce.max(abs(u[...]) * widths.point(axis))


@per_axis(static=("axis",))
def amount(u: Symbol, widths: Widths, *, axis: int) -> Any:
    """The sum of u dV over the volumes around the points of the component of an axis."""
    return da.reduce.sum(widths.volume(axis) * u[...], reproducible=True)


@per_axis(static=("axis",))
def energy(u: Symbol, widths: Widths, *, axis: int) -> Any:
    """The sum of u^2 dV over the volumes around the points of the component of an axis."""
    return da.reduce.sum(widths.volume(axis) * (u[...] * u[...]), reproducible=True)


@da.stencil
def push(u: Symbol, force: Symbol, *, scale: Symbol) -> None:
    """`u += scale * force`."""
    u[...] = u[...] + scale * force[...]


@da.stencil
def subtract(u: Symbol, old: Symbol, out: Symbol) -> None:
    """`out = u - old`."""
    out[...] = u[...] - old[...]


@da.stencil
def add(old: Symbol, change: Symbol, new: Symbol) -> None:
    """`new = old + change`."""
    new[...] = old[...] + change[...]


@da.stencil
def shift(u: Symbol, *, by: Symbol, share: Symbol, total: Symbol) -> None:
    """`u += by - share * total`."""
    u[...] = u[...] + (by - share * total)


def _fall(p: Symbol, axis: int, widths: Widths, scale: Symbol = 1.0) -> Symbol:
    """Minus the scaled gradient of p along an axis, at the point of its component."""
    return -scale * widths.point(axis) * (p[...] - p.shift(axis, -1))
