"""Multigrid on several ranks: the same bits on any process grid, the same number of cycles."""

from typing import Any

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.testing import process_grids
from solvers.multigrid import EllipticOperator, Multigrid
from solvers.multigrid.npb import NpbMultigrid, classes
from tests.ranks.common import from_root

RANKS = (1, 2, 3, 8)
SELDOM = (1, 2, 8)

SIZE = MPI.COMM_WORLD.Get_size()
D, N, R = da.Dirichlet, da.Neumann, da.Robin

#: Few cases and process grids where ranks are many: they share a few cores.
MANY = SIZE >= 8

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cells": (
        {"shape": (25, 20)},
        {"boundary": {"x-": D(0.5), "x+": N(1.0), "y": R(1.0, 0.5, 2.0)}, "c": 2.0},
    ),
    "periodic": ({"shape": (20, 18), "periodic": True}, {}),
    "faces": (
        {"shape": (18, 21), "periodic": (False, True)},
        {"boundary": {"x": D(lambda t, x, y: 1.0 + x + 0 * y)}, "location": "x", "a": "varying"},
    ),
    "three axes": (
        {"shape": (10, 9, 12), "bounds": [(0.0, 1.0), (0.0, 4.0), (0.0, 1.0)]},
        {"boundary": {"x": D(0.0), "y": N(0.0), "z": N(0.0)}},
    ),
}


def smooth(*coordinates: Any) -> Any:
    return sum(np.sin((3.0 + n) * x) for n, x in enumerate(coordinates)) + 0.5


def solved(
    name: str, *, reproducible: bool = True, **placed: Any
) -> tuple[int, tuple[float, ...], bytes]:
    shape, made = CASES[name]
    grid = da.Grid(**shape, **placed)
    made = dict(made)
    if made.pop("a", None):
        made["a"] = grid.from_function(lambda *x: np.exp(smooth(*x)))
    operator = EllipticOperator(grid, **made)
    f = da.random.normal(grid, seed=7)
    if operator.singular:
        f = f - f.mean(reproducible=True)
    if operator.location:
        f = grid.from_function(smooth, location=operator.location)
    found = Multigrid(operator, reproducible=reproducible).solve(f)
    assert found.converged, found.reason
    return found.iterations, found.residuals, found.x.gather().tobytes()


def solved_alone(name: str, *, reproducible: bool = True) -> Any:
    """What the first rank finds by itself."""
    return from_root(lambda: solved(name, reproducible=reproducible, comm=MPI.COMM_SELF))


def test_the_same_bits_on_any_process_grid() -> None:
    for name in ("faces", "three axes") if MANY else CASES:
        alone = solved_alone(name)
        grids = process_grids(SIZE, len(CASES[name][0]["shape"]))
        for ranks in grids[1:2] if MANY else grids[:3]:
            assert solved(name, ranks=ranks) == alone, (name, ranks)


def test_numbers_of_cycles() -> None:
    for name in ("faces",) if MANY else ("cells", "faces"):
        alone = solved_alone(name, reproducible=False)[0]
        assert abs(solved(name, reproducible=False)[0] - alone) <= 1


def test_symmetric_cycles_have_the_same_bits() -> None:
    def applied(**placed: Any) -> bytes:
        grid = da.Grid((33, 22), **placed)
        operator = EllipticOperator(grid, boundary={"x": D(0.0), "y": N(0.0)})
        out = operator.zeros()
        Multigrid(operator, symmetric=True)(da.random.normal(grid, seed=3), out)
        return out.gather().tobytes()

    alone = from_root(lambda: applied(comm=MPI.COMM_SELF))
    for ranks in process_grids(SIZE, 2)[: 1 if MANY else None]:
        assert applied(ranks=ranks) == alone, ranks


def test_blocks_too_narrow_to_be_coarsened_move_to_fewer_ranks() -> None:
    grid = da.Grid((2 * SIZE, 12), ranks=(SIZE, 1))
    boundary = {"x": D(0.0), "y": D(0.0)}
    found = Multigrid(EllipticOperator(grid, boundary=boundary)).solve(grid.ones())
    assert found.converged
    assert found.x.ranks == grid.ranks


def test_norm_of_class_s_of_the_nas_kernel() -> None:
    chosen = classes()["S"]
    assert abs(NpbMultigrid(chosen).run() / chosen.residual - 1.0) < 1e-8
