"""Messages by an MPI that takes device memory by its address."""

from __future__ import annotations

from collections.abc import Sequence

from distarray.comm.base import Transfer
from distarray.transports.by_mpi import DeferredTransport, MessageMemories


class DeviceTransport(DeferredTransport):
    """See the module, and `Transport`.

    Collectives still go through the host: what they move is small, and MPI libraries that reduce
    device memory do so there themselves.
    """

    name = "device"

    def _prepared(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> tuple[MessageMemories, Sequence[Transfer], Sequence[Transfer]]:
        sent = [(rank, buffer) for rank, buffer in sends if buffer.nbytes]
        received = [(rank, buffer) for rank, buffer in receives if buffer.nbytes]
        memory = MessageMemories([buffer for _, buffer in sent], [buffer for _, buffer in received])
        return memory, self._addresses(sent), self._addresses(received)

    def _addresses(self, transfers: Sequence[Transfer]) -> list[Transfer]:
        return [(rank, self._backend.message_memory(buffer)) for rank, buffer in transfers]
