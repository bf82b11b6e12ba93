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


class DeviceReduction(PendingReduction, Protocol):
    """An all-reduce of a device array under way; `result()` is on the host."""

    @property
    def values(self) -> Any:
        """The reduced array, for what the compute stream is given from now on. Local."""
        ...


class StreamReduction(DeviceReduction, Protocol):
    """One that is work of the communication stream."""

    @property
    def communicated(self) -> Any:
        """The reduced array, for what the communication stream is given from now on. Local."""
        ...


class Transport(Protocol):
    """Moves contiguous arrays of one device between ranks.

    Attributes
    ----------
    name : "host", "staged", "device" or "nccl"
    on_streams : bool
        Whether exchanges and reductions are work of streams alone: exchanges may then be part of a
        graph, and reductions are `StreamReduction`s, whose results stay on the device.
    """

    name: str
    on_streams: bool

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        """Set up a replayed exchange of device buffers, none of them empty. Local.

        When one is started, what is sent has been given to the communication stream. Once its
        request has been waited for, work given to that stream finds what was received.
        """
        ...

    def begin_allreduce(self, values: Any, op: str) -> DeviceReduction:
        """Start an all-reduce of work of the compute stream. Collective."""
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
