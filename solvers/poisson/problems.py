"""A Poisson problem with a published table of errors, and problems that are hard for multigrid."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

import distarray as da
from solvers.linear.solution import Solution
from solvers.multigrid import EllipticOperator, Multigrid

#: What most problems have at all sides.
WALL = da.Dirichlet(0.0)
NO_FLUX = da.Neumann(0.0)


@dataclass(frozen=True)
class Published:
    """Errors of the five-point operator on n x n cells: the 2-norm and the maximum."""

    cells: int
    l2: float
    linf: float


def published() -> list[Published]:
    """The table of the published problem. Local."""
    text = (resources.files("solvers.poisson") / "data" / "briggs.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [Published(int(r["n"]), float(r["l2"]), float(r["linf"])) for r in rows]


class Briggs:
    """`-lap u = f` in the unit box, u = 0 at its sides, u = -prod (x^2 - x^4).

    Briggs, W. L., Henson, V. E., McCormick, S. F. (2000) A Multigrid Tutorial, 2nd ed., SIAM, in
    any number of axes. Creation is Collective.

    Parameters
    ----------
    cells : sequence of int
    device : str
        As for `da.Grid`.
    """

    def __init__(self, cells: tuple[int, ...], *, device: str = "auto") -> None:
        self.grid = da.Grid(cells, device=device)
        names = self.grid.axes[: self.grid.ndim]
        self.operator = EllipticOperator(self.grid, boundary=dict.fromkeys(names, WALL))
        self.exact = self.grid.from_function(lambda *x: -math.prod(map(_factor, x)))
        self.f = self.grid.from_function(_source)

    def errors(self, x: da.DistArray) -> tuple[float, float]:
        """The 2-norm, weighted by the volume of a cell, and the maximum. Collective."""
        wrong = abs(x - self.exact)
        norm = float(da.norm(wrong, reproducible=True))
        return norm / math.sqrt(wrong.size), float(wrong.max())


def _factor(x: Any) -> Any:
    return x**2 - x**4


def _source(*x: Any) -> Any:
    parts = []
    for axis, along in enumerate(x):
        others = [_factor(other) for n, other in enumerate(x) if n != axis]
        parts.append((2.0 - 12.0 * along**2) * math.prod(others))
    return sum(parts)


@dataclass(frozen=True)
class Hard:
    """A problem that multigrid may be slow for; the right-hand side is random."""

    name: str
    cells: tuple[int, ...]
    condition: da.Condition = WALL
    bounds: tuple[tuple[float, float], ...] | None = None
    periodic: bool = False
    a: Callable[..., Any] | None = None
    c: float = 0.0
    location: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def solve(self, *, device: str = "auto") -> Solution:
        """Collective."""
        grid = da.Grid(self.cells, bounds=self.bounds, periodic=self.periodic, device=device)
        sides = {} if self.periodic else dict.fromkeys(grid.axes[: grid.ndim], self.condition)
        a = 1.0 if self.a is None else grid.from_function(self.a)
        operator = EllipticOperator(grid, a, self.c, boundary=sides, location=self.location)
        f = grid.empty(location=self.location)
        f[...] = np.random.default_rng(1).standard_normal(f.shape)
        if operator.singular:
            f -= f.mean(reproducible=True)
        return Multigrid(operator, reproducible=True, **self.options).solve(f)


def _ball(inside: float) -> Callable[..., Any]:
    """A coefficient that jumps from 1 to `inside` in a ball."""
    return lambda *x: np.where(sum((along - 0.5) ** 2 for along in x) < 0.09, inside, 1.0)


HARD = (
    Hard("one axis, prime", (997,)),
    Hard("prime", (97, 101)),
    Hard("prime, periodic", (67, 61), periodic=True),
    Hard("prime, zero flux", (31, 37, 29), NO_FLUX),
    Hard("cells 1 : 10", (64, 64), bounds=((0.0, 1.0), (0.0, 10.0))),
    Hard("cells 1 : 10 : 1", (32, 32, 32), bounds=((0.0, 1.0), (0.0, 10.0), (0.0, 1.0))),
    Hard("a jumps 1 : 1000", (64, 64), a=_ball(1e3)),
    Hard("a jumps 1000 : 1", (61, 61), a=_ball(1e-3)),
    Hard("a jumps 1 : 1000", (32, 32, 32), a=_ball(1e3)),
    Hard("c = 1000, zero flux", (64, 64), NO_FLUX, c=1e3),
    Hard("unknowns on faces", (67, 61), location="x"),
    Hard("Chebyshev", (64, 64), options={"smoother": "chebyshev"}),
    Hard("W-cycles", (64, 64), options={"cycle": "W"}),
    Hard("full multigrid", (64, 64), options={"cycle": "F"}),
)
