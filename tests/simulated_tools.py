"""Blocks of memory on a simulated device, and work on them, for tests of the device itself."""

from __future__ import annotations

import numpy as np

from distarray.backends.driver import Access
from distarray.backends.simulated import SimulatedDriver


class Block:
    """A 1-D array on a simulated device. `values` looks into the memory past all queues."""

    def __init__(
        self, driver: SimulatedDriver, count: int, dtype: str = "f8", *, pooled: bool = True
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.count = count
        self.allocation = driver.allocate(count * self.dtype.itemsize, pooled=pooled)
        self.values = self.allocation.bytes.view(self.dtype)
        self.address = self.allocation.address

    def _access(self, part: slice, write: bool) -> Access:
        start, stop, step = part.indices(self.count)
        size = self.dtype.itemsize
        return Access(
            self.allocation,
            self.address + start * size,
            (len(range(start, stop, step)),),
            (step * size,),
            size,
            write,
        )

    def reads(self, start: int | None = None, stop: int | None = None, step: int = 1) -> Access:
        return self._access(slice(start, stop, step), False)

    def writes(self, start: int | None = None, stop: int | None = None, step: int = 1) -> Access:
        return self._access(slice(start, stop, step), True)


def nothing() -> None:
    """Work without effect."""
