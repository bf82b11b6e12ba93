"""What sums and extrema start from and are held in, of whole arrays and in kernels alike. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

DType = np.dtype[Any]


def accumulator_of(dtype: DType) -> DType:
    """The element type that sums and products accumulate in."""
    return np.dtype({"b": "i8", "i": "i8", "u": "u8", "f": "f8", "c": "c16"}[dtype.kind])


def sum_type(dtype: DType) -> DType:
    """The element type of a sum or product, as in NumPy."""
    return dtype if dtype.kind in "fc" else accumulator_of(dtype)


def identity(kind: str, dtype: DType) -> Any:
    """The value that leaves a "min" or "max" as it is."""
    if dtype.kind == "b":
        return kind == "min"
    if dtype.kind == "f":
        return np.inf if kind == "min" else -np.inf
    limits = np.iinfo(dtype)
    return limits.max if kind == "min" else limits.min
