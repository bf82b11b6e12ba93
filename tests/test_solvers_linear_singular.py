"""Singular systems: constants that operators map to zero."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from solvers.linear import cg
from tests.linear_tools import (
    METHODS,
    difference_matrix,
    error,
    field,
    laplacian_matrix,
    negative_laplacian,
    rough,
    sides,
    unit_grid,
)


@pytest.mark.parametrize("kind", ["neumann", "periodic"])
@pytest.mark.parametrize("method", METHODS)
def test_singular_systems_have_the_solution_of_zero_mean(method, kind):
    cells = (12, 9)
    grid = unit_grid(*cells, periodic=kind == "periodic")
    values = rough(*cells)
    b = field(grid, values - values.mean(), boundary=sides(grid, da.Neumann(0.0)))
    exact = np.linalg.lstsq(laplacian_matrix(cells, kind).toarray(), b.gather().ravel(), rcond=None)
    x0 = field(grid, 5.0 + rough(*cells, seed=3), boundary=sides(grid, da.Neumann(0.0)))
    for option in ("auto", "constant"):
        solution = method(negative_laplacian, b, x0, rtol=1e-11, nullspace=option)
        assert solution.converged, solution.reason
        assert abs(solution.x.gather().mean()) < 1e-13
        assert error(solution.x, exact[0].reshape(cells)) < 1e-9


@pytest.mark.parametrize("nullspace", ["auto", "constant"])
def test_an_incompatible_right_hand_side_is_an_error_with_its_mean(nullspace):
    grid = unit_grid(8, 8, periodic=True)
    b = field(grid, rough(8, 8) - rough(8, 8).mean() + 0.125)
    with pytest.raises(da.SolverError, match=r"has the mean 0\.125, but the operator maps"):
        cg(negative_laplacian, b, nullspace=nullspace)


def test_inhomogeneous_neumann_conditions_must_balance_the_right_hand_side():
    """-u'' = 1 on 8 cells: 8 flow out through the sides."""
    grid = unit_grid(8)
    b = grid.ones()
    x0 = grid.zeros(boundary={"x-": da.Neumann(-3.0), "x+": da.Neumann(-5.0)})
    solution = cg(negative_laplacian, b, x0, rtol=1e-12)
    x = np.arange(8) + 0.5
    exact = 3.0 * x - x**2 / 2.0
    np.testing.assert_allclose(solution.x.gather(), exact - exact.mean(), rtol=0, atol=1e-11)
    x0.boundary["x+"] = da.Neumann(-4.0)
    with pytest.raises(da.SolverError, match=r"has the mean 0\.125, "):
        cg(negative_laplacian, b, x0)


@da.stencil
def of_two_kinds(u, out, *, pull):
    """Two periodic fields, each with its own constant, or only a common one if they pull."""
    for one, other in ((0, 1), (1, 0)):
        field = u[one]
        out[one][0] = 2.0 * field[0] - field[1] - field[-1] + pull * (field[0] - u[other][0])


@pytest.mark.parametrize("pull", [0.0, 1.0])
def test_constants_of_components(pull):
    n = 10
    grid = unit_grid(n, periodic=True)
    values = rough(2, n)
    values -= values.mean() if pull else values.mean(axis=1, keepdims=True)
    b = field(grid, values, components=2)
    matrix = np.kron(np.eye(2), difference_matrix(n, "periodic").toarray())
    matrix += pull * np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(n))
    exact = np.linalg.lstsq(matrix, values.ravel(), rcond=None)[0].reshape(2, n)
    x0 = field(grid, np.array([[3.0], [1.0]]) + rough(2, n, seed=5), components=2)
    solution = cg(lambda u, out: of_two_kinds(u, out, pull=pull), b, x0, rtol=1e-12)
    assert solution.converged, solution.reason
    assert error(solution.x, exact) < 1e-9


def test_a_small_reaction_is_not_taken_for_a_singular_system():
    @da.stencil
    def nearly(u, out):
        out[0] = (2.0 + 1e-9) * u[0] - u[1] - u[-1]

    b = unit_grid(16, periodic=True).ones()
    solution = cg(nearly, b, rtol=1e-6)
    np.testing.assert_allclose(solution.x.gather(), 1e9, rtol=1e-5)


def test_without_the_null_space_the_solve_says_that_it_fails():
    b = unit_grid(16, periodic=True).ones()
    solution = cg(negative_laplacian, b, nullspace=None)
    assert not solution.converged
    assert solution.reason.startswith("Breakdown: (p, A p) = 0 is not positive")
