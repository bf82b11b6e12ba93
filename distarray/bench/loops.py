"""The C loops that the package is measured beside, compiled with the flags of kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.cpu import CpuBackend
from distarray.errors import BackendError

_POINTER, _INTEGER, _DOUBLE = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double

#: Parameters and result of each function of the text.
_TYPES: dict[str, tuple[Sequence[Any], Any]] = {
    "heat_step": ([_POINTER] * 2 + [_INTEGER] * 3 + [_DOUBLE], None),
    "wave_step": ([_POINTER] * 3 + [_INTEGER] * 3 + [_POINTER], None),
    "wave_sweep": ([_POINTER] * 3 + [_INTEGER] * 3 + [_POINTER], None),
    "copy_values": ([_POINTER] * 2 + [_INTEGER], None),
    "sum_values": ([_POINTER, _INTEGER], _DOUBLE),
    "sum_products": ([_POINTER] * 2 + [_INTEGER], _DOUBLE),
    "largest": ([_POINTER, _INTEGER], _DOUBLE),
    "pack_fields": ([_POINTER] + [_INTEGER] * 6 + [_POINTER], None),
    "unpack_fields": ([_POINTER] + [_INTEGER] * 6 + [_POINTER], None),
}


def loop(name: str, *, fast: bool = False) -> Any:
    """A function of `loops.c`; `fast` permits contraction and reassociation. Local.

    Raises
    ------
    BackendError
        No C compiler.
    """
    text = resources.files("distarray.bench").joinpath("loops.c").read_text("utf-8")
    function = CpuBackend().load(text, name, fast=fast)
    if function is None:
        raise BackendError(
            "bench needs a C compiler for the loops it measures beside; install gcc or clang."
        )
    function.argtypes, function.restype = _TYPES[name]
    return function


def copies(count: int) -> Callable[[], None]:
    """Copies so many float64 from one array to another. Local."""
    function, (source, target) = loop("copy_values"), (np.ones(count), np.zeros(count))
    return lambda: function(target.ctypes.data, source.ctypes.data, count)


def with_layers(shape: Sequence[int], width: int, dtype: Any, seed: int) -> HostArray:
    """Random numbers in cells and in layers around them. Local."""
    around = tuple(n + 2 * width for n in shape)
    return np.random.default_rng(seed).random(around).astype(dtype)
