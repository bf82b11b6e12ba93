"""What distinguishes one accelerator from another: memory, streams, transfers and launches.

`accelerator.AcceleratorBackend` is written once against this protocol. `cuda` implements it with
CuPy; `simulated` with NumPy memory, work that is put off, and a record of who may touch what when.
Kernels are CUDA C text for both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import Event, Graph, Stream


class Allocation(Protocol):
    """Device memory, given back when the last reference goes.

    Where it is pooled, others may then be given it while work that uses it still waits: see
    `Driver.allocate`. Memory that is not is kept until that work is done.
    """

    address: int
    nbytes: int


@dataclass(frozen=True)
class Access:
    """What a piece of work reads or writes: a strided range of device memory.

    Attributes
    ----------
    allocation : Allocation
    address : int
        Of the element with index 0 along all axes.
    shape, strides : tuple of int
        Extents and bytes between neighbours, negative or 0 ones included.
    itemsize : int
    write : bool
    """

    allocation: Allocation
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    write: bool


@dataclass(frozen=True)
class KernelText:
    """CUDA C text of one `extern "C" __global__` function.

    Attributes
    ----------
    text, symbol : str
    parameters : tuple of str
        C types of its parameters, such as "const double *" or "struct layout".
    fast : bool
        Whether products and sums may be contracted.
    """

    text: str
    symbol: str
    parameters: tuple[str, ...]
    fast: bool = False


class Parameters:
    """Values of a kernel's parameters, each a small host array whose bytes are one parameter.

    The arrays may be changed between launches; a launch takes the values it finds.
    """

    def __init__(self, values: Sequence[HostArray]) -> None:
        self.values = tuple(np.ascontiguousarray(value) for value in values)
        self._addresses = (ctypes.c_void_p * len(self.values))(
            *(value.ctypes.data for value in self.values)
        )
        #: Address of an array of the addresses of all values.
        self.pointer = ctypes.addressof(self._addresses)


Extents = tuple[int, int, int]


class Driver(Protocol):
    """One accelerator.

    Attributes
    ----------
    name : "cuda" or "simulated"
    compiles : bool
        Whether `load` works; else work is given as Python functions by `call`.
    compute : Stream
        For kernels and array operations. Pooled memory is its own: what is given to it may use
        that at once.
    communication : Stream
        For packing, unpacking and messages, of higher priority. It may use pooled memory after an
        event that compute recorded since the allocation, and who gives it such work holds the
        memory until compute waits for that work.
    """

    name: str
    compute: Stream
    communication: Stream

    @property
    def compiles(self) -> bool: ...

    def event(self) -> Event: ...

    def allocate(self, nbytes: int, *, pooled: bool = True) -> Allocation:
        """Memory aligned to 512 bytes; not `pooled` for what other libraries are handed, and for
        what is first used by another stream than compute. Local.
        """
        ...

    def adopt(self, values: Any, described: Mapping[str, Any]) -> Allocation | None:
        """Memory of this device that another library's array has, as work of compute may use it
        while it is held; None where the device has no memory that others know. Local.

        `described` is the array's `__cuda_array_interface__`.
        """
        ...

    def pinned(self, nbytes: int) -> HostArray:
        """Page-locked host memory, 1-D uint8, zeroed, kept until its work is done. Local."""
        ...

    def fill(self, access: Access, byte: int, stream: Stream) -> None:
        """Set all bytes of a contiguous range. Local."""
        ...

    def to_device(self, source: HostArray, target: Access, stream: Stream, *, pinned: bool) -> None:
        """Copy a contiguous host array into a contiguous range. Local.

        Without `pinned`, `source` may be changed when this returns.
        """
        ...

    def to_host(self, source: Access, target: HostArray, stream: Stream, *, pinned: bool) -> None:
        """Copy a contiguous range into a contiguous host array. Local.

        Without `pinned`, the copy is complete when this returns.
        """
        ...

    def load(self, kernel: KernelText) -> Any:
        """The compiled function, kept. Local."""
        ...

    def launch(  # noqa: PLR0917 - what a launch needs
        self,
        function: Any,
        grid: Extents,
        block: Extents,
        parameters: Parameters,
        stream: Stream,
        accesses: Sequence[Access],
        name: str,
    ) -> None:
        """Give a kernel to a stream; `accesses` say what it touches, `name` is for reports. Local.

        The parameters are copied before this returns.
        """
        ...

    def call(
        self, function: Callable[[], None], stream: Stream, accesses: Sequence[Access], name: str
    ) -> None:
        """Give a Python function to a stream; simulated devices only. Local."""
        ...

    def host_access(self, values: Any, *, write: bool, what: str) -> None:
        """See `Backend.host_access`."""
        ...

    def message_memory(self, access: Access) -> Any:
        """See `Backend.message_memory`."""
        ...

    def nccl_binding(self) -> Any:
        """NCCL for this device, a `comm.nccl.Binding`. Local.

        Raises
        ------
        BackendError
            It is not there, and why.
        """
        ...

    def begin_capture(self) -> bool:
        """See `Backend.begin_capture`. BackendError while work is captured already. Local."""
        ...

    def end_capture(self) -> Graph:
        """See `Backend.end_capture`. BackendError where no work is captured. Local."""
        ...
