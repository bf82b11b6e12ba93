"""The stencils of the immersed boundary (see `immersed`), for any number of axes.

Symbols: p pressure; phi signed distance from the body, at the points of one component; n outward
normal; c = phi n / h, h the distance to the next point. Names decorated with `per_axis` are
functions that make the kernel of a number of axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from solvers.incompressible.advection import at
from solvers.incompressible.metrics import Symbol, Symbols, Widths, per_axis

#: A point is covered up to this share of the distance to the next point beyond the surface: a half,
#: and a little more, so that round-off does not cover one of two points that mirror each other.
HALF = 0.5 + 1e-6
#: Neighbours farther out than this share are taken for fluid: less than HALF, for round-off and
#: curvature.
FLUID = 0.4
#: Least divisor of an extrapolation, 1 + c. Beside a flat surface it is above FLUID wherever the
#: neighbour counts as fluid; in a body of few cells it may vanish, and the point takes the wall's
#: velocity.
LEAST = 0.3


@per_axis(static=("axis", "moving"))
def cover(
    u: Symbol, phi: Symbol, wall: Symbol, out: Symbol, widths: Widths, *, axis: int, moving: bool
) -> None:
    """`out = u` in the fluid and the value that puts the wall's velocity onto the surface on
    covered points.
    """
    axes = range(u.ndim)
    size, n, up, gaps = _normal(phi, axis, widths)
    reach = _largest(n, gaps)
    velocity = wall[...] if moving else 0.0
    c = [phi[...] / size * n[k] / gaps[k] for k in axes]
    fluid = FLUID * reach * size
    value: Any = velocity
    # The last axis first, so that of equal ones the first is chosen.
    for m in reversed(axes):
        near = _towards(u, up, m)
        total = velocity + c[m] * near
        for k in axes:
            if k != m:
                known = _towards(phi, up, m, k) > fluid
                beside = _towards(u, up, m, k)
                total = total + da.where(known, c[k] * (beside - near), 0.0)
        known = (_towards(phi, up, m) > fluid) & (1.0 + c[m] > LEAST)
        fitted = da.where(known, total / (1.0 + c[m]), velocity)
        value = da.where(n[m] * gaps[m] >= reach, fitted, value)
    out[...] = da.where(phi[...] < HALF * reach * size, value, u[...])


@per_axis(static=("axis",))
def mark_open(phi: Symbol, out: Symbol, widths: Widths, *, axis: int) -> None:
    """`out = 1` at points that are not covered, 0 at those that are."""
    size, n, _, gaps = _normal(phi, axis, widths)
    out[...] = da.where(phi[...] < HALF * _largest(n, gaps) * size, 0.0, 1.0)


@per_axis("openings")
def mark_active(openings: Symbols, out: Symbol, widths: Widths) -> None:
    """`out = 1` in cells with an open face, else 0."""
    del widths
    total: Any = 0.0
    for k, opening in enumerate(openings):
        total = total + opening[...] + opening.shift(k, 1)
    out[...] = da.where(total > 0.0, 1.0, 0.0)


@da.stencil(static=("axis",))
def mark_steps(active: Symbol, opening: Symbol, out: Symbol, *, axis: int) -> None:
    """`out`: +1 on covered faces with fluid on the high side alone, -1 on the low side alone."""
    step = active[...] - active.shift(axis, -1)
    out[...] = da.where(opening[...] > 0.0, 0.0, step)


@da.stencil
def near(wall: Symbol, phi: Symbol, *, reach: Symbol) -> Any:
    """Largest magnitude of a velocity of the wall at points no farther from it than `reach`."""
    return da.reduce.max(da.where(abs(phi[...]) <= reach, abs(wall[...]), 0.0))


@da.stencil
def copy(source: Symbol, opening: Symbol, owner: Symbol, u: Symbol) -> None:
    """`u = source` on points that a body covers; not at the ends of the box."""
    covered = (opening[...] == 0.0) & (owner[...] >= 0.0)
    u[...] = da.where(covered, source[...], u[...])


@da.stencil
def put_back(u: Symbol, star: Symbol, opening: Symbol) -> None:
    """`u = star` on covered points."""
    u[...] = da.where(opening[...] > 0.0, u[...], star[...])


@per_axis(static=("axis",))
def leak(
    u: Symbol, steps: Symbol, owner: Symbol, widths: Widths, *, axis: int, which: Symbol
) -> Any:
    """Volume that flows out of a body per time, along an axis."""
    area = da.where(owner[...] == which, _area(axis, widths, u.ndim), 0.0)
    return da.reduce.sum(area * steps[...] * u[...], reproducible=True)


@per_axis(static=("axis",))
def area(steps: Symbol, owner: Symbol, widths: Widths, *, axis: int, which: Symbol) -> Any:
    """Area of the faces of a body normal to an axis."""
    share = da.where(owner[...] == which, _area(axis, widths, steps.ndim), 0.0)
    return da.reduce.sum(share * abs(steps[...]), reproducible=True)


@da.stencil
def close(u: Symbol, steps: Symbol, owner: Symbol, *, which: Symbol, speed: Symbol) -> None:
    """`u -= speed` out of a body, on the faces through which it would flow."""
    u[...] = u[...] - da.where(owner[...] == which, speed * steps[...], 0.0)


@per_axis("openings")
def closed_laplacian(x: Symbol, openings: Symbols, out: Symbol, widths: Widths) -> None:
    """`out = -V div(open grad x)`, which is symmetric on stretched axes too."""
    total: Any = 0.0
    for k, opening in enumerate(openings):
        high = opening.shift(k, 1) * widths.point(k, 1) * (x.shift(k, 1) - x[...])
        low = opening[...] * widths.point(k) * (x[...] - x.shift(k, -1))
        total = total + _area(k, widths, x.ndim) * (low - high)
    out[...] = total


@per_axis()
def weigh(x: Symbol, active: Symbol, out: Symbol, widths: Widths, *, mean: Symbol) -> None:
    """`out = V (mean - x)` in cells of the fluid, 0 in others."""
    out[...] = active[...] * widths.volume() * (mean - x[...])


@per_axis()
def unweigh(x: Symbol, out: Symbol, widths: Widths) -> None:
    """`out = -x / V`."""
    out[...] = -x[...] / widths.volume()


@per_axis()
def integrals(x: Symbol, active: Symbol, widths: Widths) -> Any:
    """Integral of x over the fluid, the fluid's volume, and the sum of the squares of the volumes
    of its cells.
    """
    volume = active[...] * widths.volume()
    return (
        da.reduce.sum(volume * x[...], reproducible=True),
        da.reduce.sum(volume, reproducible=True),
        da.reduce.sum(volume * volume, reproducible=True),
    )


@da.stencil
def mask(x: Symbol, active: Symbol) -> None:
    """`x = 0` in cells without fluid."""
    x[...] = active[...] * x[...]


@per_axis("velocity", static=("axis",))
def traction(
    velocity: Symbols, p: Symbol, opening: Symbol, owner: Symbol, widths: Widths,
    *, axis: int, nu: Symbol, which: Symbol,
) -> Any:  # fmt: skip
    """Sum over all pairs of a covered and an open point of one component of the flux of momentum
    `u u_j + p delta - nu du/dx_j` between them, times the area, into the covered one.
    """
    u, ndim = velocity[axis], len(velocity)
    total: Any = 0.0
    for j in range(ndim):
        low, high = at(velocity[j], ndim, (axis, -1)), velocity[j][...]
        carrier = 0.5 * (low + high) if j == axis else widths.between(axis, low, high)
        slope = (u[...] - u.shift(j, -1)) * (widths.cell(j, -1) if j == axis else widths.point(j))
        flux = carrier * 0.5 * (u[...] + u.shift(j, -1)) - nu * slope
        if j == axis:
            flux = flux + p.shift(j, -1)
        area = 1.0
        for k in range(ndim):
            if k != j:
                area = area / (widths.point(k) if k == axis else widths.cell(k))
        into = opening.shift(j, -1) - opening[...]
        mine = da.where(opening[...] > 0.0, owner.shift(j, -1), owner[...]) == which
        total = total + da.where(mine, area * flux * into, 0.0)
    return da.reduce.sum(total, reproducible=True)


def _normal(
    phi: Symbol, axis: int, widths: Widths
) -> tuple[Symbol, list[Symbol], list[Symbol], list[Symbol]]:
    """|grad phi|; for each axis the magnitude of the unit normal's entry, whether it points up, and
    the distance to the next point that way.
    """
    slopes, up, gaps = [], [], []
    for k in range(phi.ndim):
        # Points of a component lie on the points of its own axis and in the centres of others.
        if k == axis:
            above, below = 1.0 / widths.cell(k), 1.0 / widths.cell(k, -1)
        else:
            above, below = 1.0 / widths.point(k, 1), 1.0 / widths.point(k)
        rise = phi.shift(k, 1) - phi.shift(k, -1)
        slopes.append(abs(rise) / (above + below))
        up.append(rise > 0.0)
        gaps.append(da.where(up[-1], above, below))
    size = np.maximum(np.sqrt(sum(s * s for s in slopes)), 1e-30)
    return size, [s / size for s in slopes], up, gaps


def _largest(n: Symbols, gaps: Symbols) -> Symbol:
    """How far the next point beyond lies from the surface: the largest n h."""
    reach = n[0] * gaps[0]
    for one, gap in zip(n[1:], gaps[1:], strict=True):
        reach = np.maximum(reach, one * gap)
    return reach


def _towards(u: Symbol, up: Symbols, *axes: int) -> Symbol:
    """`u` one point farther out along each of these axes."""

    def chosen(offset: tuple[int, ...], left: tuple[int, ...]) -> Symbol:
        if not left:
            return u[offset]
        k, *others = left
        high, low = (chosen((*offset[:k], n, *offset[k + 1 :]), tuple(others)) for n in (1, -1))
        return da.where(up[k], high, low)

    return chosen((0,) * u.ndim, axes)


def _area(axis: int, widths: Widths, ndim: int) -> Symbol:
    """Area of the faces normal to an axis."""
    area: Any = 1.0
    for k in range(ndim):
        if k != axis:
            area = area / widths.cell(k)
    return area
