"""What flows through the face between two cells: reconstruction, Riemann solver, corrections,
limits that keep density and pressure positive, viscous stresses. Pure; called while a kernel is
traced.

Face values are reconstructed from primitive variables. With MUSCL the flux of them is the numerical
flux, of second order. WENO interpolates point values to the face instead, and the flux there gets
the corrections

    f - h^2 f'' / 24 + 7 h^4 f'''' / 5760

of the fluxes in six cells, which make the difference of numerical fluxes the derivative at the cell
centre to fifth order on any number of axes (Jiang, Y., Shu, C.-W., Zhang, M. (2013) SIAM J. Sci.
Comput. 35(2), A1137-A1160, equations 2.4 to 2.7). Where an interpolated density or pressure is not
positive the face value is that of the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import distarray as da
from solvers.euler import gas
from solvers.euler.gas import State, Symbol
from solvers.euler.riemann import SOLVERS, rusanov
from solvers.euler.scheme import Scheme

#: The primitive state of the cell k further than the first one above a face.
Cells = Callable[[int], State]

#: Weights of pairs of fluxes in the corrections: of the cells 0, 1 and 2 away from the face.
_CORRECTION = (118.0 / 3840.0, -137.0 / 3840.0, 19.0 / 3840.0)
#: Share of what the first-order flux leaves that density and pressure do not fall below.
_LEFT = 1e-6


def inviscid(
    cells: Cells, scheme: Scheme, axis: int, *, gamma: Symbol, ratio: Symbol
) -> list[Symbol]:
    """Mass, momentum and energy through a face per area and time.

    Parameters
    ----------
    cells : function
    scheme : Scheme
    axis : int
        Of the normal of the face.
    gamma : symbol
    ratio : symbol
        Twice the number of axes times dt / h, for positivity.
    """
    left, right = _both(cells, scheme)
    found = SOLVERS[scheme.riemann](left, right, axis, gamma)
    if scheme.pointwise:
        fluxes = [gas.flux(cells(k), axis, gamma) for k in range(-3, 3)]
        found = [value + _corrections([f[n] for f in fluxes]) for n, value in enumerate(found)]
    if scheme.positivity:
        found = _positive(found, (cells(-1), cells(0)), axis, gamma, ratio)
    return found


def _both(cells: Cells, scheme: Scheme) -> tuple[State, State]:
    """The states on both sides of a face."""
    pairs = [
        scheme.faces.faces(lambda k, n=n: cells(k)[n])  # type: ignore[misc]
        for n in range(len(cells(0)))
    ]
    sides: list[State] = [[pair[side] for pair in pairs] for side in (0, 1)]
    if scheme.pointwise:
        sides = [_sound(side, cells(k)) for side, k in zip(sides, (-1, 0), strict=True)]
    return sides[0], sides[1]


def _sound(side: State, cell: State) -> State:
    """A face state whose density and pressure are positive, else that of the cell."""
    good = np.minimum(side[0], side[-1]) > 0.0
    return [da.where(good, a, b) for a, b in zip(side, cell, strict=True)]


def _corrections(f: Sequence[Symbol]) -> Symbol:
    """What the fluxes in six cells add at the face in their middle."""
    near, next_, far = (weight * (f[2 - n] + f[3 + n]) for n, weight in enumerate(_CORRECTION))
    return near + next_ + far


def _positive(
    found: State, cells: tuple[State, State], axis: int, gamma: Symbol, ratio: Symbol
) -> list[Symbol]:
    """The flux, mixed with that of first order (Rusanov's) as far as needed for density and
    pressure to stay positive: in each cell, which is the mean of one part for every face, by what
    the face does to its part (Hu, X. Y., Adams, N. A., Shu, C.-W. (2013) J. Comput. Phys. 242,
    169-180), for time steps up to half of what is stable at first order.
    """
    first = rusanov(*cells, axis, gamma)
    share: Symbol = 1.0
    for cell, sign in zip(cells, (-1.0, 1.0), strict=True):
        state = gas.conserved(cell, gamma)
        sure = [u + sign * ratio * f for u, f in zip(state, first, strict=True)]
        open_ = [u + sign * ratio * f for u, f in zip(state, found, strict=True)]
        density = _share(open_[0], sure[0])
        mixed = [a + density * (b - a) for a, b in zip(sure, open_, strict=True)]
        pressure = (gas.primitive(one, gamma)[-1] for one in (mixed, sure))
        share = np.minimum(share, density * _share(*pressure))
    return [a + share * (b - a) for a, b in zip(first, found, strict=True)]


def _share(value: Symbol, sure: Symbol) -> Symbol:
    """The largest share of a value, mixed with one that is positive, which stays positive."""
    least = _LEFT * sure
    low = value < least
    return da.where(low, (sure - least) / da.where(low, sure - value, 1.0), 1.0)
