"""Where a side of the domain lies in an array: index arithmetic, distances and coordinates. Pure.

Along the axis of a face everything is counted *inward*: position 0 is the value nearest to the face
(the point on the face where the location has one), 1, 2, ... follow inside, and -m is boundary
layer m. Low and high sides then obey the same formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from distarray.geometry import AxisGeometry, Floats, Integers, along
from distarray.layout import Layout
from distarray.regions import Box

LOW, HIGH = -1, 1


@dataclass(frozen=True, eq=False)
class Face:
    """One side of a domain that is not periodic there, as an array with this layout sees it."""

    layout: Layout
    axes: tuple[AxisGeometry, ...]
    names: tuple[str, ...]
    axis: int
    side: int

    @property
    def name(self) -> str:
        """The side as users write it: "x-" or "x+"."""
        return f"{self.names[self.axis]}{'-' if self.side == LOW else '+'}"

    @property
    def on_face(self) -> bool:
        """Whether points of the array lie on the face."""
        return self.layout.staggered[self.axis]

    @property
    def points(self) -> int:
        """Points of the array along the axis."""
        return self.layout.points[self.axis]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Global shape of an array over the face."""
        return self.layout.points[: self.axis] + self.layout.points[self.axis + 1 :]

    @property
    def position(self) -> float:
        geometry = self.axes[self.axis]
        return geometry.low if self.side == LOW else geometry.high

    def index(self, inward: int) -> int:
        """Global index along the axis of an inward position."""
        return inward if self.side == LOW else self.points - 1 - inward

    def mirror(self, layer: int) -> int:
        """Inward position of the mirror point of a layer."""
        return layer - 1 + self.on_face

    def distance(self, inward: int) -> float:
        """Distance from the face of a value inside."""
        geometry = self.axes[self.axis]
        if geometry.spacing is not None:
            return (inward if self.on_face else inward + 0.5) * geometry.spacing
        index = np.array([self.index(inward)], np.int64)
        return abs(float(geometry.positions(index, self.on_face)[0]) - self.position)

    def mirror_distance(self, layer: int) -> float:
        """Distance between a layer and its mirror point."""
        spacing = self.axes[self.axis].spacing
        if spacing is not None:
            return (2 * layer if self.on_face else 2 * layer - 1) * spacing
        return 2.0 * self.distance(self.mirror(layer))

    def whole(self) -> Region:
        """The owned points of the whole face, wherever they lie."""
        return Region(self, Box.of_shape(self.layout.points), 0, (0,) * self.layout.ndim)


def ends(layout: Layout, owned: Box, axis: int, side: int) -> bool:
    """Whether the domain ends where a block of these owned points ends."""
    if owned.empty or layout.decomposition.periodic[axis]:
        return False
    return owned.start[axis] == 0 if side == LOW else owned.stop[axis] == layout.points[axis]


def points_at(layout: Layout, axis: int, side: int) -> int:
    """Points along an axis that the ranks at this side own."""
    partition = layout.decomposition.axes[axis]
    part = 0 if side == LOW else partition.parts - 1
    extra = layout.points[axis] - partition.cells if part == partition.parts - 1 else 0
    return partition.size(part) + extra


@dataclass(frozen=True, eq=False)
class Region:
    """The part of a face that one block fills: `layers` layers over a box of global indices.

    The extent of `box` along the face's axis is not used. `origin` is the global index of the first
    element of the block's memory.
    """

    face: Face
    box: Box
    layers: int
    origin: tuple[int, ...]

    @cached_property
    def plane(self) -> tuple[int, ...]:
        """Shape of one layer, 1 along the face's axis."""
        shape, axis = self.box.shape, self.face.axis
        return (*shape[:axis], 1, *shape[axis + 1 :])

    @property
    def shape(self) -> tuple[int, ...]:
        axis = self.face.axis
        return (*self.plane[:axis], self.layers, *self.plane[axis + 1 :])

    def inner(self, memory: Any, first: int, count: int) -> Any:
        """View of `count` values from inward position `first` on, going inward."""
        return self._strip(memory, first, count, 1)

    def outer(self, memory: Any) -> Any:
        """View of the layers 1, 2, ..., going outward."""
        return self._strip(memory, -1, self.layers, -1)

    def _strip(self, memory: Any, first: int, count: int, inward: int) -> Any:
        face, slices = self.face, list(self.box.slices(self.origin))
        step = -face.side * inward
        start = face.index(first) - self.origin[face.axis]
        stop = start + count * step
        slices[face.axis] = slice(start, None if stop < 0 else stop, step)
        return memory[tuple(slices)]

    def indices(self, axis: int) -> Integers:
        return np.arange(self.box.start[axis], self.box.stop[axis], dtype=np.int64)

    @cached_property
    def coordinates(self) -> tuple[Floats, ...]:
        """Coordinates of the face points, one broadcastable array per axis."""
        face, ndim = self.face, self.box.ndim
        found = []
        for axis in range(ndim):
            if axis == face.axis:
                positions = np.array([face.position], np.float64)
            else:
                positions = face.axes[axis].positions(
                    self.indices(axis), face.layout.staggered[axis]
                )
            found.append(along(positions, axis, ndim))
        return tuple(found)

    def pick(self, values: Any) -> Any:
        """Values of an array over the face at the points of this region, 1 along the face's axis.

        Halo cells take the value of the point they stand for: of the domain's point around a
        periodic axis, of the mirror point in the boundary layers of another axis.
        """
        face = self.face
        chosen = [self._points_for(axis) for axis in range(self.box.ndim) if axis != face.axis]
        picked = values[np.ix_(*chosen)] if chosen else values
        return np.expand_dims(picked, face.axis)

    def _points_for(self, axis: int) -> Integers:
        layout, indices = self.face.layout, self.indices(axis)
        points, on_face = layout.points[axis], layout.staggered[axis]
        if layout.decomposition.periodic[axis]:
            return indices % points
        indices = np.where(indices < 0, -1 - indices + on_face, indices)
        indices = np.where(indices >= points, 2 * points - 1 - on_face - indices, indices)
        return np.clip(indices, 0, points - 1)

    def distances(self) -> Floats:
        """Distance of each layer from its mirror point, along the face's axis."""
        return self.layer_distances(self.layers)

    def layer_distances(self, layers: int) -> Floats:
        found = [self.face.mirror_distance(layer) for layer in range(1, layers + 1)]
        return along(np.array(found, np.float64), self.face.axis, self.box.ndim)
