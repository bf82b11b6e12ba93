"""Scalars of kernels in device memory, 16 bytes each: an integer or two reals.

They are uploaded when their bytes change, and values of reductions that lie on the device already
are copied there, so that captured work stays valid and the host waits for nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import BoxCopy
from distarray.backends.device_array import DeviceArray
from distarray.stencil.expression import Program
from distarray.stencil.memory import flat_scalars, scalar_format

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

BYTES = 16
_MOST_KEPT = 256
_NUMBERS = frozenset((bool, int, float, complex, np.float64))
_TYPES: dict[type, np.dtype[Any]] = {
    bool: np.dtype(np.int64),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


class KeptScalars:
    """Scalars that do not change, by their bytes: those that recur are uploaded once."""

    def __init__(self, backend: AcceleratorBackend) -> None:
        self._backend = backend
        self._kept: OrderedDict[bytes, DeviceArray] = OrderedDict()

    def find(self, program: Program, values: Sequence[Any]) -> DeviceArray:
        """Memory that holds the scalars of a program, not to be written. Local."""
        text = _packed(program, values)
        found = self._kept.get(text)
        if found is None:
            found = self._backend.asarray(np.frombuffer(text, np.uint8))
            self._kept[text] = found
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(text)
        return found


class LaunchScalars:
    """The scalars of one launch.

    Attributes
    ----------
    memory : DeviceArray, bytes
    """

    def __init__(self, backend: AcceleratorBackend, program: Program) -> None:
        self._backend, self._program = backend, program
        self.memory = backend.empty((max(len(program.scalars), 1) * BYTES,), np.uint8)
        self._held: tuple[bytes, tuple[int, ...]] | None = None
        self._copies: dict[tuple[int, int], Callable[[], None]] = {}

    def set(self, values: Sequence[Any]) -> None:
        """Let the next runs have these values; see `BoundLaunch.set_scalars`. Local."""
        numbers: list[Any] = list(values)
        taken: list[tuple[int, DeviceArray]] = []
        for place, value in enumerate(values):
            if type(value) in _NUMBERS:
                continue
            found = getattr(value, "device_value", None)
            if found is not None:
                taken.append((place, found))
                numbers[place] = 0
            elif hasattr(value, "result"):
                numbers[place] = value.result()
        text = _packed(self._program, numbers)
        held = (text, tuple(place for place, _ in taken))
        if held != self._held:
            self._backend.assign(self.memory, np.frombuffer(text, np.uint8))
            self._held = held
        for place, array in taken:
            self._copy(place, array)()

    def _copy(self, place: int, array: DeviceArray) -> Callable[[], None]:
        """The copy of a scalar on the device, kept for the next time."""
        key = (place, array.address)
        copy = self._copies.get(key)
        if copy is None:
            if len(self._copies) >= _MOST_KEPT:
                self._copies.clear()
            source = array.reshape(-1).view(np.uint8)
            target = self.memory[place * BYTES : (place + 1) * BYTES]
            copy = self._copies[key] = self._backend.prepare_copies([BoxCopy(source, target)])
        return copy


def read(program: Program, memory: HostArray) -> list[Any]:
    """The values of a program's scalars, from their bytes."""
    return [
        memory[place * BYTES : place * BYTES + _TYPES[kind].itemsize].view(_TYPES[kind])[0].item()
        for place, (_, kind) in enumerate(program.scalars)
    ]


def _packed(program: Program, values: Sequence[Any]) -> bytes:
    return scalar_format(program).pack(*flat_scalars(program, values)) or bytes(BYTES)
