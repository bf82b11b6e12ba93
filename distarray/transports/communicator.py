"""A communicator whose messages may lie on a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from distarray.comm.base import (
    BlockPiece,
    Communicator,
    PendingReduction,
    PersistentExchange,
    Transfer,
)
from distarray.transports.base import Device, Transport


class DeviceCommunicator:
    """The ranks of a communicator, with a transport for the data of a device.

    What lies on the host goes to the communicator beneath. Two are equal if both parts are.

    Parameters
    ----------
    base : Communicator
    backend : Device
    transport : Transport
    """

    def __init__(self, base: Communicator, backend: Device, transport: Transport) -> None:
        self.base = base
        self.backend = backend
        self.transport = transport
        self.rank = base.rank
        self.size = base.size
        self.kept: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"DeviceCommunicator({self.base!r}, transport='{self.transport.name}')"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeviceCommunicator)
            and self.base == other.base
            and self.backend is other.backend
            and self.transport.name == other.transport.name
        )

    def __hash__(self) -> int:
        return hash((self.base, self.transport.name))

    @property
    def handle(self) -> Any:
        return self.base.handle

    @property
    def on_devices(self) -> dict[tuple[str, str], Any]:
        return self.base.on_devices

    def barrier(self) -> None:
        self.base.barrier()

    def bcast(self, value: Any, root: int = 0) -> Any:
        return self.base.bcast(value, root)

    def allgather(self, value: Any) -> list[Any]:
        return self.base.allgather(value)

    def agree(self, error: Exception | None) -> None:
        self.base.agree(error)

    def write_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        self.base.write_blocks(path, pieces)

    def read_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        self.base.read_blocks(path, pieces)

    # What may lie on the device.

    def broadcast(self, values: Any, root: int = 0) -> None:
        """Fill a contiguous array on every rank with root's values. Collective."""
        if isinstance(values, np.ndarray):
            self.base.broadcast(values, root)
        elif values.size and self.size > 1:
            self.transport.broadcast(values, root)

    def allreduce(self, values: Any, op: str) -> Any:
        """Elementwise reduction, on the device for device arrays. Collective."""
        if isinstance(values, np.ndarray):
            return self.base.allreduce(values, op)
        return self.transport.begin_allreduce(values, op).values

    def begin_allreduce(self, values: Any, op: str) -> PendingReduction:
        """Start an all-reduce; `values` may be written again by the compute stream. Collective.

        For device arrays it is a `DeviceReduction`.
        """
        if isinstance(values, np.ndarray):
            return self.base.begin_allreduce(values, op)
        return self.transport.begin_allreduce(values, op)

    # For programs; the package does without them.

    def all_gather(self, values: Any) -> Any:
        """A new device array, shape (size, ...), of the equal-shaped device arrays of all ranks.
        Collective.
        """
        return self.transport.all_gather(values)

    def reduce_scatter(self, values: Any, op: str) -> Any:
        """A new device array: this rank's entry along the first axis, of length `size`, of the
        elementwise reduction. Collective.
        """
        return self.transport.reduce_scatter(values, op)

    # Messages.

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        """Set up a replayed exchange of host arrays, or of device arrays on both sides; see
        `Transport.prepare_exchange`. Local.
        """
        if all(isinstance(buffer, np.ndarray) for _, buffer in (*sends, *receives)):
            return self.base.prepare_exchange(sends, receives)
        return self.transport.prepare_exchange(sends, receives)

    def exchange(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> None:
        """Send and receive once, for device arrays as work after what compute was given. Collective
        over those concerned.
        """
        if all(isinstance(buffer, np.ndarray) for _, buffer in (*sends, *receives)):
            self.base.exchange(sends, receives)
            return
        compute, communication = self.backend.compute, self.backend.communication
        event = self.backend.event()
        compute.record(event)
        communication.wait(event)
        self.transport.prepare_exchange(sends, receives).start().wait()
        communication.record(event)
        compute.wait(event)
