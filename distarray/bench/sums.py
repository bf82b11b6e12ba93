"""Reductions over all cells beside a C loop over as many numbers and, on several ranks, one
all-reduce of one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from distarray.bench.heat import fields
from distarray.bench.loops import loop
from distarray.bench.table import Row
from distarray.bench.timing import Act, Sizes, in_turn
from distarray.comm import Communicator
from distarray.linalg import dot


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """The sum, the largest value, the inner product and the reproducible sum. Collective."""
    n, size = sizes.cells, communicator.size
    u, v = fields((n, n, n), communicator)
    mine = np.random.default_rng(0).random(u.block.owned.size)
    other = mine.copy()
    count = mine.size
    add, multiply, most = (
        loop(name, fast=True) for name in ("sum_values", "sum_products", "largest")
    )
    summed = _reduced(communicator, lambda: add(mine.ctypes.data, count), "sum")
    cases: dict[str, tuple[Act, Act, int]] = {
        "u.sum()": (u.sum, summed, 8),
        "u.max()": (
            u.max, _reduced(communicator, lambda: most(mine.ctypes.data, count), "max"), 8,
        ),
        "da.dot(u, v)": (
            lambda: dot(u, v),
            _reduced(
                communicator,
                lambda: multiply(mine.ctypes.data, other.ctypes.data, count),
                "sum",
            ),
            16,
        ),
        "u.sum(reproducible=True)": (lambda: u.sum(reproducible=True), summed, 8),
    }  # fmt: skip
    for name, (ours, beside, nbytes) in cases.items():
        found = in_turn(communicator, sizes.repeat, {"ours": ours, "beside": beside})
        what = f"{name}, {n}^3, C loop"
        yield Row("sums", what, size, found["ours"], found["beside"], nbytes=nbytes * n**3)


def _reduced(communicator: Communicator, value: Callable[[], float], op: str) -> Act:
    """A number of each rank, and one small all-reduce where there are several."""
    if communicator.size == 1:
        return value
    return lambda: communicator.allreduce(np.array([value()]), op)
