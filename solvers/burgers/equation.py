"""Fluxes of Burgers' equation. Functions are Local, called while a kernel is traced.

Along its own axis each component is a conservation law with the flux f(u) = u^2 / 2. Through a face
goes that of the exact solution of the Riemann problem (Godunov, S. K. (1959) Mat. Sb. 47, 271-306),
for a convex flux with its least value at 0

    f(left, right) = max(f(max(left, 0)), f(min(right, 0))),

so that a velocity that rises through 0 opens a fan and no shock. Along another axis j it is
carried, u_j du_i/dx_j, which is no divergence: with the face values u_j = (left + right) / 2 and
u_i of the upwind side, and what a cell holds taken off, so that a uniform velocity keeps its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.hyperbolic import Cell, Equation, beside, reconstruction, total

Symbol = Any
Symbols = Sequence[Any]


@dataclass(frozen=True)
class Burgers(Equation):
    """A velocity that carries itself.

    Attributes
    ----------
    scheme, limiter : str
        Of `BurgersConfig`.
    viscous : bool
        Whether there is the scalar nu.
    """

    scheme: str
    limiter: str
    viscous: bool

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("nu",) if self.viscous else ()

    def rate(self, now: Symbols, cell: Cell) -> Symbols:
        axes = range(cell.ndim)
        parts = [[self._along(now, i, j, cell) for j in axes] for i in axes]
        return [total(along) for along in parts]

    def _along(self, now: Symbols, i: int, j: int, cell: Cell) -> Symbol:
        """What transport and viscosity along the axis j do to the component i."""
        u, r = now[i], cell.reciprocals[j]
        if i == j:
            low, high = (self.flux(u, j, n) for n in (0, 1))
        else:
            low, high = (self._carried(u, now[j], j, n) for n in (0, 1))
        if not self.viscous:
            return r * (low - high)
        second = (u.shift(j, 1) + u.shift(j, -1)) - 2.0 * u[...]
        return r * (low - high) + cell.scalars["nu"] * r * r * second

    def speed(self, values: Symbols, cell: Cell) -> Symbol:
        parts = [r * abs(u) for u, r in zip(values, cell.reciprocals, strict=True)]
        if self.viscous:
            nu = cell.scalars["nu"]
            parts = [p + 2.0 * nu * r * r for p, r in zip(parts, cell.reciprocals, strict=True)]
        return total(parts)

    def flux(self, u: Symbol, axis: int, n: int) -> Symbol:
        """Of u^2 / 2 through the low side of the cell n further along the axis."""
        left, right = self._faces(u, axis, n)
        forth, back = np.maximum(left, 0.0), np.minimum(right, 0.0)
        return 0.5 * np.maximum(forth * forth, back * back)

    def _carried(self, u: Symbol, carrier: Symbol, axis: int, n: int) -> Symbol:
        """What the carrier brings through that side, beside what the cell here holds."""
        low, high = self._faces(carrier, axis, n)
        speed = 0.5 * (low + high)
        left, right = self._faces(u, axis, n)
        return speed * (da.where(speed > 0.0, left, right) - u[...])

    def _faces(self, u: Symbol, axis: int, n: int) -> tuple[Symbol, Symbol]:
        return reconstruction(self.scheme, self.limiter).faces(beside(u, axis, n))
