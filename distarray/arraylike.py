"""What tells arrays, profiles and grids from other values, in modules below their classes.

The classes derive from the markers here, so that a module of any layer can ask what it was given
without importing, or guessing from attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.grid import Grid
    from distarray.profile import Profile

#: An array in the host's memory, of any shape and element type.
HostArray = np.ndarray[Any, Any]


class ArrayMarker:
    """Base of `DistArray` alone."""

    __slots__ = ()


class ProfileMarker:
    """Base of `Profile` alone."""

    __slots__ = ()


class GridMarker:
    """Base of `Grid` alone."""

    __slots__ = ()


class DeviceMarker:
    """Base of `DeviceArray` alone: the arrays of backends whose memory is not the host's."""

    __slots__ = ()


def is_array(value: Any) -> TypeGuard[DistArray]:
    """Whether a value is a DistArray. Local."""
    return isinstance(value, ArrayMarker)


def is_profile(value: Any) -> TypeGuard[Profile]:
    """Whether a value is a Profile. Local."""
    return isinstance(value, ProfileMarker)


def is_grid(value: Any) -> TypeGuard[Grid]:
    """Whether a value is a Grid. Local."""
    return isinstance(value, GridMarker)


def is_block(value: Any) -> bool:
    """Whether a value is an array in the memory of this process, on the host or a device. Local."""
    return isinstance(value, np.ndarray | DeviceMarker)


def read_only(values: Any) -> Any:
    """A view of an array, on the host or a device, that cannot be written. Local."""
    if not isinstance(values, np.ndarray):
        return values.readonly()
    view = values.view()
    view.flags.writeable = False
    return view
