"""The shallow-water equations over a bed, as one cell sees them, for any number of axes.

Symbols: h depth, q = h u discharge per width, b bed, e = h + b surface, g gravity, d widths of a
cell. On a face, l and r stand for its low and its high side.

Surface, depth and velocity are reconstructed; the bed on a face is what lies between the first
two. At a face whose sides have different beds the water above the higher one meets (hydrostatic
reconstruction: Audusse, E., Bouchut, F., Bristeau, M.-O., Klein, R., Perthame, B. (2004) SIAM J.
Sci. Comput. 25(6), 2050-2065):

    h*l = max(0, el - max(bl, br)),  h*r = max(0, er - max(bl, br)).

Momentum that leaves a cell is counted against the pressure of its own side. What is left of the
pressures on both ends of a cell and of the force of its bed is then

    g / 2 (h_low + h_high) (e_high - e_low),

the mean depth times the fall of the surface: a level surface feels no force, to the bit.

Depths stay positive whatever the waves do: see `_passed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.hyperbolic import reconstruction
from solvers.hyperbolic.kernels import Cell, Equation
from solvers.shallow_water.riemann import RIEMANN

Symbol = Any
Symbols = Sequence[Any]

#: What the faces of a cell let out of its water at most; the rest is room for rounding.
_OUTLET = 0.9999


@dataclass(frozen=True)
class Face:
    """What passes a face, and what its sides look like.

    Attributes
    ----------
    mass : symbol
    out, into : list of symbols
        Momentum that leaves through it from the low and that arrives on the high side, each against
        the pressure of that side; one entry per axis.
    depth, surface : pair of symbols
        Of the low and of the high side.
    """

    mass: Symbol
    out: list[Symbol]
    into: list[Symbol]
    depth: tuple[Symbol, Symbol]
    surface: tuple[Symbol, Symbol]


@dataclass(frozen=True)
class ShallowWater(Equation):
    """Depth and discharges of one flow.

    Parameters
    ----------
    reconstruction, limiter, riemann : str
    """

    reconstruction: str
    limiter: str
    riemann: str

    arrays = ("bathymetry",)
    scalars = ("g", "thin")

    def rate(self, now: Symbols, cell: Cell) -> list[Symbol]:
        total: list[Symbol] = []
        g = cell.scalars["g"]
        for axis, r in enumerate(cell.reciprocals):
            low, high = (self._face(now, cell, axis, n) for n in (0, 1))
            fall = (low.depth[1] + high.depth[0]) * (high.surface[0] - low.surface[1])
            lost = [high.mass - low.mass]
            lost += [out - into for out, into in zip(high.out, low.into, strict=True)]
            lost[1 + axis] = lost[1 + axis] + 0.5 * g * fall
            lost = [r * value for value in lost]
            total = [a + b for a, b in zip(total, lost, strict=True)] if total else lost
        return [-value for value in total]

    def speed(self, values: Symbols, cell: Cell) -> Symbol:
        h, *q = values
        g, thin = cell.scalars["g"], cell.scalars["thin"]
        return hurry(h, [velocity(h, p, thin) for p in q], cell.reciprocals, g)[1]

    def settle(self, values: Symbols, cell: Cell) -> list[Symbol]:
        """Thin water forgets momentum that its velocity does not show."""
        h, *q = values
        thin = cell.scalars["thin"]
        return [h, *(da.where(h < thin, h * velocity(h, p, thin), p) for p in q)]

    def _face(self, now: Symbols, cell: Cell, axis: int, n: int) -> Face:
        """The face between the cells n - 1 and n along an axis."""
        faces = reconstruction(self.reconstruction, self.limiter).faces
        g, thin, b = cell.scalars["g"], cell.scalars["thin"], cell.arrays["bathymetry"]
        h, *q = now

        def depth(k: int) -> Symbol:
            return h.shift(axis, n + k)

        def surface(k: int) -> Symbol:
            return depth(k) + b.shift(axis, n + k)

        def speed(i: int) -> Callable[[int], Symbol]:
            return lambda k: velocity(depth(k), q[i].shift(axis, n + k), thin)

        hl, hr = (np.maximum(value, 0.0) for value in faces(depth))
        el, er = faces(surface)
        order = [axis, *(i for i in range(len(q)) if i != axis)]  # the normal first
        ul, ur = zip(*(faces(speed(i)) for i in order), strict=True)
        bed = np.maximum(el - hl, er - hr)
        wet_l, wet_r = np.maximum(el - bed, 0.0), np.maximum(er - bed, 0.0)
        mass, normal, *across = RIEMANN[self.riemann](wet_l, ul, wet_r, ur, g)
        # The flux is in excess of the mean pressure of both sides; `out` and `into` of their own.
        excess = 0.25 * g * ((wet_r - wet_l) * (wet_r + wet_l))
        out, into = [normal + excess, *across], [normal - excess, *across]
        back = [order.index(i) for i in range(len(order))]
        shares = [
            _share(axis, depth(k), [speed(i)(k) for i in range(len(q))], cell) for k in (-1, 0)
        ]
        mass = _passed(mass, hl * shares[0], hr * shares[1])
        return Face(mass, [out[i] for i in back], [into[i] for i in back], (hl, hr), (el, er))


def velocity(h: Symbol, q: Symbol, thin: Symbol) -> Symbol:
    """Q / h, but in water less than `thin` deep, where it goes to zero with h (desingularised:
    Chertock, A., Cui, S., Kurganov, A., Wu, T. (2015) Int. J. Numer. Meth. Fluids 78(6), 355-383).
    """
    square = h * h
    return 2.0 * h * q / (square + np.maximum(square, thin * thin))


def hurry(h: Symbol, u: Symbols, reciprocals: Symbols, g: Symbol) -> tuple[list[Symbol], Symbol]:
    """(|u| + sqrt(g h)) / d along each axis, and their sum."""
    wave = np.sqrt(g * h)
    parts = [(abs(v) + wave) * r for v, r in zip(u, reciprocals, strict=True)]
    return parts, sum(parts[1:], start=parts[0])


def _share(axis: int, h: Symbol, u: Symbols, cell: Cell) -> Symbol:
    """The mass, per depth at a face, that a cell gives at most through a face normal to an axis.

    A cell of mean depth h has the depths h_low + h_high = 2 h at its faces along each axis. If each
    face passes no more than h_face / 2 times the share of that axis, what is left is not negative;
    the waves of an axis have their share in the Courant number of all. Waves within the Courant
    number 1/2 pass no more by themselves.
    """
    if len(u) == 1:
        return 0.5 * _OUTLET / (cell.reciprocals[0] * cell.dt)
    parts, total = hurry(h, u, cell.reciprocals, cell.scalars["g"])
    part = parts[axis] / da.where(total > 0.0, total, 1.0)
    return 0.5 * _OUTLET * part / (cell.reciprocals[axis] * cell.dt)


def _passed(mass: Symbol, low: Symbol, high: Symbol) -> Symbol:
    """The mass that passes a face whose sides give at most so much."""
    return np.minimum(np.maximum(mass, -high), low)
