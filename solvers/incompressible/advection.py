"""Fluxes of momentum through the sides of the volumes around the points of a MAC grid. Functions
are Local, called while a kernel is traced.

Through each side a component is carried by the mean of two neighbouring normal components, weighted
so that it conserves the mass of the two half cells that the volume is made of. What is carried is

central  the mean of the values on both sides: with these carriers skew-symmetric, on stretched
         grids too, so that it neither makes nor loses kinetic energy (Verstappen, R. W. C. P.,
         Veldman, A. E. P. (2003) J. Comput. Phys. 187(1), 343-368); second order
upwind   the value of the side that the flow comes from; first order, always bounded
weno     the value reconstructed from five by WENO-Z (Borges, R., Carmona, M., Costa, B., Don, W. S.
         (2008) J. Comput. Phys. 227(6), 3191-3211), in the index of the cells; the whole is second
         order, with a dissipation that is small where the flow is smooth
"""

from __future__ import annotations

from typing import Any, Literal

import distarray as da
from solvers.incompressible.metrics import Symbol, Symbols, Widths

Advection = Literal["central", "upwind", "weno"]
#: Neighbours on each side that a flux difference reads.
REACH = {"central": 1, "upwind": 1, "weno": 3}
#: Extent of the eigenvalues of the flux differences along the imaginary and the real axis, in units
#: of the sum of |u| / h. For WENO those of the linear scheme of fifth order and, on the real axis,
#: of the scheme of first order, which it may fall back to.
EXTENT = {"central": (1.0, 0.0), "upwind": (1.0, 2.0), "weno": (1.6, 2.0)}
#: Keeps a quotient of zeros finite; far below the square of any velocity.
_TINY = 1e-40


def convection(velocity: Symbols, i: int, j: int, widths: Widths, advection: str) -> Symbol:
    """The momentum i that leaves along j, per volume."""
    low, high = (
        carried(velocity[i], _carrier(velocity, i, j, n, widths), (j, n), advection) for n in (0, 1)
    )
    return (widths.point(j) if i == j else widths.cell(j)) * (high - low)


def carried(u: Symbol, carrier: Symbol, side: tuple[int, int], advection: str) -> Symbol:
    """What a velocity carries of u through a side (j, n) of the volume around a point: the low
    (n = 0) or the high one (n = 1) along j.
    """
    j, n = side
    if advection == "central":
        return carrier * (0.5 * (u.shift(j, n - 1) + u.shift(j, n)))
    forth = carrier > 0.0
    if advection == "upwind":
        return carrier * da.where(forth, u.shift(j, n - 1), u.shift(j, n))
    values = [da.where(forth, u.shift(j, n - 3 + k), u.shift(j, n + 2 - k)) for k in range(5)]
    return carrier * weno(values)


def _carrier(velocity: Symbols, i: int, j: int, n: int, widths: Widths) -> Symbol:
    """The velocity through such a side, which for j = i lies in a cell centre, else on an edge."""
    ndim = len(velocity)
    low, high = at(velocity[j], ndim, (i, -1), (j, n)), at(velocity[j], ndim, (j, n))
    return 0.5 * (low + high) if i == j else widths.between(i, low, high)


def weno(v: Symbols) -> Symbol:
    """The value half a cell beyond the middle one of five, in the direction of the last."""
    parabolas = (
        (2.0 * v[0] - 7.0 * v[1] + 11.0 * v[2]) / 6.0,
        (5.0 * v[2] - v[1] + 2.0 * v[3]) / 6.0,
        (2.0 * v[2] + 5.0 * v[3] - v[4]) / 6.0,
    )
    bends = [13.0 / 12.0 * _square(v[k] - 2.0 * v[k + 1] + v[k + 2]) for k in range(3)]
    slopes = (v[0] - 4.0 * v[1] + 3.0 * v[2], v[1] - v[3], 3.0 * v[2] - 4.0 * v[3] + v[4])
    rough = [b + 0.25 * _square(s) for b, s in zip(bends, slopes, strict=True)]
    whole = abs(rough[0] - rough[2])
    weights = [
        share * (1.0 + _square(whole / (r + _TINY)))
        for share, r in zip((0.1, 0.6, 0.3), rough, strict=True)
    ]
    total = weights[0] + weights[1] + weights[2]
    value = sum((w * p for w, p in zip(weights[1:], parabolas[1:], strict=True)),
                start=weights[0] * parabolas[0])  # fmt: skip
    return value / total


def _square(value: Any) -> Any:
    return value * value


def at(u: Symbol, ndim: int, *moves: tuple[int, int]) -> Symbol:
    """`u` at the offset that moves (axis, n) make together."""
    offset = [0] * ndim
    for axis, n in moves:
        offset[axis] += n
    return u[tuple(offset)]
