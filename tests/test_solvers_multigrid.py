"""Multigrid on one rank: published errors, rates, and cycles as a preconditioner."""

import math

import numpy as np
import pytest

import distarray as da
from solvers.linear import cg
from solvers.multigrid import EllipticOperator, Multigrid
from solvers.multigrid.npb import NpbMultigrid, charges, classes
from solvers.poisson.problems import published
from tests.multigrid_tools import STRETCHED, D, N, elliptic, put, random, solve, walls

# ------------------------------------------------------------------------ published, and rates


def test_briggs_problem_has_the_published_errors():
    errors = {}
    for row in published()[:3]:
        n = row.cells
        grid = da.Grid((n, n))
        f = grid.from_function(
            lambda x, y: (
                2.0 * ((1 - 6 * x**2) * y**2 * (1 - y**2) + (1 - 6 * y**2) * x**2 * (1 - x**2))
            )
        )
        found = solve(grid, f, boundary={"x": D(0.0), "y": D(0.0)}, rtol=1e-11)
        exact = grid.from_function(lambda x, y: (x**2 - x**4) * (y**4 - y**2))
        errors[n] = math.sqrt(float(((found.x - exact) ** 2).sum()) / n**2)
        assert errors[n] == pytest.approx(row.l2, rel=1e-6)
    assert errors[32] / errors[64] == pytest.approx(4.0, abs=0.02)


def test_norm_of_class_s_of_the_nas_kernel():
    chosen = classes()["S"]
    assert NpbMultigrid(chosen).run() == pytest.approx(chosen.residual, rel=1e-8)


@pytest.mark.slow
def test_norm_of_class_w_of_the_nas_kernel():
    chosen = classes()["W"]
    assert NpbMultigrid(chosen).run() == pytest.approx(chosen.residual, rel=1e-8)


def test_charges_are_made_by_the_generator_of_the_benchmark():
    """The first numbers one by one, in exact integers."""
    x, numbers = 314159265, []
    for _ in range(8**3):
        x = 5**13 * x % 2**46
        numbers.append(x)
    order = np.argsort(numbers)
    expected = np.zeros(8**3)
    expected[order[:10]], expected[order[-10:]] = -1.0, 1.0
    assert np.array_equal(charges(8).ravel(), expected)


def cycles(shape, **options):
    grid = da.Grid(shape, **{n: options.pop(n) for n in ("periodic", "bounds") if n in options})
    f = random(grid.shape)
    if all(grid.periodic):
        f -= f.mean()
    options.setdefault("boundary", walls(grid))
    found = solve(grid, put(grid, f), **options)
    assert found.converged, found.reason
    return found.iterations


def test_cycles_do_not_grow_with_the_size():
    counts = [cycles((n,) * 3) for n in (16, 32, 48)]
    assert max(counts) <= 10
    assert max(counts) - min(counts) <= 2


@pytest.mark.slow
def test_cycles_of_large_cubes():
    counts = [cycles((n,) * 3) for n in (32, 64, 128, 256)]
    assert max(counts) <= 10
    assert max(counts) - min(counts) <= 2


@pytest.mark.parametrize(
    ("shape", "most", "options"),
    [
        ((997,), 14, {}),
        ((97, 101), 8, {}),
        ((67, 61), 9, {"periodic": True}),
        ((31, 37, 29), 9, {}),
        ((32, 1, 33), 9, {}),
        ((64, 64), 12, {"bounds": [(0.0, 1.0), (0.0, 10.0)]}),
        ((32, 32, 32), 9, {"bounds": [(0.0, 1.0), (0.0, 3.0), (0.0, 10.0)]}),
        ((64, 64), 8, {"c": 1e4}),
        ((48, 52), 12, {"smoother": "chebyshev"}),
        ((48, 52), 14, {"smoother": "jacobi", "before": 2, "after": 2}),
        ((48, 52), 8, {"cycle": "W"}),
        ((48, 52), 8, {"cycle": "F"}),
    ],
)
def test_rates(shape, most, options):
    assert cycles(shape, **options) <= most


