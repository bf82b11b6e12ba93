"""What each rank contributes to a reduction over a whole array, and how the result comes out of it.

A `Contribution` is made of owned values without communication, or on a device of what one pass over
them gives (`block_reductions`); completing it is one all-reduce.

Float sums accumulate in float64 (complex128), integer sums in 64-bit integers, as NumPy's do. NaN
goes through min and max beside the value, as a flag, because MPI does not say what its own min and
max make of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from distarray import exact
from distarray.accumulation import DType, accumulator_of, identity, sum_type
from distarray.arraylike import HostArray
from distarray.comm.base import Communicator
from distarray.errors import ArrayError, UnsupportedError
from distarray.pending import Contribution

Finish = Callable[[Any], Any]

#: Loads compiled loops, for exact sums.
Load = Callable[[str, str], Any]


def mean_type(dtype: DType) -> DType:
    """The element type of a mean, as in NumPy. Local."""
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def cast(value: Any, dtype: DType) -> Any:
    """A number as a NumPy scalar of an element type; a float too large for float32 becomes
    infinite. Local.
    """
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def sum_contribution(
    values: HostArray, finish: Finish, dtype: DType, load: Load | None = None
) -> Contribution:
    """A sum whose total (a number) goes through `finish`; correctly rounded and order-free if
    `load` is given. Local.
    """
    if load is not None:
        return exact_contribution(exact.partial_sum(values, load), finish, dtype)
    with np.errstate(all="ignore"):
        total = np.sum(values, dtype=accumulator_of(values.dtype))
    return sum_of_partial(np.array([total]), finish, dtype)


def sum_of_partial(partial: HostArray, finish: Finish, dtype: DType) -> Contribution:
    """A sum from a partial result: one number, or limbs of `exact`. Local."""
    if partial.size > 1:
        return exact_contribution(exact.carried(partial), finish, dtype)
    return Contribution(partial.ravel(), "sum", lambda reduced: finish(reduced[0]), dtype)


def exact_contribution(limbs: HostArray, finish: Finish, dtype: DType) -> Contribution:
    """A sum from limbs of `exact`, whose exact total, as float64, goes through `finish`. Local."""
    shape = limbs.shape
    return Contribution(
        limbs.ravel(), "sum", lambda reduced: finish(exact.total(reduced.reshape(shape))), dtype
    )


def product_contribution(values: HostArray) -> Contribution:
    """The product of all values. Local."""
    dtype = sum_type(values.dtype)
    with np.errstate(all="ignore"):
        total = np.prod(values, dtype=accumulator_of(values.dtype))
    return Contribution(np.array([total]), "prod", lambda reduced: cast(reduced[0], dtype), dtype)


def truth_contribution(kind: str, values: HostArray) -> Contribution:
    """Whether "any" or "all" values are true. Local."""
    return truth_of(kind, values.any() if kind == "any" else values.all())


def truth_of(kind: str, found: Any) -> Contribution:
    """Whether "any" or "all" ranks found what each looked for. Local."""
    op = "max" if kind == "any" else "min"
    return Contribution(
        np.array([found], np.uint8), op, lambda reduced: np.bool_(reduced[0]), np.dtype(np.bool_)
    )


def extreme_contribution(kind: str, values: HostArray) -> Contribution:
    """The "min" or "max" of all values, NaN if any is NaN; a rank without values contributes
    nothing. Local.
    """
    require_order(kind, values.dtype)
    with np.errstate(all="ignore"):
        found = getattr(values, kind)() if values.size else identity(kind, values.dtype)
    return extreme_of(kind, found, values.dtype)


def extreme_of(kind: str, found: Any, dtype: DType) -> Contribution:
    """The "min" or "max" over ranks of each rank's own, in element type `dtype`. Local."""
    if dtype.kind != "f":
        held = np.dtype({"b": "u1"}.get(dtype.kind, dtype.str))
        return Contribution(
            np.array([found], held), kind, lambda reduced: cast(reduced[0], dtype), dtype
        )
    sign = -1.0 if kind == "min" else 1.0
    has_nan = bool(np.isnan(found))
    pair = np.array([identity(kind, dtype) if has_nan else found, sign * has_nan])
    return Contribution(
        pair, kind, lambda reduced: cast(np.nan if reduced[1] else reduced[0], dtype), dtype
    )


def extreme_of_partial(kind: str, partial: HostArray, dtype: DType) -> Contribution:
    """The "min" or "max" from a partial result, an extremum and whether there was a NaN. Local."""
    missing = partial.dtype.kind == "f" and partial[1]
    if dtype.kind == "f":  # as `extreme_contribution` has it
        partial = partial.astype(dtype)
    found = extreme_of(kind, np.nan if missing else partial[0], partial.dtype)
    return replace(found, finish=lambda reduced: cast(found.finish(reduced), dtype), dtype=dtype)


