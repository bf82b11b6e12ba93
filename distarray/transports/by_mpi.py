"""Exchanges that MPI carries out once the device has packed the messages: `staged` and `device`.

MPI knows no streams: the host waits for the event that stands for the packing, and for no other
work. It does so as late as possible, when it is asked for the messages, so that what it gives the
device in between is not held up. Receives are posted after that event too, which also stands for
the unpacking of the exchange before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distarray.comm.base import Communicator, PersistentExchange, Request, Transfer
from distarray.transports.base import Device
from distarray.transports.through_host import HostCollectives


@dataclass(frozen=True)
class MessageMemories:
    """What MPI reads and writes, and how it is connected with the device.

    Attributes
    ----------
    sent, received : sequence of pinned or device arrays
    to_host, to_device : sequence of (source, target)
        Copies between device buffers and pinned memory before and after; none where MPI takes
        device memory.
    """

    sent: Sequence[Any]
    received: Sequence[Any]
    to_host: Sequence[tuple[Any, Any]] = ()
    to_device: Sequence[tuple[Any, Any]] = ()


class StartOrder:
    """Exchanges of one communicator that are given but not started yet, in order: at most one.

    Messages between two ranks pair by the order of their starts, which must not depend on which
    event is seen to be done first.
    """

    def __init__(self) -> None:
        self._waiting: DeferredExchange | None = None

    def add(self, exchange: DeferredExchange) -> None:
        """Start the exchange that is waiting; let another wait. Local."""
        self.start()
        self._waiting = exchange

    def start(self) -> None:
        """Start the exchange that is waiting, if any, once its messages are packed. Local."""
        if self._waiting is not None:
            self._waiting.send_packed()

    def remove(self, exchange: DeferredExchange) -> None:
        """Note that an exchange has started. Local."""
        if self._waiting is exchange:
            self._waiting = None


class DeferredExchange:
    """A replayed exchange of device buffers by MPI, and the request of its latest start. Local."""

    def __init__(
        self,
        backend: Device,
        messages: PersistentExchange,
        memory: MessageMemories,
        order: StartOrder,
    ) -> None:
        self._backend = backend
        self._messages = messages
        self._memory = memory
        self._order = order
        self._packed = backend.event()
        self._request: Request | None = None

    def start(self) -> Request:
        """Let the communication stream bring what is packed to the host, and mark that. Local."""
        communication = self._backend.communication
        for source, target in self._memory.to_host:
            self._backend.begin_to_host(source, target, communication)
        communication.record(self._packed)
        self._request = None
        self._order.add(self)
        return self

    def send_packed(self) -> Request:
        """Wait for the packing and hand the messages to MPI. Local."""
        self._packed.synchronize()
        self._order.remove(self)
        for memory in self._memory.sent:
            self._backend.host_access(memory, write=False, what="send of messages")
        for memory in self._memory.received:
            self._backend.host_access(memory, write=True, what="receive of messages")
        self._request = self._messages.start()
        return self._request

    def test(self) -> bool:
        """See `comm.base.Request`. Local."""
        if self._request is None:
            if self._packed.done():
                self.send_packed()
            return False
        return self._request.test()

    def wait(self) -> None:
        """See `comm.base.Request`; the communication stream then has what arrived. Local."""
        (self._request or self.send_packed()).wait()
        # Again: what streams were given for this memory in the meantime raced with MPI.
        for memory in self._memory.sent:
            self._backend.host_access(memory, write=False, what="end of sending")
        for memory in self._memory.received:
            self._backend.host_access(memory, write=True, what="arrival of messages")
        for source, target in self._memory.to_device:
            self._backend.begin_to_device(source, target, self._backend.communication)


class DeferredTransport(HostCollectives, ABC):
    """A `Transport` whose exchanges MPI carries out; `_prepared` says by which memory."""

    on_streams = False

    def __init__(self, base: Communicator, backend: Device) -> None:
        super().__init__(base, backend)
        self._order = StartOrder()

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        memory, sent, received = self._prepared(sends, receives)
        messages = self._base.prepare_exchange(sent, received)
        return DeferredExchange(self._backend, messages, memory, self._order)

    @abstractmethod
    def _prepared(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> tuple[MessageMemories, Sequence[Transfer], Sequence[Transfer]]:
        """The memory of the messages, and what MPI is to send and receive. Local."""
