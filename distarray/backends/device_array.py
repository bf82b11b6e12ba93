"""Arrays in the memory of a device, as far as the host knows them: address, shape and strides.

A `DeviceArray` is indexed, viewed and written to as a NumPy array is. Views cost no work on the
device. Operations are work of the compute stream: elementwise functions become kernels (see
`device_map`), and functions that no kernel can compute go through the host, which waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from distarray.arraylike import DeviceMarker, HostArray
from distarray.backends.driver import Access, Allocation
from distarray.errors import ArrayError, BackendError, IndexingError, UnsupportedError, shown

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend


class _Interface:
    """Memory as NumPy's array interface describes it."""

    def __init__(
        self, allocation: Allocation, address: int, shape: Any, strides: Any, dtype: np.dtype[Any]
    ) -> None:
        self._allocation = allocation
        self.__array_interface__ = {
            "data": (address, False),
            "shape": tuple(shape),
            "strides": tuple(strides),
            "typestr": dtype.str,
            "version": 3,
        }


def _by_the_host(name: str) -> Callable[..., Any]:
    """A method of NumPy's arrays, of the values in the host's memory."""

    def method(self: DeviceArray, *args: Any, **options: Any) -> Any:
        return getattr(self.get(), name)(*args, **options)

    method.__name__ = name
    method.__doc__ = "As of NumPy's arrays, computed on the host, which waits for the values."
    return method


