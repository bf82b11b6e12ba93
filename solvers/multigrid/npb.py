"""The kernel MG of the NAS Parallel Benchmarks: its operator, its smoother and its data, exactly.

Four iterations of a V-cycle for `A u = v` on a periodic cube of n^3 points, from u = 0. v is zero
but for +1 at the ten largest and -1 at the ten smallest of n^3 pseudo-random numbers. The benchmark
is verified by the norm of the last residual.

Bailey, D. et al. (1994) The NAS Parallel Benchmarks, NASA Ames report RNR-94-007: the kernel MG and
the pseudo-random number generator; the order of the cycle is that of the reference code.
"""

from __future__ import annotations

import csv
import itertools
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

import distarray as da

#: Coefficients of the point itself, of its 6 faces, 12 edges and 8 corners.
OPERATOR = (-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0)
SMOOTHER = (-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0)  # of the classes S, W and A
RESTRICTION = (0.5, 0.25, 0.125, 0.0625)

#: The generator x -> MULTIPLIER x mod 2^46, and its seed.
MULTIPLIER, SEED, BITS = 5**13, 314159265, 46
CHARGES = 10

#: Levels of at most so many points along an axis lie on one rank.
ALONE = 16

Symbol = Any


@dataclass(frozen=True)
class NpbClass:
    """A size of the benchmark and the published norm of its last residual."""

    name: str
    points: int
    iterations: int
    residual: float


def classes() -> dict[str, NpbClass]:
    """The classes with published norms, by name. Local."""
    text = (resources.files("solvers.multigrid") / "data" / "npb_mg.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        row["class"]: NpbClass(
            row["class"], int(row["n"]), int(row["iterations"]), float(row["residual_l2"])
        )
        for row in rows
    }


def charges(points: int) -> Any:
    """The values of v as a host array, int8. Local; every rank makes all of it."""
    count = points**3
    # Products wrap at 2^64, which leaves the lower 46 bits as they are.
    powers = np.multiply.accumulate(np.full(count, MULTIPLIER, np.uint64))
    numbers = (powers * np.uint64(SEED)) & np.uint64(2**BITS - 1)
    v = np.zeros(count, np.int8)
    v[np.argpartition(numbers, CHARGES)[:CHARGES]] = -1
    v[np.argpartition(numbers, count - CHARGES)[-CHARGES:]] = 1
    return v.reshape((points,) * 3)


# ---- kernels


def _weighted(u: Symbol, coefficients: tuple[float, ...], centre: int = 0) -> Symbol:
    """The sum over the 27 points around a point, by their distance."""
    total: Symbol = None
    for distance, coefficient in enumerate(coefficients):
        around: Symbol = None
        for offsets in itertools.product((-1, 0, 1), repeat=3):
            if sum(map(abs, offsets)) == distance:
                value = u[tuple(centre + offset for offset in offsets)]
                around = value if around is None else around + value
        if coefficient:
            total = coefficient * around if total is None else total + coefficient * around
    return total


@da.stencil
def compute_residual(u: Symbol, v: Symbol, r: Symbol) -> None:
    """`r = v - A u`."""
    r[0, 0, 0] = v[0, 0, 0] - _weighted(u, OPERATOR)


@da.stencil
def smooth(r: Symbol, u: Symbol) -> None:
    """`u += S r`."""
    u[0, 0, 0] = u[0, 0, 0] + _weighted(r, SMOOTHER)


@da.stencil
def restrict(r: Symbol, coarse: Symbol) -> None:
    """The coarse point i lies at the fine point 2 i + 1."""
    coarse[0, 0, 0] = _weighted(r.fine, RESTRICTION, centre=1)


@da.stencil
def prolong(coarse: Symbol, u: Symbol) -> None:
    """`u += ` trilinear interpolation: odd points lie at coarse ones, even points between two."""
    odd = [da.index(axis) % 2 == 1 for axis in range(3)]
    lines = {
        (i, j): da.where(odd[2], z[0], 0.5 * (z[0] + z[1]))
        for i, j in itertools.product((0, -1), repeat=2)
        for z in [[coarse.coarse[i, j, 0], coarse.coarse[i, j, -1]]]
    }
    planes = [da.where(odd[1], lines[i, 0], 0.5 * (lines[i, 0] + lines[i, -1])) for i in (0, -1)]
    u[0, 0, 0] = u[0, 0, 0] + da.where(odd[0], planes[0], 0.5 * (planes[0] + planes[1]))


@da.stencil
def square(r: Symbol) -> Any:
    """The sum of squares."""
    return da.reduce.sum(r[0, 0, 0] * r[0, 0, 0], reproducible=True)


# ---- the benchmark


class NpbMultigrid:
    """The benchmark of one class. Creation is Collective.

    Parameters
    ----------
    chosen : NpbClass
    ranks : sequence of int, optional
        Process grid of the finest level.
    comm, device
        As for `da.Grid`.

    Attributes
    ----------
    u, v : DistArray
        The iterate and the right-hand side.
    """

    def __init__(
        self, chosen: NpbClass, *, ranks: Any = None, comm: Any = None, device: str = "auto"
    ) -> None:
        self.chosen = chosen
        n = chosen.points
        grid = da.Grid((n, n, n), periodic=True, ranks=ranks, comm=comm, device=device)
        self.v = grid.empty()
        self.v[...] = charges(n).astype(float)
        self._u, self._r, self._landings = [_zeros(grid)], [_zeros(grid)], []
        while n > 2:
            n //= 2
            grid = grid.coarsen()
            self._landings.append(_zeros(grid))
            if n <= ALONE:
                grid = grid.divided((1, 1, 1))
            self._u.append(_zeros(grid))
            self._r.append(_zeros(grid))

    @property
    def u(self) -> da.DistArray:
        return self._u[0]

    def run(self) -> float:
        """All iterations from u = 0; the norm of the residual. Collective."""
        self.u.fill(0.0)
        compute_residual(self.u, self.v, self._r[0])
        for _ in range(self.chosen.iterations):
            self.cycle()
            compute_residual(self.u, self.v, self._r[0])
        return self.norm()

    def cycle(self) -> None:
        """One V-cycle, which begins with the residual of u. Collective."""
        last = len(self._u) - 1
        for level in range(last):
            landing, target = self._landings[level], self._r[level + 1]
            on_fewer = landing.grid is not target.grid
            restrict(self._r[level], landing if on_fewer else target)
            if on_fewer:
                target[...] = landing
        self._u[last].fill(0.0)
        smooth(self._r[last], self._u[last])
        for level in reversed(range(last)):
            u, r = self._u[level], self._r[level]
            if level:
                u.fill(0.0)
            source, landing = self._u[level + 1], self._landings[level]
            if landing.grid is not source.grid:
                landing[...] = source
                source = landing
            prolong(source, u)
            compute_residual(u, r if level else self.v, r)
            smooth(r, u)

    def norm(self) -> float:
        """The root of the mean square of the residual that was computed last. Collective."""
        return math.sqrt(float(square(self._r[0])) / self.chosen.points**3)


def _zeros(grid: da.Grid) -> da.DistArray:
    """Zeros with two layers of halo where they fit: a block may end within a coarse cell."""
    return grid.zeros(halo=grid.decomposition.narrowed((2, 2, 2)))
