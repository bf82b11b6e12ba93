"""`LinearSolver`: the outcomes of the functions, without making vectors at each solution."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from solvers import linear
from solvers.linear import LinearSolver, vectors
from solvers.linear.solver import KINDS
from tests.linear_tools import (
    DIRICHLET,
    advected,
    dirichlet_problem,
    error,
    field,
    identity,
    negative_laplacian,
    noting,
    rough,
    sides,
    unit_grid,
)


def outcome(solution):
    return (solution.x.gather().tobytes(), solution.residuals, solution.reason)


@pytest.fixture
def made(monkeypatch):
    """The vectors that are made, in a list."""
    found = []
    make = vectors.zeros_like
    monkeypatch.setattr(vectors, "zeros_like", lambda like: found.append(like) or make(like))
    return found


def test_it_knows_all_methods():
    assert list(KINDS) == list(linear.METHODS)


@pytest.mark.parametrize("method", linear.METHODS)
@pytest.mark.parametrize("preconditioner", [None, identity])
def test_solutions_are_those_of_the_functions_with_vectors_made_once(method, preconditioner, made):
    grid, b, exact = dirichlet_problem(12, 9)
    other = field(grid, rough(12, 9, seed=5), boundary=b.boundary)
    options = {"preconditioner": preconditioner, "nullspace": None}
    if method == "chebyshev":
        options["bounds"] = (0.1, 8.0)
    solver = LinearSolver(negative_laplacian, method=method, **options)
    first = solver.solve(b)
    count = len(made)
    again = [solver.solve(other), solver.solve(b, other), solver.solve(b, rtol=1e-3)]
    assert len(made) == count
    expected = [
        linear.solve(negative_laplacian, *given, method=method, **options, **tolerance)
        for given, tolerance in (
            ((b,), {}), ((other,), {}), ((b, other), {}), ((b,), {"rtol": 1e-3})
        )
    ]  # fmt: skip
    assert [outcome(s) for s in (first, *again)] == [outcome(s) for s in expected]
    assert error(first.x, exact) < 1e-7


def test_an_array_for_the_result():
    _, b, exact = dirichlet_problem(12, 9)
    solver = LinearSolver(negative_laplacian)
    for out in (b.copy(), b.grid.zeros(), b):
        first = solver.solve(b, out=out)
        assert first.x is out
        assert error(out, exact) < 1e-7
    _, b, _ = dirichlet_problem(12, 9)
    x = solver.solve(b, first.x, out=first.x).x
    assert x is first.x
    assert error(x, exact) < 1e-7


def test_what_zero_and_refused_right_hand_sides_leave_behind():
    """Each solution begins anew, whatever came before."""
    grid, b, exact = dirichlet_problem(12, 9)
    solver = LinearSolver(negative_laplacian)
    spoiled = b.copy()
    spoiled[3, 3] = np.nan
    for _ in range(2):
        assert error(solver.solve(b).x, exact) < 1e-7
        assert not solver.solve(grid.zeros_like(b)).x.gather().any()
        with pytest.raises(da.SolverError, match="not finite"):
            solver.solve(spoiled)
        with pytest.raises(da.SolverError, match="x0 has values that are not finite"):
            solver.solve(b, spoiled)


def test_other_placements_element_types_and_conditions_get_vectors_of_their_own(made):
    grid, b, _ = dirichlet_problem(12, 9)
    solver = LinearSolver(negative_laplacian)
    values = rough(12, 9, seed=2)
    mixed = {"x": da.Neumann(0.0), "y": DIRICHLET}
    for right in (
        b,
        field(grid, values, boundary=mixed),
        b.astype("f4") * np.float32(1.0),
        field(unit_grid(12, 9, halo=2), values, boundary=sides(grid, DIRICHLET)),
        field(unit_grid(8, 9), values[:8], boundary=mixed),
    ):
        if not right.boundary:
            right.boundary.update(b.boundary)
        count = len(made)
        found = solver.solve(right)
        assert len(made) > count
        assert outcome(found) == outcome(linear.cg(negative_laplacian, right))


def test_conditions_with_values_that_change():
    """-u'' = 0 between u(0) = t and u(4) = 2."""
    grid = unit_grid(4)
    value = [1.0]
    x0 = grid.zeros(boundary={"x-": da.Dirichlet(lambda t, x: value[0]), "x+": da.Dirichlet(2.0)})
    solver = LinearSolver(negative_laplacian, nullspace=None)
    zero = grid.zeros()
    for number in (1.0, 6.0):
        value[0] = number
        x0.boundary["x-"] = x0.boundary["x-"]
        x = solver.solve(zero, x0, rtol=1e-13).x.gather()
        np.testing.assert_allclose(x, number + (2.0 - number) * (np.arange(4) + 0.5) / 4, 1e-12)
    with pytest.raises(da.SolverError, match="which belong to the solution; give them to x0"):
        solver.solve(x0)


def test_what_the_operator_maps_to_zero_is_found_once():
    events: list[str] = []
    values = rough(8, 6)
    b = field(unit_grid(8, 6, periodic=True), values - values.mean())
    solver = LinearSolver(noting(negative_laplacian, events, "A"))
    counts = []
    for _ in range(3):
        events.clear()
        assert abs(solver.solve(b).x.mean()) < 1e-14
        counts.append(len(events))
    # A 1, which is zero to the bit, and A v, whose mean is zero.
    assert counts[1] == counts[2] == counts[0] - 2
    with pytest.raises(da.SolverError, match="has the mean 1, but"):
        solver.solve(b + 1.0)


def test_bounds_of_eigenvalues_are_estimated_once():
    events: list[str] = []
    _, b, _ = dirichlet_problem(12, 9)
    solver = LinearSolver(noting(negative_laplacian, events, "A"), method="chebyshev")
    counts = []
    for _ in range(2):
        events.clear()
        counts.append((solver.solve(b).iterations, len(events)))
    assert counts[0][0] == counts[1][0]
    assert counts[1][1] <= counts[0][1] - 10


def test_a_defect_is_forgotten_with_its_solution():
    grid, b, exact = dirichlet_problem(12, 9)
    speed = [1.0]
    solver = LinearSolver(lambda u, out: advected(u, out, speed=speed[0]), nullspace=None)
    assert "operator is not symmetric" in solver.solve(b).reason
    speed[0] = 0.0
    found = solver.solve(b)
    assert found.converged, found.reason
    assert error(found.x, exact) < 1e-7
    assert grid is found.x.grid


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "gmres"}, "'bicgstab', 'chebyshev', got 'gmres'; name one of them."),
        ({"bounds": (1.0, 2.0)}, "bounds= is for the method 'chebyshev', got it for 'cg'"),
        ({"method": "chebyshev", "bounds": (2.0, 1.0)}, "bounds must be two numbers"),
        ({"preconditioner": 3}, "preconditioner= takes a function, got int"),
        ({"nullspace": np.array([1, 2])}, "nullspace must be 'auto', 'constant' or None"),
        ({"operator": None}, "operator must be a function operator"),
    ],
)
def test_options_that_are_refused(options, text):
    with pytest.raises(da.SolverError, match=text):
        LinearSolver(**{"operator": negative_laplacian, **options})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"out": 3}, "out must be a DistArray like the right-hand side, got int"),
        ({"out": unit_grid(5).zeros()}, "out lies on another grid"),
        ({"x0": unit_grid(5).zeros()}, "x0 lies on another grid"),
        ({"rtol": -1.0}, "rtol must be a number of at least 0"),
        ({"max_iterations": 1.5}, "max_iterations must be a whole number"),
    ],
)
def test_solutions_that_are_refused(options, text):
    solver = LinearSolver(identity)
    for _ in range(2):
        with pytest.raises(da.SolverError, match=text):
            solver.solve(unit_grid(4).ones(), **options)


def test_no_unknowns_need_no_iteration():
    def twice(u, out):
        out[...] = 2.0 * u

    found = linear.cg(twice, da.ones((0, 3)))
    assert (found.x.shape, found.iterations, found.converged) == ((0, 3), 0, True)
