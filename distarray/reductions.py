"""Reductions of arrays: over all axes a number on every rank, over some axes an array over the
remaining ones.

Over all axes, values on a device are reduced there by one pass over memory, see `block_reductions`,
or two for `argmin` and `argmax`; `prod` and all that goes over some axes works on a copy of the
block on the host. Many floating-point numbers on the host are reduced by such a pass, too, which
threads share. What not all arrays need is imported when first used.

Over grid axes each rank reduces its own block, and the blocks that share a place along the
remaining axes merge their partial results in pairs, in order; the result goes to the rank that owns
that place. Reproducible sums over axes first move the array so that the reduced axes lie whole on
one rank, and add in the order of indices.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray import contributions
from distarray.accumulation import accumulator_of, sum_type
from distarray.arraylike import HostArray
from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.elementwise import require_array
from distarray.errors import ArrayError, UnsupportedError, shown
from distarray.layout import Layout
from distarray.pending import Contribution, Pending
from distarray.placement import local_along

if TYPE_CHECKING:
    from distarray.array import DistArray

Parts = list[HostArray]

#: Elements of a rank from which on a kernel reduces them on the host.
LEAST_SHARED = 1 << 17


def begin_sum(array: DistArray, *, reproducible: bool = False) -> Pending:
    """Start the sum of all elements. Collective; reading the result is Local."""
    return _begin(array, "sum", reproducible)


def begin_mean(array: DistArray, *, reproducible: bool = False) -> Pending:
    """Start the mean of all elements. Collective; reading the result is Local."""
    return _begin(array, "mean", reproducible)


def begin_prod(array: DistArray) -> Pending:
    """Start the product of all elements. Collective; reading the result is Local."""
    return _begin(array, "prod")


def begin_min(array: DistArray) -> Pending:
    """Start the minimum of all elements. Collective; reading the result is Local."""
    return _begin(array, "min")


def begin_max(array: DistArray) -> Pending:
    """Start the maximum of all elements. Collective; reading the result is Local."""
    return _begin(array, "max")


def begin_any(array: DistArray) -> Pending:
    """Start to find whether any element is true. Collective; reading the result is Local."""
    return _begin(array, "any")


def begin_all(array: DistArray) -> Pending:
    """Start to find whether all elements are true. Collective; reading the result is Local."""
    return _begin(array, "all")


def _begin(array: DistArray, kind: str, reproducible: bool = False) -> Pending:
    """Start a reduction; on the device, where its result may stay there."""
    require_array(array, f"begin_{kind}")
    pending = None
    if not array.block.backend.host and by_kernel(array, kind):
        from distarray import block_reductions

        dtype, size = array.dtype, array.size

        def finish(partial: HostArray) -> Any:
            return contributions.of_partial(kind, partial, dtype, size).result_of_all()

        pending = block_reductions.begin(
            _reduced_for(kind),
            (array.block, array.component_prefix),
            communicator=array.communicator,
            name=kind,
            finish=(finish, contributions.result_type(kind, dtype)),
            reproducible=reproducible,
        )
    if pending is not None:
        return pending
    return _contribution(array, kind, reproducible).begin(array.communicator)


def by_kernel(array: DistArray, kind: str) -> bool:
    """Whether all elements are reduced by a kernel: by the device they are on or, where threads
    could share the work, by the host. Local; the number of threads plays no part, so that sums have
    the same bits for any.
    """
    if array.block.backend.host:
        from distarray.backends import native

        floating = array.dtype.kind in "fc"
        large = array.size >= LEAST_SHARED * array.communicator.size
        if not (floating and large and native.enabled()) or native.toolchain() is None:
            return False
    if kind in ("min", "max"):
        contributions.require_extreme(kind, array.dtype, array.size)
    return kind != "prod"


def _reduced_for(kind: str) -> str:
    """What is reduced to find a mean, or another kind."""
    return "sum" if kind == "mean" else kind


def _contribution(array: DistArray, kind: str, reproducible: bool = False) -> Contribution:
    block, backend = array.block, array.block.backend
    if by_kernel(array, kind):
        from distarray import block_reductions

        operand = (block, array.component_prefix)
        partial = block_reductions.partial_result(
            _reduced_for(kind), operand, reproducible=reproducible
        )
        return contributions.of_partial(kind, partial, array.dtype, array.size)
    load = backend.load if reproducible else None
    return contributions.of_values(kind, backend.to_host(array._owned), array.size, load)


def reduce(array: DistArray, kind: str, axis: Any = None, reproducible: bool = False) -> Any:
    """The method of this name. Collective."""
    axes = axes_of(array, axis)
    if len(axes) == array.ndim:
        return _contribution(array, kind, reproducible).complete(array.communicator)
    if kind in ("min", "max"):
        contributions.require_order(kind, array.dtype)
    count = _count(array, axes)
    if kind in ("min", "max") and count == 0:
        raise ArrayError(
            f"{kind} over axes {axes} without elements is not defined; check the shape first."
        )
    return _over_axes(
        array, _fold(kind, array.dtype, count, reproducible), axes, whole=reproducible
    )


def variance(array: DistArray, axis: Any, ddof: int) -> Any:
    """`var`. Collective."""
    axes = axes_of(array, axis)
    if not isinstance(ddof, numbers.Real):
        raise ArrayError(f"ddof={shown(ddof)} of a variance is no number; use 0 or 1.")
    if len(axes) == array.ndim:
        total, squares = _deviations(array)
        count = (array.size, ddof)
        return contributions.variance(total, squares, array.dtype, count, array.communicator)
    return _over_axes(array, _variance_fold(array.dtype, max(_count(array, axes) - ddof, 0)), axes)


def _deviations(array: DistArray) -> tuple[Any, Callable[[Any], Any]]:
    """The sum of owned values, and a function that gives their squared deviations from a mean."""
    block = array.block
    if by_kernel(array, "sum"):
        from distarray import block_reductions

        operand = (block, array.component_prefix)
        result = block_reductions.partial_result
        total = result("sum", operand)[0]
        return total, lambda mean: result("deviations", operand, mean=mean.item())[0]
    accumulator = np.result_type(accumulator_of(array.dtype), np.float64)
    values = array._owned.astype(accumulator, copy=False)
    with np.errstate(all="ignore"):
        total = np.sum(array._owned, dtype=accumulator_of(array.dtype))
    return total, lambda mean: contributions.squared_deviations(values, mean)


def arg_extreme(array: DistArray, kind: str, axis: int | None) -> Any:
    """`argmin` and `argmax`. Collective."""
    if axis is not None and not isinstance(axis, int | np.integer):
        raise UnsupportedError(
            f"arg{kind} goes over one axis or all (axis=None), got axis={shown(axis)}; name one."
        )
    axes = axes_of(array, axis)
    if _count(array, axes) == 0:
        raise ArrayError(
            f"arg{kind} of an array without elements is not defined; check its size first."
        )
    if len(axes) == array.ndim:
        found = _searched(array, kind)
        if found is not None:
            return found
        values = array.block.backend.to_host(array._owned)
        return contributions.arg_extreme(
            kind, values, lambda flat: _global_flat(array, flat), array.communicator
        )
    contributions.require_order(f"arg{kind}", array.dtype)
    start = array.local_slices[axes[0]].start
    return _over_axes(array, _arg_fold(kind, start), axes)


def _searched(array: DistArray, kind: str) -> Any:
    """`arg_extreme` of all elements by two passes on the device, for the extremum and for its first
    place. None where the host has to do it, on all ranks alike. Collective.
    """
    if array.block.backend.host:
        return None
    from distarray import block_reductions

    operand = (array.block, array.component_prefix)
    if not block_reductions.searchable(*operand):
        return None
    best = _contribution(array, kind).complete(array.communicator)
    place = block_reductions.first_place(operand, best)
    return np.int64(array.communicator.allreduce(np.array([place], np.int64), "min")[0])


def _global_flat(array: DistArray, flat: int) -> int:
    """The flat global index of the element at a flat index of the owned values."""
    local = np.unravel_index(flat, array.local_shape)
    index = [int(i) + s.start for i, s in zip(local, array.local_slices, strict=True)]
    return int(np.ravel_multi_index(index, array.shape))


def axes_of(array: DistArray, axis: Any) -> tuple[int, ...]:
    """The axes that a reduction goes over, as different numbers from 0; all for None."""
    if axis is None:
        return tuple(range(array.ndim))
    try:
        axes = tuple(map(operator.index, axis if isinstance(axis, Sequence) else (axis,)))
    except TypeError:
        axes = (array.ndim,)
    found = tuple(sorted({a % array.ndim for a in axes}))
    if len(found) != len(axes) or not all(-array.ndim <= a < array.ndim for a in axes):
        raise ArrayError(
            f"axis={shown(axis)} must be different axes of the {array.ndim} of {array!r}; use 0 to "
            f"{array.ndim - 1}."
        )
    return found


def _count(array: DistArray, axes: Sequence[int]) -> int:
    return math.prod(array.shape[axis] for axis in axes)


@dataclass(frozen=True)
class _Fold:
    """How partial results over some axes are made, merged and finished; arrays in lists."""

    local: Callable[[HostArray, tuple[int, ...]], Parts]
    merge: Callable[[Parts, Parts], Parts]
    finish: Callable[[Parts], HostArray]


def _fold(kind: str, dtype: np.dtype[Any], count: int, reproducible: bool) -> _Fold:
    ufunc = _UFUNCS[kind]
    if kind in ("sum", "mean", "prod"):
        type_of = contributions.mean_type if kind == "mean" else sum_type
        final, accumulator = type_of(dtype), accumulator_of(dtype)
    else:
        final = accumulator = np.dtype(np.bool_) if kind in ("any", "all") else dtype

    def local(values: HostArray, axes: tuple[int, ...]) -> Parts:
        if reproducible:
            return [_sum_in_order(values, axes, accumulator)]
        return [np.asarray(ufunc.reduce(values, axis=axes, dtype=accumulator))]

    def finish(parts: Parts) -> HostArray:
        total = contributions.divide(parts[0], count) if kind == "mean" else parts[0]
        return np.asarray(total, final)

    return _Fold(local, lambda a, b: [ufunc(a[0], b[0])], finish)


_UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def _sum_in_order(values: HostArray, axes: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
    """The sum over axes, element after element in the order of indices, whatever the memory looks
    like.
    """
    moved = np.moveaxis(values, axes, range(len(axes)))
    total = np.zeros(moved.shape[len(axes) :], dtype)
    for index in np.ndindex(moved.shape[: len(axes)]):
        total += moved[index]
    return total


def _variance_fold(dtype: np.dtype[Any], divisor: int) -> _Fold:
    """Number, mean and squared deviations of each part, merged by the formula of Chan, Golub and
    LeVeque (1983).
    """
    accumulator = np.result_type(accumulator_of(dtype), np.float64)
    final = np.empty(0, contributions.mean_type(dtype)).real.dtype

    def local(values: HostArray, axes: tuple[int, ...]) -> Parts:
        values = values.astype(accumulator, copy=False)
        mean = values.mean(axis=axes, keepdims=True)
        deviation = values - mean
        squares = (deviation.real**2 + deviation.imag**2).sum(axis=axes)
        mean = mean.reshape(squares.shape)
        return [np.full(squares.shape, values.size / max(squares.size, 1)), mean, squares]

    def merge(a: Parts, b: Parts) -> Parts:
        number = a[0] + b[0]
        difference = b[1] - a[1]
        distance = difference.real**2 + difference.imag**2
        return [
            number,
            a[1] + difference * (b[0] / number),
            a[2] + b[2] + distance * (a[0] * b[0] / number),
        ]

    return _Fold(
        local, merge, lambda parts: np.asarray(contributions.divide(parts[2], divisor), final)
    )


def _arg_fold(kind: str, start: int) -> _Fold:
    better = np.less if kind == "min" else np.greater

    def local(values: HostArray, axes: tuple[int, ...]) -> Parts:
        index = np.expand_dims(getattr(values, f"arg{kind}")(axis=axes[0]), axes[0])
        found = np.take_along_axis(values, index, axes[0])
        return [found.squeeze(axes[0]), index.squeeze(axes[0]).astype(np.int64) + start]

    def merge(a: Parts, b: Parts) -> Parts:
        # Parts come in the order of indices, so that of equal values, and of NaNs, the first one
        # stays.
        later = ~np.isnan(a[0]) & (better(b[0], a[0]) | np.isnan(b[0]))
        return [np.where(later, y, x) for x, y in zip(a, b, strict=True)]

    return _Fold(local, merge, lambda parts: parts[1])


def _over_axes(
    array: DistArray, fold: _Fold, axes: tuple[int, ...], *, whole: bool = False
) -> DistArray:
    """Reduce over some of the axes. Collective."""
    depth = len(array.components)
    grid_axes = tuple(a - depth for a in axes if a >= depth)
    components = tuple(n for a, n in enumerate(array.components) if a not in axes)
    if not grid_axes:
        with np.errstate(all="ignore"):
            values = fold.finish(fold.local(array.block.backend.to_host(array._owned), axes))
        result = array._like(values.dtype, components)
        result._owned[...] = values
        return result
    source = local_along(array, grid_axes) if whole else array
    kept = tuple(a for a in range(array.layout.ndim) if a not in grid_axes)
    with np.errstate(all="ignore"):
        sample = fold.finish(fold.local(np.ones((1,) * array.ndim, array.dtype), axes))
        target = _target(source, components, kept, sample.dtype)
        _merge_blocks(source, target, fold, axes, kept)
    return target


def _target(
    source: DistArray, components: tuple[int, ...], kept: tuple[int, ...], dtype: np.dtype[Any]
) -> DistArray:
    """The array that results: over the kept grid axes, cut as they are, or over components alone,
    on rank 0.
    """
    if kept:
        decomposition = source.decomposition.select(kept)
        staggered = tuple(source.layout.staggered[a] for a in kept)
    else:
        decomposition = Decomposition(components, (1,) * len(components))
        staggered, components = (False,) * len(components), ()
    layout = Layout(decomposition, staggered, (0,) * decomposition.ndim, components, dtype)
    return source._place(layout, source.topology.divided(decomposition))


def _merge_blocks(
    source: DistArray, target: DistArray, fold: _Fold, axes: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    """Merge the partial results of the blocks that share a place along the kept axes, and bring
    what becomes of them to the owner of that place in the target.
    """
    rank, communicator = source.block.rank, source.communicator
    values = np.empty(target.local_shape, target.dtype)
    sends, receives = [], []
    coords = source.topology.coords
    if coords is not None:
        group = _Group(source.decomposition, kept, tuple(coords[a] for a in kept))
        owned = source.block.backend.to_host(source._owned)
        parts = _merged(fold.local(owned, axes), fold, group, coords, communicator)
        if parts is not None:
            found = np.array(fold.finish(parts), order="C")
            owner = target.decomposition.rank_at(group.place) if kept else 0
            if owner == rank:
                values = found
            else:
                sends.append((owner, found))
    place = target.topology.coords
    if place is not None:
        first = _Group(source.decomposition, kept, place[: len(kept)]).rank_of(0)
        if first != rank:
            receives.append((first, values))
    communicator.exchange(sends, receives)
    target._owned[...] = values


class _Group:
    """The ranks whose blocks share a place along the kept axes, numbered in the order of their
    indices.
    """

    def __init__(
        self, decomposition: Decomposition, kept: tuple[int, ...], place: tuple[int, ...]
    ) -> None:
        self.place = place
        self._decomposition = decomposition
        self._fixed = dict(zip(kept, place, strict=True))
        self._extents = [1 if a in kept else n for a, n in enumerate(decomposition.ranks)]
        self.size = math.prod(self._extents)

    def rank_of(self, number: int) -> int:
        position = np.unravel_index(number, self._extents)
        coords = [self._fixed.get(a, int(part)) for a, part in enumerate(position)]
        return self._decomposition.rank_at(coords)

    def number_of(self, coords: tuple[int, ...]) -> int:
        position = [0 if a in self._fixed else part for a, part in enumerate(coords)]
        return int(np.ravel_multi_index(position, self._extents))


def _merged(
    parts: Parts,
    fold: _Fold,
    group: _Group,
    coords: tuple[int, ...],
    communicator: Communicator,
) -> Parts | None:
    """The parts of a group in one, on its first rank; None on the others.

    Neighbours merge in pairs, then pairs of pairs: no rank gets more than log2(size) messages, and
    parts stay in order.
    """
    number, step = group.number_of(coords), 1
    while step < group.size:
        if number % (2 * step):
            communicator.exchange([(group.rank_of(number - step), _pack(parts))], [])
            return None
        if number + step < group.size:
            packed = np.empty(sum(part.nbytes for part in parts), np.uint8)
            communicator.exchange([], [(group.rank_of(number + step), packed)])
            parts = fold.merge(parts, _unpack(packed, parts))
        step *= 2
    return parts


def _pack(parts: Parts) -> HostArray:
    """The bytes of all arrays."""
    return np.concatenate([np.ravel(part).view(np.uint8) for part in parts])


def _unpack(packed: HostArray, like: Parts) -> Parts:
    """Arrays from the bytes of all, with shapes and element types as in `like`."""
    ends = np.cumsum([part.nbytes for part in like])[:-1]
    return [
        octets.view(part.dtype).reshape(part.shape)
        for octets, part in zip(np.split(packed, ends), like, strict=True)
    ]
