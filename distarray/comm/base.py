"""What ranks need from one another. The rest of the package knows MPI by this protocol only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from distarray.arraylike import HostArray
from distarray.errors import CommunicationError
from distarray.regions import Box

_LARGEST_MESSAGE = 1 << 30

#: (other rank, contiguous buffer of bytes or numbers)
Transfer = tuple[int, Any]


class PackedTransfers(list[Transfer]):
    """Transfers whose buffers lie one after the other in one contiguous buffer.

    Attributes
    ----------
    whole : contiguous buffer of bytes that holds all of them, perhaps with gaps
    """

    def __init__(self, transfers: Iterable[Transfer], whole: Any) -> None:
        super().__init__(transfers)
        self.whole = whole


@dataclass(frozen=True)
class BlockPiece:
    """This rank's part of an array that lies contiguously, in C order, in a file.

    Attributes
    ----------
    offset : int
        Byte at which the array starts in the file.
    shape : tuple of int
        Shape of the whole array.
    box : Box
        Indices of this rank's part; empty where it has none.
    values : ndarray
        Contiguous host array of the box's shape: the values to write, or the memory to read into.
    """

    offset: int
    shape: tuple[int, ...]
    box: Box
    values: HostArray


class Request(Protocol):
    """Communication under way."""

    def test(self) -> bool:
        """Whether it has completed; lets messages progress. Local."""
        ...

    def wait(self) -> None:
        """Return when it has completed. Local."""
        ...


class PersistentExchange(Protocol):
    """Sends and receives that are replayed many times with the same buffers."""

    def start(self) -> Request:
        """Start all of them. At most one start may be under way. Local."""
        ...


class PendingReduction(Protocol):
    """An all-reduce under way."""

    def test(self) -> bool: ...

    def result(self) -> HostArray:
        """The reduced array, once complete. Local; may be called many times."""
        ...


class Communicator(Protocol):
    """A group of ranks. Messages larger than the library's limit are split inside.

    `op` is "sum", "prod", "min", "max"; bool arrays use "min" for all and "max" for any. "xor"
    works bit by bit, on host arrays of integers and bools.
    """

    @property
    def rank(self) -> int:
        """Number of this rank, from 0."""
        ...

    @property
    def size(self) -> int: ...

    @property
    def handle(self) -> Any:
        """What mpi4py calls these ranks, for packages that take it; None without MPI."""
        ...

    @property
    def on_devices(self) -> dict[tuple[str, str], Any]:
        """These ranks with transports for data of devices beside them, by device and transport.
        `transports.choice` fills it, and `halo.shared` for the host; they live as long as this
        communicator.
        """
        ...

    @property
    def kept(self) -> dict[str, Any]:
        """Plans that are kept for these ranks, by what they are for. They may refer to this
        communicator, so that nothing else should keep them: they live as long as it does.
        """
        ...

    def barrier(self) -> None: ...

    def bcast(self, value: Any, root: int = 0) -> Any:
        """A small Python object (plain data) from root on every rank. Collective."""
        ...

    def broadcast(self, values: HostArray, root: int = 0) -> None:
        """Fill a contiguous host array on every rank with root's values. Collective.

        Shape and dtype are the same everywhere.
        """
        ...

    def allgather(self, value: Any) -> list[Any]:
        """The small Python objects of all ranks, in order of rank. Collective."""
        ...

    def allreduce(self, values: HostArray, op: str) -> HostArray:
        """Elementwise reduction of equal-shaped host arrays. Collective.

        NaN among the operands of "min" and "max" gives anything: reduce a flag beside them.
        """
        ...

    def begin_allreduce(self, values: HostArray, op: str) -> PendingReduction:
        """Start an all-reduce; `values` may be reused at once. Collective."""
        ...

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        """Set up a replayed exchange; messages between two ranks pair by order. Local."""
        ...

    def exchange(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> None:
        """Send and receive once; empty buffers are skipped. Collective over those concerned."""
        ...

    def agree(self, error: Exception | None) -> None:
        """Raise on all ranks the error of the lowest rank that has one, if any. Collective."""
        ...

    def write_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        """Write parts of arrays into an existing file; they need not be on the disk. Collective.

        Each rank passes as many pieces as it has. A piece is done when the next is asked for, so
        that pieces may be made one at a time. Raises on all ranks alike: a FileError, or the error
        of this library that the making of a piece has raised on one of them.
        """
        ...

    def read_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        """Read parts of arrays from a file into `values`. Collective; as `write_blocks`."""
        ...


def runs_of(piece: BlockPiece, box: Box) -> Iterator[tuple[int, HostArray]]:
    """A part of a piece in runs that lie together in the file: the byte at which each begins, and
    its bytes in memory.
    """
    values = piece.values[box.slices(piece.box.start)]
    if not values.size:
        return
    whole, start = piece.shape, box.start
    cut = max((axis for axis, n in enumerate(values.shape) if n != whole[axis]), default=0)
    for index in np.ndindex(values.shape[:cut]):
        first = (*(a + i for a, i in zip(start, index, strict=False)), *start[cut:])
        place = int(np.ravel_multi_index(first, whole)) if whole else 0
        yield piece.offset + place * values.itemsize, values[index].reshape(-1).view(np.uint8)


def message_limit() -> int:
    """Largest message in bytes: 1 GiB, or what DISTARRAY_MAX_MESSAGE says if that is less.

    Raises
    ------
    CommunicationError
        The variable is no number, or below 64.
    """
    text = os.environ.get("DISTARRAY_MAX_MESSAGE", str(_LARGEST_MESSAGE))
    if not text.isdecimal() or int(text) < 64:
        raise CommunicationError(
            f"The variable DISTARRAY_MAX_MESSAGE must be a number of bytes, at least 64, "
            f"not {text!r}; correct or unset it."
        )
    return min(int(text), _LARGEST_MESSAGE)
