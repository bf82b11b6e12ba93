"""Simulated devices that keep what they are given, and arrays to try them on."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.backends.device_array import DeviceArray
from distarray.backends.driver import Access
from distarray.backends.simulated.driver import SimulatedDriver


def values_of(shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray[Any, Any]:
    found = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    return found - 1j * found if np.dtype(dtype).kind == "c" else found


def same(array: Any, expected: Any) -> None:
    """Equal values, shape and dtype, on the device."""
    assert isinstance(array, DeviceArray)
    expected = np.asarray(expected)
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array.get(), expected, strict=True)


class Recorded(SimulatedDriver):
    """A device that keeps what its work says of the memory it touches."""

    def __init__(self) -> None:
        super().__init__(0)
        self.given: list[tuple[str, list[Access]]] = []
        self.pooled: list[bool] = []

    def allocate(self, nbytes: int, *, pooled: bool = True) -> Any:
        self.pooled.append(pooled)
        return super().allocate(nbytes, pooled=pooled)

    def launch(self, *arguments: Any) -> None:
        self.given.append((arguments[6], list(arguments[5])))
        super().launch(*arguments)

    def call(self, *arguments: Any) -> None:
        self.given.append((arguments[3], list(arguments[2])))
        super().call(*arguments)


class Listed(SimulatedDriver):
    """A device that keeps the texts it compiles, whether they were compiled before or not."""

    def __init__(self) -> None:
        super().__init__(0)
        self.texts: list[str] = []

    def load(self, kernel: Any) -> Any:
        self.texts.append(kernel.text)
        return super().load(kernel)
