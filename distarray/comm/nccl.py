"""NCCL: messages and collectives that are work of a device's streams.

This file is handed what it works with: memory by address, streams by handle, and the library by a
`Binding`. Two exist. The one of `backends.cuda` calls CuPy's own bindings: they come with CuPy,
take addresses and stream handles as plain numbers, and find the library that CuPy's wheels name;
`nccl4py` would be one more package to install, with its own objects for buffers and streams, for
calls that CuPy has. The one of `backends.simulated` stands in for the library where there is no GPU
and refuses what the library refuses.

What NCCL lacks is made up for here. Messages between two ranks pair by order alone; there are none
of no bytes; complex numbers go as pairs of real ones, bool as uint8; 16-bit integers can be moved
but not reduced; calls are split above the message limit, alike on all ranks.
"""

# Parameter lists are those of the library.
# ruff: noqa: PLR0917

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from distarray.comm import failure
from distarray.comm.base import Communicator
from distarray.errors import CommunicationError, DistArrayError

#: Element types of the library, by NumPy's names.
DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
OPERATIONS = ("sum", "prod", "min", "max")

#: Seconds that ranks may take to connect; then some rank has failed and the others wait for it.
MOST_SECONDS = 600.0

#: (other rank, address on the device, bytes)
Message = tuple[int, int, int]


class NcclRanks(Protocol):
    """One rank of a connected group, as the library offers it.

    Calls give work to the stream with the handle `stream` and return at once; between `group_start`
    and `group_end` they are collected and begin together. Counts are of elements and at least 1;
    `dtype` is one of DTYPES, `op` one of OPERATIONS, addresses are of device memory.
    """

    def send(self, pointer: int, count: int, dtype: str, peer: int, stream: int) -> None:
        """The n-th send to a rank goes into that rank's n-th receive from here; equal counts.
        Collective over the two.
        """
        ...

    def recv(self, pointer: int, count: int, dtype: str, peer: int, stream: int) -> None:
        """See `send`. Collective over the two."""
        ...

    def group_start(self) -> None:
        """Collect calls from now on. Local."""
        ...

    def group_end(self) -> None:
        """Give the calls collected to their stream. Collective over those concerned."""
        ...

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: str, op: str, stream: int
    ) -> None:
        """`send` may be `recv`. Collective."""
        ...

    def reduce(
        self, send: int, recv: int, count: int, dtype: str, op: str, root: int, stream: int
    ) -> None:
        """`recv` is written on root only. Collective."""
        ...

    def all_gather(self, send: int, recv: int, count: int, dtype: str, stream: int) -> None:
        """`count` elements of each rank, in order of rank. Collective."""
        ...

    def reduce_scatter(
        self, send: int, recv: int, count: int, dtype: str, op: str, stream: int
    ) -> None:
        """Part r, of `count` elements, of the reduced values to rank r. Collective."""
        ...

    def broadcast(
        self, send: int, recv: int, count: int, dtype: str, root: int, stream: int
    ) -> None:
        """`send` is read on root only and may be `recv`. Collective."""
        ...

    def check(self) -> None:
        """Raise an error that has come up in work given before, if any. Local."""
        ...

    def destroy(self) -> None:
        """Give everything back; no work may be under way. Collective."""
        ...

    def abort(self) -> None:
        """Stop the work under way and give everything back. Local; no call is taken after it."""
        ...


class Binding(Protocol):
    """The library, as one process sees it.

    Attributes
    ----------
    device : str
        Names the device that this process uses, alike in all processes that use it and unlike
        every other device of the cluster.
    """

    device: str

    def version(self) -> int:
        """10000 * major + 100 * minor + patch, such as 23004. Local."""
        ...

    def require_ready(self) -> None:
        """Try what connecting needs of the device. Local.

        Raises
        ------
        BackendError
            It has too little free memory, or does not work.
        """
        ...

    def unique_id(self) -> bytes:
        """A new name for a group that is to be connected. Local."""
        ...

    def connect(
        self, size: int, identity: bytes, rank: int, communicator: Communicator
    ) -> NcclRanks:
        """This rank of the group with that name, on this process's device. Collective.

        `communicator` has the same ranks; a stand-in may send its messages by it.
        """
        ...


def connect(binding: Binding, communicator: Communicator) -> NcclRanks:
    """Connect all ranks of a communicator. Collective.

    A rank on which the library fails while it connects leaves the others waiting in theirs: after
    MOST_SECONDS all are ended, with what failed and where each is. (Connections that do not block
    would be told; but CuPy takes what every later call of theirs returns for an error.)

    Raises
    ------
    CommunicationError
        The library failed on some rank, on all ranks alike.
    """
    error: Exception | None = None
    identity = b""
    try:
        identity = binding.unique_id() if communicator.rank == 0 else b""
    except Exception as wrong:  # whatever the library's binding raises
        error = _failure(wrong)
    communicator.agree(error)
    identity = communicator.bcast(identity)
    with failure.deadline("NCCL connects the ranks", MOST_SECONDS) as reasons:
        try:
            ranks = binding.connect(communicator.size, identity, communicator.rank, communicator)
        except Exception as wrong:  # whatever the library's binding raises
            error = _failure(wrong)
            reasons.append(str(error))
        communicator.agree(error)
    return ranks


