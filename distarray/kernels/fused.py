"""From what a kernel reduced on one rank to a reduction over all ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from distarray import exact
from distarray.accumulation import sum_type
from distarray.arraylike import HostArray
from distarray.contributions import cast, exact_contribution, extreme_of
from distarray.pending import Contribution
from distarray.resident import Finish
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Reduction


def contribution(reduction: Reduction, values: HostArray) -> Contribution:
    """This rank's contribution to a fused reduction, from `BoundLaunch.partials`. Local.

    Sums have the dtype that NumPy's have; min and max that of the value, NaN if any value is.
    """
    dtype = as_dtype(reduction.value.dtype)
    if reduction.kind != "sum":
        missing = values.dtype.kind == "f" and values[1]
        found = extreme_of(reduction.kind, np.nan if missing else values[0], values.dtype)
        return replace(
            found, finish=lambda reduced: cast(found.finish(reduced), dtype), dtype=dtype
        )
    result = sum_type(dtype)
    if reduction.reproducible and dtype.kind in "fc":
        return exact_contribution(exact.carried(values), lambda total: cast(total, result), result)
    return Contribution(values.ravel(), "sum", lambda reduced: cast(reduced[0], result), result)


def finish(reduction: Reduction) -> Finish:
    """How the result comes out of a partial result that is already over all ranks. Local."""

    def result(values: HostArray) -> Any:
        own = contribution(reduction, values)
        return own.finish(own.values)

    dtype = as_dtype(reduction.value.dtype)
    return result, sum_type(dtype) if reduction.kind == "sum" else dtype
