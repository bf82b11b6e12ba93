"""Values at points between the cells: probes that sample fields, sources that are spread onto them.

The weights of a point are those of linear interpolation along each axis between the two values
around it; beyond the outermost values of an axis that is not periodic the line through the two
outermost ones is continued. `add` uses the weights of `sample`, so both are adjoint.

The host does this work. On a device it is given a copy of the smallest box around the points that a
rank owns, of a single point a few values.
"""

from __future__ import annotations

import itertools
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arguments import check_fits, host_values, require_alike
from distarray.array import DistArray
from distarray.arraylike import HostArray, is_array
from distarray.complexmath import scaled
from distarray.deferred import settle_readers
from distarray.errors import ArrayError, shown
from distarray.geometry import AxisGeometry
from distarray.point_stages import Adding, Recording
from distarray.regions import Box

if TYPE_CHECKING:
    from distarray.grid import Grid

#: Bytes that a rank sums over ranks at a time, and how many layouts the cells are kept of.
_SUMMED, _MOST_KEPT = 1 << 25, 8

#: Along one axis: the two indices around each point, and their weights.
AxisWeights = tuple[tuple[HostArray, HostArray], tuple[HostArray, HostArray]]
#: What `Points.cells` finds.
Cells = tuple[list[HostArray], HostArray]


