"""An accelerator as a backend, written once for all of them against `driver.Driver`.

Blocks lie in memory whose rows start at multiples of ROW bytes on their owned part. Kernels are
CUDA C text, for stencils and for elementwise functions alike. Drivers that cannot compile are given
the same work as Python functions, with the same record of what it reads and writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends import device_copies, device_map
from distarray.backends.base import BoxCopy, CopyList, Event, Graph, Stream
from distarray.backends.device_array import DeviceArray, adopted, require_writeable
from distarray.backends.device_lines import LineKernel
from distarray.backends.device_scalars import KeptScalars
from distarray.backends.driver import Driver
from distarray.errors import BackendError, UnsupportedError, shown

if TYPE_CHECKING:
    from distarray.stencil.expression import Program
    from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry

#: Bytes at whose multiples rows start: what a warp moves at a time, if their elements are doubles.
ROW = 128
#: Bytes that are packed at once on their way from or to the host.
MOST_PACKED = 1 << 28


class AcceleratorBackend:
    """Memory and kernels of one accelerator; see `base.Backend`.

    Attributes
    ----------
    driver : Driver
    kept_scalars, forms
        Numbers and kernels of elementwise functions, kept for the next calls.
    """

    host = False

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.name = driver.name
        self.compute: Stream = driver.compute
        self.communication: Stream = driver.communication
        self.kept_scalars = KeptScalars(self)
        self.forms: dict[Any, LineKernel] = {}

    def event(self) -> Event:
        return self.driver.event()

    # ---- memory

    def allocate(
        self,
        components: tuple[int, ...],
        shape: tuple[int, ...],
        halo: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        again: bool = False,
    ) -> DeviceArray:
        """Zeroed memory for one block; see `Backend.allocate`. Drivers keep what is given back
        themselves, so that `again` changes nothing. Local.
        """
        dtype = np.dtype(dtype)
        full, strides = components + shape, pitched_strides(components + shape, dtype.itemsize)
        offset = -halo[-1] * dtype.itemsize % ROW if halo else 0
        nbytes = offset + (full[0] * strides[0] if full else dtype.itemsize)
        allocation = self.driver.allocate(max(nbytes, 1))
        everything = DeviceArray.on(self, allocation, (max(nbytes, 1),), np.dtype(np.uint8))
        self.driver.fill(everything.access(True), 0, self.compute)
        return DeviceArray.on(self, allocation, full, dtype, offset=offset, strides=strides)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        dtype = np.dtype(dtype)
        allocation = self.driver.allocate(max(math.prod(shape) * dtype.itemsize, 1))
        return DeviceArray.on(self, allocation, tuple(shape), dtype)

    def buffer(self, nbytes: int) -> DeviceArray:
        """Zeroed bytes that other libraries may be handed. Local."""
        allocation = self.driver.allocate(max(nbytes, 1), pooled=False)
        found = DeviceArray.on(self, allocation, (nbytes,), np.dtype(np.uint8))
        if nbytes:
            self.driver.fill(found.access(True), 0, self.compute)
        return found

    def pinned(self, nbytes: int) -> HostArray:
        return self.driver.pinned(nbytes)

    # ---- work of the device

    def prepare_copies(self, copies: Sequence[BoxCopy]) -> CopyList:
        """Copies by one launch; see `device_copies.prepare`. Local."""
        return device_copies.prepare(self, copies)

    def prepare_map(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        target: DeviceArray,
        where: Any = None,
    ) -> Callable[[], None]:
        """One launch of a kernel of one line; see `device_map.prepare`. Local."""
        return device_map.prepare(function, operands, target, where)

    def assign(self, target: DeviceArray, value: Any) -> None:
        """Give an array the values of a number, a host array or another array of the device,
        broadcast and cast. Local.
        """
        require_writeable(target)
        if not isinstance(value, DeviceArray):
            value = adopted(self, value)
        if not isinstance(value, DeviceArray):
            value = np.asarray(value)
            if value.ndim:
                if value.shape == target.shape and value.dtype == target.dtype:
                    return self._upload(value, target)
                value = self.asarray(value)
            else:
                value = value[()]
        self.prepare_map(np.copyto, [value], target)()
        return None

    def adopted(self, values: Any) -> Any:
        """An array that another library has in this device's memory as one of this backend, without
        a copy; anything else as it is. Local.
        """
        return adopted(self, values)

    def bind(
        self, program: Program, arrays: Sequence[ArrayView], geometry: LaunchGeometry
    ) -> BoundLaunch:
        """A launch by generated CUDA text; see `device_launch`. Local."""
        from distarray.backends.device_launch import bind

        return bind(self, program, arrays, geometry)

    def load(self, source: str, symbol: str, *, fast: bool = False) -> Any:
        """A compiled C function of the host; see `native.load`. Local."""
        from distarray.backends import native

        return native.load(source, symbol, fast=fast)

    # ---- transfers

    def to_host(self, values: Any) -> HostArray:
        """The values in the host's memory, waited for; host arrays as they are. Local."""
        if not isinstance(values, DeviceArray):
            return np.asarray(values)
        found = np.empty(values.shape, values.dtype)
        if values.size:
            self._download(values, found)
        return found

    def _download(self, values: DeviceArray, found: HostArray) -> None:
        if not values.contiguous and _many(values):
            for row, into in zip(values, found, strict=True):
                self._download(row, into)
            return
        packed = values
        if not values.contiguous:
            packed = self.empty(values.shape, values.dtype)
            self.prepare_copies([BoxCopy(values, packed)])()
        self.driver.to_host(packed.access(False), found, self.compute, pinned=False)

    def asarray(self, values: Any) -> DeviceArray:
        """A contiguous array of the values of a host array; device arrays as they are. Local."""
        values = adopted(self, values)
        if isinstance(values, DeviceArray):
            return values
        host = np.asarray(values)
        if host.dtype.kind not in "biufc":
            raise UnsupportedError(
                f"Device arrays do not combine with {shown(values)}; use numbers, NumPy arrays or "
                "device arrays."
            )
        found = self.empty(host.shape, host.dtype)
        self._upload(host, found)
        return found

    def _upload(self, values: HostArray, target: DeviceArray) -> None:
        """Copy a host array into an array of equal shape and dtype."""
        if not values.size:
            return
        if not target.contiguous and _many(target):
            for row, into in zip(values, target, strict=True):
                self._upload(row, into)
            return
        packed = target if target.contiguous else self.empty(target.shape, target.dtype)
        source = np.ascontiguousarray(values)
        self.driver.to_device(source, packed.access(True), self.compute, pinned=False)
        if packed is not target:
            self.prepare_copies([BoxCopy(packed, target)])()

    def begin_to_host(self, source: DeviceArray, target: HostArray, stream: Stream) -> None:
        _require_contiguous(source, target)
        self.driver.to_host(source.access(False), target, stream, pinned=True)

    def begin_to_device(self, source: HostArray, target: DeviceArray, stream: Stream) -> None:
        _require_contiguous(target, source)
        self.driver.to_device(source, target.access(True), stream, pinned=True)

    def host_access(self, values: Any, *, write: bool, what: str) -> None:
        seen = values.access(write) if isinstance(values, DeviceArray) else values
        self.driver.host_access(seen, write=write, what=what)

    def message_memory(self, buffer: DeviceArray) -> Any:
        return self.driver.message_memory(buffer.access(True))

    def nccl_binding(self) -> Any:
        """NCCL for this device, a `comm.nccl.Binding`; BackendError where it is missing. Local."""
        return self.driver.nccl_binding()

    # ---- graphs

    def begin_capture(self) -> bool:
        return self.driver.begin_capture()

    def end_capture(self) -> Graph:
        return self.driver.end_capture()


def _many(array: DeviceArray) -> bool:
    """Whether an array with gaps is better packed in parts than at once."""
    return array.nbytes > MOST_PACKED and array.ndim > 1


def pitched_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Bytes between neighbours along each axis, rows being whole multiples of ROW."""
    strides = [itemsize]
    for position, extent in enumerate(reversed(shape[1:])):
        pitch = strides[-1] * extent
        strides.append(-(-pitch // ROW) * ROW if position == 0 else pitch)
    return tuple(reversed(strides)) if shape else ()


def _require_contiguous(array: DeviceArray, host: HostArray) -> None:
    if not array.contiguous or array.nbytes != host.nbytes:
        raise BackendError(
            f"A transfer goes between {array!r} and {host.nbytes} bytes of the host; both must be "
            "contiguous and of one size."
        )
