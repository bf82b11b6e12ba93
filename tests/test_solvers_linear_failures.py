"""Systems that need no iteration, how linear solvers fail, and inputs that are refused."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

import distarray as da
from solvers import linear
from solvers.linear import bicgstab, cg, chebyshev
from tests.linear_tools import (
    CONJUGATE,
    DIRICHLET,
    METHODS,
    SYMMETRIC,
    advected,
    dirichlet_problem,
    error,
    field,
    identity,
    laplacian_matrix,
    negative_laplacian,
    relative_residual,
    rough,
    sides,
    unit_grid,
)

# ------------------------------------------------------------------------------------ easy systems


@pytest.mark.parametrize("method", METHODS)
def test_zero_right_hand_side(method):
    grid = unit_grid(8, 8)
    x0 = field(grid, rough(8, 8), boundary=sides(grid, DIRICHLET))
    solution = method(negative_laplacian, grid.zeros(), x0)
    assert solution == linear.Solution(solution.x, 0, (0.0,), True, solution.reason)
    assert "right-hand side is zero" in solution.reason
    assert not solution.x.gather().any()


@pytest.mark.parametrize("method", METHODS)
def test_a_first_guess_that_solves_takes_no_iteration(method):
    grid, b, exact = dirichlet_problem(12, 9)
    x0 = field(grid, exact, boundary=sides(grid, DIRICHLET))
    solution = method(negative_laplacian, b, x0, rtol=1e-10)
    assert (solution.iterations, solution.converged) == (0, True)
    assert "first guess" in solution.reason
    assert solution.x.gather().tobytes() == x0.gather().tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_no_iterations(method):
    _, b, _ = dirichlet_problem(12, 9)
    solution = method(negative_laplacian, b, max_iterations=0)
    assert (solution.iterations, solution.residuals, solution.converged) == (0, (1.0,), False)
    assert solution.reason.startswith("max_iterations is 0; the relative residual is 1, more")


@pytest.mark.parametrize("method", METHODS)
def test_too_few_iterations(method):
    _, b, _ = dirichlet_problem(12, 9)
    seen = []
    solution = method(
        negative_laplacian, b, max_iterations=7, callback=lambda *found: seen.append(found)
    )
    assert (solution.iterations, solution.converged) == (7, False)
    assert "max_iterations=7 were made" in solution.reason
    assert [number for number, _ in seen] == list(range(1, 8))
    np.testing.assert_allclose([residual for _, residual in seen], solution.residuals[1:], 1e-6)
    found = relative_residual(laplacian_matrix((12, 9)), solution.x, b)
    assert solution.residuals[-1] == pytest.approx(found, rel=1e-10)


def test_absolute_tolerance():
    _, b, _ = dirichlet_problem(12, 9)
    solution = cg(negative_laplacian, b, rtol=0.0, atol=1e-3)
    assert solution.converged
    assert "atol=0.001" in solution.reason
    assert 1e-5 < solution.residuals[-1] * np.linalg.norm(b.gather()) <= 1e-3


def test_solve_chooses_a_method_by_its_name():
    _, b, exact = dirichlet_problem(12, 9)
    for name in linear.METHODS:
        assert error(linear.solve(negative_laplacian, b, method=name).x, exact) < 1e-6
    with pytest.raises(da.SolverError, match="no method 'gmres'; choose one of cg, pipelined_cg"):
        linear.solve(negative_laplacian, b, method="gmres")
    with pytest.raises(da.SolverError, match=r"no method \['cg'\]; choose"):
        linear.solve(negative_laplacian, b, method=["cg"])


# ---------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("method", CONJUGATE)
def test_an_operator_that_is_not_symmetric_breaks_conjugate_gradients_down(method):
    grid = unit_grid(24, 16)
    b = field(grid, rough(24, 16), boundary=sides(grid, DIRICHLET))
    solution = method(lambda u, out: advected(u, out, speed=1.0), b)
    assert not solution.converged
    assert solution.iterations <= 2
    assert "operator is not symmetric; use bicgstab" in solution.reason


@pytest.mark.parametrize("method", CONJUGATE)
@pytest.mark.parametrize("shift", [-1.0, -10.0])
def test_an_indefinite_or_negative_operator_breaks_conjugate_gradients_down(method, shift):
    @da.stencil
    def shifted(u, out, *, shift):
        out[0] = (2.0 + shift) * u[0] - u[1] - u[-1]

    b = field(unit_grid(30, periodic=True), rough(30))
    solution = method(lambda u, out: shifted(u, out, shift=shift), b)
    assert not solution.converged
    assert "not positive, so the operator is not positive definite" in solution.reason
    assert np.isfinite(solution.x.gather()).all()


@pytest.mark.parametrize("method", SYMMETRIC)
def test_chebyshev_and_others_refuse_a_negative_preconditioner(method):
    @da.stencil
    def negate(r, z):
        z[0, 0] = -r[0, 0]

    _, b, _ = dirichlet_problem(12, 9)
    if method is chebyshev:
        with pytest.raises(da.SolverError, match="needs a positive definite operator and precond"):
            method(negative_laplacian, b, preconditioner=negate)
        return
    solution = method(negative_laplacian, b, preconditioner=negate)
    assert not solution.converged
    assert "the preconditioner is not positive definite" in solution.reason


@pytest.mark.parametrize("method", CONJUGATE)
def test_a_preconditioner_that_is_not_symmetric_is_named_where_the_solve_fails(method):
    @da.stencil
    def lopsided(r, z):
        z[0, 0] = r[0, 0] + 0.9 * r[1, 0] - 0.3 * r[0, -1]

    _, b, _ = dirichlet_problem(24, 16)
    solution = method(negative_laplacian, b, preconditioner=lopsided, max_iterations=20)
    assert not solution.converged
    assert "or the preconditioner is not symmetric" in solution.reason


def test_bicgstab_breaks_down_on_a_skew_symmetric_operator():
    @da.stencil
    def skew(u, out):
        out[0] = u[1] - u[-1]

    b = field(unit_grid(15, periodic=True), rough(15))
    solution = bicgstab(skew, b, nullspace=None)
    assert not solution.converged
    assert "Breakdown" in solution.reason
    assert np.isfinite(solution.x.gather()).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", ["operator", "preconditioner"])
def test_values_that_are_not_finite_end_the_iteration(method, place):
    """From the ninth application on; the iterate stays finite."""
    count = iter(range(1000))

    def spoiled(function):
        def apply(u, out):
            function(u, out)
            if next(count) >= 8:
                out.fill(np.nan)

        return apply

    _, b, _ = dirichlet_problem(12, 9)
    options = {"bounds": (0.1, 8.0)} if method is chebyshev else {}
    if place == "operator":
        options["nullspace"] = None
        solution = method(spoiled(negative_laplacian), b, **options)
    else:
        solution = method(negative_laplacian, b, preconditioner=spoiled(identity), **options)
        assert np.isfinite(solution.residuals[-1])
    assert not solution.converged
    assert "not finite" in solution.reason
    assert np.isfinite(solution.x.gather()).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_tolerance_below_rounding_ends_in_stagnation(method):
    _, b, exact = dirichlet_problem(12, 9, dtype=np.float32)
    solution = method(negative_laplacian, b, rtol=1e-12)
    assert not solution.converged
    assert "stagnates" in solution.reason
    assert solution.iterations < 900
    assert 1e-8 < solution.residuals[-1] < 1e-5
    found = relative_residual(laplacian_matrix((12, 9)), solution.x.astype(float), b)
    assert solution.residuals[-1] == pytest.approx(found, rel=0.5)
    assert error(solution.x, exact) < 1e-4


def test_stagnation_is_that_no_residual_was_smaller_for_long():
    """With a lower bound of nothing the polynomial is T_k: modes turn as cos(k theta), and the
    residual wanders. 142 is 100 and twice the cells along both axes.
    """
    cells, patience = (12, 9), 142
    _, b, _ = dirichlet_problem(*cells)
    eigenvalues, modes = np.linalg.eigh(laplacian_matrix(cells).toarray())
    theta = np.arccos(1.0 - eigenvalues / 4.0)
    parts = modes.T @ b.gather().ravel()
    norms = [np.linalg.norm(np.cos(k * theta) * parts) for k in range(1000)]
    best = next(
        k for k in range(1000) if min(norms[k + 1 : k + 1 + patience]) >= min(norms[: k + 1])
    )
    best = int(np.argmin(norms[: best + 1]))
    solution = chebyshev(negative_laplacian, b, bounds=(1e-13, 8.0))
    assert not solution.converged
    assert "none of 142 iterations made it smaller" in solution.reason
    assert solution.iterations == best + patience


def test_the_residual_that_parts_from_the_recursion_is_said():
    """In single precision the recursion goes on to fall where b - A x cannot."""
    _, b, _ = dirichlet_problem(12, 9, dtype=np.float32)
    assert "; the recursion gave " in cg(negative_laplacian, b, rtol=1e-12).reason


def test_bounds_that_are_too_low_let_chebyshev_diverge():
    _, b, _ = dirichlet_problem(12, 9)
    solution = chebyshev(negative_laplacian, b, bounds=(0.1, 4.0))
    assert not solution.converged
    assert "diverges" in solution.reason
    assert "eigenvalues were taken to lie between 0.1 and 4" in solution.reason


# -------------------------------------------------------------------------------------- bad inputs


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_of_the_inputs_that_are_not_finite_are_errors(value):
    _, b, _ = dirichlet_problem(6, 5)
    spoiled = b.copy()
    spoiled[2, 2] = value
    with pytest.raises(da.SolverError, match="right-hand side has values that are not finite"):
        cg(negative_laplacian, spoiled)
    with pytest.raises(da.SolverError, match="first guess x0 has values that are not finite"):
        cg(negative_laplacian, b, spoiled)


@pytest.mark.parametrize("size", [1e-170, 1e160])
def test_values_whose_squares_leave_the_range_are_an_error(size):
    grid = unit_grid(6, periodic=True)
    with pytest.raises(da.SolverError, match="whose squares leave the range"):
        cg(identity, field(grid, size * rough(6)))


def test_points_that_the_operator_leaves_out_are_an_error():
    b = field(unit_grid(8, 8), rough(8, 8))
    with pytest.raises(da.SolverError, match=r"operator leaves points .* needs conditions"):
        cg(negative_laplacian, b)


def test_an_operator_that_is_not_linear_is_an_error():
    @da.stencil
    def affine(u, out):
        out[0] = u[0] + 1.0

    with pytest.raises(da.SolverError, match="not zero for x = 0, so that it is not linear"):
        cg(affine, unit_grid(8).ones())


def cases_of_bad_inputs():
    grid, other = unit_grid(8), da.Grid((8,))
    b = grid.ones()
    yield {"rtol": 1.0}, "rtol must be a number of at least 0 and below 1, got 1.0"
    yield {"rtol": -1e-3}, "got -0.001"
    yield {"rtol": float("nan")}, "got nan"
    yield {"rtol": "small"}, "got 'small'"
    yield {"atol": -1.0}, "atol must be a finite number of at least 0, got -1.0"
    yield {"rtol": 0.0}, "rtol and atol are both 0"
    yield {"max_iterations": -1}, "max_iterations must be a whole number of at least 0, got -1"
    yield {"max_iterations": 2.5}, "got 2.5"
    yield {"nullspace": "ones"}, "nullspace must be 'auto', 'constant' or None, got 'ones'"
    yield {"preconditioner": 1}, "preconditioner= takes a function, got int"
    yield {"reproducible": "no"}, "reproducible must be True or False, got 'no'"
    yield {"callback": 1}, "callback= takes a function, got int"
    yield {"operator": 3}, "operator must be a function operator\\(u, out\\), got int"
    yield {"rhs": np.ones(8)}, "right-hand side must be a DistArray .* got ndarray"
    yield {"rhs": grid.ones(dtype=int)}, "got one of int64"
    yield {"x0": np.ones(8)}, "x0 must be a DistArray like the right-hand side, got ndarray"
    yield {"x0": other.ones()}, "x0 lies on another grid"
    yield {"x0": grid.ones(dtype=np.float32)}, "differ in dtype, float32 and float64"
    yield {"x0": grid.ones(location="x")}, "differ in shape, \\(9,\\) and \\(8,\\)"
    yield {"x0": grid.ones(components=2)}, "differ in shape, \\(2, 8\\) and \\(8,\\)"
    del b


@pytest.mark.parametrize(("changes", "message"), list(cases_of_bad_inputs()))
def test_bad_inputs_are_errors(changes, message):
    arguments = {"operator": identity, "rhs": None, "x0": None} | changes
    x0, rhs = arguments["x0"], arguments["rhs"]
    if rhs is None:
        on = x0.grid if isinstance(x0, da.DistArray) and "another" not in message else unit_grid(8)
        rhs = on.ones()
    options = {k: v for k, v in changes.items() if k not in ("operator", "rhs", "x0")}
    for method in METHODS:
        with pytest.raises(da.SolverError, match=message):
            method(arguments["operator"], rhs, x0, **options)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2.0, 1.0), (1.0, np.inf), 3.0, ("a", "b")])
def test_bounds_must_be_an_interval_of_positive_numbers(bounds):
    with pytest.raises(da.SolverError, match="bounds must be two numbers 0 < low <= high"):
        chebyshev(identity, unit_grid(8).ones(), bounds=bounds)


@pytest.mark.parametrize("module", ["cg", "pipelined", "bicgstab", "chebyshev", "solver"])
def test_examples_of_docstrings(module):
    found = doctest.testmod(importlib.import_module(f"solvers.linear.{module}"))
    assert found.attempted
    assert not found.failed
