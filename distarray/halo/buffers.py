"""Message buffers of a halo exchange, kept for its life, and the views to pack and unpack them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distarray.backends.base import Backend, BoxCopy
from distarray.block import Block
from distarray.halo.plan import LocalCopy, Message, Piece


class MessageBuffers:
    """One buffer per message of a plan. Local.

    Attributes
    ----------
    transfers : list of (rank, buffer)
        As `Communicator.prepare_exchange` takes them.
    """

    def __init__(
        self, messages: Sequence[Message], blocks: Sequence[Block], backend: Backend
    ) -> None:
        self._messages = messages
        self._blocks = blocks
        self.transfers = [(message.rank, backend.buffer(message.nbytes)) for message in messages]

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
    """Copies within the blocks, for halo regions that this rank owns itself."""
    return [
        BoxCopy(memory[copy.source.slices()], memory[copy.target.slices()])
        for copy in copies
        for memory in [blocks[copy.field].component(copy.component)]
    ]
