"""Memory of a GPU and of the host beside it, by the calls of `cupy.cuda`, which are handed in."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.cuda_streams import CudaEvent, CudaStream, Gpu
from distarray.backends.driver import Access
from distarray.errors import BackendError

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

    def __init__(self, address: int, nbytes: int, retired: Retired) -> None:
        self.address = address
        self.nbytes = nbytes
        retired.expect(self, retired.runtime.free, address)


class Foreign:
    """Memory that another library holds, as its `__cuda_array_interface__` describes it.

    Compute goes on after what the library's stream was given before, and that stream, once the last
    reference goes, after what compute was given for the memory.
    """

    __slots__ = ("__weakref__", "_compute", "_event", "_stream", "_values", "address", "nbytes")

    def __init__(self, gpu: Gpu, values: Any, described: Mapping[str, Any], compute: Any) -> None:
        self._values, self._compute = values, compute
        self.address: int = described["data"][0]
        self.nbytes = math.prod(described["shape"]) * np.dtype(described["typestr"]).itemsize
        self._event, self._stream = CudaEvent(gpu), None
        if described.get("stream") is not None:
            self._stream = CudaStream(gpu, "another library's", described["stream"])
            self._stream.record(self._event)
            compute.wait(self._event)

    def __del__(self) -> None:
        # A device that has failed says so at the next call.
        with contextlib.suppress(BackendError):
            if self._stream is not None:
                self._compute.record(self._event)
                self._stream.wait(self._event)


class _Pinned:
    """Page-locked memory of the host, as NumPy takes it."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class Retired:
    """Memory that nobody holds any more, but that work of the device may still use.

    The last reference may go anywhere: in another thread, under another current device, while work
    is captured. So that is only noted then, and who asks for memory next frees it.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.runtime = gpu.cuda.runtime
        self._waiting: deque[tuple[Callable[[int], None], int]] = deque()

    def expect(self, owner: Any, free: Callable[[int], None], address: int) -> None:
        """Note memory for `free` when its owner goes. Local."""
        # At exit the driver takes everything back; libraries may still hold it then.
        weakref.finalize(owner, self._waiting.append, (free, address)).atexit = False

    def free(self) -> None:
        """Free what was noted, once the work given to the device is done. Local."""
        if not self._waiting:
            return
        # A device that has failed frees nothing, and says so at the next call.
        with contextlib.suppress(RuntimeError), self._gpu.cuda.Device(self._gpu.index):
            # What is noted from now on may have been given work after the waiting.
            count = len(self._waiting)
            self.runtime.deviceSynchronize()
            for _ in range(count):
                free, address = self._waiting.popleft()
                free(address)


def pinned(gpu: Gpu, nbytes: int, retired: Retired) -> HostArray:
    """Page-locked memory, zeroed; given back with the last reference, but not before transfers from
    and to it are done. Local.
    """
    runtime = gpu.cuda.runtime
    try:
        address = runtime.hostAlloc(max(nbytes, 1), runtime.hostAllocPortable)
    except RuntimeError as error:
        raise gpu.failure(f"allocating {nbytes} bytes of pinned memory", error) from error
    owner = _Pinned(address, nbytes)
    retired.expect(owner, runtime.freeHost, address)
    array = np.asarray(owner)
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

    def __init__(self, gpu: Gpu, retired: Retired) -> None:
        self._gpu = gpu
        self._memory = pinned(gpu, _SLOTS * SLOT_BYTES, retired)
        self._events = [CudaEvent(gpu) for _ in range(_SLOTS)]
        self._next = 0

    def give(self, source: HostArray, target: int, stream: Any) -> None:
        """Copy host memory, which may then change, to an address as work of the stream."""
        number, self._next = self._next, (self._next + 1) % _SLOTS
        event = self._events[number]
        event.synchronize()
        start = number * SLOT_BYTES
        slot = self._memory[start : start + source.nbytes]
        slot[:] = source.reshape(-1).view(np.uint8)
        copy(self._gpu, target, address_of(slot), slot.nbytes, kind=UP, stream=stream)
        stream.record(event)


def copy(gpu: Gpu, target: int, source: int, nbytes: int, *, kind: str, stream: Any) -> None:
    """Give a stream the copy of some bytes between addresses. Local."""
    runtime = gpu.cuda.runtime
    try:
        runtime.memcpyAsync(target, source, nbytes, getattr(runtime, kind), stream.pointer)
    except RuntimeError as error:
        raise gpu.failure(f"a transfer of {nbytes} bytes", error) from error


def nbytes_of(access: Access) -> int:
    """The size of a contiguous range. Local."""
    return math.prod(access.shape) * access.itemsize


def address_of(array: HostArray) -> int:
    """Where the elements of a host array begin. Local."""
    address: int = array.__array_interface__["data"][0]
    return address
