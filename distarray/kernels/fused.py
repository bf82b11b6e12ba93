"""From what a kernel reduced on one rank to a reduction over all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray import exact
from distarray.pending import Contribution
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Reduction

Array = np.ndarray[Any, Any]


def contribution(reduction: Reduction, values: Array) -> Contribution:
    """This rank's contribution to a fused reduction, from `BoundLaunch.partials`. Local.

    Sums have the dtype that NumPy's have; min and max that of the value, NaN if any value is.
    """
    dtype = as_dtype(reduction.value.dtype)
    if reduction.kind == "sum":
        return _sum(dtype, values, reduction.reproducible)
    # The NaN flag travels beside the value, with its sign turned so that the same operation keeps
    # it.
    sign = 1 if reduction.kind == "max" else -1
    if dtype.kind != "f":
        return Contribution(
            values[:1], reduction.kind, lambda reduced: dtype.type(reduced[0]), dtype
        )

    def finish(reduced: Array) -> Any:
        return dtype.type(np.nan if reduced[1] else reduced[0])

    return Contribution(values * np.array([1, sign]), reduction.kind, finish, dtype)


def _sum(dtype: np.dtype[Any], values: Array, reproducible: bool) -> Contribution:
    result = dtype if dtype.kind in "fc" else np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    if not reproducible or dtype.kind not in "fc":
        return Contribution(
            values.ravel(), "sum", lambda reduced: _cast(reduced[0], result), result
        )
    limbs = exact.carried(values)
    shape = limbs.shape
    return Contribution(
        limbs.ravel(),
        "sum",
        lambda reduced: _cast(exact.total(reduced.reshape(shape)), result),
        result,
    )


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]
