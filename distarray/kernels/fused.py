"""From what a kernel reduced on one rank to a reduction over all ranks."""

from __future__ import annotations

from typing import Any

from distarray.accumulation import sum_type
from distarray.arraylike import HostArray
from distarray.contributions import cast, extreme_of_partial, sum_of_partial
from distarray.pending import Contribution
from distarray.resident import Finish
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Reduction


def contribution(reduction: Reduction, partial: HostArray) -> Contribution:
    """This rank's contribution to a fused reduction, from `BoundLaunch.partials`. Local.

    Sums have the dtype that NumPy's have; min and max that of the value, NaN if any value is.
    """
    dtype = as_dtype(reduction.value.dtype)
    if reduction.kind != "sum":
        return extreme_of_partial(reduction.kind, partial, dtype)
    result = sum_type(dtype)
    return sum_of_partial(partial, lambda total: cast(total, result), result)


def finish(reduction: Reduction) -> Finish:
    """How the result comes out of a partial result that is already over all ranks. Local."""

    def result(partial: HostArray) -> Any:
        return contribution(reduction, partial).result_of_all()

    dtype = as_dtype(reduction.value.dtype)
    return result, sum_type(dtype) if reduction.kind == "sum" else dtype
