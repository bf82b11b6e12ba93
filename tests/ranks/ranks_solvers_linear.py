"""Linear solvers on several ranks: the same bits where sums are reproducible, else the same
solution in the same number of iterations but for one; and one message per reduction.
"""

import functools

import numpy as np
from mpi4py import MPI

import distarray as da
from solvers import linear
from solvers.linear import cg, chebyshev, pipelined_cg
from solvers.multigrid import EllipticOperator, Multigrid
from tests.linear_tools import field, identity, laplacian_matrix, negative_laplacian, rough, sides
from tests.ranks.common import SIZE, process_grids, refused

RANKS = (1, 2, 3, 8)
SELDOM = (1, 2, 8)
TIMEOUT = 200

CELLS = (10, 9)
OPTIONS = {"rtol": 1e-3, "reproducible": True}


def grid_of(cells=CELLS, **options):
    return da.Grid(cells, bounds=[(0.0, float(n)) for n in cells], **options)


def problem(grid, dtype=np.float64, **options):
    """A right-hand side of zero mean, so that it suits singular operators too."""
    components = options.get("components", ())
    values = rough(*components, *grid.shape).astype(dtype)
    values -= values.mean(axis=tuple(range(-grid.ndim, 0)), keepdims=True)
    return field(grid, values, **options)


def outcome(solution):
    """All that ranks must agree on, to the bit."""
    return (
        solution.x.gather().tobytes(),
        solution.iterations,
        solution.residuals,
        solution.converged,
        solution.reason,
    )


def compare(name, process_grids, periodic, boundary, **options):
    """A method gives the bits of one rank on each process grid."""
    expected = None
    for place in ({"comm": MPI.COMM_SELF}, *({"ranks": ranks} for ranks in process_grids)):
        grid = grid_of(periodic=periodic, **place)
        b = problem(grid, boundary=sides(grid, boundary))
        found = outcome(linear.solve(negative_laplacian, b, method=name, **OPTIONS, **options))
        assert found[3], found[4]
        expected = expected or found
        assert found == expected, (name, place)


def test_all_methods_have_the_same_bits():
    ranks = next(process_grids(2, CELLS))
    for name in linear.METHODS if SIZE < 8 else ("cg", "bicgstab"):
        options = {"bounds": (0.15, 8.0)} if name == "chebyshev" else {}
        compare(name, [ranks], False, da.Dirichlet(0.0), nullspace=None, **options)


def test_every_process_grid_and_a_singular_system_have_the_same_bits():
    grids = list(process_grids(2, CELLS))[: None if SIZE < 8 else 2]
    compare("pipelined_cg", grids, (True, False), da.Neumann(0.0))


def test_a_preconditioner_and_components_have_the_same_bits():
    for method in (cg, pipelined_cg) if SIZE < 8 else (pipelined_cg,):
        expected = None
        for place in ({"comm": MPI.COMM_SELF}, {}):
            grid = grid_of(periodic=True, **place)
            b = problem(grid, components=(2,))
            found = outcome(
                method(shifted_pair, b, preconditioner=halve, nullspace=None, **OPTIONS)
            )
            expected = expected or found
            assert found == expected


@da.stencil
def shifted_pair(u, out):
    for i, (part, target) in enumerate(zip(u, out, strict=True)):
        total = (1.0 + i) * part[0, 0]
        for axis in range(2):
            total = total + (2.0 * part[0, 0] - part.shift(axis, 1) - part.shift(axis, -1))
        target[0, 0] = total


@da.stencil
def halve(r, z):
    for part, target in zip(r, z, strict=True):
        target[0, 0] = 0.25 * part[0, 0] * (1.0 + 0.5 * (da.index(0) % 2))


def test_the_fastest_sums_take_as_many_iterations_but_for_one():
    alone = problem(grid_of(comm=MPI.COMM_SELF), boundary={"x": da.Dirichlet(0.0), "y": NEUMANN})
    b = problem(grid_of(), boundary={"x": da.Dirichlet(0.0), "y": NEUMANN})
    for name in ("cg", "pipelined_cg"):
        one = linear.solve(negative_laplacian, alone, method=name)
        many = linear.solve(negative_laplacian, b, method=name)
        assert abs(one.iterations - many.iterations) <= 1, (name, one.iterations, many.iterations)
        np.testing.assert_allclose(many.x.gather(), one.x.gather(), rtol=1e-6, atol=1e-7)


