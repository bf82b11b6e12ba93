"""Operators for tests of linear solvers, and their matrices, which share nothing with them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg as sparse_linalg

import distarray as da
from distarray.comm import SerialCommunicator
from solvers import linear

DIRICHLET = da.Dirichlet(0.0)
METHODS = list(linear.METHODS.values())
SYMMETRIC = [linear.cg, linear.pipelined_cg, linear.chebyshev]
CONJUGATE = [linear.cg, linear.pipelined_cg]


@da.stencil
def negative_laplacian(u, out):
    """-div grad u by differences of two neighbours along each axis, unit spacing."""
    total = 0.0
    for axis in range(u.ndim):
        total = total + (2.0 * u[...] - u.shift(axis, 1) - u.shift(axis, -1))
    out[...] = total


@da.stencil
def advected(u, out, *, speed):
    """-div grad u + speed du/dx, upwind along the first axis."""
    total = speed * (u[...] - u.shift(0, -1))
    for axis in range(u.ndim):
        total = total + (2.0 * u[...] - u.shift(axis, 1) - u.shift(axis, -1))
    out[...] = total


@da.stencil
def identity(u, out):
    out[...] = u[...]


def unit_grid(*cells: int, **options: Any) -> da.Grid:
    """A grid of unit spacing."""
    return da.Grid(cells, bounds=[(0.0, float(n)) for n in cells], **options)


def sides(grid: da.Grid, condition: Any) -> dict[str, Any]:
    """The condition on both sides of each axis that is not periodic."""
    axes = zip(grid.axes[: grid.ndim], grid.periodic, strict=True)
    return {name: condition for name, periodic in axes if not periodic}


def field(grid: da.Grid, values: Any, **options: Any) -> da.DistArray:
    """An array with these values."""
    values = np.asarray(values)
    array = grid.zeros(dtype=options.pop("dtype", values.dtype), **options)
    array[...] = values
    return array


def rough(*shape: int, seed: int = 1) -> np.ndarray:
    """Values without any structure."""
    return np.random.default_rng(seed).standard_normal(shape)


def difference_matrix(n: int, kind: str) -> Any:
    """-d^2/dx^2 on n cells of unit width, sides half a cell outside: what lies beyond is
    -u for "dirichlet", u for "neumann"; "periodic" wraps.
    """
    matrix = sparse.diags([2.0 * np.ones(n), -np.ones(n - 1), -np.ones(n - 1)], [0, 1, -1]).tolil()
    if kind == "periodic":
        matrix[0, n - 1] -= 1.0
        matrix[n - 1, 0] -= 1.0
    else:
        change = 1.0 if kind == "dirichlet" else -1.0
        matrix[0, 0] += change
        matrix[n - 1, n - 1] += change
    return matrix.tocsr()


def laplacian_matrix(cells: tuple[int, ...], kind: str = "dirichlet") -> Any:
    """`negative_laplacian` as a sparse matrix over the cells in C order."""
    total = None
    for axis, n in enumerate(cells):
        factors = [sparse.identity(m) for m in cells]
        factors[axis] = difference_matrix(n, kind)
        term = functools.reduce(sparse.kron, factors)
        total = term if total is None else total + term
    return total.tocsr()


def dirichlet_problem(*cells: int, dtype: Any = np.float64, seed: int = 1) -> tuple[Any, Any, Any]:
    """A grid, a rough right-hand side with Dirichlet conditions, and the solution by SciPy."""
    grid = unit_grid(*cells)
    b = field(grid, rough(*cells, seed=seed), dtype=dtype, boundary=sides(grid, DIRICHLET))
    exact = sparse_linalg.spsolve(laplacian_matrix(cells).tocsc(), b.gather().astype(float).ravel())
    return grid, b, exact.reshape(cells)


def relative_residual(matrix: Any, x: da.DistArray, b: da.DistArray) -> float:
    """|b - A x| / |b|"""
    host = b.gather().ravel()
    return float(np.linalg.norm(host - matrix @ x.gather().ravel()) / np.linalg.norm(host))


def error(x: da.DistArray, exact: np.ndarray) -> float:
    """The error relative to the exact solution, in double precision."""
    wide = exact.astype(np.result_type(exact, np.float64))
    return float(np.linalg.norm(x.gather() - wide) / np.linalg.norm(wide))


class Counting(SerialCommunicator):
    """One rank that writes down, in order, when reductions begin and when their values are read."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        object.__setattr__(self, "events", events)

    def begin_allreduce(self, values: Any, op: str) -> Any:
        self.events.append("begin")
        return _Noted(super().begin_allreduce(values, op), self.events)

    def allreduce(self, values: Any, op: str) -> Any:
        self.events.append("reduce")
        return super().allreduce(values, op)


class _Noted:
    def __init__(self, request: Any, events: list[str]) -> None:
        self._request, self._events = request, events

    def test(self) -> bool:
        return self._request.test()

    def result(self) -> Any:
        self._events.append("read")
        return self._request.result()


def noting(operator: Callable[..., Any], events: list[str], name: str) -> Callable[..., Any]:
    """The operator, which writes its name down whenever it is applied."""

    def applied(u: da.DistArray, out: da.DistArray) -> None:
        events.append(name)
        operator(u, out)

    return applied