@pytest.mark.parametrize(("n", "contrast"), [(47, 1e3), (64, 1e-3)])
def test_jumps_of_the_coefficient(n, contrast):
    grid = da.Grid((n, n))
    a = grid.from_function(
        lambda x, y: np.where((x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.09, contrast, 1.0)
    )
    found = solve(grid, put(grid, random((n, n))), a, boundary={"x": D(0.0), "y": N(0.0)})
    assert found.converged
    assert found.iterations <= 14


def jumping(n, contrast):
    """An operator whose coefficient is `contrast` in a ball and 1 around it, and f."""
    grid = da.Grid((n, n))
    a = grid.from_function(
        lambda x, y: np.where((x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.09, contrast, 1.0)
    )
    return EllipticOperator(grid, a, boundary=walls(grid)), put(grid, random((n, n)))


@pytest.mark.parametrize(("contrast", "rtol"), [(1e3, 1e-12), (1e8, 1e-8)])
def test_the_residual_of_conjugate_gradients_is_that_of_the_solution(contrast, rtol):
    """By an independent discretisation: the recursion goes on to fall where b - A x cannot."""
    operator, f = jumping(64, contrast)
    found = Multigrid(operator, accelerated=True).solve(f, rtol=rtol)
    image = elliptic(
        found.x.gather(),
        [np.full(64, 1.0 / 64)] * 2,
        np.where(
            sum((x - p) ** 2 for x, p in zip(operator.grid.coordinates(), (0.5, 0.4), strict=True))
            < 0.09,
            contrast,
            1.0,
        ),
        0.0,
        [(D(0.0), D(0.0))] * 2,
        (False, False),
    )
    true = np.linalg.norm(f.gather() - image) / np.linalg.norm(f.gather())
    rounding = 1e-16 * contrast
    assert found.residuals[-1] == pytest.approx(true, rel=0.3, abs=100.0 * rounding)
    assert found.converged == (found.residuals[-1] <= rtol)
    assert len(found.residuals) == found.iterations + 1
    if contrast == 1e8:
        assert not found.converged
        assert true > 1e-9
        assert "conjugate gradients do not make b - A x smaller" in found.reason


def hard(shape, periodic=(), **options):
    """A ball that is a million times stiffer: f, the solution and b - A x, this independently."""
    names = "xyz"[: len(shape)]
    grid = da.Grid(shape, periodic=[name in periodic for name in names])
    values = np.where(sum((x - 0.5) ** 2 for x in grid.coordinates()) < 0.09, 1e6, 1.0)
    conditions = [(D(0.0), D(0.0)), *[(N(0.0), N(0.0))] * (len(shape) - 1)]
    boundary = {n: c[0] for n, c in zip(names, conditions, strict=True) if n not in periodic}
    f = random(shape, 3)
    if not any(isinstance(condition, D) for condition in boundary.values()):
        f -= f.mean()
    found = solve(grid, put(grid, f), put(grid, values), boundary=boundary or None, **options)
    widths = [np.full(n, 1.0 / n) for n in shape]
    r = f - elliptic(found.x.gather(), widths, values, 0.0, conditions, grid.periodic)
    return f, found, r


@pytest.mark.parametrize(
    ("shape", "periodic", "most"),
    [((11, 13, 7), "", 50), ((29, 31), "xy", 12), ((29, 32), "y", 12)],
)
def test_a_residual_that_grows_first_does_not_end_conjugate_gradients(shape, periodic, most):
    """On few cells the ball is hardly resolved: the residual is 100 times the first one before it
    falls. Axes of odd length have a single cell at their seam.
    """
    f, found, r = hard(shape, periodic)
    assert found.converged, found.reason
    assert found.iterations <= most
    assert np.linalg.norm(r) <= 1.1e-8 * np.linalg.norm(f)


def test_the_first_guess_is_returned_rather_than_worse_iterates():
    f, found, r = hard((11, 13, 7), max_cycles=3)
    assert not found.converged
    assert found.residuals[0] == found.residuals[-1] == pytest.approx(1.0)
    assert "the first guess is returned" in found.reason
    assert not found.x.gather().any()
    assert np.array_equal(r, f)


def test_residuals_on_stretched_axes_are_2_norms():
    widths = [1.3 ** np.arange(16), np.full(12, 1.0 / 12)]
    grid = da.Grid((16, 12), coordinates={"x": np.append(0.0, np.cumsum(widths[0]))})
    f = random((16, 12))
    boundary = {"x": D(0.0), "y": N(0.0)}
    for accelerated in (True, False):
        found = solve(grid, put(grid, f), boundary=boundary, max_cycles=4, accelerated=accelerated)
        conditions = [(D(0.0), D(0.0)), (N(0.0), N(0.0))]
        r = f - elliptic(
            found.x.gather(), widths, np.ones((16, 12)), 0.0, conditions, (False, False)
        )
        true = np.linalg.norm(r) / np.linalg.norm(f)
        assert found.residuals[-1] == pytest.approx(true, rel=1e-6)


def test_conjugate_gradients_begin_anew_where_that_helps():
    """From a bad guess the recursion loses more digits than one from where it led does."""
    operator, f = jumping(64, 1e3)
    guess = put(operator.grid, 1e9 * random((64, 64), 3))
    found = Multigrid(operator, accelerated=True).solve(f, guess)
    assert found.residuals[0] > 1e9
    assert found.converged, found.reason
    r = operator.zeros()
    operator.residual(found.x, f, r)
    assert float(da.norm(r)) <= 1.001e-8 * float(da.norm(f))


def test_accelerated_full_multigrid_begins_with_a_guess_from_coarse_levels():
    operator, f = jumping(64, 10.0)
    given = [
        Multigrid(operator, cycle=cycle, accelerated=accelerated).solve(f, max_cycles=1)
        for cycle, accelerated in (("F", True), ("F", False))
    ]
    assert given[0].residuals == given[1].residuals


def test_full_multigrid_begins_below_the_error_of_one_cycle():
    grid = da.Grid((64, 64))
    f = grid.from_function(lambda x, y: np.sin(np.pi * x) * np.sin(3 * np.pi * y))
    first = [
        solve(grid, f, boundary=walls(grid), cycle=cycle, max_cycles=1).residuals[1]
        for cycle in ("V", "F")
    ]
    assert first[1] < first[0]


# ---------------------------------------------------------------------------- as a preconditioner

SYMMETRIC = {
    "cells": ({"shape": (20, 17)}, {}, {}),
    "faces": ({"shape": (20, 17)}, {"location": "x"}, {}),
    "periodic": ({"shape": (20, 16), "periodic": True}, {"c": 1.0}, {}),
    "stretched": ({"shape": (20, 23), "coordinates": STRETCHED}, {}, {}),
    "varying": ({"shape": (20, 17)}, {"a": "varying"}, {}),
    "varying faces": ({"shape": (20, 17)}, {"a": "varying", "location": "y"}, {}),
    "varying, odd": ({"shape": (21, 17), "periodic": True}, {"a": "varying", "c": 1.0}, {}),
    "varying faces, odd": (
        {"shape": (21, 17), "periodic": (True, False)},
        {"a": "varying", "location": "x"},
        {},
    ),
    "jacobi": ({"shape": (12, 8, 9)}, {}, {"smoother": "jacobi"}),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_cycles(name):
    options, made, chosen = SYMMETRIC[name]
    grid = da.Grid(**options)
    if made.get("a"):
        made = made | {"a": put(grid, np.exp(random(grid.shape, 3)))}
    operator = EllipticOperator(grid, boundary=walls(grid), **made)
    cycle = Multigrid(operator, symmetric=True, **chosen)
    r, s, mr, ms = (operator.zeros() for _ in range(4))
    r[...], s[...] = random(r.shape, 4), random(r.shape, 5)
    cycle(r, mr)
    cycle(s, ms)
    weights = np.ones(())
    for axis in operator.discrete.axes:
        weights = np.multiply.outer(weights, axis.volumes)
    one, other = ((weights * u.gather() * v.gather()).sum() for u, v in ((r, ms), (mr, s)))
    assert one == pytest.approx(other, rel=1e-10)
    assert (weights * r.gather() * mr.gather()).sum() > 0.0


def test_conjugate_gradients_with_a_cycle():
    grid = da.Grid((48, 40))
    operator = EllipticOperator(grid, boundary=walls(grid))
    f = operator.zeros()
    f[...] = random(grid.shape)
    plain = cg(operator, f, operator.zeros())
    found = cg(operator, f, operator.zeros(), preconditioner=Multigrid(operator, symmetric=True))
    assert found.converged
    assert found.iterations <= 10 < plain.iterations
    direct = Multigrid(operator).solve(f, rtol=1e-10)
    assert np.abs((found.x - direct.x).gather()).max() < 1e-6 * np.abs(direct.x.gather()).max()
