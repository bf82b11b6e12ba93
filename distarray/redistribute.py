"""Values moved between two placements of the same points.

`transfer` plans who shares what with whom; here the plan is carried out with one message per pair
of ranks, in kept buffers.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from distarray.backends.base import Backend, BoxCopy, CopyList
from distarray.block import Block
from distarray.comm.base import Communicator, PackedTransfers, PersistentExchange
from distarray.errors import ArrayError
from distarray.halo.buffers import packed_transfers
from distarray.layout import Layout
from distarray.regions import Box
from distarray.transfer import Selection, Share, Stride, TransferPlan

#: Basic indices (numbers and slices) of the leading component axes of a block's memory.
ComponentIndex = tuple[int | slice, ...]

#: Redistributions kept to be run again: how many, and how many bytes of buffers in all.
_MOST_KEPT, _MOST_BYTES = 64, 1 << 28


class Redistribution:
    """A transfer between two layouts with kept buffers and requests. Creation is Local.

    It names no block, so that it may be kept while the arrays come and go.

    Parameters
    ----------
    source, target : Layout
    rank : int
        This rank of the communicator whose ranks hold the blocks of both layouts.
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
        rank: int,
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
        self._casts = source.dtype != target.dtype
        plan = TransferPlan.build(source, target, selection, rank)
        self._sends = [share for share in plan.sends if share.rank != rank]
        self._receives = [share for share in plan.receives if share.rank != rank]
        self._own = [share for share in plan.sends if share.rank == rank]
        self._exchange: PersistentExchange | None = None
        # Prepared copies, kept for as long as their blocks.
        self._packing: weakref.WeakKeyDictionary[Block, CopyList] = weakref.WeakKeyDictionary()
        self._unpacking: weakref.WeakKeyDictionary[Block, CopyList] = weakref.WeakKeyDictionary()

    @property
    def nbytes(self) -> int:
        """Bytes of its buffers on this rank, once it has run."""
        shapes = (self._source.shape(share.box) for share in (*self._sends, *self._receives))
        return sum(map(math.prod, shapes)) * self._source.layout.dtype.itemsize

    def run(self, source: Block, target: Block, communicator: Communicator) -> None:
        """Move the values. Collective over the ranks concerned.

        Source and target may be the same block. Values are cast to the target's dtype. The caller
        notes the write by `target.changed()`.

        On a device messages are packed and unpacked by work of the communication stream, after what
        compute was given before and before what it is given afterwards.
        """
        exchange = self._prepared(source, communicator)
        compute, communication = source.backend.compute, source.backend.communication
        compute.record(self._event)
        communication.wait(self._event)
        self._pack(source)
        # The own shares may be written over what is packed, and read where messages are unpacked.
        communication.record(self._event)
        compute.wait(self._event)
        request = exchange.start()
        for share in self._own:
            values = self._source.view(source, share.box)
            into = self._target.view(target, share.box)
            into[...] = values.copy() if source is target else values
        request.wait()
        self._unpack(target)

    def _pack(self, source: Block) -> None:
        if source.backend.host:
            for share, sent in zip(self._sends, self._sent, strict=True):
                sent[...] = self._source.view(source, share.box)
            return
        if source not in self._packing:
            self._packing[source] = source.backend.prepare_copies(
                [
                    BoxCopy(self._source.view(source, share.box), sent)
                    for share, sent in zip(self._sends, self._sent, strict=True)
                ]
            )
        self._packing[source](source.backend.communication)

    def _unpack(self, target: Block) -> None:
        backend = target.backend
        compute, communication = backend.compute, backend.communication
        shares = list(zip(self._receives, self._received, strict=True))
        if backend.host or self._casts or self._source.repeats:
            communication.record(self._event)
            compute.wait(self._event)
            for share, received in shares:
                self._target.view(target, share.box)[...] = received
            return
        if target not in self._unpacking:
            self._unpacking[target] = backend.prepare_copies(
                [BoxCopy(into, self._target.view(target, share.box)) for share, into in shares]
            )
        compute.record(self._event)
        communication.wait(self._event)
        self._unpacking[target](communication)
        communication.record(self._event)
        compute.wait(self._event)

    def _prepared(self, source: Block, communicator: Communicator) -> PersistentExchange:
        """Buffers and requests, made at the first run."""
        if self._exchange is None:
            backend = source.backend
            self._event = backend.event()
            sends, receives = (
                self._buffers(self._sends, backend),
                self._buffers(self._receives, backend),
            )
            self._sent = self._shaped(self._sends, sends)
            self._received = self._shaped(self._receives, receives)
            self._exchange = communicator.prepare_exchange(sends, receives)
        return self._exchange

    # Both ends take shape and dtype from the source, so that their messages are equally long.

    def _buffers(self, shares: Sequence[Share], backend: Backend) -> PackedTransfers:
        itemsize = self._source.layout.dtype.itemsize
        sizes = [math.prod(self._source.shape(share.box)) * itemsize for share in shares]
        ranks = (share.rank for share in shares)
        return packed_transfers(list(zip(ranks, sizes, strict=True)), backend)

    def _shaped(self, shares: Sequence[Share], transfers: PackedTransfers) -> list[Any]:
        """The buffers as arrays of the source's dtype."""
        return [
            octets.view(self._source.layout.dtype).reshape(self._source.shape(share.box))
            for share, (_, octets) in zip(shares, transfers, strict=True)
        ]


class WithBuffers(Protocol):
    """What has buffers, of so many bytes on this rank."""

    @property
    def nbytes(self) -> int: ...


Kept = TypeVar("Kept", bound=WithBuffers)


class KeptPlans(Generic[Kept]):
    """Plans kept to be run again with their buffers; those not asked for the longest go first.
    Local.

    What one rank drops another may keep: messages pair by their order alone.
    """

    def __init__(self, most: int = _MOST_KEPT, most_bytes: int = _MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: dict[Hashable, Kept] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The one kept under a key, or a new one; too large a one is not kept."""
        found = self._kept.pop(key, None)
        if found is None:
            found = make()
            if found.nbytes > self._most_bytes:
                return found
            self.nbytes += found.nbytes
        self._kept[key] = found
        while len(self._kept) > self._most or self.nbytes > self._most_bytes:
            self.nbytes -= self._kept.pop(next(iter(self._kept))).nbytes
        return found


def selected_components(layout: Layout, index: ComponentIndex) -> tuple[int, ...]:
    """Extents of the components that an index leaves. Local."""
    return np.broadcast_to(0, layout.components)[index].shape


class _Side:
    """One side of a redistribution: which part of a block's memory belongs to a share."""

    def __init__(
        self, layout: Layout, along: tuple[Stride | int, ...], component: ComponentIndex
    ) -> None:
        self.layout = layout
        self.along = along
        self.component = component
        self.components = selected_components(layout, component)
        self.repeats = any(isinstance(index, Stride) and index.step == 0 for index in along)
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
