"""Fluxes of momentum through the sides of the volumes around the points of a MAC grid. Functions
are Local, called while a kernel is traced.

Through each side a component is carried by the mean of two neighbouring normal components, weighted
so that it conserves the mass of the two half cells that the volume is made of. What is carried is

central  the mean of the values on both sides: with these carriers skew-symmetric, on stretched
         grids too, so that it neither makes nor loses kinetic energy (Verstappen, R. W. C. P.,
         Veldman, A. E. P. (2003) J. Comput. Phys. 187(1), 343-368); second order
upwind   the value of the side that the flow comes from; first order, always bounded
weno     the value reconstructed from five by WENO-Z (`solvers.hyperbolic.reconstruction`), in the
         index of the cells; the whole is second order, with a dissipation that is small where the
         flow is smooth
"""

from __future__ import annotations

from typing import Literal

import distarray as da
from solvers.hyperbolic.reconstruction import weno_z
from solvers.incompressible.metrics import Symbol, Symbols, Widths

Advection = Literal["central", "upwind", "weno"]
#: Neighbours on each side that a flux difference reads.
REACH = {"central": 1, "upwind": 1, "weno": 3}
#: Extent of the eigenvalues of the flux differences along the imaginary and the real axis, in units
#: of the sum of |u| / h. For WENO those of the linear scheme of fifth order and, on the real axis,
#: of the scheme of first order, which it may fall back to.
EXTENT = {"central": (1.0, 0.0), "upwind": (1.0, 2.0), "weno": (1.6, 2.0)}


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
    return carrier * weno_z(values)


def _carrier(velocity: Symbols, i: int, j: int, n: int, widths: Widths) -> Symbol:
    """The velocity through such a side, which for j = i lies in a cell centre, else on an edge."""
    ndim = len(velocity)
    low, high = at(velocity[j], ndim, (i, -1), (j, n)), at(velocity[j], ndim, (j, n))
    return 0.5 * (low + high) if i == j else widths.between(i, low, high)


def at(u: Symbol, ndim: int, *moves: tuple[int, int]) -> Symbol:
    """`u` at the offset that moves (axis, n) make together."""
    offset = [0] * ndim
    for axis, n in moves:
        offset[axis] += n
    return u[tuple(offset)]
