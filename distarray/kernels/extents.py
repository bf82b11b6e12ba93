"""What a rank holds of a kernel's arguments: where they can be read and where written."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distarray.boundary.face import HIGH, LOW
from distarray.layout import Component
from distarray.profile import Profile
from distarray.regions import Box
from distarray.stencil.coverage import Extent, Extents

if TYPE_CHECKING:
    from distarray.array import DistArray


def extents_of(arguments: Sequence[Any], *, whole: bool = False) -> Extents:
    """What this rank (or one owning the whole domain) holds of each component of the arguments."""

    @functools.cache
    def extent(number: int, component: Component) -> Extent:
        argument = arguments[number]
        if isinstance(argument, Profile):
            return _profile_extent(argument, whole)
        return _array_extent(argument, component, whole)

    return extent


def _array_extent(array: DistArray, component: Component, whole: bool) -> Extent:
    block, layout, boundary = array.block, array.layout, array.boundary
    decomposition = layout.decomposition
    owned, start = Box.of_shape(block.owned.shape), block.owned.start
    ends = [(True, True)] * layout.ndim
    if whole:
        owned, start = Box.of_shape(layout.points), (0,) * layout.ndim
    elif (coords := decomposition.coords(block.rank)) is None:
        return Extent(start, owned, owned, owned)
    else:
        ends = [(c == 0, c == n - 1) for c, n in zip(coords, decomposition.ranks, strict=True)]
    widths = [
        tuple(
            halo
            if decomposition.periodic[axis]
            or not at_end[number]
            or (boundary is not None and boundary.covers(axis, side, component))
            else 0
            for number, side in enumerate((LOW, HIGH))
        )
        for axis, (halo, at_end) in enumerate(zip(layout.halo, ends, strict=True))
    ]
    around = [
        halo if wraps and parts == 1 else 0
        for halo, wraps, parts in zip(
            layout.halo, decomposition.periodic, decomposition.ranks, strict=True
        )
    ]
    available = owned.grow([low for low, _ in widths], [high for _, high in widths])
    return Extent(start, owned, owned.grow(around), available)


def _profile_extent(profile: Profile, whole: bool) -> Extent:
    """As of an array; a profile needs no message, so all that is available is at hand."""
    axis, grid = profile.profile_axis, profile.grid
    (kept,) = profile.local_slices
    count, start, inner = kept.stop - kept.start, profile.start, [profile.periodic] * 2
    if whole:
        count, start = len(profile.values), 0
    elif grid.coords is not None:
        inner = [
            profile.periodic or grid.coords[axis] > 0,
            profile.periodic or grid.coords[axis] < grid.ranks[axis] - 1,
        ]
    owned = Box((0,), (count,))
    available = owned.grow((profile.halo * inner[0],), (profile.halo * inner[1],))
    return Extent((start,), owned, available, available)


def local_free_boxes(
    array: DistArray, component: Component, *, whole: bool = False
) -> tuple[Box, ...]:
    """The points of a component that kernels may write, in local indices: those that no condition
    fixes.
    """
    block, boundary = array.block, array.boundary
    if not whole:
        boxes = (block.owned,) if not boundary else boundary.global_free_boxes(block, component)
        return tuple(box.shift([-start for start in block.owned.start]) for box in boxes)
    box = Box.of_shape(array.layout.points)
    for axis in range(box.ndim):
        low, high = (
            bool(boundary is not None and boundary.fixed(axis, side, component))
            for side in (LOW, HIGH)
        )
        box = box.with_axis(axis, box.start[axis] + low, box.stop[axis] - high)
    return (box,)
