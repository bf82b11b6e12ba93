"""Message buffers of an exchange, kept for its life, and the views to pack and unpack them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from distarray.backends.base import Backend, BoxCopy
from distarray.block import Block
from distarray.comm.base import PackedTransfers, Transfer
from distarray.halo.plan import LocalCopy, Message, Piece

#: Bytes to which messages are aligned within their buffer: enough for every device's transfers.
ALIGNMENT = 512


def packed_transfers(messages: Sequence[tuple[int, int]], backend: Backend) -> PackedTransfers:
    """Buffers for messages given as (rank, bytes), all in one, so that one copy moves them. Local.

    What is between them is never read.
    """
    sizes = [-(-nbytes // ALIGNMENT) * ALIGNMENT for _, nbytes in messages]
    starts = [0, *itertools.accumulate(sizes)]
    whole = backend.buffer(starts[-1])
    return PackedTransfers(
        (
            (rank, whole[start : start + nbytes])
            for (rank, nbytes), start in zip(messages, starts, strict=False)
        ),
        whole,
    )


class MessageBuffers:
    """The messages of a plan. Local.

    Parameters
    ----------
    messages : sequence of Message
    blocks : sequence of Block
    backend : Backend
    places : sequence of bytes, optional
        Where each message lies, in place of new buffers.

    Attributes
    ----------
    transfers : sequence of (rank, buffer)
        As `Communicator.prepare_exchange` takes them; `PackedTransfers` if the buffers are new.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        blocks: Sequence[Block],
        backend: Backend,
        places: Sequence[Any] | None = None,
    ) -> None:
        self._messages = messages
        self._blocks = blocks
        self.transfers: Sequence[Transfer] = (
            packed_transfers([(m.rank, m.nbytes) for m in messages], backend)
            if places is None
            else [(m.rank, p[: m.nbytes]) for m, p in zip(messages, places, strict=True)]
        )

    def packing(self) -> list[BoxCopy]:
        """Copies from the blocks into the buffers."""
        return [BoxCopy(memory, packed) for memory, packed in self._pairs()]

    def unpacking(self) -> list[BoxCopy]:
        """Copies from the buffers into the blocks."""
        return [BoxCopy(packed, memory) for memory, packed in self._pairs()]

    def _pairs(self) -> list[tuple[Any, Any]]:
        return [
            (memory, _packed(buffer, piece, memory))
            for message, (_, buffer) in zip(self._messages, self.transfers, strict=True)
            for piece in message.pieces
            for memory in [self._blocks[piece.field].component(piece.component)[piece.box.slices()]]
        ]


def _packed(buffer: Any, piece: Piece, memory: Any) -> Any:
    """The piece's place in the buffer, seen with its shape and dtype."""
    return (
        buffer[piece.offset : piece.offset + memory.nbytes].view(memory.dtype).reshape(memory.shape)
    )


def local_copies(copies: Sequence[LocalCopy], blocks: Sequence[Block]) -> list[BoxCopy]:
    """Copies within the blocks, for halo regions that this rank owns itself: field by field, whose
    parts are still in the cache when the next region is copied.
    """
    return [
        BoxCopy(memory[copy.source.slices()], memory[copy.target.slices()])
        for copy in sorted(copies, key=lambda copy: (copy.field, copy.component))
        for memory in [blocks[copy.field].component(copy.component)]
    ]
