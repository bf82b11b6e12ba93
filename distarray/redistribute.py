"""Values moved between two placements of the same points, to one rank and from one rank.

`transfer` plans who shares what with whom; here the plan is carried out with one message per pair
of ranks, in kept buffers. A host array is gathered to one rank, or scattered from one, in rounds of
limited size, so that the collecting rank needs little more memory than the array itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.block import Block
from distarray.comm.base import Communicator, PersistentExchange
from distarray.errors import ArrayError
from distarray.layout import Layout
from distarray.regions import Box
from distarray.transfer import Selection, Share, Stride, TransferPlan

__all__ = ["Redistribution", "Selection", "Stride", "gather", "redistribute", "scatter"]


#: Basic indices (numbers and slices) of the leading component axes of a block's memory.
ComponentIndex = tuple[int | slice, ...]

#: Pairs of views of equal shape (or one that broadcasts): values go from the second to the first.
_Copies = list[tuple[Any, Any]]

#: Bytes that one round of a gather or scatter moves at least, if there are as many.
_ROUND = 1 << 26


class Redistribution:
    """A transfer between two layouts with kept buffers and requests. Creation is Local.

    Parameters
    ----------
    source, target : Layout
    communicator : Communicator
        Its ranks hold the blocks of both layouts.
    selection : Selection, optional
        Default: every point to the point of the same index.
    source_component, target_component : tuple of int or slice
        Basic indices of the leading component axes on each side; what they leave must have the same
        shape. Default: all components.

    Raises
    ------
    ArrayError
        The two sides have different shapes or components.
    """

    def __init__(
        self,
        source: Layout,
        target: Layout,
        communicator: Communicator,
        *,
        selection: Selection | None = None,
        source_component: ComponentIndex = (),
        target_component: ComponentIndex = (),
    ) -> None:
        if selection is None:
            _require_equal_points(source, target)
            selection = Selection.all_of(source)
        self._source = _Side(source, selection.source, source_component)
        self._target = _Side(target, selection.target, target_component)
        self._source.require_components_of(self._target)
        plan = TransferPlan.build(source, target, selection, communicator.rank)
        self._sends = [share for share in plan.sends if share.rank != communicator.rank]
        self._receives = [share for share in plan.receives if share.rank != communicator.rank]
        self._own = [share for share in plan.sends if share.rank == communicator.rank]
        self._communicator = communicator
        self._exchange: PersistentExchange | None = None
        self._bound: tuple[int, int] | None = None

    def run(self, source: Block, target: Block) -> None:
        """Move the values. Collective over the ranks concerned.

        Source and target may be the same block. Values are cast to the target's dtype. The caller
        notes the write by `target.changed()`.
        """
        exchange = self._prepared(source)
        self._bind(source, target)
        _carry_out(self._packing)
        request = exchange.start()
        for memory, values in self._local:
            memory[...] = values.copy() if source is target else values
        request.wait()
        _carry_out(self._unpacking)

    def _prepared(self, source: Block) -> PersistentExchange:
        """Buffers and requests, made at the first run."""
        if self._exchange is None:
            self._sent = [self._buffer(share, source) for share in self._sends]
            self._received = [self._buffer(share, source) for share in self._receives]
            self._exchange = self._communicator.prepare_exchange(
                [(share.rank, sent) for share, sent in zip(self._sends, self._sent, strict=True)],
                [(s.rank, into) for s, into in zip(self._receives, self._received, strict=True)],
            )
        return self._exchange

    def _buffer(self, share: Share, source: Block) -> Any:
        # Both ends take shape and dtype from the source, so that their messages are equally long.
        shape, dtype = self._source.shape(share.box), source.layout.dtype
        octets = source.backend.buffer(math.prod(shape) * dtype.itemsize)
        return octets.view(dtype).reshape(shape)

    def _bind(self, source: Block, target: Block) -> None:
        """Make the views that belong to these blocks, unless they are those of the last run."""
        if self._bound == (source.serial, target.serial):
            return
        self._bound = source.serial, target.serial
        taken = [self._source.view(source, share.box) for share in self._sends]
        filled = [self._target.view(target, share.box) for share in self._receives]
        self._packing: _Copies = list(zip(self._sent, taken, strict=True))
        self._unpacking: _Copies = list(zip(filled, self._received, strict=True))
        self._local: _Copies = [
            (self._target.view(target, share.box), self._source.view(source, share.box))
            for share in self._own
        ]


def _carry_out(copies: _Copies) -> None:
    for target, values in copies:
        target[...] = values


class _Side:
    """One side of a redistribution: which part of a block's memory belongs to a share."""

    def __init__(
        self, layout: Layout, along: tuple[Stride | int, ...], component: ComponentIndex
    ) -> None:
        self.layout = layout
        self.along = along
        self.component = component
        self.components: tuple[int, ...] = np.broadcast_to(0, layout.components)[component].shape
        self._indices: dict[Box, tuple[Any, ...]] = {}

    def require_components_of(self, other: _Side) -> None:
        if self.components != other.components:
            raise ArrayError(
                f"Components of shape {self.components} cannot go to components of shape "
                f"{other.components}; select components of one shape on both sides."
            )

    def view(self, block: Block, box: Box) -> Any:
        """The memory of a share's points, repeated indices with length 1."""
        index = self._indices.get(box)
        if index is None:  # the same in all blocks of this layout on this rank
            index = self._indices[box] = self._index(block, box)
        return block.memory[index]

    def _index(self, block: Block, box: Box) -> tuple[Any, ...]:
        counters = iter(zip(box.start, box.stop, strict=True))
        index = tuple(
            along - origin if isinstance(along, int) else along.part(*next(counters), origin)
            for along, origin in zip(self.along, block.padded.start, strict=True)
        )
        return (*self.component, ..., *index)

    def shape(self, box: Box) -> tuple[int, ...]:
        """The shape of `view`."""
        strides = [along for along in self.along if isinstance(along, Stride)]
        return self.components + tuple(
            extent if along.step else 1 for extent, along in zip(box.shape, strides, strict=True)
        )


