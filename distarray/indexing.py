"""Basic global indexing and assignment: integers, slices and ellipsis.

An index is parsed into one entry per axis, an integer or a `Stride`. Integers on the leading
component axes give a view. What remains is either local (whole grid axes), one point, or a transfer
between two placements.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arguments import check_fits, host_values
from distarray.arraylike import DeviceMarker, HostArray, is_array, is_profile
from distarray.decomposition import Decomposition
from distarray.deferred import settle_readers
from distarray.elementwise import local_operand, require_same_device, same_placement
from distarray.errors import ArrayError, IndexingError, UnsupportedError, shown
from distarray.pending import Pending
from distarray.placement import move
from distarray.transfer import Selection, Stride

if TYPE_CHECKING:
    from distarray.array import DistArray

Along = tuple[Stride | int, ...]


def get(array: DistArray, index: Any) -> Any:
    """`array[index]`. Collective, except where it is a view or local."""
    entries = parse(array, index)
    array, entries = _strip_components(array, entries)
    depth = len(array.components)
    components, along = entries[:depth], entries[depth:]
    if _whole(along, array.layout.points):
        if _whole(components, array.components):
            return array
        return _selected_components(array, components)
    point = tuple(a for a in along if isinstance(a, int))
    if len(point) == len(along):
        return _point(array, components, point)
    return _part(array, components, along)


def put(array: DistArray, index: Any, value: Any) -> None:
    """`array[index] = value`. Collective."""
    entries = parse(array, index)
    array, entries = _strip_components(array, entries)
    depth = len(array.components)
    components, along = entries[:depth], entries[depth:]
    if isinstance(value, Pending):
        value = value.result()
    distributed = is_array(value) or is_profile(value)
    if not distributed:
        value = _local_values(array, value)
    elif value.dtype.kind == "c" and array.dtype.kind != "c":
        raise ArrayError(f"Complex values cannot be assigned to {array!r}; take their real part.")
    if _put_expression(array, components, along, value):
        return
    settle_readers(array.block)
    with np.errstate(all="ignore"):
        if distributed:
            _put_array(array, components, along, value)
        else:
            _put_host(array, components, along, value)
    array._written()


def _local_values(array: DistArray, value: Any) -> Any:
    """What this rank was given, on the host, or on the array's device if it lies there."""
    subject = f"Values assigned to {array!r}"
    backend: Any = array.block.backend
    found: Any = value if backend.host else backend.adopted(value)
    on_device = isinstance(found, DeviceMarker)
    if not on_device:
        found = host_values(value, subject)
        check_fits(found, array.dtype, subject)
    elif not np.can_cast(found.dtype, array.dtype, "same_kind"):
        raise ArrayError(f"{subject} are {found.dtype}; convert them to {array.dtype} first.")
    return found


def parse(array: DistArray, index: Any) -> Along:
    """One integer or stride per axis, components first.

    Raises
    ------
    IndexingError
        An index outside the array, or too many indices.
    UnsupportedError
        Anything that is neither integer, slice nor ellipsis.
    """
    given = index if isinstance(index, tuple) else (index,)
    for entry in given:
        _require_basic(array, entry)
    fills = sum(entry is Ellipsis for entry in given)
    missing = array.ndim - (len(given) - fills)
    if missing < 0 or fills > 1:
        rule = "at most one ellipsis" if fills > 1 else f"at most {array.ndim} indices"
        raise IndexingError(f"Index {index!r} does not fit {array!r}; use {rule}.")
    at = next((number for number, entry in enumerate(given) if entry is Ellipsis), len(given))
    full = (*given[:at], *[slice(None)] * missing, *given[at + 1 :])
    return tuple(_entry(array, axis, entry) for axis, entry in enumerate(full))


def _require_basic(array: DistArray, entry: Any) -> None:
    if entry is Ellipsis or isinstance(entry, slice):
        return
    if isinstance(entry, bool | np.bool_) or not hasattr(entry, "__index__") or np.ndim(entry):
        raise UnsupportedError(
            f"Index {shown(entry)} of {array!r} is not supported; use integers and slices, "
            "numpy.where, or gather()."
        )


def _entry(array: DistArray, axis: int, entry: Any) -> Stride | int:
    extent = array.shape[axis]
    if isinstance(entry, slice):
        try:
            start, stop, step = entry.indices(extent)
        except (TypeError, ValueError) as error:
            raise IndexingError(
                f"{entry!r} along axis {axis} of {array!r} is no slice of whole numbers "
                f"({error}); correct it."
            ) from None
        return Stride(start, step, len(range(start, stop, step)))
    number = operator.index(entry)
    if not -extent <= number < extent:
        raise IndexingError(
            f"Index {number} is outside axis {axis} of {array!r} with {extent} entries; use "
            f"{-extent} to {extent - 1}."
        )
    return number % extent


def _strip_components(array: DistArray, entries: Along) -> tuple[DistArray, Along]:
    """The view of the leading component integers, and the entries that remain."""
    leading: list[int] = []
    for entry in entries[: len(array.components)]:
        if not isinstance(entry, int):
            break
        leading.append(entry)
    if not leading:
        return array, entries
    return array._component(tuple(leading)), entries[len(leading) :]


def _whole(along: Sequence[Stride | int], extents: Sequence[int]) -> bool:
    return all(a == Stride(0, 1, n) for a, n in zip(along, extents, strict=True))


