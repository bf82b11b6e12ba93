"""The stencils of the incompressible solver, in two and three dimensions.

Velocity component i lies on the faces normal to axis i (a MAC grid: Harlow, F. H., Welch, J. E.
(1965) Phys. Fluids 8(12), 2182-2189), pressure in the cells. Point n of component i is the low face
of cell n, so that the divergence reads one point up and a gradient one cell down. The bodies are
written once for any number of axes; only the lists of arrays, which name the components, are
written for each.

Symbols: u, v, w velocity; p pressure; phi correction of the pressure; nu viscosity; dt time step;
rx, ry, rz the reciprocals of the spacings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import distarray as da

# Arrays and scalars in a kernel are symbols while it is traced.
Symbol = Any
Symbols = Sequence[Any]


def momentum(ndim: int) -> Any:
    """A Runge-Kutta stage `new = keep old + (1 - keep) (now + dt (-div(u u) - grad p + nu lap u))`.

    Called with the components now, the pressure, the old components and the new ones.
    """
    return momentum_2d if ndim == 2 else momentum_3d


def divergence(ndim: int) -> Any:
    """`out = scale * div(u)`, called with the components and `out`."""
    return divergence_2d if ndim == 2 else divergence_3d


def correct(ndim: int) -> Any:
    """`new = u - dt grad(phi)` and `p += phi`, called with the components, phi, the new components
    and p.
    """
    return correct_2d if ndim == 2 else correct_3d


# A kernel's positional parameters are its arrays, and these have one array per component.


@da.stencil(static=("advection",))
def momentum_2d(  # noqa: PLR0917
    u: Symbol, v: Symbol, p: Symbol, u_old: Symbol, v_old: Symbol, u_new: Symbol, v_new: Symbol,
    *, advection: str, nu: Symbol, dt: Symbol, keep: Symbol, rx: Symbol, ry: Symbol,
) -> None:  # fmt: skip
    """A Runge-Kutta stage of two components."""
    old, new = (u_old, v_old), (u_new, v_new)
    rates = _rates((u, v), p, r=(rx, ry), nu=nu, advection=advection)
    _advance((u, v), rates, old, new, dt=dt, keep=keep)


@da.stencil(static=("advection",))
def momentum_3d(  # noqa: PLR0917
    u: Symbol, v: Symbol, w: Symbol, p: Symbol, u_old: Symbol, v_old: Symbol, w_old: Symbol,
    u_new: Symbol, v_new: Symbol, w_new: Symbol,
    *, advection: str, nu: Symbol, dt: Symbol, keep: Symbol, rx: Symbol, ry: Symbol, rz: Symbol,
) -> None:  # fmt: skip
    """A Runge-Kutta stage of three components."""
    old, new = (u_old, v_old, w_old), (u_new, v_new, w_new)
    rates = _rates((u, v, w), p, r=(rx, ry, rz), nu=nu, advection=advection)
    _advance((u, v, w), rates, old, new, dt=dt, keep=keep)


@da.stencil
def divergence_2d(
    u: Symbol, v: Symbol, out: Symbol, *, scale: Symbol, rx: Symbol, ry: Symbol
) -> None:
    """The scaled divergence of two components."""
    out[0, 0] = scale * _divergence((u, v), (rx, ry))


@da.stencil
def divergence_3d(
    u: Symbol, v: Symbol, w: Symbol, out: Symbol,
    *, scale: Symbol, rx: Symbol, ry: Symbol, rz: Symbol,
) -> None:  # fmt: skip
    """The scaled divergence of three components."""
    out[0, 0, 0] = scale * _divergence((u, v, w), (rx, ry, rz))


@da.stencil
def correct_2d(  # noqa: PLR0917
    u: Symbol, v: Symbol, phi: Symbol, u_new: Symbol, v_new: Symbol, p: Symbol,
    *, dt: Symbol, rx: Symbol, ry: Symbol,
) -> None:  # fmt: skip
    """The end of a step of two components."""
    _correct((u, v), phi, (u_new, v_new), p, r=(rx, ry), dt=dt)


@da.stencil
def correct_3d(  # noqa: PLR0917
    u: Symbol, v: Symbol, w: Symbol, phi: Symbol,
    u_new: Symbol, v_new: Symbol, w_new: Symbol, p: Symbol,
    *, dt: Symbol, rx: Symbol, ry: Symbol, rz: Symbol,
) -> None:  # fmt: skip
    """The end of a step of three components."""
    _correct((u, v, w), phi, (u_new, v_new, w_new), p, r=(rx, ry, rz), dt=dt)


@da.stencil(static=("axis",))
def change(u: Symbol, phi: Symbol, u_old: Symbol, *, axis: int, dt: Symbol, r: Symbol) -> Any:
    """Largest change that `correct` is about to make to the old component, and largest size of the
    new one.
    """
    new = u.shift(axis, 0) - dt * r * (phi.shift(axis, 0) - phi.shift(axis, -1))
    return da.reduce.max(abs(new - u_old.shift(axis, 0))), da.reduce.max(abs(new))


@da.stencil(static=("ndim",))
def push(u: Symbol, force: Symbol, *, ndim: int, scale: Symbol) -> None:
    """`u += scale * force`."""
    here = (0,) * ndim
    u[here] = u[here] + scale * force[here]


def _rates(velocity: Symbols, p: Symbol, *, r: Symbols, nu: Symbol, advection: str) -> list[Symbol]:
    """`-div(u u) - grad p + nu lap u` of each component."""
    rates = []
    for i, u in enumerate(velocity):
        rate = -r[i] * (p.shift(i, 0) - p.shift(i, -1))
        for j in range(len(velocity)):
            low, high = (_flux(velocity, i, j, n, advection) for n in (0, 1))
            rate -= r[j] * (high - low)
            rate += nu * r[j] * r[j] * (u.shift(j, 1) - 2.0 * u.shift(j, 0) + u.shift(j, -1))
        rates.append(rate)
    return rates


def _advance(
    now: Symbols, rates: Symbols, old: Symbols, new: Symbols, *, dt: Symbol, keep: Symbol
) -> None:
    here = (0,) * len(now)
    for i, rate in enumerate(rates):
        new[i][here] = keep * old[i][here] + (1.0 - keep) * (now[i][here] + dt * rate)


def _flux(velocity: Symbols, i: int, j: int, n: int, advection: str) -> Symbol:
    """Momentum i carried along j through the low (n = 0) or high (n = 1) side of the volume around
    a face point.

    For j = i the side lies in a cell centre, else on an edge. The carrier is the mean of two
    components j along i, the carried the mean of two components i along j: together second order,
    and they conserve kinetic energy.
    """
    ndim = len(velocity)
    carrier = 0.5 * (_at(velocity[j], ndim, (i, -1), (j, n)) + _at(velocity[j], ndim, (j, n)))
    low, high = velocity[i].shift(j, n - 1), velocity[i].shift(j, n)
    if advection == "upwind":
        return carrier * da.where(carrier > 0.0, low, high)
    return carrier * (0.5 * (low + high))


def _at(u: Symbol, ndim: int, *moves: tuple[int, int]) -> Symbol:
    """`u` at the offset that moves (axis, n) make together."""
    offset = [0] * ndim
    for axis, n in moves:
        offset[axis] += n
    return u[tuple(offset)]


def _divergence(velocity: Symbols, r: Symbols) -> Symbol:
    parts = [r[i] * (u.shift(i, 1) - u.shift(i, 0)) for i, u in enumerate(velocity)]
    return sum(parts[1:], start=parts[0])


def _correct(
    velocity: Symbols, phi: Symbol, new: Symbols, p: Symbol, *, r: Symbols, dt: Symbol
) -> None:
    here = (0,) * len(velocity)
    for i, u in enumerate(velocity):
        new[i][here] = u[here] - dt * r[i] * (phi[here] - phi.shift(i, -1))
    p[here] = p[here] + phi[here]