def _require_equal_points(source: Layout, target: Layout) -> None:
    if source.points != target.points:
        raise ArrayError(
            f"An array of {source.points} points cannot be redistributed to {target.points}; "
            "both need the same shape."
        )


def redistribute(
    source: Block,
    target: Block,
    communicator: Communicator,
    *,
    selection: Selection | None = None,
    source_component: ComponentIndex = (),
    target_component: ComponentIndex = (),
) -> None:
    """Move values from one block to another, once. Collective; see `Redistribution`."""
    Redistribution(
        source.layout,
        target.layout,
        communicator,
        selection=selection,
        source_component=source_component,
        target_component=target_component,
    ).run(source, target)


def gather(
    block: Block,
    communicator: Communicator,
    root: int | None = None,
    *,
    component: ComponentIndex = (),
) -> HostArray | None:
    """The whole array on the host of one rank, or of all. Collective.

    Parameters
    ----------
    block : Block
    communicator : Communicator
    root : int or None
        The rank that receives the values; None for all ranks.
    component : tuple of int or slice
        Basic indices of the leading component axes. Default: all components.

    Returns
    -------
    ndarray or None
        A new array, shape components + points; None on the other ranks.
    """
    collector = 0 if root is None else root
    side = _Side(block.layout, Selection.all_of(block.layout).source, component)
    mine: HostArray = block.backend.to_host(block.owned_memory[component])
    result = None
    if root is None or communicator.rank == root:
        result = np.empty(side.components + block.layout.points, block.layout.dtype)
    if communicator.rank == collector and result is not None:
        _store(mine, result, block.owned)
    for ranks in _rounds(block.layout, side.components, collector):
        if communicator.rank == collector and result is not None:
            boxes = [block.layout.owned(rank) for rank in ranks]
            parts = [np.empty(side.components + box.shape, result.dtype) for box in boxes]
            communicator.exchange([], list(zip(ranks, parts, strict=True)))
            for box, part in zip(boxes, parts, strict=True):
                _store(part, result, box)
        elif communicator.rank in ranks:
            communicator.exchange([(collector, np.ascontiguousarray(mine))], [])
    if root is None and result is not None:
        communicator.broadcast(result, collector)
    return result


def scatter(
    values: HostArray | None, block: Block, communicator: Communicator, root: int = 0
) -> None:
    """Fill the owned part of a block from a host array of the whole on one rank. Collective.

    The caller notes the write by `block.changed()`.

    Parameters
    ----------
    values : ndarray or None
        Shape of the whole array, components first; cast to the block's dtype. Ignored off root.

    Raises
    ------
    ArrayError
        The values do not have the array's shape, on all ranks alike.
    """
    layout = block.layout
    communicator.agree(_shape_error(values, layout) if communicator.rank == root else None)
    if communicator.rank == root and values is not None:
        block.owned_memory[...] = block.backend.asarray(_part(values, block.owned, layout))
    for ranks in _rounds(layout, layout.components, root):
        if communicator.rank == root and values is not None:
            parts = [(rank, _part(values, layout.owned(rank), layout)) for rank in ranks]
            communicator.exchange(parts, [])
        elif communicator.rank in ranks:
            mine = np.empty(layout.components + block.owned.shape, layout.dtype)
            communicator.exchange([], [(root, mine)])
            block.owned_memory[...] = block.backend.asarray(mine)


def _store(part: HostArray, whole: HostArray, box: Box) -> None:
    index: tuple[Any, ...] = (..., *box.slices())
    whole[index] = part


def _part(values: HostArray, box: Box, layout: Layout) -> HostArray:
    index: tuple[Any, ...] = (..., *box.slices())
    return np.ascontiguousarray(values[index], layout.dtype)


def _shape_error(values: HostArray | None, layout: Layout) -> ArrayError | None:
    if values is not None and values.shape == layout.shape:
        return None
    return ArrayError(
        f"Values of shape {None if values is None else values.shape} cannot fill an array of shape "
        f"{layout.shape}; pass an array of that shape on root."
    )


def _rounds(layout: Layout, components: tuple[int, ...], root: int) -> Iterator[list[int]]:
    """The ranks other than root that own something, in groups of limited size."""
    group: list[int] = []
    pending = 0
    for rank in range(layout.decomposition.size):
        nbytes = layout.owned(rank).size * math.prod(components) * layout.dtype.itemsize
        if rank == root or nbytes == 0:
            continue
        group.append(rank)
        pending += nbytes
        if pending >= _ROUND:
            yield group
            group, pending = [], 0
    if group:
        yield group
