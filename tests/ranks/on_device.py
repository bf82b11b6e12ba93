"""What tests of arrays on the simulated device share. A race fails a test too: the device reports
work that is not ordered after what it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

import distarray as da
from distarray.testing import wipe_halo
from tests.ranks.common import process_grids

SHAPE = (11, 9)
DEVICE = "simulated"
#: Of each kind one element type, of numbers of several widths.
TYPES = ("?", *"bQfD")

Array = np.ndarray[Any, Any]


def grids(shape: tuple[int, ...] = SHAPE, **options: Any) -> Iterator[da.Grid]:
    for ranks in process_grids(len(shape), shape):
        yield da.Grid(shape, ranks=ranks, device=DEVICE, **options)


def numbers(*shape: int, dtype: Any = float, seed: int = 1) -> Array:
    """Numbers of both signs, of which products and sums of a few are exact in float32."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    values = rng.integers(1 if kind == "u" else -9, 10, shape) * (0.25 if kind in "fc" else 1)
    if kind == "c":
        values = values + 0.25j * rng.integers(-9, 10, shape)
    return values.astype(dtype)


def put(grid: da.Grid, values: Array, **options: Any) -> da.DistArray:
    """An array with these values, and nothing of use in its halo."""
    array = grid.empty(values.dtype, **options)
    array[...] = values
    wipe_halo(array)
    return array


def same(array: Any, expected: Any) -> None:
    """Equal values and element types. Collective."""
    assert array.device == DEVICE
    found, expected = array.gather(), np.asarray(expected)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert_array_equal(found, expected)
