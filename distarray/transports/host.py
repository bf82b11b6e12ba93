"""Messages by way of ordinary host memory: the host waits for every copy.

The slowest transport, and the one that asks least of the device; for machines on which pinned
memory is short, and to find out whether a fault lies with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.comm.base import PersistentExchange, Request, Transfer
from distarray.transports.base import Device
from distarray.transports.through_host import HostCollectives

_UNSET = 0xFF  # bytes of NaN


class HostTransport(HostCollectives):
    """See the module, and `Transport`."""

    name = "host"
    on_streams = False

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        sent, received = _beside(sends), _beside(receives)
        messages = self._base.prepare_exchange(
            [(rank, host) for rank, _, host in sent], [(rank, host) for rank, _, host in received]
        )
        return _HostExchange(
            self._backend,
            messages,
            [(buffer, host) for _, buffer, host in sent],
            [(buffer, host) for _, buffer, host in received],
        )


def _beside(transfers: Sequence[Transfer]) -> list[tuple[int, Any, Any]]:
    """Rank, device buffer and host memory of each message."""
    return [
        (rank, buffer, np.empty(buffer.nbytes, np.uint8))
        for rank, buffer in transfers
        if buffer.nbytes
    ]


class _HostExchange:
    """A replayed exchange, and the request of its latest start."""

    def __init__(
        self,
        backend: Device,
        messages: PersistentExchange,
        sent: Sequence[tuple[Any, Any]],
        received: Sequence[tuple[Any, Any]],
    ) -> None:
        self._backend = backend
        self._messages = messages
        self._sent, self._received = sent, received
        self._event = backend.event()
        self._request: Request | None = None

    def start(self) -> Request:
        # Synchronous copies are ordered with compute.
        self._backend.communication.record(self._event)
        self._backend.compute.wait(self._event)
        for buffer, host in self._sent:
            host[...] = self._backend.to_host(buffer.reshape(-1).view(np.uint8))
        for _, host in self._received:
            host.fill(_UNSET)  # what is read before it has arrived shows
        self._request = self._messages.start()
        return self

    def test(self) -> bool:
        return self._request is None or self._request.test()

    def wait(self) -> None:
        if self._request is None:
            return
        self._request.wait()
        self._request = None
        for buffer, host in self._received:
            buffer.reshape(-1).view(np.uint8)[...] = host
        self._backend.compute.record(self._event)
        self._backend.communication.wait(self._event)
