"""NCCL as `comm.nccl.Binding` describes it, by the calls of `cupy.cuda.nccl`, which are handed in.

Memory is given by address and streams by handle, as the library takes them.
"""

# Parameter lists are those of the library.
# ruff: noqa: PLR0917

from __future__ import annotations

from typing import Any


class NcclBinding:
    """The library in this process; see `comm.nccl.Binding`."""

    def __init__(self, nccl: Any, device: str) -> None:
        self._nccl = nccl
        self.device = device

    def version(self) -> int:
        number: int = self._nccl.get_version()
        return number

    def unique_id(self) -> bytes:
        identity: bytes = self._nccl.get_unique_id()
        return identity

    def connect(self, size: int, identity: bytes, rank: int, communicator: Any) -> NcclGroup:
        """This rank of the group, on the device that is current. Collective."""
        return NcclGroup(self._nccl, self._nccl.NcclCommunicator(size, identity, rank))


class NcclGroup:
    """One rank of a connected group; see `comm.nccl.NcclRanks`."""

    def __init__(self, nccl: Any, communicator: Any) -> None:
        self._communicator = communicator
        self._dtypes = {name: getattr(nccl, f"NCCL_{name.upper()}") for name in _DTYPES}
        self._operations = {name: getattr(nccl, f"NCCL_{name.upper()}") for name in _OPERATIONS}
        self.group_start = nccl.groupStart
        self.group_end = nccl.groupEnd

    def send(self, pointer: int, count: int, dtype: str, peer: int, stream: int) -> None:
        self._communicator.send(pointer, count, self._dtypes[dtype], peer, stream)

    def recv(self, pointer: int, count: int, dtype: str, peer: int, stream: int) -> None:
        self._communicator.recv(pointer, count, self._dtypes[dtype], peer, stream)

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: str, op: str, stream: int
    ) -> None:
        self._communicator.allReduce(
            send, recv, count, self._dtypes[dtype], self._operations[op], stream
        )

    def reduce(
        self, send: int, recv: int, count: int, dtype: str, op: str, root: int, stream: int
    ) -> None:
        self._communicator.reduce(
            send, recv, count, self._dtypes[dtype], self._operations[op], root, stream
        )

    def all_gather(self, send: int, recv: int, count: int, dtype: str, stream: int) -> None:
        self._communicator.allGather(send, recv, count, self._dtypes[dtype], stream)

    def reduce_scatter(
        self, send: int, recv: int, count: int, dtype: str, op: str, stream: int
    ) -> None:
        self._communicator.reduceScatter(
            send, recv, count, self._dtypes[dtype], self._operations[op], stream
        )

    def broadcast(
        self, send: int, recv: int, count: int, dtype: str, root: int, stream: int
    ) -> None:
        self._communicator.broadcast(send, recv, count, self._dtypes[dtype], root, stream)

    def check(self) -> None:
        self._communicator.check_async_error()

    def destroy(self) -> None:
        self._communicator.destroy()


#: As `comm.nccl` names them; backends and comm do not import each other.
_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
_OPERATIONS = ("sum", "prod", "min", "max")
