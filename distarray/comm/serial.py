"""One rank: nobody to talk to. Messages of the rank to itself are copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from distarray.arraylike import HostArray
from distarray.comm.base import (
    BlockPiece,
    PendingReduction,
    PersistentExchange,
    Request,
    Transfer,
    runs_of,
)
from distarray.errors import CommunicationError, DistArrayError, FileError


class Done:
    """A request that is complete from the start."""

    def test(self) -> bool:
        return True

    def wait(self) -> None:
        return None


class DoneReduction:
    """A reduction over one rank: its values."""

    def __init__(self, values: HostArray) -> None:
        self._values = values

    def test(self) -> bool:
        return True

    def result(self) -> HostArray:
        return self._values


class SelfExchange:
    """Messages of the only rank to itself, paired by order."""

    def __init__(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> None:
        sent, received = _of_this_rank(sends), _of_this_rank(receives)
        if [s.nbytes for s in sent] != [r.nbytes for r in received]:
            raise CommunicationError(
                f"One rank sends itself messages of {[s.nbytes for s in sent]} bytes and receives "
                f"{[r.nbytes for r in received]}; both must be equal."
            )
        self._pairs = list(zip(sent, received, strict=True))

    def start(self) -> Request:
        for source, target in self._pairs:
            target[...] = source
        return Done()


def _of_this_rank(transfers: Sequence[Transfer]) -> list[Any]:
    """The byte views of the buffers that are not empty; all must be for rank 0."""
    for rank, _ in transfers:
        if rank != 0:
            raise CommunicationError(
                f"There is 1 rank, but a message names rank {rank}; only rank 0 exists."
            )
    return [buffer.reshape(-1).view(np.uint8) for _, buffer in transfers if buffer.size]


@dataclass(frozen=True)
class SerialCommunicator:
    """The communicator of a single process. All instances are equal."""

    rank: int = 0
    size: int = 1
    handle: ClassVar[None] = None
    on_devices: dict[tuple[str, str], Any] = field(default_factory=dict, compare=False, repr=False)
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def barrier(self) -> None:
        return None

    def bcast(self, value: Any, root: int = 0) -> Any:
        return value

    def broadcast(self, values: HostArray, root: int = 0) -> None:
        return None

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def allreduce(self, values: HostArray, op: str) -> HostArray:
        return np.array(values)

    def begin_allreduce(self, values: HostArray, op: str) -> PendingReduction:
        return DoneReduction(np.array(values))

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        return SelfExchange(sends, receives)

    def exchange(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> None:
        SelfExchange(sends, receives).start()

    def agree(self, error: Exception | None) -> None:
        if error is not None:
            raise error

    def write_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        try:
            with Path(path).open("r+b", buffering=0) as file:
                for piece in pieces:
                    _write(file, piece)
        except DistArrayError:
            raise
        except (OSError, ValueError) as error:
            raise FileError(
                f"The file '{path}' cannot be written: {error}; check its folder and free space."
            ) from error

    def read_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        try:
            with Path(path).open("rb"):  # also where no piece has a value
                for piece in pieces:
                    piece.values[...] = _map(path, piece)[piece.box.slices()]
        except DistArrayError:
            raise
        except (OSError, ValueError) as error:
            raise FileError(
                f"The file '{path}' cannot be read: {error}; it may be cut short."
            ) from error


def _write(file: RawIOBase, piece: BlockPiece) -> None:
    """Write a piece run by run.

    Through a memory map a full disk would end the process (SIGBUS) instead of raising an error.
    """
    for offset, octets in runs_of(piece, piece.box):
        file.seek(offset)
        rest = octets.data
        while rest:
            rest = rest[file.write(rest) or 0 :]


def _map(path: str, piece: BlockPiece) -> HostArray:
    """The whole array of a piece as it lies in the file; one without elements cannot be mapped."""
    if 0 in piece.shape:
        return np.empty(piece.shape, piece.values.dtype)
    return np.memmap(path, piece.values.dtype, "r", piece.offset, piece.shape)
