"""The checks of HPCG, and what an iteration costs: reductions, operators, passes over memory."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from solvers.linear import bicgstab, cg, chebyshev, kernels, pipelined_cg
from tests.linear_tools import (
    CONJUGATE,
    DIRICHLET,
    METHODS,
    Counting,
    dirichlet_problem,
    field,
    identity,
    negative_laplacian,
    noting,
    rough,
    sides,
    unit_grid,
)

# ----------------------------------------------------------------------------------- HPCG's checks


@da.stencil
def hpcg(u, out, *, exaggerated):
    """26 on the diagonal and -1 for each neighbour there is; exaggerated, the first nine rows get
    diagonals of their own and the others 10^6 times theirs.
    """
    total = 0.0
    for offsets in np.ndindex(3, 3, 3):
        if offsets != (1, 1, 1):
            total = total - u[tuple(n - 1 for n in offsets)]
    out[...] = hpcg_diagonal(exaggerated) * u[...] + total


def hpcg_diagonal(exaggerated):
    row = (da.index(0) * 8 + da.index(1)) * 8 + da.index(2)
    scale = da.where(row < 9, (row + 2) * 1e6, 1e6)
    return 26.0 * da.where(exaggerated > 0.0, scale, 1.0)


#: Beyond a side there is nothing: with unit spacing the layer is (2 - 2) / (2 + 2) of the cell.
NOTHING = da.Robin(2.0, 1.0, 0.0)


@da.stencil
def relax(r, u, new, *, colour, exaggerated):
    """A Gauss-Seidel step for one of the eight colours of the 27-point operator."""
    mine = (da.index(0) % 2) * 4 + (da.index(1) % 2) * 2 + da.index(2) % 2
    total = r[...]
    for offsets in np.ndindex(3, 3, 3):
        if offsets != (1, 1, 1):
            total = total + u[tuple(n - 1 for n in offsets)]
    new[...] = da.where(mine == colour, total / hpcg_diagonal(exaggerated), u[...])


def symmetric_gauss_seidel(grid, exaggerated):
    """The preconditioner of HPCG in the order of colours: forward, then back."""
    one, other = (grid.zeros(boundary=sides(grid, NOTHING)) for _ in range(2))

    def sweep(r, z):
        old, new = one, other
        old.fill(0)
        for colour in (*range(8), *reversed(range(8))):
            relax(r, old, new, colour=colour, exaggerated=exaggerated)
            old, new = new, old
        z[...] = old

    return sweep


def hpcg_problem(exaggerated):
    grid = unit_grid(8, 8, 8)
    ones = grid.ones(boundary=sides(grid, NOTHING))
    b = grid.zeros(boundary=sides(grid, NOTHING))

    def operator(u, out):
        hpcg(u, out, exaggerated=exaggerated)

    operator(ones, b)
    return grid, operator, b


def test_hpcg_operator_has_26_and_one_neighbour_less_at_each_side():
    _, _, b = hpcg_problem(0.0)
    inside = [np.array([1.0] * 8)] * 3
    neighbours = np.ones((8, 8, 8))
    for axis in range(3):
        inside = np.full(8, 3.0)
        inside[[0, -1]] = 2.0
        neighbours = neighbours * inside.reshape([8 if a == axis else 1 for a in range(3)])
    np.testing.assert_array_equal(b.gather(), 26.0 - (neighbours - 1.0))


def test_hpcg_symmetry():
    """|x' A y - y' A x| <= 2 |x| |y| |A| eps, and the same of the preconditioner."""
    grid, operator, _ = hpcg_problem(0.0)
    boundary = sides(grid, NOTHING)
    x, y = (field(grid, rough(8, 8, 8, seed=seed), boundary=boundary) for seed in (3, 4))
    image = grid.zeros(boundary=boundary)
    for function, norm in ((operator, 52.0), (symmetric_gauss_seidel(grid, 0.0), 1.0)):
        function(y, image)
        one = float(da.dot(x, image))
        function(x, image)
        defect = abs(one - float(da.dot(y, image)))
        assert defect <= 2.0 * float(da.norm(x) * da.norm(y)) * norm * np.finfo(float).eps


@pytest.mark.parametrize("method", CONJUGATE)
def test_hpcg_exaggerated_diagonal(method):
    grid, operator, b = hpcg_problem(1.0)
    plain = method(operator, b, rtol=1e-12)
    assert plain.converged, plain.reason
    assert plain.iterations <= 12
    preconditioner = symmetric_gauss_seidel(grid, 1.0)
    preconditioned = method(operator, b, rtol=1e-12, preconditioner=preconditioner)
    assert preconditioned.converged, preconditioned.reason
    assert preconditioned.iterations <= 2


@pytest.mark.parametrize("method", CONJUGATE)
def test_hpcg_preconditioned_solution_is_one(method):
    grid, operator, b = hpcg_problem(0.0)
    preconditioner = symmetric_gauss_seidel(grid, 0.0)
    solution = method(operator, b, rtol=1e-10, preconditioner=preconditioner)
    assert solution.converged, solution.reason
    np.testing.assert_allclose(solution.x.gather(), 1.0, rtol=1e-8)


def test_hpcg_a_changed_method_reaches_the_residual_of_50_iterations():
    _, b, _ = dirichlet_problem(64, 48)
    reference = cg(negative_laplacian, b, rtol=1e-14, max_iterations=50).residuals[50]
    assert pipelined_cg(negative_laplacian, b, rtol=reference).iterations <= 52


# ------------------------------------------------------------------------------------ reductions


def iterations_of(method, *, preconditioner=None, iterations=(10, 20)):
    """What happens in some iterations, from the differences of two runs."""
    found = []
    for most in iterations:
        events = []
        # A device reduces the sums of one rank itself, so that nobody could count.
        grid = unit_grid(24, 16, comm=Counting(events), device="cpu")
        b = field(grid, rough(24, 16), boundary=sides(grid, DIRICHLET))
        options = {"rtol": 1e-15, "max_iterations": most, "nullspace": None}
        if preconditioner is not None:
            options["preconditioner"] = noting(preconditioner, events, "M")
        method(noting(negative_laplacian, events, "A"), b, **options)
        found.append(events)
    return found


@pytest.mark.parametrize(
    ("method", "preconditioner", "reductions", "operators"),
    [
        (cg, None, 2, 1),
        (cg, identity, 3, 1),
        (pipelined_cg, None, 1, 1),
        (pipelined_cg, identity, 1, 1),
        (bicgstab, None, 3, 2),
        (chebyshev, None, 1, 1),
    ],
)
def test_reductions_and_operators_of_an_iteration(method, preconditioner, reductions, operators):
    if method is chebyshev:
        method = lambda *a, **o: chebyshev(*a, bounds=(0.03, 8.0), **o)  # noqa: E731
    ten, twenty = iterations_of(method, preconditioner=preconditioner)
    assert (
        twenty.count("begin") + twenty.count("reduce") - (ten.count("begin") + ten.count("reduce"))
        == 10 * reductions
    )
    assert twenty.count("A") - ten.count("A") == 10 * operators


@pytest.mark.parametrize("preconditioner", [None, identity])
def test_the_one_reduction_of_pipelined_cg_is_hidden_behind_the_operator(preconditioner):
    """It begins in the kernel before the operator (and preconditioner), and is read after them."""
    _, events = iterations_of(pipelined_cg, preconditioner=preconditioner)
    start = events.index("begin", len(events) // 2)
    period = ["begin", "A", "read"] if preconditioner is None else ["begin", "M", "A", "read"]
    reads = len(set(period) - {"A", "M"})
    assert reads == 2
    seen = [e for i, e in enumerate(events[start:]) if e != "read" or events[start + i - 1] != e]
    assert seen[: 5 * len(period)] == 5 * period


def test_passes_over_memory_are_those_that_the_documents_count():
    """Vectors read and written by each kernel, in 2-D and double precision."""
    _, b, _ = dirichlet_problem(12, 9)
    for method in METHODS:
        for preconditioner in (None, identity):
            method(negative_laplacian, b, preconditioner=preconditioner, max_iterations=3)
    passes = {
        "turn": 5,
        "inner": 2,
        "descend": 3,
        "pipeline": 13,
        "pipeline_preconditioned": 18,
        "turn_shadowed": 4,
        "shadowed": 2,
        "halve": 3,
        "stabilising": 2,
        "stabilise": 7,
        "sweep": 7,
    }
    found = {name: getattr(kernels, name).bytes_per_cell / 8 for name in passes}
    assert found == passes