def require_order(kind: str, dtype: DType) -> None:
    """Refuse min, max and their arg forms for complex numbers, which have no order. Local."""
    if dtype.kind == "c":
        raise UnsupportedError(
            f"{kind} of complex values ({dtype}) is not defined; reduce abs(u), u.real or u.imag."
        )


def of_values(kind: str, values: HostArray, size: int, load: Load | None = None) -> Contribution:
    """This rank's contribution to a reduction of an array of `size` elements of which it owns
    `values`. Local.

    Parameters
    ----------
    kind : "sum", "prod", "mean", "min", "max", "any" or "all"
    load : the `load` of the backend for a reproducible sum or mean
    """
    if kind in ("min", "max"):
        require_extreme(kind, values.dtype, size)
        return extreme_contribution(kind, values)
    if kind in ("any", "all"):
        return truth_contribution(kind, values)
    if kind == "prod":
        return product_contribution(values)
    finish, dtype = _finish(kind, values.dtype, size)
    return sum_contribution(values, finish, dtype, load)


def of_partial(kind: str, partial: HostArray, dtype: DType, size: int) -> Contribution:
    """As `of_values`, but for "prod", from what `block_reductions.partial_result` gives for owned
    values of element type `dtype`. Local.
    """
    if kind in ("any", "all"):
        return truth_of(kind, partial[0] > 0)
    if kind in ("min", "max"):
        return extreme_of_partial(kind, partial, dtype)
    return sum_of_partial(partial, *_finish(kind, dtype, size))


def result_type(kind: str, dtype: DType) -> DType:
    """The element type of a reduction of this kind. Local."""
    if kind in ("any", "all"):
        return np.dtype(np.bool_)
    if kind in ("min", "max"):
        return dtype
    return mean_type(dtype) if kind == "mean" else sum_type(dtype)


def require_extreme(kind: str, dtype: DType, size: int) -> None:
    """Refuse the "min" or "max" of no values, or of values without an order. Local."""
    if size == 0:
        raise ArrayError(
            f"{kind} of an array without elements is not defined; check its size first."
        )
    require_order(kind, dtype)


def _finish(kind: str, dtype: DType, size: int) -> tuple[Finish, DType]:
    """What makes a "sum" or "mean" of `size` values of their total, and its element type."""
    if kind == "mean":
        mean = mean_type(dtype)
        return lambda total: cast(divide(total, size), mean), mean
    result = sum_type(dtype)
    return lambda total: cast_sum(total, result), result


def cast_sum(total: Any, dtype: DType) -> Any:
    """A total in the element type of the sum; integers wrap as in NumPy. Local."""
    return cast(
        np.int64(total)
        if dtype.kind == "u" and not isinstance(total, np.unsignedinteger)
        else total,
        dtype,
    )


def divide(total: Any, count: int) -> Any:
    """A total over a count; NaN or infinite for a count of zero. Local."""
    with np.errstate(all="ignore"):
        return np.asarray(total, mean_type(np.asarray(total).dtype)) / count


def squared_deviations(values: HostArray, mean: Any) -> Any:
    """The sum of |x - mean|^2 of owned values, in float64. Local."""
    with np.errstate(all="ignore"):
        deviation = values - mean
        return np.sum(
            deviation.real**2 + deviation.imag**2 if deviation.dtype.kind == "c" else deviation**2
        )


def variance(
    total: Any,
    squares: Callable[[Any], Any],
    dtype: DType,
    count: tuple[int, int],
    communicator: Communicator,
) -> Any:
    """The variance of all values by two passes: the mean first. Collective.

    Parameters
    ----------
    total : this rank's sum of its values, of element type `dtype`
    squares : function of the mean of all values: this rank's sum of |x - mean|^2
    count : number of values, and what is taken off it (ddof)
    """
    size, ddof = count
    part = np.array([total])
    mean_of_all = sum_of_partial(part, lambda total: divide(total, size), part.dtype)
    mean = mean_of_all.complete(communicator)
    result = np.empty(0, mean_type(dtype)).real.dtype
    return sum_of_partial(
        np.array([squares(mean)]),
        lambda total: cast(divide(total, max(size - ddof, 0)), result),
        result,
    ).complete(communicator)


def arg_extreme(
    kind: str, values: HostArray, flat_index: Callable[[int], int], communicator: Communicator
) -> Any:
    """The flat global index of the smallest or largest value; the first of equal ones, the first
    NaN. Collective.

    `flat_index` turns a flat index of the owned values into one of the global array.
    """
    require_order(f"arg{kind}", values.dtype)
    local, mine = -1, identity(kind, values.dtype)
    if values.size:
        local = int(getattr(values, f"arg{kind}")())
        mine = values.flat[local]
    best = extreme_of(kind, mine, values.dtype).complete(communicator)
    holds = local >= 0 and (mine == best or bool(np.isnan(best) and np.isnan(mine)))
    index = flat_index(local) if holds else np.iinfo(np.int64).max
    return np.int64(communicator.allreduce(np.array([index], np.int64), "min")[0])
