"""Messages by an MPI that takes device memory by its address."""

from __future__ import annotations

from collections.abc import Sequence

from distarray.comm.base import Communicator, PersistentExchange, Transfer
from distarray.transports.base import Device
from distarray.transports.by_mpi import DeferredExchange, Line, Memory
from distarray.transports.through_host import HostCollectives


class DeviceTransport(HostCollectives):
    """See the module, and `Transport`.

    Collectives still go through the host: what they move is small, and MPI libraries that reduce
    device memory do so there themselves.
    """

    name = "device"
    captures = False

    def __init__(self, base: Communicator, backend: Device) -> None:
        super().__init__(base, backend)
        self._line = Line()

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        sent = [(rank, buffer) for rank, buffer in sends if buffer.nbytes]
        received = [(rank, buffer) for rank, buffer in receives if buffer.nbytes]
        messages = self._base.prepare_exchange(self._addresses(sent), self._addresses(received))
        memory = Memory([buffer for _, buffer in sent], [buffer for _, buffer in received])
        return DeferredExchange(self._backend, messages, memory, self._line)

    def _addresses(self, transfers: Sequence[Transfer]) -> list[Transfer]:
        return [(rank, self._backend.message_memory(buffer)) for rank, buffer in transfers]
