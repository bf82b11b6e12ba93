"""Expressions of arrays beside kernels written by hand, which write an array that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from distarray.bench.table import Row
from distarray.bench.timing import Sizes, in_turn
from distarray.comm import Communicator
from distarray.grid import Grid
from distarray.kernels.apply import stencil

#: Largest ratio to the kernel.
GATE = 1.2
#: Bytes of a number.
_BYTES = 8


@stencil
def modulated(u: Any, v: Any, w: Any, d: Any, new: Any, *, factor: Any) -> None:
    """A costly function at each point; `d` takes no part."""
    new[0, 0, 0] = factor * u[0, 0, 0] + np.sin(v[0, 0, 0]) * w[0, 0, 0]


@stencil
def combined(u: Any, v: Any, w: Any, d: Any, new: Any, *, factor: Any) -> None:
    """As many arrays as a sum has terms, and cheap functions."""
    new[0, 0, 0] = u[0, 0, 0] + v[0, 0, 0] * w[0, 0, 0] - d[0, 0, 0] / factor


#: What is written in one line, the kernel that it stands for, and the arrays that it moves.
_CASES: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "2*u + sin(v)*w": (lambda u, v, w, d: 2 * u + np.sin(v) * w, modulated, 4),
    "a + b*c - d/2": (lambda a, b, c, d: a + b * c - d / 2, combined, 5),
}


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """Expressions as new arrays and assigned to one that is there. Collective."""
    n, ranks = sizes.cells, communicator.size
    grid = Grid((n, n, n), periodic=True, comm=communicator, device="cpu")
    arrays = [grid.from_function(lambda x, y, z, k=k: x + k * y * z) for k in range(1, 5)]
    new = grid.zeros()
    for text, (expression, kernel, moved) in _CASES.items():

        def assign(expression: Callable[..., Any] = expression) -> None:
            new[...] = expression(*arrays)

        acts = {
            "kernel": lambda kernel=kernel: kernel(*arrays, new, factor=2.0),
            "new": lambda expression=expression: expression(*arrays).local,
            "assigned": assign,
        }
        found = in_turn(communicator, sizes.repeat, acts)
        for name, what in (("new", f"r = {text}"), ("assigned", f"r[...] = {text}")):
            yield Row(
                "expressions", f"{what} at {n}^3, kernel", ranks, found[name], found["kernel"],
                GATE, moved * _BYTES * n**3,
            )  # fmt: skip