def _failure(error: Exception) -> DistArrayError:
    if isinstance(error, DistArrayError):
        return error
    return CommunicationError(
        f"NCCL cannot connect the ranks ({type(error).__name__}: {error}); set NCCL_DEBUG=INFO to "
        "see more, or use transport='staged'."
    )


def exchange(
    ranks: NcclRanks,
    sends: Sequence[Message],
    receives: Sequence[Message],
    limit: int,
    stream: int,
) -> None:
    """Send and receive all messages as one group of a stream's work. Empty ones are skipped.
    Collective over those concerned.

    All of them go at the same time: no order of ranks can block.
    """
    with _group(ranks):
        for rank, address, nbytes in receives:
            for part, count in _parts(address, nbytes, 1, limit):
                ranks.recv(part, count, "uint8", rank, stream)
        for rank, address, nbytes in sends:
            for part, count in _parts(address, nbytes, 1, limit):
                ranks.send(part, count, "uint8", rank, stream)


@contextlib.contextmanager
def _group(ranks: NcclRanks) -> Iterator[None]:
    """Calls that begin together. Collective over those concerned.

    After an error the other ranks wait for the rest of the group, or the rest of the program would
    meet half of it: the ranks take no further calls.
    """
    ranks.group_start()
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the first error counts
            ranks.group_end()
        with contextlib.suppress(Exception):
            ranks.abort()
        raise
    ranks.group_end()


def _parts(address: int, count: int, itemsize: int, limit: int) -> Iterator[tuple[int, int]]:
    """Addresses and lengths of the parts of some elements, of at most `limit` bytes; maybe none."""
    most = max(1, limit // itemsize)
    for start in range(0, count, most):
        yield address + start * itemsize, min(most, count - start)


def reduced_as(
    dtype: np.dtype[np.generic], op: str
) -> tuple[np.dtype[np.generic], int, str] | None:
    """How the library reduces an element type: its own type, how many of it make up one element,
    and its operation; None where it cannot. Local.

    The sum of bool is their "or", the product their "and".
    """
    if dtype.kind == "b":
        return np.dtype(np.uint8), 1, {"sum": "max", "prod": "min"}.get(op, op)
    if dtype.kind == "c":
        parts = np.dtype(f"f{dtype.itemsize // 2}")
        return (parts, 2, op) if op == "sum" else None
    return (dtype, 1, op) if dtype.name in DTYPES else None


class Collectives:
    """The collectives of a connected group, for any number of elements of any type it can reduce.

    Each gives work to a stream and returns at once. With no elements no call is made: the number is
    the same on all ranks.
    """

    def __init__(self, ranks: NcclRanks, size: int, limit: int) -> None:
        self._ranks = ranks
        self._size = size
        self._limit = limit

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: np.dtype[np.generic], op: str, stream: int
    ) -> None:
        """Reduce `count` elements of each rank, elementwise. Collective.

        Raises
        ------
        CommunicationError
            The library cannot reduce the element type by this operation.
        """
        kind, count, op = _reduced(dtype, count, op)
        for (source, length), (target, _) in zip(
            _parts(send, count, kind.itemsize, self._limit),
            _parts(recv, count, kind.itemsize, self._limit),
            strict=True,
        ):
            self._ranks.all_reduce(source, target, length, kind.name, op, stream)

    def broadcast(self, address: int, nbytes: int, root: int, stream: int) -> None:
        """Root's bytes on every rank. Collective."""
        for part, length in _parts(address, nbytes, 1, self._limit):
            self._ranks.broadcast(part, part, length, "uint8", root, stream)

    def all_gather(self, send: int, recv: int, nbytes: int, stream: int) -> None:
        """The bytes of all ranks, as many of each, in order of rank. Collective."""
        if 0 < nbytes <= self._limit:
            self._ranks.all_gather(send, recv, nbytes, "uint8", stream)
            return
        with _group(self._ranks):
            for root in range(self._size):
                for part, length in _parts(0, nbytes, 1, self._limit):
                    target = recv + root * nbytes + part
                    self._ranks.broadcast(send + part, target, length, "uint8", root, stream)

    def reduce_scatter(
        self, send: int, recv: int, count: int, dtype: np.dtype[np.generic], op: str, stream: int
    ) -> None:
        """Part r, of `count` elements, of the elementwise reduction on rank r. Collective."""
        kind, count, op = _reduced(dtype, count, op)
        if 0 < count * kind.itemsize <= self._limit:
            self._ranks.reduce_scatter(send, recv, count, kind.name, op, stream)
            return
        with _group(self._ranks):
            for root in range(self._size):
                for part, length in _parts(0, count, kind.itemsize, self._limit):
                    source = send + root * count * kind.itemsize + part
                    self._ranks.reduce(source, recv + part, length, kind.name, op, root, stream)


def _reduced(
    dtype: np.dtype[np.generic], count: int, op: str
) -> tuple[np.dtype[np.generic], int, str]:
    found = reduced_as(dtype, op)
    if found is None:
        raise CommunicationError(
            f"NCCL cannot reduce {dtype} by '{op}'; reduce on the host instead."
        )
    kind, parts, operation = found
    return kind, count * parts, operation
