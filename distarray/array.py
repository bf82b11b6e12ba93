"""The distributed array: a block on each rank, and the grid, location and conditions it belongs to.

`DistArray` holds state and hands work to its neighbours in this layer, each a set of functions on
arrays: `elementwise` (ufuncs and operators), `functions` (NumPy functions by an explicit list),
`indexing`, `placement` (other process grids), `reductions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from distarray import elementwise, functions, indexing, placement, reductions
from distarray.arguments import check_dtype, check_root, require_alike
from distarray.arraylike import ArrayMarker, HostArray, read_only
from distarray.block import Block
from distarray.boundary import Boundary
from distarray.collect import gather
from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.deferred import settle_readers
from distarray.errors import ArrayError, UnsupportedError, shown
from distarray.layout import Layout
from distarray.topology import Topology

if TYPE_CHECKING:
    from distarray.fused.node import Node
    from distarray.grid import Grid

Axes = int | Sequence[int] | None


class DistArray(ArrayMarker, NDArrayOperatorsMixin):
    """A NumPy-like array spread over ranks. Made by `Grid` methods, `distarray.zeros`, `asarray`
    and others.

    `shape`, `size`, `dtype` and `nbytes` are global; `local` is what this rank owns. Operators and
    ufuncs work on owned values without communication; of large arrays they compute when values are
    needed, an expression in one pass over memory. Everything that writes is collective.

    Attributes
    ----------
    block : Block
        Memory on this rank; views of a component share it.
    component_prefix : tuple of int
        Components selected by a view, () for a whole array.
    layout : Layout
        Placement of this array or view.
    topology : Topology
        Decomposition and communicator.
    grid : Grid or None
        None for arrays that are no grid fields.
    key : tuple of int
        Identifies the memory that this array names; the same for equal views.
    name : str or None
    """

    __slots__ = (
        "__weakref__",
        "_boundary",
        "_owned_view",
        "_views",
        "block",
        "component_prefix",
        "grid",
        "key",
        "layout",
        "name",
        "topology",
    )
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        block: Block,
        topology: Topology,
        grid: Grid | None = None,
        *,
        boundary: Boundary | None = None,
        name: str | None = None,
        component_prefix: tuple[int, ...] = (),
    ) -> None:
        self.block = block
        self.topology = topology
        self.grid = grid
        self.name = name
        self.component_prefix = component_prefix
        self.layout = block.layout
        if component_prefix:
            self.layout = replace(
                block.layout, components=block.layout.components[len(component_prefix) :]
            )
        self.key = (block.serial, *component_prefix)
        self._boundary = boundary
        self._owned_view: Any = None
        self._views: dict[tuple[int, ...], DistArray] = {}
        if boundary is not None:
            boundary.attach(block, topology.communicator)

    # What it is.

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape, components first."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        return len(self.layout.components) + self.layout.ndim

    @property
    def size(self) -> int:
        """Global number of elements."""
        return math.prod(self.layout.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.layout.dtype

    @property
    def nbytes(self) -> int:
        """Global number of bytes, halos and padding not counted."""
        return self.size * self.layout.dtype.itemsize

    @property
    def components(self) -> tuple[int, ...]:
        return self.layout.components

    @property
    def halo(self) -> tuple[int, ...]:
        return self.layout.halo

    @property
    def location(self) -> str | None:
        """None for cell centres, else the names of the axes along which values sit on points."""
        return self.grid.location_of(self.layout.staggered) if self.grid is not None else None

    @property
    def decomposition(self) -> Decomposition:
        return self.layout.decomposition

    @property
    def communicator(self) -> Communicator:
        return self.topology.communicator

    @property
    def ranks(self) -> tuple[int, ...]:
        """The process grid."""
        return self.layout.decomposition.ranks

    @property
    def device(self) -> str:
        return self.block.backend.name

    @property
    def boundary(self) -> Boundary | None:
        """Conditions by axis and side: `u.boundary["x-"] = da.Dirichlet(0.0)`. None for an array of
        no grid.

        Local to read, collective to change.
        """
        if self._boundary is None and self.grid is not None:
            self._boundary = Boundary(self.layout, self.grid.geometry, self.grid.axes)
            self._boundary.attach(self.block, self.communicator)
        return self._boundary

    # What this rank holds.

    @property
    def _owned(self) -> Any:
        """The owned values; those of an operator's result are computed now, if not before. Local.

        Who writes them first calls `deferred.settle_readers`.
        """
        view = self._owned_view
        if view is None:
            view = self._owned_view = self.block.owned_memory[self.component_prefix]
        return view

    @property
    def local_slices(self) -> tuple[slice, ...]:
        """Global index ranges owned here, components first. Local."""
        components = tuple(slice(0, count) for count in self.layout.components)
        return components + self.block.owned.slices()

    @property
    def local_shape(self) -> tuple[int, ...]:
        return self.layout.components + self.block.owned.shape

    @property
    def local(self) -> Any:
        """Read-only view of the values owned here, shape `local_shape`. Local.

        It lies on the array's device: `cupy.asarray` takes it as it is, `numpy.asarray` copies it.
        """
        return read_only(self._owned)

    @property
    def padded(self) -> Any:
        """Read-only view of the memory here, halo included; rows may be padded. Local."""
        return read_only(self.block.memory[self.component_prefix])

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A writable view of the owned values, on their device, for the length of a `with` block.
        Collective.

        When the block ends the view can no longer be written to (views that were made of it can,
        and must not be: others' copies of these values would not follow). Call no kernel, reduction
        or exchange of this array inside the block: halos may be older than what was written.

        Examples
        --------
        >>> import distarray as da
        >>> u = da.zeros((4,))
        >>> with u.writing() as block:
        ...     block[...] = 1.0
        """
        view = self._owned[...]
        settle_readers(self.block)
        self.block.open += 1
        try:
            yield view
        finally:
            self.block.open -= 1
            view.flags.writeable = False
            self._written()

    def _written(self) -> None:
        """Note that owned values were written by a collective call."""
        self.block.changed(self.component_prefix)
        if self._boundary is not None:
            self._boundary.fix_values(self.block)

    def _like(self, dtype: Any = None, components: Sequence[int] | None = None) -> DistArray:
        """A new array of the same placement without values and without conditions. Local, but made
        on all ranks.
        """
        return self._place(self._layout_like(dtype, components), self.topology, self.grid)

    def _waiting(self, node: Node) -> DistArray:
        """A new array of the same placement whose values are those of an expression. Local."""
        block = Block(node.layout, self.block.rank, self.block.backend, values=node)
        node.belong(block)
        return DistArray(block, self.topology, self.grid)

    def _layout_like(self, dtype: Any, components: Sequence[int] | None) -> Layout:
        """This layout with another element type and other components, where given. Local."""
        layout = self.layout
        if dtype is not None and dtype != layout.dtype:
            layout = replace(layout, dtype=check_dtype(dtype))
        if components is not None and tuple(components) != layout.components:
            layout = replace(layout, components=tuple(components))
        return layout

    def _component(self, index: tuple[int, ...]) -> DistArray:
        """The view of one component, the same object each time. Local."""
        view = self._views.get(index)
        if view is None:
            prefix = self.component_prefix + index
            view = DistArray(
                self.block, self.topology, self.grid, name=self.name, component_prefix=prefix
            )
            if self.boundary is not None:
                view._boundary = self.boundary.view(index)
            self._views[index] = view
        return view

    def _place(self, layout: Layout, topology: Topology, grid: Grid | None = None) -> DistArray:
        """A new array with another placement on the same device. Local, but made on all ranks."""
        return DistArray(Block(layout, self.block.rank, self.block.backend), topology, grid)

    # Copies and conversions.

    def copy(self) -> DistArray:
        """A copy with the same location, halo, conditions and name. Collective."""
        return self.astype(self.dtype)

    def astype(self, dtype: Any) -> DistArray:
        """A copy with another element type; location, halo and conditions are kept. Collective.

        Raises
        ------
        UnsupportedError
            An element type that arrays cannot have.
        ArrayError
            Complex values would become real.
        """
        result = self._like(dtype)
        if self.dtype.kind == "c" and result.dtype.kind != "c":
            raise ArrayError(f"{self!r} cannot become {result.dtype}; convert its real part.")
        with np.errstate(all="ignore"):
            result._owned[...] = self._owned
        result.name = self.name
        result._take_conditions(self)
        result._written()
        return result

    def _take_conditions(self, other: DistArray) -> None:
        if not other._boundary or self.grid is None or other.grid is None:
            return
        if self.grid.geometry is other.grid.geometry:
            self._boundary = other._boundary.copy_to(self.layout)
        else:
            axes = self.grid.geometry
            self._boundary = Boundary(self.layout, axes, self.grid.axes, other._boundary)
        self._boundary.attach(self.block, self.communicator)

    def fill(self, value: Any) -> None:
        """Set every owned value. Collective.

        Raises
        ------
        ArrayError
            A value that the element type cannot hold.
        """
        self[...] = value

    def to(self, device: str) -> DistArray:
        """The array on a device: itself if it is there, else a copy. Collective.

        The copy lies on the grid's twin there (see `Grid.to`), with the same process grid, halo,
        conditions and name.

        Parameters
        ----------
        device : "auto", "cpu", "cuda" or "simulated"

        Raises
        ------
        BackendError
            The device is unknown or not available.
        BoundaryError
            A Custom condition reads arrays, which stay where they are; remove it first.
        """
        return placement.moved(self, device)

    @overload
    def gather(self, root: None = None) -> HostArray: ...

    @overload
    def gather(self, root: int) -> HostArray | None: ...

    def gather(self, root: int | None = None) -> HostArray | None:
        """The whole array as a host NumPy array: on every rank, or on `root` alone (None
        elsewhere). Collective.

        Raises
        ------
        ArrayError
            `root` is no rank of the communicator.
        """
        if root is not None:
            root = check_root(root, self.communicator.size, "gather", " or None for all")
        require_alike(self.communicator, "root of gather", str(root))
        return gather(self.block, self.communicator, root, component=self.component_prefix)

    def redistribute(
        self, ranks: Sequence[int] | None = None, *, like: DistArray | Grid | None = None
    ) -> DistArray:
        """The same values over another process grid. Collective.

        Parameters
        ----------
        ranks : sequence of int
            Process grid, 0 for a free axis; it may have fewer ranks than the communicator.
        like : DistArray or Grid
            Place the result as this array or grid is placed.

        Returns
        -------
        DistArray
            On the grid of `like`, or on this array's grid divided otherwise; conditions and name
            are kept.

        Raises
        ------
        ArrayError
            Both or none of `ranks` and `like`; `like` has another shape or communicator, or is
            neither array nor grid.
        DecompositionError
            A process grid of more ranks than the communicator has, or than an axis has cells.
        """
        if (ranks is None) == (like is None):
            raise ArrayError(
                f"redistribute takes either ranks= or like=, got ranks={shown(ranks)} and "
                f"like={shown(like)}; pass one of them."
            )
        return placement.redistributed(self, ranks, like)

    # Indexing.

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[DistArray]:
        if not self.layout.components:
            raise UnsupportedError(
                f"Iteration over cells of {self!r} is not supported; use operators, a stencil or "
                "gather()."
            )
        return (self[number] for number in range(self.layout.components[0]))

    def __getitem__(self, index: Any) -> Any:
        """Basic global indexing. Collective, except for whole components.

        Integers on component axes give a DistArray that shares memory. Other indices give a copy: a
        DistArray over the same process grid, or NumPy values on every rank when no grid axis is
        left.

        Raises
        ------
        IndexingError
            An index outside the array, or too many indices.
        UnsupportedError
            Index arrays, boolean masks or newaxis.
        """
        if type(index) is int and (view := self._views.get((index,))) is not None:
            return view
        return indexing.get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Basic global assignment of a number, a host array that all ranks hold, a Profile or a
        DistArray. Collective.

        Raises
        ------
        IndexingError, UnsupportedError
            As for reading.
        ArrayError
            Values of another shape, or that the element type cannot hold.
        """
        indexing.put(self, index, value)

    # NumPy protocols.
    __iadd__ = elementwise.updating(np.add)
    __isub__ = elementwise.updating(np.subtract)
    __imul__ = elementwise.updating(np.multiply)
    __itruediv__ = elementwise.updating(np.true_divide)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return elementwise.call_ufunc(self, ufunc, method, inputs, options)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any],
        options: Mapping[str, Any],
    ) -> Any:
        return functions.call(function, args, options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        if self.communicator.size > 1:
            raise UnsupportedError(
                f"{self!r} is spread over {self.communicator.size} ranks and does not become a "
                "NumPy array silently; "
                "call gather()."
            )
        backend = self.block.backend
        values = np.asarray(backend.to_host(self._owned), dtype)
        if copy is False and not (backend.host and np.shares_memory(values, self._owned)):
            raise ArrayError(
                f"{self!r} does not become {values.dtype} without a copy; leave copy=False out."
            )
        return values if copy is False else values.copy()

    def __bool__(self) -> bool:
        raise UnsupportedError(
            f"The truth value of {self!r} is ambiguous; use any() or all(), and distarray.where "
            "in kernels."
        )

    @property
    def real(self) -> DistArray:
        """The real part, a copy. Local."""
        return elementwise.map_array(np.real, self)

    @property
    def imag(self) -> DistArray:
        """The imaginary part, a copy. Local."""
        return elementwise.map_array(np.imag, self)

    def conj(self) -> DistArray:
        """The complex conjugate, a copy. Local."""
        return elementwise.map_array(np.conjugate, self)

    def __copy__(self) -> DistArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> DistArray:
        return self.copy()

    def __repr__(self) -> str:
        location = f", location='{self.location}'" if self.location is not None else ""
        name = f", name='{self.name}'" if self.name else ""
        return (
            f"DistArray(shape={self.shape}, dtype={self.dtype}, device='{self.device}', "
            f"ranks={self.ranks}"
            f"{location}{name})"
        )

    # Reductions. All are collective.

    def sum(self, axis: Axes = None, *, reproducible: bool = False) -> Any:
        """Sum. Collective.

        Parameters
        ----------
        axis : int, sequence of int or None
            The axes that are summed over, components counted; None for all.
        reproducible : bool
            The same bits on any process grid; over all axes the sum is correctly rounded.

        Returns
        -------
        NumPy scalar on every rank, or DistArray over the axes that are left

        Raises
        ------
        ArrayError
            No axes of this array, or the same axis twice.
        """
        return reductions.reduce(self, "sum", axis, reproducible)

    def prod(self, axis: Axes = None) -> Any:
        """Product; parameters, result and errors as for `sum`. Collective."""
        return reductions.reduce(self, "prod", axis)

    def min(self, axis: Axes = None) -> Any:
        """Smallest value, NaN if any value is; parameters and result as for `sum`. Collective.

        Raises
        ------
        ArrayError
            As for `sum`, and for an array without elements.
        UnsupportedError
            Complex values, which have no order.
        """
        return reductions.reduce(self, "min", axis)

    def max(self, axis: Axes = None) -> Any:
        """Largest value, NaN if any value is; parameters, result and errors as for `min`.
        Collective.
        """
        return reductions.reduce(self, "max", axis)

    def any(self, axis: Axes = None) -> Any:
        """Whether any value is true; parameters, result and errors as for `sum`. Collective."""
        return reductions.reduce(self, "any", axis)

    def all(self, axis: Axes = None) -> Any:
        """Whether all values are true; parameters, result and errors as for `sum`. Collective."""
        return reductions.reduce(self, "all", axis)

    def mean(self, axis: Axes = None, *, reproducible: bool = False) -> Any:
        """Arithmetic mean; parameters, result and errors as for `sum`. Collective."""
        return reductions.reduce(self, "mean", axis, reproducible)

    def var(self, axis: Axes = None, *, ddof: int = 0) -> Any:
        """Variance, divided by the number of values less `ddof`; result as for `sum`. Collective.

        Raises
        ------
        ArrayError
            As for `sum`, and if `ddof` is no number.
        """
        return reductions.variance(self, axis, ddof)

    def std(self, axis: Axes = None, *, ddof: int = 0) -> Any:
        """Standard deviation: the square root of `var`, with its errors. Collective."""
        return np.sqrt(reductions.variance(self, axis, ddof))

    def argmin(self, axis: int | None = None) -> Any:
        """Index of the smallest value, in the flattened array or along an axis; of equal ones the
        first. Collective.

        Raises
        ------
        ArrayError
            No axis of this array, or an array without elements.
        UnsupportedError
            Several axes, or complex values, which have no order.
        """
        return reductions.arg_extreme(self, "min", axis)

    def argmax(self, axis: int | None = None) -> Any:
        """Index of the largest value, in the flattened array or along an axis; of equal ones the
        first; errors as for `argmin`. Collective.
        """
        return reductions.arg_extreme(self, "max", axis)


functions.register_methods(DistArray)
