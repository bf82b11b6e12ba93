"""Values on the faces between cells from those of the cells. Functions are Local, on symbols of a
kernel and on NumPy arrays alike.

A face lies between the cells -1 and 0; `q(k)` is the value of cell k. What is reconstructed is the
face value of a function whose cell averages are given. With averages and a flux of the face values
that is a finite-volume scheme, of second order on several axes unless the flux is linear. Applied
to *fluxes* at the cell centres, split into a part for each direction,

    faces(lambda k: 0.5 * (f(k) + a * u(k)))[0] + faces(lambda k: 0.5 * (f(k) - a * u(k)))[1]

with a at least the largest signal speed nearby, the same formulas are a conservative finite-
difference scheme, which keeps its order on several axes (Shu, C.-W., Osher, S. (1988) J. Comput.
Phys. 77(2), 439-471). For linear transport at constant velocity both are the same.

WENO also comes with `rule=POINTS`, which interpolates a function whose values at the cell centres
are given. Fluxes of such face values need corrections to be of high order, and then are, too, on
several axes (Jiang, Y., Shu, C.-W., Zhang, M. (2013) SIAM J. Sci. Comput. 35(2), A1137-A1160).

The right value is that of the left in the mirrored cells: a mirrored state gives mirrored bits.

constant  the value of the cell; first order
upwind3   the parabola through three cells, not limited; third order
upwind5   the polynomial through five cells, not limited; fifth order
muscl     a line with limited slope (`limiters`); second order (van Leer, B. (1979) J. Comput. Phys.
          32(1), 101-136)
weno5     three parabolas weighted by their smoothness; fifth order, third near extrema whose cells
          change by less than about 1e-3 in relation to values of order one (Jiang, G.-S., Shu,
          C.-W. (1996) J. Comput. Phys. 126(1), 202-228)
weno_z    the same with weights that depend on no scale, and of less dissipation (Borges, R.,
          Carmona, M., Costa, B., Don, W. S. (2008) J. Comput. Phys. 227(6), 3191-3211, q = 2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

import distarray as da
from solvers.hyperbolic.limiters import LIMITERS, Limiter

Symbol = Any
#: The value of the cell k further than the first one above a face.
Cells = Callable[[int], Symbol]
#: From values of cells to the values on both sides of a face.
Faces = Callable[[Cells], tuple[Symbol, Symbol]]
#: From the values v of cells, in the direction from the middle cell to the face, to the face value.
Extrapolation = Callable[[Sequence[Symbol]], Symbol]

#: Keeps quotients of zeros finite, in single precision too.
_TINY = 1e-36
#: Bounds the ratio of weights of WENO-Z, whose squares then are finite in single precision too.
_SHARE = 1e-16
#: What Jiang and Shu add to the smoothness.
_EPSILON = 1e-6


@dataclass(frozen=True)
class Rule:
    """Face values of the three parabolas of WENO, and the shares that make them exact to fifth
    order.

    Attributes
    ----------
    weights : three tuples of three float
        Of the cells of each parabola, as multiples of 1 / `divisor`.
    divisor : float
    shares : three floats
    """

    weights: tuple[tuple[float, float, float], ...]
    divisor: float
    shares: tuple[float, float, float]


#: From averages of cells.
AVERAGES = Rule(((2.0, -7.0, 11.0), (-1.0, 5.0, 2.0), (2.0, 5.0, -1.0)), 6.0, (0.1, 0.6, 0.3))
#: From values at cell centres.
POINTS = Rule(
    ((3.0, -10.0, 15.0), (-1.0, 6.0, 3.0), (3.0, 6.0, -1.0)), 8.0, (0.0625, 0.625, 0.3125)
)


@dataclass(frozen=True)
class Reconstruction:
    """One way to face values.

    Attributes
    ----------
    name : str
    order : int
        Of the scheme where the solution is smooth.
    reach : int
        Cells on each side that a difference of fluxes reads: the halo it needs.
    faces : function
        `faces(q) -> (left, right)`, see `reconstruction`'s module.
    """

    name: str
    order: int
    reach: int
    faces: Faces


def constant(v: Sequence[Symbol]) -> Symbol:
    """The value of the middle cell."""
    return v[0]


def upwind3(v: Sequence[Symbol]) -> Symbol:
    """The value half a cell beyond the middle one of three."""
    return (5.0 * v[1] - v[0] + 2.0 * v[2]) / 6.0


def upwind5(v: Sequence[Symbol]) -> Symbol:
    """The value half a cell beyond the middle one of five."""
    return (47.0 * v[2] + 27.0 * v[3] - 13.0 * v[1] - 3.0 * v[4] + 2.0 * v[0]) / 60.0


def muscl(limiter: Limiter) -> Faces:
    """Lines through the cells, with limited slopes; each cell has one, for both of its faces."""

    def faces(q: Cells) -> tuple[Symbol, Symbol]:
        below, above = (0.5 * limiter(q(k) - q(k - 1), q(k + 1) - q(k)) for k in (-1, 0))
        return q(-1) + below, q(0) - above

    return faces


def weno5(v: Sequence[Symbol], rule: Rule = AVERAGES) -> Symbol:
    """The value half a cell beyond the middle one of five, weights by Jiang and Shu."""
    rough = [r + _EPSILON for r in _roughness(v)]
    # In units of the smoothest one: the squares then neither overflow nor all vanish.
    least = np.minimum(np.minimum(rough[0], rough[1]), rough[2])
    return _weighted(v, [_square(least / r) for r in rough], rule)


def weno_z(v: Sequence[Symbol], rule: Rule = AVERAGES) -> Symbol:
    """The value half a cell beyond the middle one of five, weights of WENO-Z."""
    rough = _roughness(v)
    whole = abs(rough[0] - rough[2])
    floor = _SHARE * whole + _TINY
    return _weighted(v, [1.0 + _square(whole / (r + floor)) for r in rough], rule)


def _roughness(v: Sequence[Symbol]) -> list[Symbol]:
    """How far each of the three parabolas is from a constant."""
    bends = [13.0 / 12.0 * _square(v[k] - 2.0 * v[k + 1] + v[k + 2]) for k in range(3)]
    slopes = (v[0] - 4.0 * v[1] + 3.0 * v[2], v[1] - v[3], 3.0 * v[2] - 4.0 * v[3] + v[4])
    return [b + 0.25 * _square(s) for b, s in zip(bends, slopes, strict=True)]


def _weighted(v: Sequence[Symbol], factors: Sequence[Symbol], rule: Rule) -> Symbol:
    """The mean of the face values of three parabolas, weights being factors of the linear ones."""
    parabolas = [
        (a * v[k] + b * v[k + 1] + c * v[k + 2]) / rule.divisor
        for k, (a, b, c) in enumerate(rule.weights)
    ]
    w = [share * factor for share, factor in zip(rule.shares, factors, strict=True)]
    value = w[0] * parabolas[0] + w[1] * parabolas[1] + w[2] * parabolas[2]
    return value / (w[0] + w[1] + w[2])


def _square(value: Symbol) -> Symbol:
    return value * value


def both_sides(extrapolate: Extrapolation, reach: int) -> Faces:
    """Face values from an extrapolation of 2 reach - 1 cells and its mirror image."""

    def faces(q: Cells) -> tuple[Symbol, Symbol]:
        left = extrapolate([q(k) for k in range(-reach, reach - 1)])
        right = extrapolate([q(-1 - k) for k in range(-reach, reach - 1)])
        return left, right

    return faces


#: Order, reach and extrapolation of those that need no limiter.
_PLAIN: Mapping[str, tuple[int, int, Extrapolation]] = MappingProxyType(
    {
        "constant": (1, 1, constant),
        "upwind3": (3, 2, upwind3),
        "upwind5": (5, 3, upwind5),
        "weno5": (5, 3, weno5),
        "weno_z": (5, 3, weno_z),
    }
)
#: Names that `reconstruction` takes.
RECONSTRUCTIONS = ("constant", "upwind3", "upwind5", "muscl", "weno5", "weno_z")


def reconstruction(name: str, limiter: str = "van_leer") -> Reconstruction:
    """The reconstruction of this name; the limiter is for "muscl". Local.

    Raises
    ------
    SolverError
        There is no such reconstruction or limiter.
    """
    if name not in RECONSTRUCTIONS:
        raise da.SolverError(
            f"The reconstruction '{name}' is unknown; use one of {', '.join(RECONSTRUCTIONS)}."
        )
    if limiter not in LIMITERS:
        raise da.SolverError(
            f"The limiter '{limiter}' is unknown; use one of {', '.join(LIMITERS)}."
        )
    if name == "muscl":
        return Reconstruction(name, 2, 2, muscl(LIMITERS[limiter]))
    order, reach, extrapolate = _PLAIN[name]
    return Reconstruction(name, order, reach, both_sides(extrapolate, reach))