class Points:
    """Points in the domain of a grid, the same on every rank. Made by `grid.points(coords)`;
    Collective.

    Attributes
    ----------
    grid : Grid
    positions : float64 array, shape (points, axes), wrapped into the domain along periodic axes

    Raises
    ------
    ArrayError
        Coordinates of another shape, or outside the domain along an axis that is not periodic.
    CommunicationError
        Coordinates that differ between ranks.
    """

    def __init__(self, grid: Grid, coords: Any) -> None:
        self.grid = grid
        found = host_values(coords, "Coordinates of points")
        check_fits(found, np.dtype(np.float64), "Coordinates of points")
        positions = np.array(found, np.float64)
        if positions.ndim == 1 and grid.ndim in (1, len(positions)):
            positions = positions.reshape(-1, grid.ndim)
        if positions.ndim != 2 or positions.shape[1] != grid.ndim:
            raise ArrayError(
                f"Coordinates of points must have shape (points, {grid.ndim}), got "
                f"{positions.shape}; give one row per point."
            )
        # Before they are looked at, so that what is wrong with them is wrong on all ranks.
        given = f"{len(positions)} points (checksum {zlib.crc32(positions.tobytes()):08x})"
        require_alike(grid.communicator, "The call of grid.points", given)
        for axis, geometry in enumerate(grid.geometry):
            positions[:, axis] = _inside(positions[:, axis], geometry, grid.axes[axis])
        positions.flags.writeable = False
        self.positions = positions
        #: For each location and order the weights along each axis.
        self._known: dict[tuple[tuple[bool, ...], int], list[AxisWeights]] = {}
        #: The cells of the arrays that were asked for last, by location, order and owned box.
        self._cells: dict[tuple[tuple[bool, ...], int, Box], Cells] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def sample(self, array: DistArray, order: int = 1) -> HostArray:
        """The values of an array at the points, on every rank. Collective.

        Parameters
        ----------
        array : DistArray
            Of any location and components.
        order : 0 or 1
            0 takes the nearest value, 1 interpolates linearly.

        Returns
        -------
        ndarray, shape components + (points,), float64 or complex128 (of the array's dtype for order
        0)

        Raises
        ------
        ArrayError
            No array, one of another grid, or another order.
        """
        self.require(array)
        cells = self.cells(array, order)
        rows = self.joined(array, self.owned_values(array, cells)[None], order, cells)
        return np.asarray(rows[0])

    def add(self, array: DistArray, values: Any, order: int = 1) -> None:
        """Spread values onto an array: add weight * value / cell volume around each point.
        Collective.

        Parameters
        ----------
        array : DistArray
            Of any location; changed in place.
        values : number or array_like that broadcasts to components + (points,)
            Strengths, the same on every rank: the integral of the array over the domain grows by
            their sum.
        order : 0 or 1
            As for `sample`.

        Raises
        ------
        ArrayError
            As for `sample`; values that do not broadcast, or that the element type cannot hold.
        """
        self.require(array)
        index, mine = self.cells(array, order)
        amounts = self.amounts(array, values, order)
        own = [i[mine] for i in index]
        window = _window(array, own)
        settle_readers(array.block)
        target = _values_in(array, window)
        held = array.block.backend.to_host(target)
        local = _inside_of(window, own)
        for component in np.ndindex(array.components):
            np.add.at(held[component], local, amounts[component][mine])
        if held is not target:
            target[...] = held
        array._written()

    def adding(self, values: Any, order: int = 1) -> Adding:
        """A stage of `iterate` that adds values to an array in each step. Local.

        Parameters
        ----------
        values : function of the step number, or array_like of one row for each step
            What `add` takes, for step m = 0, 1, ...; a function must not look at the arrays, as it
            is called once for each step, before all steps that share a pass over memory.
        order : 0 or 1
            As for `sample`.

        Raises
        ------
        ArrayError
            Another order, or a single number.

        Examples
        --------
        >>> import distarray as da
        >>> grid = da.Grid((8,), periodic=True)
        >>> @da.stencil
        ... def shift(u, new):
        ...     new[0] = u[-1]
        >>> source = grid.points([[0.0625]]).adding(lambda m: 0.125 * m)
        >>> u = da.iterate([(shift, (0, 1)), (source, (1,))], grid.zeros(), grid.zeros(), steps=3)
        >>> u.gather()
        array([2., 1., 0., 0., 0., 0., 0., 0.])
        """
        return Adding(self, values, order)

    def recording(self, order: int = 1) -> Recording:
        """A stage of `iterate` that records the values of an array in each step. Local; its `read`
        is Collective, and gives them with one sum over ranks for many steps.

        Parameters
        ----------
        order : 0 or 1
            As for `sample`.

        Raises
        ------
        ArrayError
            Another order.

        Examples
        --------
        >>> import distarray as da
        >>> grid = da.Grid((8,), periodic=True)
        >>> @da.stencil
        ... def shift(u, new):
        ...     new[0] = u[-1]
        >>> record = grid.points([[0.0625]]).recording()
        >>> u = grid.from_function(lambda x: x)
        >>> step = [(shift, (0, 1)), (record, (1,))]
        >>> newest = da.iterate(step, u, grid.zeros(), steps=3)
        >>> record.read()
        array([[0.9375],
               [0.8125],
               [0.6875]])
        """
        return Recording(self, order)

    # ---- cells around the points, for stages

    def cells(self, array: DistArray, order: int) -> Cells:
        """The global indices of all cells around the points, point by point and corners within a
        point, so that each cell gets its parts in the same order on any process grid; and which of
        them this rank owns. Local.
        """
        weights = self._weights(array, order)
        key = (array.layout.staggered, int(order), array.block.owned)
        found = self._cells.get(key)
        if found is None:
            places = _places(weights)
            index = [np.stack(columns, axis=1).ravel() for columns in zip(*places, strict=True)]
            if len(self._cells) >= _MOST_KEPT:
                self._cells.pop(next(iter(self._cells)))
            found = self._cells[key] = index, _owned_of(array, index)
            for kept in (*index, found[1]):
                kept.flags.writeable = False
        return found

    def amounts(self, array: DistArray, values: Any, order: int) -> HostArray:
        """What is added to each of the cells, in the array's dtype, shape components + (cells,).
        Local.
        """
        given = host_values(values, f"Values added to {array!r}")
        check_fits(given, array.dtype, f"Values added to {array!r}")
        strengths = self._broadcast(given, array.components)
        weights = self._weights(array, order)
        parts = [self._part(array, weights, corner, strengths) for corner in _corners(weights)]
        return np.stack(parts, axis=-1).reshape(*array.components, -1).astype(array.dtype)

    def owned_values(self, array: DistArray, cells: Cells) -> HostArray:
        """The values of those of these cells that this rank owns, in order, shape components +
        (cells,). Local.
        """
        index, mine = cells
        own = [i[mine] for i in index]
        window = _window(array, own)
        values = array.block.backend.to_host(_values_in(array, window))
        return np.array(values[_inside_of(window, own)])

    def joined(self, array: DistArray, rows: HostArray, order: int, cells: Cells) -> HostArray:
        """The values at the points of several `owned_values`, shape rows + components + (points,).
        Collective; all cells of so many rows at a time are summed over ranks as take little memory.
        """
        _, mine = cells
        each = array.dtype.itemsize * math.prod(array.components) * len(mine)
        count = max(1, _SUMMED // max(1, each))
        parts = [
            self._joined(array, rows[first : first + count], order, mine)
            for first in range(0, len(rows), count)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _joined(self, array: DistArray, rows: HostArray, order: int, mine: HostArray) -> HostArray:
        weights = self._weights(array, order)
        corners = _corners(weights)
        found = np.zeros((*rows.shape[:-1], len(mine)), array.dtype)
        found[..., mine] = rows
        found = _sum_over_ranks(array, found).reshape(*rows.shape[:-1], len(self), len(corners))
        if order == 0:
            return found[..., 0]
        total = np.zeros(found.shape[:-1], np.result_type(array.dtype, np.float64))
        for number, corner in enumerate(corners):
            total += _scaled(found[..., number], _weight(weights, corner))
        return total

    def _broadcast(self, values: HostArray, components: tuple[int, ...]) -> HostArray:
        shape = (*components, len(self))
        try:
            return np.broadcast_to(values, shape)
        except ValueError:
            raise ArrayError(
                f"Values of shape {values.shape} do not broadcast to components and points, "
                f"{shape}; give one per point."
            ) from None

    def _part(
        self,
        array: DistArray,
        weights: list[AxisWeights],
        corner: tuple[int, ...],
        strengths: HostArray,
    ) -> HostArray:
        """What is added at one corner of all points."""
        share = _weight(weights, corner)
        for axis, ((indices, _), end) in enumerate(zip(weights, corner, strict=True)):
            spacings = self.grid.geometry[axis].spacings
            share = share / spacings(indices[end], array.layout.staggered[axis])
        return _scaled(strengths, share)

    def require(self, array: Any) -> None:
        """Refuse what is no array on the grid of these points. Local."""
        if not is_array(array) or array.grid is None or not self.grid.same_as(array.grid):
            raise ArrayError(
                f"{array!r} lies on another grid than these points; use grid.points of its grid."
                if is_array(array)
                else f"Points take arrays of their grid, got {shown(array)}; create one on it."
            )

    def require_order(self, order: Any) -> None:
        """Refuse orders that are not known. Local."""
        if not isinstance(order, int | float | np.integer | np.floating) or order not in (0, 1):
            raise ArrayError(
                f"order={shown(order)} of points is not known; use 0 (nearest) or 1 (linear)."
            )

    def _weights(self, array: DistArray, order: int) -> list[AxisWeights]:
        self.require_order(order)
        key = (array.layout.staggered, int(order))
        if key not in self._known:
            find = _linear if order else _nearest
            layout = array.layout
            self._known[key] = [
                find(self.positions[:, axis], geometry, layout.points[axis], layout.staggered[axis])
                for axis, geometry in enumerate(self.grid.geometry)
            ]
        return self._known[key]


def _inside(positions: HostArray, axis: AxisGeometry, name: str) -> HostArray:
    finite = np.isfinite(positions)
    if axis.periodic and finite.all():
        wrapped = axis.low + np.mod(positions - axis.low, axis.high - axis.low)
        return np.where(wrapped < axis.high, wrapped, axis.low)
    within = (positions >= axis.low) & (positions <= axis.high)
    outside = ~finite if axis.periodic else ~within
    if outside.any():
        number = int(np.argmax(outside))
        raise ArrayError(
            f"Point {number} lies at {name} = {positions[number]}, outside the domain from "
            f"{axis.low} to {axis.high}; "
            f"leave it out{'' if axis.periodic else ' or make the axis periodic'}."
        )
    return positions


def _linear(positions: HostArray, axis: AxisGeometry, count: int, staggered: bool) -> AxisWeights:
    known = axis.positions(np.arange(count), staggered)
    if count == 1 and not axis.periodic:
        index = np.zeros(len(positions), np.int64)
        return (index, index), (np.ones(len(positions)), np.zeros(len(positions)))
    low = np.searchsorted(known, positions, side="right") - 1
    if not axis.periodic:
        low = np.clip(low, 0, count - 2)
        left, right = known[low], known[low + 1]
        high = low + 1
    else:
        period = axis.high - axis.low
        high = (low + 1) % count
        left = np.where(low < 0, known[-1] - period, known[low])
        right = np.where(low + 1 >= count, known[0] + period, known[(low + 1) % count])
        low = low % count
    upper = (positions - left) / (right - left)
    return (low, high), (1.0 - upper, upper)


def _nearest(positions: HostArray, axis: AxisGeometry, count: int, staggered: bool) -> AxisWeights:
    (low, high), (_, upper) = _linear(positions, axis, count, staggered)
    index = np.where(upper < 0.5, low, high)
    return (index, index), (np.ones(len(positions)), np.zeros(len(positions)))


def _corners(weights: list[AxisWeights]) -> list[tuple[int, ...]]:
    """Which end of each axis; an axis whose two indices agree for all points has one."""
    ends = [(0,) if low is high else (0, 1) for (low, high), _ in weights]
    return list(itertools.product(*ends))


def _places(weights: list[AxisWeights]) -> list[list[HostArray]]:
    """The indices of all points at each corner."""
    return [
        [indices[end] for (indices, _), end in zip(weights, corner, strict=True)]
        for corner in _corners(weights)
    ]


def _weight(weights: list[AxisWeights], corner: tuple[int, ...]) -> HostArray:
    parts = [pair[end] for (_, pair), end in zip(weights, corner, strict=True)]
    product = parts[0]
    for part in parts[1:]:
        product = product * part
    return product


def _owned_of(array: DistArray, index: list[HostArray]) -> HostArray:
    """Which of these points this rank owns."""
    owned = array.block.owned
    inside = np.ones(len(index[0]), np.bool_)
    for i, low, high in zip(index, owned.start, owned.stop, strict=True):
        inside &= (i >= low) & (i < high)
    return inside


def _window(array: DistArray, own: list[HostArray]) -> Box:
    """The smallest box around these points, all owned by this rank: what the host needs."""
    if not len(own[0]):
        return Box(array.block.owned.start, array.block.owned.start)
    return Box(tuple(int(i.min()) for i in own), tuple(int(i.max()) + 1 for i in own))


def _values_in(array: DistArray, box: Box) -> Any:
    """The part of the owned values in a box of global indices, a view."""
    return array._owned[(..., *box.slices(array.block.owned.start))]


def _inside_of(box: Box, own: list[HostArray]) -> tuple[Any, ...]:
    """Indices of these points in values over a box."""
    return (..., *(i - start for i, start in zip(own, box.start, strict=True)))


def _sum_over_ranks(array: DistArray, found: HostArray) -> HostArray:
    """Join values of which each rank knows some and has zero for the others; exact, as only one is
    not zero.
    """
    if array.communicator.size == 1:
        return found
    if found.dtype == np.bool_:
        return array.communicator.allreduce(found.view(np.uint8), "max").view(np.bool_)
    return array.communicator.allreduce(found, "sum")


def _scaled(values: HostArray, factor: HostArray) -> HostArray:
    """Values times real factors, real and imaginary parts alike."""
    if values.dtype.kind != "c":
        return values * factor
    return np.asarray(scaled(values, factor))
