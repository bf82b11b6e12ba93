"""Arrays that are no grid fields: made from a shape, or from host values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.arguments import (
    check_dtype,
    check_halo,
    check_root,
    check_shape,
    fewer_ranks,
    host_values,
    require_alike,
)
from distarray.array import DistArray
from distarray.block import Block
from distarray.collect import scatter
from distarray.comm import default as communicator_for
from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.errors import ArrayError, shown
from distarray.grid import Grid
from distarray.layout import Layout
from distarray.topology import Topology
from distarray.transports.choice import place


def empty(
    shape: Sequence[int] | int,
    dtype: Any = float,
    *,
    ranks: Sequence[int] | None = None,
    halo: int | Sequence[int] = 0,
    periodic: bool | Sequence[bool] = False,
    comm: Any = None,
    device: str = "auto",
    transport: str = "auto",
    name: str | None = None,
) -> DistArray:
    """An array of a shape without values. Collective.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : element type
    ranks : sequence of int, optional
        Process grid, 0 for a free axis; it may have fewer ranks than the communicator. By default
        as many ranks as there are are used, with the least surface between blocks.
    halo, periodic : one value or one per axis
        For kernels that read at offsets.
    comm : mpi4py communicator, optional
        As for `Grid`.
    device, transport : str
        As for `Grid`.
    name : str, optional

    Raises
    ------
    GridError, UnsupportedError
        A shape or element type that arrays cannot have.
    DecompositionError
        More ranks than the communicator has, or than an axis has elements.
    """
    extents = check_shape(shape, least=0)
    kind = check_dtype(dtype)
    widths = check_halo(halo, len(extents))
    backend, communicator = place(device, transport, comm)
    chosen = fewer_ranks(
        extents, communicator.size, ranks, periodic=periodic, halo=tuple(max(1, w) for w in widths)
    )
    decomposition = Decomposition(extents, chosen, periodic=periodic, halo=widths)
    layout = Layout(decomposition, (False,) * len(extents), widths, (), kind)
    block = Block(layout, communicator.rank, backend)
    return DistArray(block, Topology(decomposition, communicator, transport), name=name)


def full(shape: Sequence[int] | int, value: Any, dtype: Any = None, **options: Any) -> DistArray:
    """An array with one value everywhere; options as for `empty`. Collective.

    Raises
    ------
    ArrayError
        A value that is no number, or that the element type cannot hold.
    DistArrayError
        As for `empty`.
    """
    value = host_values(value, "The value of full")
    array = empty(shape, value.dtype if dtype is None else dtype, **options)
    array[...] = value
    return array


def zeros(shape: Sequence[int] | int, dtype: Any = float, **options: Any) -> DistArray:
    """An array of zeros; options and errors as for `empty`. Collective."""
    return empty(shape, dtype, **options)  # memory is zeroed


def ones(shape: Sequence[int] | int, dtype: Any = float, **options: Any) -> DistArray:
    """An array of ones; options and errors as for `empty`. Collective."""
    return full(shape, 1, dtype, **options)


def asarray(values: Any, dtype: Any = None, **options: Any) -> DistArray:
    """An array of host values that every rank holds; each keeps its own part. Collective.

    A DistArray is returned as it is. Options as for `empty`.

    Raises
    ------
    ArrayError
        Values that are no numbers, or that the element type cannot hold.
    DistArrayError
        As for `empty`.
    """
    if isinstance(values, DistArray):
        same = dtype is None or check_dtype(dtype) == values.dtype
        return values if same else values.astype(dtype)
    host = host_values(values, "Values of asarray")
    array = empty(host.shape, host.dtype if dtype is None else dtype, **options)
    array[...] = host
    return array


def from_root(
    values: Any,
    *,
    root: int = 0,
    like: DistArray | Grid | None = None,
    comm: Any = None,
    **options: Any,
) -> DistArray:
    """An array of host values that one rank holds. Collective.

    Parameters
    ----------
    values : array_like on `root`, ignored elsewhere
    root : int
    like : DistArray or Grid, optional
        Place the result as this array (its location and components, too) or on this grid.
    comm, **options
        As for `empty`, if `like` is not given.

    Raises
    ------
    ArrayError
        On all ranks alike: `root` is no rank, what root gives is no numbers or does not fit `like`,
        or `like` is neither array nor grid.
    DistArrayError
        As for `empty`.
    """
    if like is not None and not isinstance(like, DistArray | Grid):
        raise ArrayError(
            f"from_root(like={shown(like)}) is neither array nor grid; pass one of these."
        )
    communicator: Communicator = communicator_for(comm) if like is None else like.communicator
    root = check_root(root, communicator.size, "from_root")
    require_alike(communicator, "root of from_root", str(root))
    host, description, error = None, None, None
    if communicator.rank == root:
        try:
            host = host_values(values, "Values of from_root")
            description = (host.shape, host.dtype.str)
        except ArrayError as wrong:
            error = wrong
    communicator.agree(error)
    shape, kind = communicator.bcast(description, root)
    if like is None:
        array = empty(shape, np.dtype(kind), comm=communicator, **options)
    else:
        array = _target_like(like, tuple(shape), np.dtype(kind))
    scatter(host, array.block, communicator, root)
    array._written()
    return array


def _target_like(like: DistArray | Grid, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DistArray:
    if isinstance(like, DistArray):
        depth = len(shape) - like.layout.ndim
        points, components = like.layout.points, shape[: max(depth, 0)]
        if shape[max(depth, 0) :] == points:
            return like._like(dtype, components)
    else:
        points = like.shape
        if shape[len(shape) - like.ndim :] == points:
            return like.empty(dtype, shape[: len(shape) - like.ndim])
    raise ArrayError(
        f"Values of shape {shape} do not fit {like!r}; their last axes must have {points} entries."
    )
