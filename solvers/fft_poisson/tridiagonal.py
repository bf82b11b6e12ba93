"""The second difference on lines of a stretched axis, plus a number for each line, solved directly.

With h the widths of the cells and d the distances between the centres beside their low sides, the
rows of

    (L u)[i] = -((u[i+1] - u[i]) / d[i+1] - (u[i] - u[i-1]) / d[i]) / h[i]

are tridiagonal; on a periodic axis the last unknown is eliminated first (condensation), which
leaves a tridiagonal system with two right-hand sides. Elimination needs no pivots: the matrices are
diagonally dominant. It runs along the line for many lines at once, so that a row of the loop is one
operation on contiguous memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
#: What multiplies the value before, the value itself and the one after, in each row.
Rows = tuple[Array, Array, Array]


class StretchedAxis:
    """`L + s` on an axis with cells of these widths.

    Parameters
    ----------
    widths : array
    ends : pair of bool, or None
        Whether the value at the low and high end is zero, else the normal derivative; None on a
        periodic axis.
    """

    def __init__(self, widths: Array, ends: tuple[bool, bool] | None) -> None:
        self.widths = h = widths
        self.length = len(h)
        between = 0.5 * (h + np.roll(h, 1))  # distance of each centre to the one before
        links = 1.0 / between
        self._periodic = ends is None and self.length > 1
        self._low, self._high = -links / h, -np.roll(links, -1) / h
        self._diagonal = -(self._low + self._high)
        if not self._periodic:
            # A cell beyond an end is as wide as the one inside it, its value the same or opposite.
            values = (False, False) if ends is None else ends
            self._diagonal[0] += self._low[0] + 2.0 * values[0] / h[0] ** 2
            self._diagonal[-1] += self._high[-1] + 2.0 * values[1] / h[-1] ** 2
        self._rows = self._low, self._diagonal, self._high
        self._fixed = ends is not None and any(ends)
        self._pivots: tuple[Array, Array] | None = None

    @property
    def closed(self) -> bool:
        """Whether L maps constants to zero."""
        return not self._fixed

    def matrix(self) -> Array:
        """L"""
        i = np.arange(self.length)
        found = np.diag(self._diagonal)
        for step, weights in ((-1, self._low), (1, self._high)):
            inside = (i + step >= 0) & (i + step < self.length) | self._periodic
            np.add.at(found, (i[inside], (i[inside] + step) % self.length), weights[inside])
        return found

    def solve(self, lines: Array, shift: Array) -> Array:
        """The solution u of `(L + s) u = f`; lines run along the first axis, each with its s.

        Where L + s maps constants to zero the mean of f is dropped, and that of u is zero.
        """
        singular = np.broadcast_to((shift == 0.0) & (not self._fixed), lines.shape[1:])
        if singular.any():
            lines = lines.copy()
            lines[:, singular] -= self._mean(lines[:, singular])
        if self._periodic:
            found = self._condensed(lines, shift, singular)
        else:
            pivots = self._kept_pivots(self._rows, shift, singular)
            found = _eliminated(self._rows, [lines], pivots, singular)[0]
        if singular.any():
            found[:, singular] -= self._mean(found[:, singular])
        return found

    def _mean(self, lines: Array) -> Array:
        """The mean of each line, weighted by the widths of the cells; summed in the order of cells,
        however many lines there are.
        """
        total = np.add.accumulate(self.widths[:, np.newaxis] * lines, axis=0)[-1]
        return np.asarray(total / self.widths.sum())

    def _kept_pivots(self, rows: Rows, shift: Array, singular: Array) -> Array:
        """The pivots, which only change with the numbers of the lines."""
        if self._pivots is None or not np.array_equal(self._pivots[0], shift):
            self._pivots = shift.copy(), _pivots(rows, shift, singular)
        return self._pivots[1]

    def _condensed(self, lines: Array, shift: Array, singular: Array) -> Array:
        last = self.length - 1
        coupled = np.zeros_like(lines[:last])
        coupled[0] -= self._low[0]
        coupled[-1] -= self._high[last - 1]
        no = np.zeros_like(singular)
        rows = self._low[:last], self._diagonal[:last], self._high[:last]
        pivots = self._kept_pivots(rows, shift, no)
        p, q = _eliminated(rows, [lines[:last], coupled], pivots, no)
        low, high = self._low[last], self._high[last]
        left = lines[last] - high * p[0] - low * p[-1]
        pivot = self._diagonal[last] + shift + high * q[0] + low * q[-1]
        end = np.where(singular, 0.0, left / np.where(singular, 1.0, pivot))
        return np.concatenate((p + q * end, end[np.newaxis]))


def _pivots(rows: Rows, shift: Array, singular: Array) -> Array:
    """The diagonal of each line after elimination; 1 at the end of singular ones."""
    low, diagonal, high = rows
    found = diagonal.reshape(-1, *(1,) * shift.ndim) + shift
    for i in range(1, len(diagonal)):
        found[i] -= low[i] * (high[i - 1] / found[i - 1])
    found[-1] = np.where(singular, 1.0, found[-1])
    return found


def _eliminated(rows: Rows, rhs: list[Array], pivots: Array, singular: Array) -> list[Array]:
    """Solutions of one tridiagonal system per line for several right-hand sides (Thomas, L. H.,
    1949); a singular one, whose last pivot is zero, with zero as its last value.
    """
    low, _, high = rows
    factors = high.reshape(-1, *(1,) * (pivots.ndim - 1)) / pivots
    found = [np.empty_like(f) for f in rhs]
    for u, f in zip(found, rhs, strict=True):
        u[0] = f[0] / pivots[0]
        for i in range(1, len(low)):
            u[i] = (f[i] - low[i] * u[i - 1]) / pivots[i]
        u[-1] = np.where(singular, 0.0, u[-1])
        for i in range(len(low) - 2, -1, -1):
            u[i] -= factors[i] * u[i + 1]
    return found