class DeviceArray(DeviceMarker, NDArrayOperatorsMixin):
    """An array in device memory. Local.

    Attributes
    ----------
    backend : AcceleratorBackend
    allocation : Allocation
        The memory that holds it, kept alive by it.
    shadow : ndarray
        A NumPy array of the same address, shape, strides and dtype, by which views are computed.
        Its values are on the device: only work of a simulated device's streams may touch them.
    """

    __slots__ = ("__weakref__", "_address", "allocation", "backend", "shadow")

    def __init__(
        self, backend: AcceleratorBackend, allocation: Allocation, shadow: HostArray
    ) -> None:
        self.backend = backend
        self.allocation = allocation
        self.shadow = shadow
        self._address: int | None = None

    @classmethod
    def on(
        cls,
        backend: AcceleratorBackend,
        allocation: Allocation,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        offset: int = 0,
        strides: tuple[int, ...] | None = None,
    ) -> DeviceArray:
        """The array at an offset in bytes of an allocation; contiguous without strides."""
        if strides is None:
            strides = contiguous_strides(shape, dtype.itemsize)
        address = allocation.address + offset
        shadow = np.asarray(_Interface(allocation, address, shape, strides, dtype))
        return cls(backend, allocation, shadow)

    # ---- description

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.shadow.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.shadow.dtype
        return dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.shadow.strides

    @property
    def ndim(self) -> int:
        return self.shadow.ndim

    @property
    def size(self) -> int:
        return self.shadow.size

    @property
    def itemsize(self) -> int:
        return self.shadow.itemsize

    @property
    def nbytes(self) -> int:
        return self.shadow.nbytes

    @property
    def flags(self) -> Any:
        """NumPy's flags, of which `writeable` may be cleared."""
        return self.shadow.flags

    @property
    def contiguous(self) -> bool:
        """Whether its values lie without gaps, the last axis fastest."""
        return self.shadow.flags.c_contiguous

    @property
    def address(self) -> int:
        """Where the element with index 0 along all axes lies on the device."""
        if self._address is None:
            self._address = self.shadow.__array_interface__["data"][0]
        return self._address

    def __len__(self) -> int:
        return len(self.shadow)

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} of {self.dtype} on {self.backend.name}>"

    def access(self, write: bool) -> Access:
        """All of it, as work of a stream reads or writes it."""
        shadow = self.shadow
        return Access(
            self.allocation,
            self.address,
            shadow.shape,
            shadow.strides,
            shadow.itemsize,
            write,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """How CuPy and others take the array without a copy; on CUDA devices only."""
        if self.backend.name != "cuda":
            raise AttributeError(f"Arrays on {self.backend.name!r} have no CUDA array interface.")
        shadow = self.shadow
        compute: Any = self.backend.compute
        return {
            "data": (self.address, not shadow.flags.writeable),
            "shape": shadow.shape,
            "strides": None if self.contiguous else shadow.strides,
            "typestr": shadow.dtype.str,
            "version": 3,
            "stream": compute.pointer,  # whoever works elsewhere waits for it
        }

    # ---- views

    def _seen_as(self, shadow: HostArray) -> DeviceArray:
        return DeviceArray(self.backend, self.allocation, shadow)

    def __getitem__(self, key: Any) -> DeviceArray:
        return self._seen_as(self.shadow[_basic(key)])

    def view(self, dtype: Any = None) -> DeviceArray:
        """The same memory, seen as elements of another type."""
        shadow = self.shadow
        return self._seen_as(shadow.view() if dtype is None else shadow.view(dtype))

    def readonly(self) -> DeviceArray:
        """The same memory, not to be written through this array."""
        seen = self.view()
        seen.shadow.flags.writeable = False
        return seen

    def reshape(self, *shape: Any) -> DeviceArray:
        """The same values in another shape; a copy unless they are contiguous."""
        source = self if self.contiguous else self.copy()
        return source._seen_as(source.shadow.reshape(*shape))

    def ravel(self) -> DeviceArray:
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> DeviceArray:
        return self._seen_as(self.shadow.transpose(*axes))

    @property
    def T(self) -> DeviceArray:  # noqa: N802 - NumPy's name
        return self.transpose()

    @property
    def real(self) -> DeviceArray:
        return self._seen_as(self.shadow.real)

    @property
    def imag(self) -> DeviceArray:
        """The imaginary parts; of real numbers a new array of zeros."""
        if self.dtype.kind == "c":
            return self._seen_as(self.shadow.imag)
        zeros = self.backend.empty(self.shape, self.dtype)
        zeros.fill(0)
        return zeros

    # ---- values

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, complex | np.complexfloating) and self.dtype.kind != "c":
            np.empty((), self.dtype)[...] = value  # NumPy says what is wrong with it
        self.backend.assign(self[key], value)

    def fill(self, value: Any) -> None:
        """Give all elements one value."""
        self.backend.assign(self, value)

    def copy(self) -> DeviceArray:
        """A contiguous array of the same values."""
        return self.astype(self.dtype)

    def astype(self, dtype: Any, *, copy: bool = True) -> DeviceArray:
        """The values converted, in a contiguous array of their own unless `copy` is false and
        nothing is to be converted.
        """
        if not copy and self.dtype == dtype:
            return self
        converted = self.backend.empty(self.shape, np.dtype(dtype))
        self.backend.assign(converted, self)
        return converted

    def conj(self) -> Any:
        return np.conjugate(self)

    def get(self) -> HostArray:
        """The values in the host's memory; waits for them."""
        return self.backend.to_host(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """The values in the host's memory; read-only unless a copy was asked for, as by
        numpy.array, since what is written to them never reaches the device.
        """
        if copy is False:
            raise BackendError(
                f"An array on {self.backend.name!r} reaches the host by a copy only, got "
                "copy=False; leave it out."
            )
        values = np.asarray(self.get(), dtype)
        values.flags.writeable = bool(copy)
        return values

    item = _by_the_host("item")
    tolist = _by_the_host("tolist")
    sum = _by_the_host("sum")
    prod = _by_the_host("prod")
    mean = _by_the_host("mean")
    std = _by_the_host("std")
    var = _by_the_host("var")
    min = _by_the_host("min")
    max = _by_the_host("max")
    argmin = _by_the_host("argmin")
    argmax = _by_the_host("argmax")
    any = _by_the_host("any")
    all = _by_the_host("all")
    __bool__ = _by_the_host("__bool__")
    __int__ = _by_the_host("__int__")
    __float__ = _by_the_host("__float__")
    __complex__ = _by_the_host("__complex__")

    # ---- NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        from distarray.backends.device_functions import call_ufunc

        if method != "__call__":
            raise UnsupportedError(
                f"numpy.{ufunc.__name__}.{method} is not supported on device arrays; take their "
                "values by numpy.asarray."
            )
        return call_ufunc(self.backend, ufunc, inputs, options)

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        from distarray.backends.device_functions import call_function

        return call_function(self.backend, function, args, options)


def adopted(backend: AcceleratorBackend, values: Any) -> Any:
    """An array that another library, such as CuPy, has in the memory of this device, without a
    copy; anything else as it is. Local.
    """
    if isinstance(values, DeviceArray | np.ndarray):
        return values
    described = getattr(values, "__cuda_array_interface__", None)
    if described is None:
        return values
    dtype = np.dtype(described["typestr"])
    if dtype.kind not in "biufc" or described.get("mask") is not None:
        raise UnsupportedError(
            f"Device arrays do not combine with {shown(values)}; use numbers, without a mask."
        )
    allocation = backend.driver.adopt(values, described)
    if allocation is None:
        return values
    strides = described.get("strides")
    return DeviceArray.on(
        backend,
        allocation,
        tuple(described["shape"]),
        dtype,
        strides=None if strides is None else tuple(strides),
    )


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Bytes between neighbours of a contiguous array, the last axis fastest."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _basic(key: Any) -> tuple[Any, ...]:
    """An index of integers, slices, `...` and None, with `...`: it never takes values."""
    entries = key if isinstance(key, tuple) else (key,)
    for entry in entries:
        if entry is None or entry is Ellipsis or isinstance(entry, slice):
            continue
        if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
            raise IndexingError(
                f"Device arrays are indexed by whole numbers and slices, got {shown(entry)}; take "
                "their values by numpy.asarray."
            )
    return entries if any(entry is Ellipsis for entry in entries) else (*entries, Ellipsis)


def require_writeable(array: DeviceArray) -> None:
    """Refuse to write through a view that is read only."""
    if not array.shadow.flags.writeable:
        raise ArrayError(
            f"{array!r} is a read-only view; write within `with u.writing()`, or by u[...] = value."
        )
