"""What a transport offers for device data. Host data never pass through one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from distarray.backends.base import Backend, Stream
from distarray.comm.base import PendingReduction, PersistentExchange, Transfer


class DeviceStream(Stream, Protocol):
    """A stream of an accelerator.

    Attributes
    ----------
    pointer : int
        Its handle, as other libraries take it.
    """

    pointer: int


class Device(Backend, Protocol):
    """A backend whose arrays other libraries are handed by address."""

    def nccl_binding(self) -> Any:
        """NCCL for this device, a `comm.nccl.Binding`. Local.

        Raises
        ------
        BackendError
            It is not there, and why.
        """
        ...


class Transport(Protocol):
    """Moves contiguous arrays of one device between ranks.

    Attributes
    ----------
    name : "host", "staged", "device" or "nccl"
    captures : bool
        Whether an exchange is work of streams alone, so that it may be part of a graph.
    """

    name: str
    captures: bool

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        """Set up a replayed exchange of device buffers, none of them empty. Local.

        When one is started, what is sent has been given to the communication stream. Once its
        request has been waited for, work given to that stream finds what was received.
        """
        ...

    def begin_allreduce(self, values: Any, op: str) -> PendingReduction:
        """Start an all-reduce of work of the compute stream. Collective.

        The result has `values`, on the device for what is given to the compute stream from then on,
        beside `result()`, on the host.
        """
        ...

    def broadcast(self, values: Any, root: int) -> None:
        """Fill an array on every rank with root's values, for the compute stream. Collective."""
        ...

    def all_gather(self, values: Any) -> Any:
        """A new array with the values of all ranks, in order of rank along a new first axis.
        Collective.
        """
        ...

    def reduce_scatter(self, values: Any, op: str) -> Any:
        """Part r of the elementwise reduction on rank r, the first axis having one entry for each
        rank. Collective.
        """
        ...
