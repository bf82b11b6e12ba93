"""Where cells and points lie in space: formulas of the global index, equal on all ranks. Pure.

On a uniform axis the centre of cell i is `lo + (i + 0.5) * spacing` and point i is `lo + i *
spacing`. On a stretched axis the face positions are given and a centre is the mean of its two
faces. Indices outside the domain wrap on a periodic axis (they stand for cells of the domain) and
are mirrored at the boundary otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, eq=False)
class AxisGeometry:
    """One axis of `cells` cells between `low` and `high`; `faces` holds cells + 1 positions if it
    is stretched.
    """

    cells: int
    low: float
    high: float
    periodic: bool
    faces: Floats | None = None

    def same_as(self, other: AxisGeometry) -> bool:
        """Whether both axes have the same cells at the same positions."""
        mine = (self.cells, self.low, self.high, self.periodic)
        if mine != (other.cells, other.low, other.high, other.periodic):
            return False
        if self.faces is None or other.faces is None:
            return self.faces is other.faces
        return np.array_equal(self.faces, other.faces)

    @property
    def spacing(self) -> float | None:
        """Width of a cell; None on a stretched axis."""
        return None if self.faces is not None else self._width

    @property
    def _width(self) -> float:
        """Width of a cell of a uniform axis."""
        return (self.high - self.low) / max(self.cells, 1)

    def point_positions(self, indices: Integers) -> Floats:
        """float64 positions of points (low sides of cells) with these global indices."""
        if self.periodic:
            indices = indices % max(self.cells, 1)
        if self.faces is None:
            return np.asarray(self.low + indices * self._width)
        # Mirror indices outside [0, cells] at the nearer end: point -m lies as far outside as point
        # m lies inside.
        inside = np.clip(np.where(indices < 0, -indices, indices), 0, None)
        beyond = inside > self.cells
        inside = np.clip(np.where(beyond, 2 * self.cells - inside, inside), 0, self.cells)
        positions: Floats = self.faces[inside]
        positions = np.where(beyond, 2 * self.high - positions, positions)
        return np.where(indices < 0, 2 * self.low - positions, positions)

    def centre_positions(self, indices: Integers) -> Floats:
        """float64 positions of the centres of cells with these global indices."""
        if self.periodic:
            indices = indices % max(self.cells, 1)
        if self.faces is None:
            return np.asarray(self.low + (indices + 0.5) * self._width)
        return 0.5 * (self.point_positions(indices) + self._high_sides(indices))

    def widths(self, indices: Integers) -> Floats:
        """float64 widths of cells with these global indices."""
        if self.periodic:
            indices = indices % max(self.cells, 1)
        if self.faces is None:
            return np.full(indices.shape, self._width)
        return self._high_sides(indices) - self.point_positions(indices)

    def centre_distances(self, indices: Integers) -> Floats:
        """float64 distances between the centres beside points with these global indices."""
        if self.faces is None:
            return np.full(indices.shape, self._width)
        return 0.5 * (self.widths(indices - 1) + self.widths(indices))

    def positions(self, indices: Integers, staggered: bool) -> Floats:
        return self.point_positions(indices) if staggered else self.centre_positions(indices)

    def spacings(self, indices: Integers, staggered: bool) -> Floats:
        return self.centre_distances(indices) if staggered else self.widths(indices)

    def _high_sides(self, indices: Integers) -> Floats:
        """Positions of the high sides of cells whose indices are already wrapped."""
        if self.faces is not None and self.periodic:
            return self.faces[indices + 1]
        return self.point_positions(indices + 1)

    def coarsen(self, factor: int) -> AxisGeometry:
        """The axis whose cells join `factor` cells of this one; a last cell that joins fewer is
        narrower.
        """
        cells = -(-self.cells // factor)
        if self.faces is None and self.cells % factor == 0:
            return AxisGeometry(cells, self.low, self.high, self.periodic)
        indices = np.minimum(np.arange(cells + 1, dtype=np.int64) * factor, self.cells)
        if self.faces is not None:
            faces = self.faces[indices]
        else:
            faces = self.point_positions(indices)
            faces[-1] = self.high
        return AxisGeometry(cells, self.low, self.high, self.periodic, faces)


def along(
    values: np.ndarray[Any, np.dtype[Number]], axis: int, ndim: int
) -> np.ndarray[Any, np.dtype[Number]]:
    """A 1-D array turned along one of `ndim` axes, so that it broadcasts with arrays over them."""
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))
