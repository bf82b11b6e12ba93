"""Arrays placed otherwise: over another process grid, as another array, whole along some axes, or
on another device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arguments import check_dtype, check_fits, fewer_ranks, host_values, require_function
from distarray.arraylike import HostArray, is_array, is_grid
from distarray.block import Block
from distarray.decomposition import Decomposition, largest_factorisations
from distarray.deferred import settle_readers
from distarray.elementwise import require_array, require_same_device, same_placement
from distarray.errors import ArrayError, shown
from distarray.layout import Layout
from distarray.redistribute import ComponentIndex, KeptPlans, Redistribution
from distarray.topology import Topology
from distarray.transfer import Selection
from distarray.transports.choice import place

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.grid import Grid

#: Element types, by the numbers that ranks agree on.
_TYPES = list(map(np.dtype, (np.bool_, *"bhilBHIL", np.float32, np.float64, "c8", "c16")))


def redistributed(
    array: DistArray, ranks: Sequence[int] | None, like: DistArray | Grid | None
) -> DistArray:
    """The values of an array over another process grid, or placed as `like` is. Collective."""
    if like is not None:
        target = placed_like(array, like, array.layout)
    elif array.grid is not None and ranks is not None:
        target = _array_on(array, array.grid.divided(ranks))
    else:
        target = _plain_array(array, ranks)
    if array.size:
        move(array, target)
    target.name = array.name
    target._take_conditions(array)
    target._written()
    return target


def moved(array: DistArray, device: str) -> DistArray:
    """The array on a device: itself, or a copy. Collective."""
    grid, wanted, here = array.grid, array.topology.transport, array.block.backend
    if grid is not None:
        grid = grid.to(device)
        topology, backend = grid.topology, grid.backend
    else:
        backend, communicator = place(device, wanted, array.communicator, here=here)
        topology = Topology(array.decomposition, communicator, wanted)
    if backend.name == array.device:
        return array
    layout = replace(array.layout)  # arrays of different devices share none
    result = type(array)(Block(layout, array.block.rank, backend), topology, grid)
    result._owned[...] = array.block.backend.to_host(array._owned)
    result.name = array.name
    result._take_conditions(array)
    result._written()
    return result


def move(
    source: DistArray,
    target: DistArray,
    selection: Selection | None = None,
    *,
    source_component: ComponentIndex = (),
    target_component: ComponentIndex = (),
) -> None:
    """Move values between arrays, all or a selection, by a plan that is kept. Collective.

    Components are indices below those that the arrays, as views, select themselves.
    """
    communicator = source.communicator
    given, taken = source.block.layout, target.block.layout
    giving = (*source.component_prefix, *source_component)
    taking = (*target.component_prefix, *target_component)
    kept: KeptPlans[Redistribution] | None = communicator.kept.get("moves")
    if kept is None:
        kept = communicator.kept["moves"] = KeptPlans()
    kept.get(
        (given, _hashable(giving), taken, _hashable(taking), selection),
        lambda: Redistribution(
            given,
            taken,
            communicator.rank,
            selection=selection,
            source_component=giving,
            target_component=taking,
        ),
    ).run(source.block, target.block, communicator)


def _hashable(component: ComponentIndex) -> tuple[Any, ...]:
    # Slices can be hashed from Python 3.12 on.
    return tuple((c.start, c.stop, c.step) if isinstance(c, slice) else c for c in component)


def placed_like(
    array: DistArray, like: DistArray | Grid, given: Layout, caller: str = "redistribute"
) -> DistArray:
    """A new array for the points, components and element type of a layout, placed as `like` is, on
    the device of `array`. Collective.
    """
    if not (is_array(like) or is_grid(like)):
        raise ArrayError(
            f"{caller}(like={shown(like)}) is neither array nor grid; pass one of these."
        )
    grid: Any = like.grid if is_array(like) else like
    require_same_device(array, like)
    if like.communicator != array.communicator:
        raise ArrayError(
            f"{array!r} cannot be placed as {like!r}, which lives on another communicator; create "
            "both on one."
        )
    staggered = like.layout.staggered if is_array(like) else given.staggered
    if (
        len(staggered) != like.decomposition.ndim
        or like.decomposition.points(staggered) != given.points
    ):
        what = repr(array) if array.layout is given else f"Values of shape {given.shape}"
        raise ArrayError(f"{what} cannot be placed as {like!r}; both need the same shape.")
    layout = replace(given, decomposition=like.decomposition, staggered=staggered, halo=like.halo)
    return array._place(layout, like.topology, grid)


def _array_on(array: DistArray, grid: Grid) -> DistArray:
    """An array for the same points on a grid that is divided otherwise."""
    halo = grid.decomposition.narrowed(array.halo)
    layout = replace(array.layout, decomposition=grid.decomposition, halo=halo)
    return array._place(layout, grid.topology, grid)


def _plain_array(array: DistArray, ranks: Sequence[int] | None) -> DistArray:
    old = array.decomposition
    chosen = fewer_ranks(old.shape, array.communicator.size, ranks)
    decomposition = Decomposition(old.shape, chosen, periodic=old.periodic)
    layout = replace(array.layout, decomposition=decomposition, halo=(0,) * old.ndim)
    return array._place(layout, array.topology.divided(decomposition))


def local_along(array: DistArray, axes: Sequence[int]) -> DistArray:
    """The array with some grid axes whole on every rank: itself, or a copy without conditions.
    Collective.
    """
    if all(array.ranks[axis] == 1 for axis in axes):
        return array
    old = array.decomposition
    chosen = pencil_ranks(old.shape, array.ranks, array.communicator.size, axes)
    target = (
        _array_on(array, array.grid.divided(chosen))
        if array.grid is not None
        else _plain_array(array, chosen)
    )
    if array.size:
        move(array, target)
    return target


def pencil_ranks(
    shape: Sequence[int], ranks: Sequence[int], size: int, axes: Sequence[int]
) -> tuple[int, ...]:
    """A process grid of at most `size` ranks with 1 along `axes`.

    As many ranks as fit are used; of these grids the one that keeps most of the present `ranks`,
    then the one with the most even blocks.
    """
    free = [1 if axis in axes else max(cells, 1) for axis, cells in enumerate(shape)]
    return min(
        largest_factorisations(size, free),
        key=lambda g: (-_agreement(g, ranks), sum(n / f for n, f in zip(g, free, strict=True))),
    )


def _agreement(grid: Sequence[int], ranks: Sequence[int]) -> int:
    return sum(a == b > 1 for a, b in zip(grid, ranks, strict=True))


def map_along(
    array: DistArray,
    axis: int | str,
    function: Callable[[HostArray], Any],
    *,
    out: DistArray | None = None,
) -> DistArray:
    """Apply a function to blocks that are whole along an axis. Collective.

    Parameters
    ----------
    array : DistArray
    axis : int or str
        An axis of the array, components counted; or the name of a grid axis.
    function : callable
        Gets a contiguous, read-only host array with this rank's part, components first, and returns
        one of the same shape; its element type may differ, but not between ranks. It is not called
        on ranks that own nothing. Of an array on a device it gets a copy, so that one function
        serves all devices.
    out : DistArray, optional
        Takes the result, cast to its dtype; placed so that the axis is whole, as the result is.
        Nothing is then agreed upon over the ranks, which would take longer than a small transform:
        an error of the function is raised on the ranks that have it alone.

    Returns
    -------
    DistArray
        In the placement in which the axis is whole, on the same grid divided otherwise, without
        conditions.

    Raises
    ------
    ArrayError
        The function changed the shape, returned what is no number, or other element types on other
        ranks; `out` is placed otherwise.
    Exception
        Whatever the function raises; without `out` on all ranks, also where it did not.

    Examples
    --------
    >>> import distarray as da, numpy as np
    >>> u = da.asarray(np.ones((4, 3)))
    >>> da.map_along(u, 0, lambda block: np.cumsum(block, axis=0)).gather()[:, 0]
    array([1., 2., 3., 4.])
    """
    require_array(array, "map_along")
    require_function(function, "map_along", "block")
    number = axis_number(array, axis)
    depth = len(array.components)
    source = array if number < depth else local_along(array, (number - depth,))
    if out is not None:
        _require_target(out, source, array, number)
    if out is not None:
        result, values = out, _mapped(function, source, array)
        if values is not None:
            check_fits(values, out.dtype, "Values of the function of map_along")
    else:
        values, dtype = _agreed(function, source, array)
        result = source._like(dtype)
    settle_readers(result.block)
    if values is not None:
        with np.errstate(all="ignore"):
            result._owned[...] = values
    result._written()
    return result


def _mapped(
    function: Callable[[HostArray], Any], source: DistArray, array: DistArray
) -> HostArray | None:
    """What the function makes of this rank's block of `source`; None where there is none. Local."""
    owned = source.block.backend.to_host(source._owned)
    if not owned.size:
        return None
    # A function that works in place is refused everywhere: on some ranks it would work on a copy.
    block = np.ascontiguousarray(owned).view()
    block.flags.writeable = False
    values = host_values(function(block), "Values of the function of map_along")
    if values.shape != block.shape:
        raise ArrayError(
            f"The function of map_along changed the shape of a block of {array!r}; return values "
            "of the shape it is given."
        )
    return values


