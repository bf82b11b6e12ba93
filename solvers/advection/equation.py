"""Fluxes of linear transport. Functions are Local, called while a kernel is traced.

Through a face goes v times the value that the upwind side reconstructs there.

*Corner transport* ("ctu"; Colella, P. (1990) J. Comput. Phys. 87(1), 171-200, in three dimensions
Saltzman, J. (1994) J. Comput. Phys. 115(1), 153-168): what passes a face in a time step is the mean
over the volume that lies upwind of it. The line in the upwind cell gives its middle, and what has
come in through the cell's other faces corrects it,

    q(a) = u + (1 - c_a) s_a / 2 - sum_b c_b / 2 (difference along b of q(b))

with c the Courant number along an axis and s the slope; on three axes the q(b) themselves are
corrected along the third axis, by a third. What a source adds in half a step comes on top. At
Courant number 1 that is an exact shift.

*Positivity*: the outflow of a cell leaves by its faces in proportion to v / h. The value on a face
is held between 0 and u / C, u that of the upwind cell and C its dt times the sum of v / h of all
outflows: then no face takes more than its share of what the cell holds, and no Euler step empties
one. For C < 1 a smooth density that is far from 0 is not touched. It is the condition of Hu, X. Y.,
Adams, N. A., Shu, C.-W. (2013) J. Comput. Phys. 242, 169-180, with shares that follow the flow.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.box import AXES
from solvers.hyperbolic import Cell, Equation, beside, moved, reconstruction, total
from solvers.hyperbolic.limiters import LIMITERS

Symbol = Any
Symbols = Sequence[Any]
Offset = tuple[int, ...]

#: Keeps the last bits of a sum of shares from exceeding the whole, in single precision too.
_SHARE = 1.0 - 1e-5
_TINY = 1e-30


@dataclass(frozen=True)
class Transport(Equation):
    """One density, carried.

    Attributes
    ----------
    scheme, limiter : str
        Of `AdvectionConfig`.
    signs : tuple of int, optional
        The sign of the velocity along each axis, the same everywhere, whose values are the scalars
        vx, vy, vz; None for a velocity in arrays on faces, of these names.
    positivity, fed : bool
        Whether outflows are limited; whether there is a source, in an array of this name.
    """

    scheme: str
    limiter: str
    ndim: int
    signs: tuple[int, ...] | None
    positivity: bool
    fed: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of the velocity, along each axis."""
        return tuple(f"v{axis}" for axis in AXES[: self.ndim])

    @property
    def arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.names if self.signs is None else ()) + (("source",) if self.fed else ())

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.signs is None else self.names

    def rate(self, now: Symbols, cell: Cell) -> Symbols:
        (u,) = now
        (leaving,) = cell.divergence(lambda axis, n: [self._flux(u, cell, axis, n)])
        return [cell.arrays["source"][...] - leaving if self.fed else -leaving]

    def speed(self, values: Symbols, cell: Cell) -> Symbol:
        del values
        terms = [
            r * (abs(v) if self.signs is not None else np.maximum(abs(v[...]), abs(v.shift(a, 1))))
            for a, (v, r) in enumerate(zip(self._velocity(cell), cell.reciprocals, strict=True))
        ]
        # With positivity no more than all that a cell holds is let out of it, see `_held`.
        if self.scheme == "ctu" and not self.positivity:
            return functools.reduce(np.maximum, terms)
        return total(terms)

    def _velocity(self, cell: Cell) -> Symbols:
        found = cell.arrays if self.signs is None else cell.scalars
        return [found[name] for name in self.names]

    # ---- one face

    def _flux(self, u: Symbol, cell: Cell, axis: int, n: int) -> Symbol:
        """The velocity times the value on the low side of the cell n further along the axis."""
        velocity = self._velocity(cell)[axis]
        face = moved((0,) * self.ndim, axis, n)
        if self.signs is None:
            v = velocity.shift(axis, n)
            left, right = reconstruction(self.scheme, self.limiter).faces(beside(u, axis, n))
            left = self._held(left, u, cell, moved(face, axis, -1))
            right = self._held(right, u, cell, face)
            return v * da.where(v > 0.0, left, right)
        if not self.signs[axis]:
            return 0.0 * u[...]
        forth = self.signs[axis] > 0
        if self.scheme == "ctu":
            value = _Corners(u, cell, self).value(axis, face, frozenset({axis}))
            if self.fed:
                upwind = moved(face, axis, -1) if forth else face
                value = value + 0.5 * cell.dt * cell.arrays["source"][upwind]
        else:
            sides = reconstruction(self.scheme, self.limiter).faces(beside(u, axis, n))
            value = sides[0 if forth else 1]
        return velocity * self._held(value, u, cell, moved(face, axis, -1) if forth else face)

    def _held(self, value: Symbol, u: Symbol, cell: Cell, upwind: Offset) -> Symbol:
        """The value on a face, of which the upwind cell takes its share."""
        if not self.positivity:
            return value
        most = _SHARE * u[upwind] / np.maximum(cell.dt * self._outflow(cell, upwind), _TINY)
        return np.minimum(np.maximum(value, 0.0), most)

    def _outflow(self, cell: Cell, at: Offset) -> Symbol:
        """The sum of v / h through which a cell is emptied."""
        parts = []
        for axis, (v, r) in enumerate(zip(self._velocity(cell), cell.reciprocals, strict=True)):
            if self.signs is not None:
                parts.append(r * abs(v))
            else:
                out = np.maximum(v[moved(at, axis, 1)], 0.0) - np.minimum(v[at], 0.0)
                parts.append(r * out)
        return total(parts)


class _Corners:
    """Values on faces, carried along for half a time step."""

    def __init__(self, u: Symbol, cell: Cell, equation: Transport) -> None:
        self._u, self._signs = u, equation.signs or ()
        self._limiter = LIMITERS[equation.limiter]
        self._courant = [
            cell.dt * r * cell.scalars[name]
            for r, name in zip(cell.reciprocals, equation.names, strict=True)
        ]

    def value(self, axis: int, face: Offset, seen: frozenset[int]) -> Symbol:
        """On the low side of a cell along an axis, corrected along the axes not yet seen."""
        forth = self._signs[axis] > 0
        at = moved(face, axis, -1) if forth else face
        half = 0.5 * self._slope(axis, at)
        value = self._u[at] + ((1.0 - self._courant[axis]) * half if forth
                               else (-1.0 - self._courant[axis]) * half)  # fmt: skip
        # By a half where one axis is seen, by a third where two are.
        share = 1.0 / (1 + len(seen))
        others = [n for n, sign in enumerate(self._signs) if sign and n not in seen]
        came = []
        for other in others:
            low, high = (self.value(other, moved(at, other, n), seen | {other}) for n in (0, 1))
            came.append(share * self._courant[other] * (high - low))
        return value - total(came) if came else value

    def _slope(self, axis: int, at: Offset) -> Symbol:
        low, here, high = (self._u[moved(at, axis, n)] for n in (-1, 0, 1))
        return self._limiter(here - low, high - here)
