"""The grid: a box of cells divided over ranks, its geometry, and the arrays that live on it."""

# The options of arrays may be given by position, as in NumPy.
# ruff: noqa: PLR0917

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distarray.arguments import (
    assign_broadcast,
    axis_names,
    check_components,
    check_dtype,
    check_halo,
    check_shape,
    fewer_ranks,
    geometry_of,
    require_alike,
    require_function,
)
from distarray.array import DistArray
from distarray.backends.base import Backend
from distarray.block import Block
from distarray.boundary import Boundary
from distarray.decomposition import Decomposition, choose_ranks, per_axis, truth
from distarray.elementwise import require_array
from distarray.errors import GridError, shown
from distarray.geometry import AxisGeometry
from distarray.grid_geometry import GridGeometry
from distarray.layout import Layout
from distarray.points import Points
from distarray.profile import Profile
from distarray.topology import Topology
from distarray.transports.choice import place
from distarray.tuning import store


class Grid(GridGeometry):
    """A box of cells divided over ranks. Collective.

    Parameters
    ----------
    shape : sequence of int
        Cells along each axis.
    bounds : sequence of (low, high), optional
        Ends of each axis; (0.0, 1.0) by default. The centre of cell i is low + (i + 0.5) * spacing.
    periodic : bool or sequence of bool
        Axes whose last cell is followed by the first.
    halo : int or sequence of int
        Width of the halo of arrays made on this grid.
    ranks : sequence of int, optional
        Process grid, 0 for a free axis; by default the one with the least halo surface, or one
        that `python -m distarray tune --apply grid` has kept for this machine.
    comm : mpi4py communicator, optional
        Ranks that share the grid; it is duplicated. None: the world under a launcher, else this
        process.
    device : "auto", "cpu", "cuda" or "simulated"
        Where arrays live and kernels run. "auto" is what the variable DISTARRAY_DEVICE names, else
        a GPU if one works on every rank, else the CPU.
    transport : "auto", "nccl", "device", "staged" or "host"
        How messages between devices travel: by NCCL, by an MPI that takes device memory, or by MPI
        through pinned or ordinary host memory. "auto" is what the variable DISTARRAY_TRANSPORT
        names, else the first of these that works; the choice is printed once. Not used on the CPU.
    coordinates : mapping of axis name to face positions, optional
        Stretched axes: cells + 1 increasing positions each.
    axes : sequence of str
        Names of the axes, one letter each; those beyond the shape are not used.

    Attributes
    ----------
    shape, ndim, bounds, periodic, halo, axes
        As given, one entry per axis.
    spacing : tuple of float or None
        Width of the cells, None on a stretched axis.
    decomposition : Decomposition
    ranks, coords : tuple of int
        The process grid and the position of this rank in it (coords is None on a rank that owns
        nothing).
    rank, size : int
        This rank and the number of ranks of the communicator.
    is_root : bool
    local_slices, local_shape
        Global index ranges of the cells owned here, and their number along each axis.
    device : str
    geometry : tuple of AxisGeometry
    communicator, topology, backend
        What arrays are made with.

    Raises
    ------
    GridError
        A shape, bound, axis name or face position that makes no grid.
    DecompositionError
        A process grid that does not fit the shape, the halo or the number of ranks.
    BackendError
        The device is not available on some rank.
    CommunicationError
        The transport does not work, or ranks were given different arguments.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((4, 2), bounds=[(0.0, 2.0), (0.0, 1.0)])
    >>> grid.spacing
    (0.5, 0.5)
    >>> grid.from_function(lambda x, y: x + 0 * y).sum()
    np.float64(8.0)
    """

    def __init__(
        self,
        shape: Sequence[int] | int,
        *,
        bounds: Sequence[tuple[float, float]] | None = None,
        periodic: bool | Sequence[bool] = False,
        halo: int | Sequence[int] = 1,
        ranks: Sequence[int] | None = None,
        comm: Any = None,
        device: str = "auto",
        transport: str = "auto",
        coordinates: Mapping[str, Any] | None = None,
        axes: Sequence[str] = ("x", "y", "z"),
    ) -> None:
        cells = check_shape(shape, least=1)
        names = axis_names(axes, len(cells))
        wraps = per_axis(periodic, len(cells), truth, "periodic")
        widths = check_halo(halo, len(cells))
        geometry = geometry_of(cells, names, wraps, bounds, coordinates)
        backend, communicator = place(device, transport, comm)
        stored = store.process_grid(communicator, backend.name, cells, wraps, widths)
        if ranks is None and stored is not None:
            ranks = stored
            store.note(f"process grid {stored} for {cells}")
        chosen = choose_ranks(cells, communicator.size, ranks=ranks, periodic=wraps, halo=widths)
        decomposition = Decomposition(cells, chosen, periodic=wraps, halo=widths)
        topology = Topology(decomposition, communicator, transport)
        self._set(names, geometry, widths, topology, backend)
        require_alike(communicator, "The grid", self._described())

    def _described(self) -> str:
        """All that ranks must agree on, stretched axes by a checksum of their face positions."""
        stretched = [
            f", {name} stretched (checksum {zlib.crc32(axis.faces.tobytes()):08x})"
            for name, axis in zip(self.axes, self.geometry, strict=True)
            if axis.faces is not None
        ]
        return (
            f"shape={self.shape}, bounds={self.bounds}, periodic={self.periodic}, "
            f"halo={self.halo}, ranks={self.ranks}, axes={self.axes}{''.join(stretched)}"
        )

    def _set(
        self,
        axes: tuple[str, ...],
        geometry: tuple[AxisGeometry, ...],
        halo: tuple[int, ...],
        topology: Topology,
        backend: Backend,
    ) -> None:
        self._lie(axes, geometry, topology)
        self.halo = halo
        self.topology = topology
        self.backend = backend
        self.device = backend.name
        self._divided: dict[tuple[int, ...], Grid] = {}
        self._twins: dict[str, Grid] = {}

    def _derive(
        self,
        decomposition: Decomposition,
        geometry: tuple[AxisGeometry, ...] | None = None,
        halo: tuple[int, ...] | None = None,
    ) -> Grid:
        """A grid on the same ranks and device."""
        derived = object.__new__(Grid)
        derived._set(
            self.axes,
            self.geometry if geometry is None else geometry,
            self.halo if halo is None else halo,
            self.topology.divided(decomposition),
            self.backend,
        )
        return derived

    # Arrays.

    def empty(
        self,
        dtype: Any = float,
        components: int | Sequence[int] = (),
        location: str | None = None,
        boundary: Mapping[str, Any] | None = None,
        halo: int | Sequence[int] | None = None,
        name: str | None = None,
    ) -> DistArray:
        """An array without values. Collective.

        Parameters
        ----------
        dtype : element type: bool, integer, float32, float64, complex64 or complex128
        components : int or sequence of int
            Extents of leading axes that every rank holds whole.
        location : str, optional
            Axes along which values sit on points (the low sides of cells): "x" for faces normal to
            x, "xy" for edges, "xyz" for nodes; cell centres by default. Such an axis has one more
            point unless it is periodic.
        boundary : mapping, optional
            Conditions: {"x": condition, "y-": condition, "y+": condition}.
        halo : int or sequence of int, optional
            Width of the halo, the grid's by default.
        name : str, optional

        Raises
        ------
        GridError
            Components, a location or a halo that arrays cannot have.
        UnsupportedError
            An element type that arrays cannot have.
        BoundaryError
            A condition on no side of the grid, or on a periodic axis, or with values that do not
            fit.
        DecompositionError
            Blocks narrower than the halo.
        BackendError
            The array does not fit into memory.
        """
        layout = self._layout(dtype, components, location, halo)
        conditions = Boundary(layout, self.geometry, self.axes, boundary)
        return DistArray(
            Block(layout, self.rank, self.backend),
            self.topology,
            self,
            boundary=conditions,
            name=name,
        )

    def zeros(
        self,
        dtype: Any = float,
        components: int | Sequence[int] = (),
        location: str | None = None,
        boundary: Mapping[str, Any] | None = None,
        halo: int | Sequence[int] | None = None,
        name: str | None = None,
    ) -> DistArray:
        """An array of zeros; parameters and errors as for `empty`. Collective."""
        array = self.empty(dtype, components, location, boundary, halo, name)
        array._written()  # memory is zeroed; conditions may fix points on faces
        return array

    def ones(
        self,
        dtype: Any = float,
        components: int | Sequence[int] = (),
        location: str | None = None,
        boundary: Mapping[str, Any] | None = None,
        halo: int | Sequence[int] | None = None,
        name: str | None = None,
    ) -> DistArray:
        """An array of ones; parameters and errors as for `empty`. Collective."""
        return self.full(1, dtype, components, location, boundary, halo, name)

    def full(
        self,
        value: Any,
        dtype: Any = float,
        components: int | Sequence[int] = (),
        location: str | None = None,
        boundary: Mapping[str, Any] | None = None,
        halo: int | Sequence[int] | None = None,
        name: str | None = None,
    ) -> DistArray:
        """An array with one value everywhere. Collective.

        Parameters
        ----------
        value : number, or array that broadcasts and is the same on every rank
        dtype, components, location, boundary, halo, name
            As for `empty`.

        Raises
        ------
        ArrayError
            Values that do not fit the element type or the shape.
        DistArrayError
            As for `empty`.
        """
        array = self.empty(dtype, components, location, boundary, halo, name)
        array[...] = value
        return array

    def from_function(
        self,
        function: Callable[..., Any],
        dtype: Any = float,
        components: int | Sequence[int] = (),
        location: str | None = None,
        boundary: Mapping[str, Any] | None = None,
        halo: int | Sequence[int] | None = None,
        name: str | None = None,
    ) -> DistArray:
        """An array with the values of a function of position. Collective.

        Parameters
        ----------
        function : callable
            Gets one coordinate array per axis, of this rank's points, shaped to broadcast with the
            others. Its result is broadcast and cast; for component arrays it may be a sequence with
            one entry per component.
        dtype, components, location, boundary, halo, name
            As for `empty`.

        Raises
        ------
        ArrayError
            What is given cannot be called with one argument per axis, or returns what does not
            broadcast or fit the element type.
        Exception
            Whatever the function raises on some rank, on all ranks.
        DistArrayError
            As for `empty`.
        """
        array = self.empty(dtype, components, location, boundary, halo, name)
        require_function(function, "from_function", *self.axes)
        error = None
        try:
            values = function(*self._coordinates(array.layout.staggered))
            assign_broadcast(array._owned, values, len(array.components))
        except Exception as wrong:  # whatever the function raises, here or on another rank
            error = wrong
        self.communicator.agree(error)
        array._written()
        return array

    def empty_like(self, array: DistArray) -> DistArray:
        """An array of the same element type, components, location, halo and conditions on this
        grid. Collective.

        Raises
        ------
        ArrayError, GridError
            What is given is no array, or has another number of grid axes.
        BoundaryError
            Its conditions do not fit this grid.
        """
        require_array(array, "empty_like")
        if array.layout.ndim != self.ndim:
            raise GridError(
                f"{array!r} has {array.layout.ndim} grid axes, {self!r} has {self.ndim}; create it "
                "on a grid of as many axes."
            )
        result = self.empty(
            array.dtype, array.components, self.location_of(array.layout.staggered), halo=array.halo
        )
        result._take_conditions(array)
        return result

    def zeros_like(self, array: DistArray) -> DistArray:
        """As `empty_like`, with zeros. Collective."""
        result = self.empty_like(array)
        result._written()  # memory is zeroed
        return result

    def profile(self, axis: int | str, values: Any, *, halo: int | None = None) -> Profile:
        """Values that depend on one axis only, read in kernels with one offset. Collective.

        Parameters
        ----------
        axis : int or str
            The axis, by number or name.
        values : array of n or n + 1 numbers, or function of position
            One value per cell, or per point of an axis that is not periodic; the same on every
            rank. A function gets the positions of the cell centres.
        halo : int, optional
            Values kept beyond the cells owned here, the grid's halo by default.

        Raises
        ------
        GridError
            No axis of this grid, a number of values that does not fit it, or what is no number.
        UnsupportedError
            An element type that arrays cannot have.
        """
        return Profile(self, self.axis_number(axis), values, halo)

    def _layout(
        self,
        dtype: Any,
        components: int | Sequence[int],
        location: str | None,
        halo: int | Sequence[int] | None,
    ) -> Layout:
        widths = self.halo if halo is None else check_halo(halo, self.ndim)
        if widths != self.halo:
            self.decomposition.require(widths)
        return Layout(
            self.decomposition,
            self.staggered(location),
            widths,
            check_components(components),
            check_dtype(dtype),
        )

    def points(self, coords: Any) -> Points:
        """Points of the domain at which arrays are sampled and onto which values are spread.
        Collective.

        Parameters
        ----------
        coords : array_like, shape (points, axes), the same bits on every rank

        Raises
        ------
        ArrayError
            Coordinates of another shape, or outside the domain.
        CommunicationError
            Other coordinates on another rank.

        Examples
        --------
        >>> import distarray as da
        >>> grid = da.Grid((10, 10))
        >>> u = grid.from_function(lambda x, y: 2 * x + y)
        >>> grid.points([[0.5, 0.25]]).sample(u)
        array([1.25])
        """
        return Points(self, coords)

    # Other grids.

    def coarsen(self, factor: int | Sequence[int] = 2, ranks: Sequence[int] | None = None) -> Grid:
        """The grid whose cells join `factor` cells of this one along each axis. Collective.

        Parameters
        ----------
        factor : int or sequence of int
        ranks : sequence of int, optional
            Process grid; it may have fewer ranks. With this grid's own (the default) the cuts
            follow this grid's, so that kernels can read between both, where factors are 1 or 2.

        Raises
        ------
        GridError
            A factor below 1.
        DecompositionError
            Blocks narrower than the halo.
        """
        factors = per_axis(factor, self.ndim, operator.index, "factor")
        if min(factors) < 1:
            raise GridError(
                f"Factors of coarsen must be at least 1, got {shown(factor)}; use 2 to halve every "
                "axis."
            )
        geometry = tuple(axis.coarsen(f) for axis, f in zip(self.geometry, factors, strict=True))
        if ranks is None or per_axis(ranks, self.ndim, operator.index, "ranks") == self.ranks:
            return self._derive(self.decomposition.coarsen(factors, self.halo), geometry)
        cells = tuple(axis.cells for axis in geometry)
        chosen = fewer_ranks(cells, self.size, ranks, periodic=self.periodic, halo=self.halo)
        return self._derive(
            Decomposition(cells, chosen, periodic=self.periodic, halo=self.halo), geometry
        )

    def divided(self, ranks: Sequence[int]) -> Grid:
        """The same grid over another process grid, which may have fewer ranks. Collective.

        Its halo is this grid's where blocks are wide enough, else as wide as the narrowest block.
        """
        chosen = fewer_ranks(self.shape, self.size, ranks)
        if chosen == self.ranks:
            return self
        if chosen not in self._divided:
            decomposition = Decomposition(self.shape, chosen, periodic=self.periodic)
            halo = decomposition.narrowed(self.halo)
            self._divided[chosen] = self._derive(decomposition, halo=halo)
        return self._divided[chosen]

    def to(self, device: str) -> Grid:
        """The same grid on a device: itself if it is there, else its twin, the same each time.
        Collective. Messages travel there as was asked for when this grid was made.

        Parameters
        ----------
        device : "auto", "cpu", "cuda" or "simulated"

        Raises
        ------
        BackendError
            The device is unknown or not available.
        """
        wanted = self.topology.transport
        backend, communicator = place(device, wanted, self.communicator, here=self.backend)
        if backend.name == self.device:
            return self
        twins = self._twins
        if backend.name not in twins:
            twin = object.__new__(Grid)
            topology = Topology(self.decomposition, communicator, wanted)
            twin._set(self.axes, self.geometry, self.halo, topology, backend)
            twins[self.device], twins[backend.name] = self, twin
            twin._twins = twins
        return twins[backend.name]

    def __repr__(self) -> str:
        return (
            f"Grid(shape={self.shape}, bounds={self.bounds}, periodic={self.periodic}, "
            f"halo={self.halo}, "
            f"ranks={self.ranks}, device='{self.device}')"
        )
