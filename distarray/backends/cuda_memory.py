"""Memory of a GPU and of the host beside it, by the calls of `cupy.cuda`, which are handed in."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.backends.cuda_streams import CudaEvent, failure
from distarray.backends.driver import Access

#: Small uploads go through pinned memory, so that the host need not wait for them.
SLOT_BYTES = 4096
#: Directions of copies, as CuPy names them.
UP, DOWN = "memcpyHostToDevice", "memcpyDeviceToHost"
_SLOTS = 64


class Pooled:
    """Memory from CuPy's pool, which takes it back with the last reference."""

    __slots__ = ("__weakref__", "_memory", "address", "nbytes")

    def __init__(self, memory: Any, nbytes: int) -> None:
        self._memory = memory
        self.address: int = memory.ptr
        self.nbytes = nbytes


class Plain:
    """Memory of its own from cudaMalloc."""

    __slots__ = ("__weakref__", "address", "nbytes")

    def __init__(self, address: int, nbytes: int, free: Callable[[int], None]) -> None:
        self.address = address
        self.nbytes = nbytes
        # At exit the driver takes everything back; libraries may still hold it then.
        weakref.finalize(self, free, address).atexit = False


def pinned(cuda: Any, nbytes: int) -> np.ndarray[Any, Any]:
    """Page-locked memory, zeroed; freed with the last reference, which its holder keeps until the
    transfers from and to it are done. Local.
    """
    try:
        memory = cuda.PinnedMemory(max(nbytes, 1), cuda.runtime.hostAllocPortable)
    except RuntimeError as error:
        raise failure(f"allocating {nbytes} bytes of pinned memory", error) from error
    array: np.ndarray[Any, Any]
    array = np.frombuffer(cuda.PinnedMemoryPointer(memory, 0), np.uint8)[:nbytes]
    array[:] = 0
    return array


class MessageMemory:
    """Device memory as MPI takes it: by its address, with no stream to wait for."""

    def __init__(self, access: Access) -> None:
        self._allocation = access.allocation
        self.nbytes = nbytes_of(access)
        self.__cuda_array_interface__ = {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (access.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


class Uploads:
    """Pinned slots for small values, used in turn.

    A slot is written again only after its former upload, which is long done by then.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._memory = pinned(cuda, _SLOTS * SLOT_BYTES)
        self._events = [CudaEvent(cuda) for _ in range(_SLOTS)]
        self._next = 0

    def give(self, source: np.ndarray[Any, Any], target: int, stream: Any) -> None:
        """Copy host memory, which may then change, to an address as work of the stream."""
        number, self._next = self._next, (self._next + 1) % _SLOTS
        event = self._events[number]
        event.synchronize()
        start = number * SLOT_BYTES
        slot = self._memory[start : start + source.nbytes]
        slot[:] = source.reshape(-1).view(np.uint8)
        copy(self._cuda, target, address_of(slot), slot.nbytes, kind=UP, stream=stream)
        stream.record(event)


def copy(cuda: Any, target: int, source: int, nbytes: int, *, kind: str, stream: Any) -> None:
    """Give a stream the copy of some bytes between addresses. Local."""
    runtime = cuda.runtime
    try:
        runtime.memcpyAsync(target, source, nbytes, getattr(runtime, kind), stream.pointer)
    except RuntimeError as error:
        raise failure(f"a transfer of {nbytes} bytes", error) from error


def nbytes_of(access: Access) -> int:
    """The size of a contiguous range. Local."""
    return math.prod(access.shape) * access.itemsize


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where the elements of a host array begin. Local."""
    address: int = array.__array_interface__["data"][0]
    return address
