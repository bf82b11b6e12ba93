"""Collectives of device data that go through the host, which waits for them.

Those that only programs call are made of what a `Communicator` has: in `all_gather` each rank sends
its values to each other one, and `reduce_scatter` reduces all values on all ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.comm.base import Communicator, PendingReduction
from distarray.transports.base import Device, DeviceReduction


class HostReduction:
    """An all-reduce under way on the host."""

    def __init__(self, request: PendingReduction, backend: Device) -> None:
        self._request = request
        self._backend = backend
        self._values: Any = None

    def test(self) -> bool:
        return self._request.test()

    def result(self) -> HostArray:
        return self._request.result()

    @property
    def values(self) -> Any:
        """The reduced array on the device; waits for it the first time."""
        if self._values is None:
            self._values = self._backend.asarray(self._request.result())
        return self._values


class OwnValues:
    """An all-reduce over one rank: a copy of its values, which nobody waits for."""

    def __init__(self, values: Any, backend: Device) -> None:
        self.values = values.copy()
        self._backend = backend

    def test(self) -> bool:
        return True

    def result(self) -> HostArray:
        return self._backend.to_host(self.values)


class HostCollectives:
    """The collectives of a `Transport`, by those of the communicator beneath."""

    def __init__(self, base: Communicator, backend: Device) -> None:
        self._base = base
        self._backend = backend

    def begin_allreduce(self, values: Any, op: str) -> DeviceReduction:
        if self._base.size == 1:
            return OwnValues(values, self._backend)
        request = self._base.begin_allreduce(self._backend.to_host(values), op)
        return HostReduction(request, self._backend)

    def broadcast(self, values: Any, root: int) -> None:
        if self._base.rank == root:
            self._base.broadcast(np.ascontiguousarray(self._backend.to_host(values)), root)
            return
        host = np.empty(values.shape, values.dtype)
        self._base.broadcast(host, root)
        values[...] = host

    def all_gather(self, values: Any) -> Any:
        mine = np.ascontiguousarray(self._backend.to_host(values))
        found = np.empty((self._base.size, *mine.shape), mine.dtype)
        found[self._base.rank] = mine
        others = [rank for rank in range(self._base.size) if rank != self._base.rank]
        self._base.exchange([(r, mine) for r in others], [(r, found[r]) for r in others])
        return self._backend.asarray(found)

    def reduce_scatter(self, values: Any, op: str) -> Any:
        reduced = self._base.allreduce(self._backend.to_host(values), op)
        return self._backend.asarray(np.ascontiguousarray(reduced[self._base.rank]))