def _slices(components: Along) -> tuple[int | slice, ...]:
    """Component entries as basic indices of memory."""
    return tuple(
        c if isinstance(c, int) else c.part(0, c.count, 0) if c.count else slice(0, 0)
        for c in components
    )


def _counts(along: Along) -> tuple[int, ...]:
    return tuple(a.count for a in along if isinstance(a, Stride))


def _selected_components(array: DistArray, components: Along) -> DistArray:
    """A copy of some components on the same grid."""
    result = array._like(components=_counts(components))
    result._owned[...] = array._owned[_slices(components)]
    return result


def _point(array: DistArray, components: Along, along: tuple[int, ...]) -> Any:
    """The value at one point on every rank: a scalar, or a host array of components."""
    decomposition = array.decomposition
    parts = [axis.part_of(at) for axis, at in zip(decomposition.axes, along, strict=True)]
    owner = decomposition.rank_at(parts)
    values = np.empty(_counts(components), array.dtype)
    if owner == array.block.rank:
        at = tuple(a - start for a, start in zip(along, array.block.owned.start, strict=True))
        values[...] = array.block.backend.to_host(array._owned[(*_slices(components), *at)])
    array.communicator.broadcast(values, owner)
    return values[()]


def _part(array: DistArray, components: Along, along: Along) -> DistArray:
    """A copy of a part, over the same process grid without the axes held at a number."""
    kept = [axis for axis, a in enumerate(along) if isinstance(a, Stride)]
    counts = _counts(along)
    ranks = [
        min(array.ranks[axis], max(1, count)) for axis, count in zip(kept, counts, strict=True)
    ]
    decomposition = Decomposition(counts, ranks)
    layout = replace(
        array.layout,
        decomposition=decomposition,
        staggered=(False,) * len(counts),
        halo=(0,) * len(counts),
        components=_counts(components),
    )
    result = array._place(layout, array.topology.divided(decomposition))
    if result.size:
        dense = tuple(Stride(0, 1, count) for count in counts)
        move(array, result, Selection(along, dense), source_component=_slices(components))
    return result


def _put_expression(array: DistArray, components: Along, along: Along, value: Any) -> bool:
    """Compute what is still to be computed where it is assigned to; whether that was so."""
    node: Any = value.block.deferred if is_array(value) and not value.component_prefix else None
    if node is None:
        return False
    whole = _whole(components, array.components) and _whole(along, array.layout.points)
    if not (whole and same_placement(array, value) and value.components == array.components):
        return False
    boundary = array._boundary
    node.assign(
        (array.block, array.component_prefix),
        array._written,
        waiting=value.block,
        kept=boundary is None or not boundary.conditions.fixing,
    )
    return True


def _put_array(array: DistArray, components: Along, along: Along, value: Any) -> None:
    if not is_array(value) or (_whole(along, array.layout.points) and same_placement(array, value)):
        _put_local(array, components, along, local_operand(array, value))
        return
    require_same_device(array, value)
    if value.communicator != array.communicator:
        raise ArrayError(
            f"{value!r} lives on another communicator than {array!r}; create both on one."
        )
    if value.layout.points != _counts(along) or value.components != _counts(components):
        raise ArrayError(
            f"{value!r} does not fit a part of shape {_counts(components) + _counts(along)} of "
            f"{array!r}; "
            "both need the same shape."
        )
    if not value.size:
        return
    dense = tuple(Stride(0, 1, count) for count in _counts(along))
    move(value, array, Selection(dense, along), target_component=_slices(components))


def _put_local(array: DistArray, components: Along, along: Along, values: Any) -> None:
    """Assign values that lie as the owned values do, which are all selected."""
    if not _whole(along, array.layout.points):
        raise ArrayError(
            f"A profile can be assigned to whole grid axes only; assign to all points of {array!r}."
        )
    target = array._owned[_slices(components)] if components else array._owned
    try:
        target[...] = values
    except ValueError:
        raise ArrayError(
            f"Values with components {values.shape[: -array.layout.ndim]} do not fit components "
            f"{_counts(components)}; "
            "select components of one shape."
        ) from None


def _put_host(array: DistArray, components: Along, along: Along, values: HostArray) -> None:
    """Assign a number, or a host array that is the same on every rank."""
    shape = _counts(components) + _counts(along)
    number = values if values.ndim == 0 else None
    try:
        values = np.broadcast_to(values, shape)
    except ValueError:
        raise ArrayError(
            f"Values of shape {values.shape} do not broadcast to the part of shape {shape} of "
            f"{array!r}; match it."
        ) from None
    owned = array.block.owned
    target: list[int | slice] = []
    counters: list[slice] = []
    for a, low, high in zip(along, owned.start, owned.stop, strict=True):
        if isinstance(a, Stride):
            first, last = a.within(low, high)
            if first == last:
                return
            counters.append(slice(first, last))
            target.append(a.part(first, last, low))
        elif not low <= a < high:
            return
        else:
            target.append(a - low)
    index = (*_slices(components), *target)
    if number is not None:
        array._owned[index] = number
        return
    chosen: tuple[Any, ...] = (..., *counters)
    array._owned[index] = _once(values[chosen] if counters else values)


def _once(values: HostArray) -> HostArray:
    """A broadcast array with each of its values once: what has to be brought to a device."""
    return values[tuple(slice(0, 1) if step == 0 else slice(None) for step in values.strides)]
