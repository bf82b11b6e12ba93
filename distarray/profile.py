"""Profiles: values along one axis of a grid, the same across the others. Kernels read them with one
offset.

A profile is small, so every rank is given, and keeps, all of its values on the host; `memory` holds
those of the cells owned here and of the halo around them on the grid's device.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arguments import check_dtype, check_halo, host_values
from distarray.arraylike import HostArray, ProfileMarker, is_array, is_profile
from distarray.elementwise import require_same_device
from distarray.errors import ArrayError, GridError
from distarray.geometry import along
from distarray.signatures import require_call

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.grid import Grid

_serial = itertools.count()


class Profile(ProfileMarker):
    """A 1-D array along an axis of a grid; made by `grid.profile(axis, values)`, read-only.

    Attributes
    ----------
    grid : Grid
    profile_axis : int
    values : read-only host array of all values, on every rank
    key : tuple
        Different for all profiles.
    staggered : bool
        Whether there is a value per point (cells + 1 of them) instead of per cell.
    memory : array of the grid's device
        Values of the cells or points owned here with `halo` more on both sides: those around a
        periodic axis, and repeated end values outside other axes.
    start : int
        Global index of the first cell owned here, which lies at `memory[halo]`.
    """

    ndim = 1
    #: A profile has no conditions.
    boundary = None

    def __init__(self, grid: Grid, axis: int, values: Any, halo: int | None) -> None:
        self.grid = grid
        self.profile_axis = axis
        self.periodic = grid.periodic[axis]
        #: Identifies this profile, for plans kept per argument.
        self.key = (next(_serial), "profile")
        self.values = _values(grid, axis, values)
        self.staggered = len(self.values) != grid.shape[axis]
        (self.halo,) = check_halo(grid.halo[axis] if halo is None else halo, 1)
        flags = tuple(self.staggered and a == axis for a in range(grid.ndim))
        owned = grid.decomposition.owned(grid.coords, flags)
        self.start, self._stop = owned.start[axis], owned.stop[axis]
        indices = np.arange(self.start - self.halo, self._stop + self.halo)
        self.memory = grid.backend.asarray(
            self.values.take(indices, mode="wrap" if grid.periodic[axis] else "clip")
        )

    @property
    def shape(self) -> tuple[int]:
        return (len(self.values),)

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.values.dtype
        return found

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    @property
    def device(self) -> str:
        return self.grid.device

    @property
    def local_slices(self) -> tuple[slice]:
        return (slice(self.start, self._stop),)

    @property
    def local(self) -> HostArray:
        """Read-only view, on the host, of the values at the cells or points owned here. Local."""
        return self.values[self.start : self._stop]

    def gather(self, root: int | None = None) -> HostArray | None:
        """All values, on every rank or on `root` alone. Local."""
        return self.values.copy() if root in (None, self.grid.rank) else None

    def broadcast_local(self, array: DistArray) -> Any:
        """The values at the points of `array` owned here, on the device, shaped to broadcast with
        its owned values. Local.

        Raises
        ------
        ArrayError
            The array is of another grid, or of another location along the axis.
        """
        axis = self.profile_axis
        require_same_device(self, array)
        if (
            array.grid is None
            or not self.grid.same_as(array.grid)
            or array.layout.points[axis] != len(self.values)
        ):
            raise ArrayError(
                f"{self!r} does not fit {array!r}; both must be of one grid, and of one location "
                "along the axis."
            )
        own = slice(self.halo, self.halo + self._stop - self.start)
        return along(self.memory[own], axis, self.grid.ndim)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        return np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __repr__(self) -> str:
        axis = self.grid.axes[self.profile_axis]
        return f"Profile(axis='{axis}', shape={self.shape}, dtype={self.dtype})"


def _values(grid: Grid, axis: int, given: Any) -> HostArray:
    cells = grid.shape[axis]
    if callable(given):
        require_call(given, "The function of profile", (grid.axes[axis],), kind=GridError)
        given = given(grid.geometry[axis].centre_positions(np.arange(cells)))
        given = np.full(cells, given) if np.ndim(given) == 0 else given
    elif is_array(given) or is_profile(given):
        given = given.gather()
    subject = f"Values of a profile along axis {grid.axes[axis]}"
    values: HostArray = np.array(host_values(given, subject, GridError))
    values = values.astype(check_dtype(values.dtype), copy=False)
    allowed = (cells,) if grid.periodic[axis] else (cells, cells + 1)
    if values.ndim != 1 or len(values) not in allowed:
        raise GridError(
            f"A profile along axis {grid.axes[axis]} needs {' or '.join(map(str, allowed))} "
            f"values, got shape {values.shape}; give one per cell or point."
        )
    values.flags.writeable = False
    return values
