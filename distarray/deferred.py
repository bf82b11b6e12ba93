"""Blocks whose values are still to be computed, and what is computed before something is written.

The result of an operator is a block that waits for its values until somebody asks for its memory. A
write to what it reads must come after that: whoever writes owned values of a block first calls
`settle_readers`. Everything here is Local.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from distarray.arraylike import is_array

if TYPE_CHECKING:
    from distarray.block import Block


class Deferred(Protocol):
    """How the values of a block will be computed."""

    def evaluate(self, block: Block) -> None:
        """Compute them, and hand them over by `Block.take`. Local."""
        ...

    def drop(self) -> None:
        """Note that nobody will ask for the values of the block. Local."""
        ...

    def reads(self, block: Block) -> bool:
        """Whether they depend on the owned values of a block. Local."""
        ...


#: Blocks that wait, by their serial: the oldest first. Those that are dropped leave by themselves.
_waiting: dict[int, weakref.ref[Block]] = {}


def register(block: Block) -> None:
    """Note that a block waits for its values. Local."""
    serial = block.serial
    _waiting[serial] = weakref.ref(block, lambda _: _waiting.pop(serial, None))


def arrived(block: Block) -> None:
    """Note that it has them. Local."""
    _waiting.pop(block.serial, None)


def settle_readers(*blocks: Block, but: Block | None = None) -> None:
    """Compute what depends on the owned values that blocks have now, `but` for one that waits.
    Local; to be called before they are written.

    A block that waits itself gets its values first: only then does what was made of them read it.
    """
    if not _waiting:
        return
    for block in blocks:
        block.settle()
        for reader in readers(block):
            if reader is not but:
                reader.settle()


def settle_readers_of(arrays: Iterable[Any]) -> None:
    """The same for the arrays among arguments. Local."""
    if _waiting:
        settle_readers(*(array.block for array in arrays if is_array(array)))


def readers(block: Block) -> list[Block]:
    """The blocks that wait and depend on the owned values of a block. Local."""
    if not _waiting:
        return []
    waiting = [reference() for reference in list(_waiting.values())]
    return [
        other
        for other in waiting
        if other is not None and other.deferred is not None and other.deferred.reads(block)
    ]
