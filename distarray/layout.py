"""How one array lies over the ranks: a decomposition with location, halo, components and element
type. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from distarray.decomposition import Decomposition
from distarray.regions import Box

Component = tuple[int, ...]  # index of a component, or the first numbers of one
Offsets = tuple[int, ...]  # from a point to another, in cells per grid axis
Direction = tuple[int, ...]  # one of -1, 0, 1 per axis: which neighbour a halo region belongs to
Widths = tuple[int, ...]  # of a halo region, in cells per axis; 0 where the direction is 0

#: What is read of an array's halo: widths of the region for each component and direction.
HaloReads = dict[tuple[Component, Direction], Widths]


@dataclass(frozen=True)
class Layout:
    """Shape and placement of an array; equal layouts mean equal blocks on every rank.

    `staggered` says for each axis whether values sit on its points (the low side of each cell)
    instead of in cells. `components` come before the grid axes.
    """

    decomposition: Decomposition
    staggered: tuple[bool, ...]
    halo: tuple[int, ...]
    components: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        """Number of grid axes; components are not counted."""
        return self.decomposition.ndim

    @cached_property
    def points(self) -> tuple[int, ...]:
        """Global number of points along each grid axis."""
        return self.decomposition.points(self.staggered)

    @cached_property
    def typical(self) -> tuple[int, ...]:
        """Points along each grid axis that ranks own on average, rounded down."""
        return tuple(n // r for n, r in zip(self.points, self.decomposition.ranks, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape, components first."""
        return self.components + self.points

    def owned(self, rank: int) -> Box:
        """Global indices of the grid axes that a rank owns; empty beyond the process grid."""
        return self.decomposition.owned(self.decomposition.coords(rank), self.staggered)

    def padded(self, rank: int) -> Box:
        """The owned box grown by the halo: what the rank's memory holds."""
        return self.owned(rank).grow(self.halo)