NEUMANN = da.Neumann(0.0)


def test_kept_vectors_give_the_same_bits():
    expected = None
    for place in ({"comm": MPI.COMM_SELF}, {}):
        grid = grid_of(**place)
        b = problem(grid, boundary=sides(grid, da.Dirichlet(0.0)))
        solver = linear.LinearSolver(negative_laplacian, reproducible=True, nullspace=None)
        x = grid.zeros_like(b)
        found = [outcome(solver.solve(b, x, rtol=10.0**-k, out=x)) for k in (2, 4)]
        expected = expected or found
        assert found == expected
    refused(da.SolverError, "another grid", lambda: solver.solve(b, out=grid_of((9, 9)).zeros()))


def test_bicgstab_solves():
    grid = grid_of()
    b = problem(grid, boundary=sides(grid, da.Dirichlet(0.0)))
    solution = linear.bicgstab(negative_laplacian, b, rtol=1e-10)
    assert solution.converged, solution.reason
    matrix, x = laplacian_matrix(CELLS), solution.x.gather().ravel()
    host = b.gather().ravel()
    assert np.linalg.norm(host - matrix @ x) <= 1e-10 * np.linalg.norm(host)


def test_errors_are_the_same_on_all_ranks():
    grid = grid_of(periodic=True)
    b = problem(grid)
    refused(da.SolverError, "has the mean 0.5, but", lambda: cg(negative_laplacian, b + 0.5))
    spoiled = b.copy()
    spoiled[0, 0] = np.nan
    refused(da.SolverError, "not finite", lambda: cg(negative_laplacian, spoiled))
    refused(
        da.SolverError,
        "leaves points of its output unwritten",
        lambda: cg(negative_laplacian, problem(grid_of())),
    )
    refused(
        da.SolverError, "enclose the eigenvalues", lambda: chebyshev(identity, b, bounds=(2, 1))
    )


def test_ranks_that_want_other_things_are_told_instead_of_waiting_for_each_other():
    if SIZE == 1:
        return
    grid = grid_of()
    b = problem(grid, boundary=sides(grid, da.Dirichlet(0.0)))
    text = f"rtol differs between ranks, from 0.1 to {SIZE / 10:g}; pass the same"
    for name in linear.METHODS:
        solve = functools.partial(linear.solve, negative_laplacian, b, method=name)
        refused(da.SolverError, text, functools.partial(solve, rtol=(grid.rank + 1) / 10))
    most = "max_iterations differs between ranks, from 3 to 4"
    few = functools.partial(solve, max_iterations=3 + (grid.rank == 1))
    refused(da.SolverError, most, few)
    cycles = Multigrid(EllipticOperator(grid, boundary=sides(grid, da.Dirichlet(0.0))))
    few = functools.partial(cycles.solve, b, max_cycles=3 + (grid.rank == 1))
    refused(da.SolverError, "max_cycles differs between ranks, from 3 to 4", few)


def test_values_that_are_not_finite_on_one_rank_stop_all():
    """The last cell becomes NaN in the fourth application."""
    count = iter(range(1000))
    grid = grid_of()

    def spoiled(u, out):
        negative_laplacian(u, out)
        if next(count) == 3:
            out[-1, -1] = np.nan

    b = problem(grid, boundary=sides(grid, da.Dirichlet(0.0)))
    solution = cg(spoiled, b, nullspace=None)
    assert not solution.converged
    assert "not finite" in solution.reason
    assert np.isfinite(solution.x.gather()).all()
    assert len(set(MPI.COMM_WORLD.allgather(solution.reason))) == 1


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    for name in linear.METHODS if SIZE == 1 else ["pipelined_cg"] if SIZE < 8 else []:
        found = []
        for device in ("cpu", "simulated"):
            grid = grid_of(device=device)
            b = problem(grid, boundary=sides(grid, da.Dirichlet(0.0)))
            found.append(outcome(linear.solve(negative_laplacian, b, method=name, **OPTIONS)))
        assert found[0] == found[1], name
