"""Where a grid lies: its axes, the positions on them and the part of this rank, and how one grid
lies to another. Nothing here communicates or makes arrays.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np

from distarray.arraylike import GridMarker, HostArray
from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.errors import GridError, shown
from distarray.geometry import AxisGeometry, along
from distarray.topology import Topology


class GridGeometry(GridMarker):
    """Base of `Grid` alone, which documents the attributes. All methods are Local."""

    def _lie(
        self, axes: tuple[str, ...], geometry: tuple[AxisGeometry, ...], topology: Topology
    ) -> None:
        """Set the attributes."""
        self.axes = axes
        self.geometry = geometry
        self.decomposition: Decomposition = topology.decomposition
        self.communicator: Communicator = topology.communicator
        self.shape = self.decomposition.shape
        self.ndim = len(self.shape)
        self.periodic = self.decomposition.periodic
        self.bounds = tuple((axis.low, axis.high) for axis in geometry)
        self.spacing = tuple(axis.spacing for axis in geometry)
        self.ranks = self.decomposition.ranks
        self.rank = self.communicator.rank
        self.size = self.communicator.size
        self.coords = topology.coords
        self.is_root = self.rank == 0
        owned = self.decomposition.owned(self.coords)
        self.local_slices = owned.slices()
        self.local_shape = owned.shape
        self._relations: weakref.WeakKeyDictionary[GridGeometry, int | None] = (
            weakref.WeakKeyDictionary()
        )

    # Names and positions.

    def staggered(self, location: str | None) -> tuple[bool, ...]:
        """For each axis whether a location lies on its points. Local.

        Raises
        ------
        GridError
            No location of this grid.
        """
        letters = (
            ()
            if location is None
            else tuple(location)
            if isinstance(location, str)
            else (location,)
        )
        if any(letter not in self.axes for letter in letters) or len(set(letters)) != len(letters):
            raise GridError(
                f"Location {shown(location)} must be None or distinct axes of "
                f"{', '.join(self.axes)} in one string, such as '{self.axes[0]}' for "
                f"faces or '{''.join(self.axes)}' for nodes."
            )
        return tuple(name in letters for name in self.axes)

    def location_of(self, staggered: Sequence[bool]) -> str | None:
        """The name of a location: None for cell centres. Local."""
        return (
            "".join(name for name, flag in zip(self.axes, staggered, strict=True) if flag) or None
        )

    def axis_number(self, axis: int | str) -> int:
        """The number of an axis given by number or name. Local.

        Raises
        ------
        GridError
            No axis of this grid.
        """
        if isinstance(axis, str) and axis in self.axes:
            return self.axes.index(axis)
        if (
            isinstance(axis, int | np.integer)
            and not isinstance(axis, bool)
            and -self.ndim <= axis < self.ndim
        ):
            return int(axis) % self.ndim
        raise GridError(
            f"Axis {shown(axis)} is none of this grid's; use 0 to {self.ndim - 1} or one of "
            f"{', '.join(self.axes)}."
        )

    def coordinates(self, location: str | None = None) -> tuple[HostArray, ...]:
        """Positions of the points owned here, one float64 array per axis, shaped to broadcast.
        Local.
        """
        return self._coordinates(self.staggered(location))

    def _coordinates(self, staggered: tuple[bool, ...]) -> tuple[HostArray, ...]:
        owned = self.decomposition.owned(self.coords, staggered)
        found = []
        for axis, geometry in enumerate(self.geometry):
            indices = np.arange(owned.start[axis], owned.stop[axis], dtype=np.int64)
            found.append(along(geometry.positions(indices, staggered[axis]), axis, self.ndim))
        return tuple(found)

    # Other grids.

    def same_as(self, other: GridGeometry) -> bool:
        """Whether arrays of both grids lie alike: equal cells, positions, cuts and ranks. Local."""
        return self is other or self.relation(other) == 0

    def relation(self, other: GridGeometry) -> int | None:
        """Level of another grid: 0 the same, 1 the next finer, -1 the next coarser, None unrelated.
        Local.
        """
        try:
            return self._relations[other]
        except KeyError:
            return self._relations.setdefault(other, self._find_relation(other))

    def _find_relation(self, other: GridGeometry) -> int | None:
        if (
            self.communicator != other.communicator
            or self.ndim != other.ndim
            or self.axes != other.axes
        ):
            return None
        if self._lies_as(other.decomposition, other.geometry):
            return 0
        if self._is_half_of(other):
            return 1
        return -1 if other._is_half_of(self) else None

    def kept_axes(self, other: GridGeometry) -> tuple[int, ...]:
        """The axes along which this grid and another have the same cells, equally cut. Local."""
        mine = zip(self.decomposition.axes, self.geometry, strict=True)
        others = zip(other.decomposition.axes, other.geometry, strict=True)
        return tuple(
            axis
            for axis, ((cuts, cells), (their_cuts, their_cells)) in enumerate(
                zip(mine, others, strict=True)
            )
            if cuts == their_cuts and cells.same_as(their_cells)
        )

    def _is_half_of(self, fine: GridGeometry) -> bool:
        """Whether each of its axes has the cells of the other grid or joins two of them."""
        kept = self.kept_axes(fine)
        return self.decomposition.periodic == fine.decomposition.periodic and all(
            axis in kept
            or (
                self.decomposition.axes[axis] == fine.decomposition.axes[axis].coarsen(2)
                and self.geometry[axis].same_as(fine.geometry[axis].coarsen(2))
            )
            for axis in range(self.ndim)
        )

    def _lies_as(self, decomposition: Decomposition, geometry: tuple[AxisGeometry, ...]) -> bool:
        return self.decomposition == decomposition and all(
            mine.same_as(axis) for mine, axis in zip(self.geometry, geometry, strict=True)
        )
