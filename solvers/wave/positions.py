"""Sources and receivers anywhere between the cells: a few cells around each, with weights.

A receiver is the sum of weights times pressures, a source spreads its strength with the same
weights, so that both are adjoint. Along each axis the weights are products of those of

- "polynomial": the polynomial through as many cells as the order of the scheme has, 8 at most.
  They fulfil as many moment conditions, so that waves keep the order of the scheme (Walden, J.
  (1999) Numer. Methods Partial Differ. Eq. 15(4), 507-520);
- "linear": the two cells around the position: second order;
- "sinc": a sinc with a Kaiser window of radius 4 cells, `b = 6.31` (Hicks, G. J. (2002) Geophysics
  67(1), 156-166): waves of 4 cells and more are represented to 1.4e-3, an error that does not
  vanish with the spacing.

Cells beyond a side are those that its condition mirrors, with the sign of the mirror.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import distarray as da

Floats = np.ndarray[Any, np.dtype[np.float64]]

INTERPOLATIONS = ("polynomial", "linear", "sinc")
_RADIUS, _SHAPE = 4, 6.31


def cells_around(kind: str, order: int) -> int:
    """The number of cells along an axis that a position reaches."""
    return {"polynomial": min(order, 8), "linear": 2, "sinc": 2 * _RADIUS}[kind]


def weights(kind: str, order: int, part: float) -> list[float]:
    """The weights of the cells around a position that lies `part` of a spacing, in [0, 1), above a
    centre; the first is of the cell `cells_around / 2 - 1` before that centre.
    """
    count = cells_around(kind, order)
    offsets = range(1 - count // 2, count // 2 + 1)
    if kind == "sinc":
        return [_windowed(part - k) for k in offsets]
    # Exact until the end: mirrored positions have mirrored weights.
    t = Fraction(part)
    return [float(math.prod((t - j) / (k - j) for j in offsets if j != k)) for k in offsets]


def _windowed(distance: float) -> float:
    inside = max(1.0 - (distance / _RADIUS) ** 2, 0.0)
    window = np.i0(_SHAPE * math.sqrt(inside)) / np.i0(_SHAPE)
    return float(np.sinc(distance) * window)


@dataclass(frozen=True)
class Axis:
    """What happens beyond the ends of an axis."""

    cells: int
    low: float
    spacing: float
    periodic: bool
    signs: tuple[float, float]

    def around(self, position: float, kind: str, order: int) -> list[tuple[int, float]]:
        """Cells and their weights, those of weight 0 left out."""
        place = (position - self.low) / self.spacing - 0.5
        base = math.floor(place)
        found = weights(kind, order, place - base)
        first = base + 1 - len(found) // 2
        inside = [self._inside(first + k, w) for k, w in enumerate(found)]
        return [(cell, weight) for cell, weight in inside if weight != 0.0]

    def _inside(self, cell: int, weight: float) -> tuple[int, float]:
        """A cell of the axis that stands for this one, and its weight."""
        if self.periodic:
            return cell % self.cells, weight
        if cell < 0:
            return -1 - cell, weight * self.signs[0]
        if cell >= self.cells:
            return 2 * self.cells - 1 - cell, weight * self.signs[1]
        return cell, weight


def _corners(
    axes: Sequence[Axis], point: Sequence[float], kind: str, order: int
) -> tuple[Floats, Floats]:
    """The centres of all cells around a point, shape (cells, axes), and their weights; those of the
    last axis lie together.
    """
    shares, centres = np.ones(1), list[Floats]()
    for axis, position in zip(axes, point, strict=True):
        cells, factors = zip(*axis.around(position, kind, order), strict=True)
        shares = np.multiply.outer(shares, np.array(factors)).ravel()
        centres.append(axis.low + (np.array(cells) + 0.5) * axis.spacing)
    mesh = np.meshgrid(*centres, indexing="ij")
    return np.stack([values.ravel() for values in mesh], axis=1), shares


class Positions:
    """Points between the cells of a grid. Creation is Collective.

    Parameters
    ----------
    grid : Grid
    axes : sequence of Axis
    points : sequence of positions
    kind : one of `INTERPOLATIONS`
    order : int
        Of the scheme.
    """

    def __init__(
        self,
        grid: da.Grid,
        axes: Sequence[Axis],
        points: Sequence[Sequence[float]],
        *,
        kind: str,
        order: int,
    ) -> None:
        self._count = len(points)
        found = [_corners(axes, point, kind, order) for point in points]
        counts = [len(shares) for _, shares in found]
        self._owners = np.repeat(np.arange(len(points)), counts)
        self._shares = np.concatenate([np.empty(0), *(shares for _, shares in found)])
        empty = np.empty((0, len(axes)))
        self._points = grid.points(np.concatenate([empty, *(centres for centres, _ in found)]))
        self._factors: Floats | float = 1.0

    def __len__(self) -> int:
        return self._count

    def scale(self, factors: da.DistArray | float) -> None:
        """Multiply what is added to each cell by its own factor. Collective."""
        if isinstance(factors, da.DistArray):
            self._factors = self._points.sample(factors, order=0)
        else:
            self._factors = factors

    def sample(self, p: da.DistArray) -> Floats:
        """The value at each point, on every rank. Collective."""
        return self._summed(self._points.sample(p, order=0))

    def add(self, p: da.DistArray, strengths: Floats) -> None:
        """Spread strengths, each over the volume of a cell. Collective."""
        self._points.add(p, self._amounts(strengths), order=0)

    def recording(self) -> da.Recording:
        """A stage of `iterate` that samples in each step, for `recorded`. Local."""
        return self._points.recording(order=0)

    def recorded(self, recording: da.Recording) -> list[Floats]:
        """The value at each point after each step, on every rank. Collective."""
        return [self._summed(values) for values in recording.read()]

    def adding(self, strengths: Callable[[int], Floats]) -> da.Adding:
        """A stage of `iterate` that adds strengths of the step number. Local."""
        return self._points.adding(lambda number: self._amounts(strengths(number)), order=0)

    def _summed(self, values: Floats) -> Floats:
        total = np.zeros(self._count)
        np.add.at(total, self._owners, self._shares * values)
        return total

    def _amounts(self, strengths: Floats) -> Floats:
        return np.asarray(strengths[self._owners] * self._shares * self._factors)
