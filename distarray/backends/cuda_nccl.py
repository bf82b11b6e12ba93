"""NCCL as `comm.nccl.Binding` describes it, by the calls of `cupy.cuda.nccl`, which are handed in.

Memory is given by address and streams by handle, as the library takes them.
"""

# Parameter lists are those of the library.
# ruff: noqa: PLR0917

from __future__ import annotations

from typing import Any

from distarray.errors import BackendError, CommunicationError

#: Bytes that connecting needs at least.
LEAST_FREE = 64 << 20
_TRIED = 1 << 20
#: What the library calls work that has not ended, and no error.
IN_PROGRESS = 7


class NcclBinding:
    """The library in this process; see `comm.nccl.Binding`."""

    def __init__(self, nccl: Any, device: str, runtime: Any) -> None:
        self._nccl = nccl
        self._runtime = runtime
        self.device = device

    def version(self) -> int:
        number: int = self._nccl.get_version()
        return number

    def require_ready(self) -> None:
        """Take some memory of the device, and give it back. Local.

        Raises
        ------
        BackendError
            There is too little, or CUDA fails.
        """
        runtime = self._runtime
        try:
            free, _ = runtime.memGetInfo()
            if free >= LEAST_FREE:
                runtime.free(runtime.malloc(_TRIED))
                return
            found = f"{free >> 20} MiB are free"
        except runtime.CUDARuntimeError as error:
            found = str(error)
        raise BackendError(
            f"NCCL needs memory of its own on the GPU ({found}); leave it {LEAST_FREE >> 20} MiB, "
            "or use transport='staged'."
        )

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
        try:
            self._communicator.check_async_error()
        except KeyError as status:  # CuPy knows no name for a status that is newer than it
            if status.args != (IN_PROGRESS,):
                raise CommunicationError(
                    f"NCCL reports the error {status}; set NCCL_DEBUG=INFO to see more."
                ) from None

    def destroy(self) -> None:
        self._communicator.destroy()

    def abort(self) -> None:
        self._communicator.abort()


#: As `comm.nccl` names them; backends and comm do not import each other.
_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
_OPERATIONS = ("sum", "prod", "min", "max")