def _agreed(
    function: Callable[[HostArray], Any], source: DistArray, array: DistArray
) -> tuple[HostArray | None, np.dtype[Any]]:
    """The values of `_mapped` and their element type on all ranks, or the error of one of them.
    Collective.
    """
    error, values, number = None, None, -1
    try:
        values = _mapped(function, source, array)
        if values is not None:
            number = _TYPES.index(check_dtype(values.dtype))
    except Exception as wrong:  # whatever the function raises, here or on another rank
        error = wrong
    # The largest and the smallest number of a type, and whether there is an error.
    mine = np.array([number, -number if number >= 0 else -len(_TYPES), error is not None])
    highest, lowest, failed = source.communicator.allreduce(mine, "max")
    if failed:
        source.communicator.agree(error)
    if 0 <= highest != -lowest:
        raise ArrayError(
            f"The function of map_along returned {_TYPES[-lowest]} and {_TYPES[highest]} for "
            f"blocks of {array!r}; convert what it returns to one element type."
        )
    return values, _TYPES[highest] if highest >= 0 else source.dtype


def _require_target(out: DistArray, source: DistArray, array: DistArray, axis: int) -> None:
    """An error unless `out` lies as `source` does: as `array` with an axis made whole."""
    require_array(out, "map_along")
    require_same_device(out, array)
    if out.shape != source.shape or not same_placement(out, source):
        raise ArrayError(
            f"{out!r} cannot take what map_along makes of {array!r} along axis {axis}; place it as "
            "that result is, or leave out= away."
        )


def axis_number(array: DistArray, axis: int | str) -> int:
    """The number of an axis of an array, components counted. Local."""
    if isinstance(axis, str) and array.grid is not None:
        return len(array.components) + array.grid.axis_number(axis)
    whole = isinstance(axis, int | np.integer) and not isinstance(axis, bool)
    if whole and -array.ndim <= int(axis) < array.ndim:
        return int(axis) % array.ndim
    raise ArrayError(
        f"axis={shown(axis)} is none of the {array.ndim} axes of {array!r}; use 0 to "
        f"{array.ndim - 1}."
    )
