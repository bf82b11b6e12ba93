"""Partial results of fused reductions on one rank, as the reference executor gathers them. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray import exact
from distarray.accumulation import accumulator_of, identity
from distarray.arraylike import HostArray
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Reduction


class Partial:
    """One reduction over the runs since `reset`.

    The result is one value for a sum (float64, complex128 or int64), limbs of `exact` for a
    reproducible sum, and for min and max the extremum of the numbers and whether there was a NaN
    (float64, int64 or uint64).
    """

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.dtype = accumulator(as_dtype(reduction.value.dtype), reduction.kind)
        self.reset()

    def reset(self) -> None:
        if self.reduction.kind != "sum":
            self._result = np.array([identity(self.reduction.kind, self.dtype), 0], self.dtype)
        elif self.reduction.reproducible:
            self._result = exact.partial_sum(np.empty(0, self.dtype))
        else:
            self._result = np.zeros(1, self.dtype)

    def add(self, values: HostArray) -> None:
        """Take in the values at the points of one run."""
        values = values.astype(self.dtype)
        with np.errstate(all="ignore"):
            if self.reduction.kind != "sum":
                self._extend(values)
            elif self.reduction.reproducible:
                self._result = exact.merged(self._result, exact.partial_sum(values))
            else:
                self._result += values.sum(dtype=self.dtype)

    def result(self) -> HostArray:
        return self._result.copy()

    def _extend(self, values: HostArray) -> None:
        choose = np.maximum if self.reduction.kind == "max" else np.minimum
        if self.dtype.kind == "f":
            missing = np.isnan(values)
            self._result[1] = max(self._result[1], float(missing.any()))
            values = values[~missing]
        self._result[0] = choose(
            self._result[0], choose.reduce(values, axis=None, initial=self._result[0])
        )


def accumulator(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    """The dtype in which a kernel reduces values of this dtype."""
    if dtype.kind == "u" and (kind == "sum" or dtype != np.uint64):
        return np.dtype(np.int64)
    return accumulator_of(dtype)
