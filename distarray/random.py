"""Random fields with the same bits on any number of ranks.

The numbers of a cell come from its global index: Philox-4x32-10 (Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC11) turns the 128-bit counter (index, stream) under
the 64-bit key `seed` into 128 random bits, in plain integer arithmetic. Normal numbers come from
the method of Box and Muller (1958). The host makes them, with the same bits for every device, and
brings them to the array's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.errors import ArrayError, GridError, UnsupportedError, shown
from distarray.grid import Grid

Words = np.ndarray[Any, np.dtype[np.uint64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10

#: Numbers made at once; their working arrays stay in the cache.
_STRIP = 1 << 15


def uniform(
    grid: Grid,
    seed: int,
    stream: int = 0,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: Any = float,
    **options: Any,
) -> DistArray:
    """Independent numbers, uniform in [low, high). Collective.

    Parameters
    ----------
    grid : Grid
    seed, stream : int
        From 0 to 2**64 - 1. Fields of different seeds or streams are independent; equal ones give
        equal bits on any process grid.
    low, high : float
    dtype : float32 or float64
        float32 numbers have 24 random bits, float64 numbers 53.
    **options
        components, location, boundary, halo and name as for `Grid.empty`.

    Raises
    ------
    ArrayError
        A seed, stream or bound that is no such number, or `low` above `high`.
    UnsupportedError
        Another element type.
    GridError
        What is given is no grid.
    DistArrayError
        As for `Grid.empty`.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((100, 100))
    >>> u = da.random.uniform(grid, seed=1)
    >>> bool(0.0 <= u.min() and u.max() < 1.0)
    True
    """
    low, high = _real("low", low), _real("high", high)
    if low > high:
        raise ArrayError(f"low={low} of a random field exceeds high={high}; exchange them.")

    def numbers(first: Words, second: Words, bits: int) -> Floats:
        return low + (high - low) * _fraction(first, bits)

    return _field(grid, seed, stream, numbers, dtype=dtype, options=options)


def normal(
    grid: Grid,
    seed: int,
    stream: int = 0,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: Any = float,
    **options: Any,
) -> DistArray:
    """Independent numbers, normally distributed with `mean` and standard deviation `std`.
    Collective.

    Parameters as for `uniform`.

    Raises
    ------
    ArrayError
        A seed, stream, mean or deviation that is no such number, or a negative deviation.
    DistArrayError
        As for `uniform`.
    """
    mean, std = _real("mean", mean), _real("std", std)
    if std < 0:
        raise ArrayError(f"std={std} of a random field is negative; use {-std}.")

    def numbers(first: Words, second: Words, bits: int) -> Floats:
        # 1 - fraction lies in (0, 1], so that the logarithm is finite.
        radius = np.sqrt(-2.0 * np.log(1.0 - _fraction(first, 53)))
        return mean + std * (radius * np.cos(2.0 * np.pi * _fraction(second, 53)))

    return _field(grid, seed, stream, numbers, dtype=dtype, options=options)


def philox(
    counter: tuple[Any, Any, Any, Any], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
    """Philox-4x32-10: four words of 32 bits, kept in uint64, from a counter of four and a key of
    two. Local.

    Words of the counter may be arrays that broadcast.
    """
    a, b, c, d = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (
            (product1 >> _SHIFT) ^ b ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _SHIFT) ^ d ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return a, b, c, d


def _fraction(words: Words, bits: int) -> Floats:
    """The leading bits of 64 as a number in [0, 1)."""
    return (words >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits


def _field(
    grid: Grid,
    seed: int,
    stream: int,
    numbers: Callable[[Words, Words, int], Floats],
    *,
    dtype: Any,
    options: dict[str, Any],
) -> DistArray:
    if not isinstance(grid, Grid):
        raise GridError(f"A random field needs a Grid, got {shown(grid)}; pass one first.")
    seed, stream = _whole("seed", seed), _whole("stream", stream)
    array = grid.empty(dtype, **options)
    if array.dtype.kind != "f":
        raise UnsupportedError(
            f"Random fields are float32 or float64, got dtype={array.dtype}; convert with astype()."
        )
    key = (seed & 0xFFFFFFFF, seed >> 32)
    bits = 24 if array.dtype == np.float32 else 53
    for target, indices in _strips(array):
        a, b, c, d = philox(
            (indices & _LOW, indices >> _SHIFT, stream & 0xFFFFFFFF, stream >> 32), key
        )
        target[...] = numbers(b << _SHIFT | a, d << _SHIFT | c, bits)
    array._written()
    return array


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 64:
        raise ArrayError(
            f"{name} of a random field must be a whole number from 0 to 2**64 - 1, got "
            f"{shown(value)}; choose one."
        )
    return number


def _real(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.integer | np.floating) or not math.isfinite(value):
        raise ArrayError(
            f"{name} of a random field must be a finite number, got {shown(value)}; choose one."
        )
    return float(value)


def _strips(array: DistArray) -> Iterator[tuple[Any, Words]]:
    """Parts of the owned values, each with the flat global indices of its elements."""
    strides = np.cumprod((1, *array.shape[:0:-1]))[::-1]
    ranges = [
        np.arange(s.start, s.stop, dtype=np.uint64) * np.uint64(stride)
        for s, stride in zip(array.local_slices, strides, strict=True)
    ]
    yield from _split(array._owned, ranges)


def _split(values: Any, ranges: list[Words]) -> Iterator[tuple[Any, Words]]:
    if values.size <= _STRIP or len(values) <= 1:
        if values.ndim > 1 and values.size > _STRIP:
            for part, indices in _split(values[0], ranges[1:]):
                yield part, indices + ranges[0][0]
        elif values.size:
            grids = np.ix_(*ranges)
            yield values, sum(grids[1:], grids[0])
        return
    half = len(values) // 2
    yield from _split(values[:half], [ranges[0][:half], *ranges[1:]])
    yield from _split(values[half:], [ranges[0][half:], *ranges[1:]])
