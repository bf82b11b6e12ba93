"""Linear solvers on one rank: against SciPy and exact discrete solutions, and how they fail."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
import scipy.sparse.linalg as sparse_linalg

import distarray as da
from solvers import linear
from solvers.linear import bicgstab, cg, chebyshev, kernels, pipelined_cg, spectrum
from solvers.linear.system import Options, System
from tests.linear_tools import (
    Counting,
    advected,
    difference_matrix,
    field,
    identity,
    laplacian_matrix,
    negative_laplacian,
    noting,
    rough,
    sides,
    unit_grid,
)

DIRICHLET = da.Dirichlet(0.0)
METHODS = list(linear.METHODS.values())
SYMMETRIC = [cg, pipelined_cg, chebyshev]
CONJUGATE = [cg, pipelined_cg]


def dirichlet_problem(*cells, dtype=np.float64, seed=1):
    """A grid, a rough right-hand side with Dirichlet conditions, and the solution by SciPy."""
    grid = unit_grid(*cells)
    b = field(grid, rough(*cells, seed=seed), dtype=dtype, boundary=sides(grid, DIRICHLET))
    exact = sparse_linalg.spsolve(laplacian_matrix(cells).tocsc(), b.gather().astype(float).ravel())
    return grid, b, exact.reshape(cells)


def relative_residual(matrix, x, b):
    x, b = x.gather().ravel(), b.gather().ravel()
    return np.linalg.norm(b - matrix @ x) / np.linalg.norm(b)


def error(x, exact):
    wide = np.result_type(exact, np.float64)
    return np.linalg.norm(x.gather() - exact.astype(wide)) / np.linalg.norm(exact.astype(wide))


# ------------------------------------------------------------------------- against direct solvers


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cells", [(17,), (12, 9)])
def test_solution_is_that_of_a_sparse_direct_solver(method, cells):
    _, b, exact = dirichlet_problem(*cells)
    solution = method(negative_laplacian, b, rtol=1e-11)
    assert solution.converged, solution.reason
    assert error(solution.x, exact) < 1e-9
    found = relative_residual(laplacian_matrix(cells), solution.x, b)
    assert found <= 1e-11
    # What is reported is b - A x; rounding moves it by 1e-15 of |A| |x| / |b|, below 100 here.
    assert solution.residuals[-1] == pytest.approx(found, abs=1e-13)
    assert len(solution.residuals) == solution.iterations + 1
    assert solution.residuals[0] == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_single_precision(method):
    _, b, exact = dirichlet_problem(12, 9, dtype=np.float32)
    solution = method(negative_laplacian, b, rtol=1e-5)
    assert solution.converged, solution.reason
    assert solution.x.dtype == np.float32
    assert error(solution.x, exact) < 1e-4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_squares_may_leave_the_range_of_single_precision(method, size):
    _, b, _ = dirichlet_problem(12, 9)
    scaled = field(b.grid, size * b.gather(), dtype=np.float32, boundary=dict(b.boundary))
    exact = method(negative_laplacian, b).x.gather()
    solution = method(negative_laplacian, scaled, rtol=1e-5)
    assert solution.converged, solution.reason
    assert error(solution.x, (size * exact).astype(np.float32)) < 1e-4


@pytest.mark.parametrize("method", [cg, bicgstab])
def test_three_dimensions(method):
    _, b, exact = dirichlet_problem(7, 6, 5)
    assert error(method(negative_laplacian, b, rtol=1e-11).x, exact) < 1e-9


def test_operators_that_are_not_symmetric():
    cells = (14, 9)
    grid = unit_grid(*cells)
    b = field(grid, rough(*cells), boundary=sides(grid, DIRICHLET))
    upwind = np.eye(14) - np.eye(14, k=-1)
    upwind[0, 0] = 2.0  # the cell beyond the side is -u
    matrix = laplacian_matrix(cells).toarray() + 3.0 * np.kron(upwind, np.eye(9))
    exact = np.linalg.solve(matrix, b.gather().ravel()).reshape(cells)
    solution = bicgstab(lambda u, out: advected(u, out, speed=3.0), b, rtol=1e-11)
    assert solution.converged, solution.reason
    assert error(solution.x, exact) < 1e-9


@da.stencil
def magnetic(u, out, *, phase, shift):
    """A Hermitian operator: each step along the axis turns the phase."""
    out[0] = (2.0 + shift) * u[0] - phase * u[1] - phase.conjugate() * u[-1]


@pytest.mark.parametrize("method", METHODS)
def test_complex_hermitian(method):
    n, phase = 24, np.exp(0.7j)
    grid = unit_grid(n, periodic=True)
    b = field(grid, rough(n) + 1j * rough(n, seed=2))
    step = np.roll(np.eye(n), 1, axis=1)
    matrix = 2.5 * np.eye(n) - phase * step - np.conj(phase) * step.T
    solution = method(lambda u, out: magnetic(u, out, phase=phase, shift=0.5), b, rtol=1e-11)
    assert solution.converged, solution.reason
    assert error(solution.x, np.linalg.solve(matrix, b.gather())) < 1e-9


def test_complex_and_not_hermitian():
    n, phase = 24, np.exp(0.7j)
    grid = unit_grid(n, periodic=True)
    b = field(grid, rough(n) + 1j * rough(n, seed=2))
    step = np.roll(np.eye(n), 1, axis=1)
    matrix = (2.5 + 1.5j) * np.eye(n) - phase * step - np.conj(phase) * step.T
    solution = bicgstab(
        lambda u, out: magnetic(u, out, phase=phase, shift=0.5 + 1.5j), b, rtol=1e-11
    )
    assert solution.converged, solution.reason
    assert error(solution.x, np.linalg.solve(matrix, b.gather())) < 1e-9


@da.stencil
def coupled(u, out):
    """Two fields that pull at each other."""
    for one, other in ((0, 1), (1, 0)):
        field = u[one]
        total = 1.0 * (field[0, 0] - u[other][0, 0])
        for axis in range(2):
            total = total + (2.0 * field[0, 0] - field.shift(axis, 1) - field.shift(axis, -1))
        out[one][0, 0] = total


@pytest.mark.parametrize("method", METHODS)
def test_components(method):
    cells = (8, 7)
    grid = unit_grid(*cells)
    b = field(grid, rough(2, *cells), components=2, boundary=sides(grid, DIRICHLET))
    pull = np.array([[1.0, -1.0], [-1.0, 1.0]])
    matrix = np.kron(np.eye(2), laplacian_matrix(cells).toarray()) + np.kron(pull, np.eye(56))
    exact = np.linalg.solve(matrix, b.gather().ravel()).reshape(2, *cells)
    solution = method(coupled, b, rtol=1e-11)
    assert solution.converged, solution.reason
    assert error(solution.x, exact) < 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_points_on_faces_that_are_fixed(method):
    """Of n + 1 points along x the outer two are given: n - 1 unknowns between them."""
    grid = unit_grid(8, 6)
    conditions = {"x": DIRICHLET, "y": da.Neumann(0.0)}
    b = field(grid, rough(9, 6), location="x", boundary=conditions)
    inner = 2.0 * np.eye(7) - np.eye(7, k=1) - np.eye(7, k=-1)
    neumann = difference_matrix(6, "neumann").toarray()
    matrix = np.kron(inner, np.eye(6)) + np.kron(np.eye(7), neumann)
    exact = np.zeros((9, 6))
    exact[1:-1] = np.linalg.solve(matrix, rough(9, 6)[1:-1].ravel()).reshape(7, 6)
    solution = method(negative_laplacian, b, rtol=1e-11)
    assert solution.converged, solution.reason
    assert error(solution.x, exact) < 1e-9


def test_arrays_of_no_grid():
    host = rough(20)
    b = da.zeros((20,), halo=1, periodic=True)
    b[...] = host
    matrix = np.roll(np.eye(20), 1, 0) + np.roll(np.eye(20), -1, 0)

    @da.stencil
    def shifted(u, out):
        out[0] = 3.0 * u[0] - u[1] - u[-1]

    exact = np.linalg.solve(3.0 * np.eye(20) - matrix, host)
    assert error(cg(shifted, b, rtol=1e-11).x, exact) < 1e-9


# ------------------------------------------------------------------------------------ conditions


def test_conditions_of_the_first_guess_enter_the_solution():
    """A linear function solves Laplace's equation exactly, whatever kind of condition says it."""
    n = 8
    grid = unit_grid(n, n)
    x, y = grid.coordinates()
    exact = np.broadcast_to(1.0 + 2.0 * x - y, (n, n))
    conditions = {
        "x-": da.Dirichlet(lambda t, x, y: 1.0 - y),
        "x+": da.Neumann(2.0),
        "y-": da.Robin(1.0, 1.0, lambda t, x, y: (1.0 + 2.0 * x) + 1.0),
        "y+": da.Piecewise(
            lambda x, y: x < 4.0, da.Dirichlet(lambda t, x, y: 1.0 + 2.0 * x - n), da.Neumann(-1.0)
        ),
    }
    x0 = field(grid, rough(n, n), boundary=conditions)
    for method in METHODS:
        solution = method(negative_laplacian, grid.zeros(), x0, rtol=1e-12)
        assert solution.converged, solution.reason
        np.testing.assert_allclose(solution.x.gather(), exact, rtol=0, atol=1e-9)
    assert x0.gather().tobytes() == rough(n, n).tobytes()


def test_conditions_that_differ_between_components():
    grid = unit_grid(6)
    pair = (da.Dirichlet(3.0), da.Dirichlet(-1.0))
    x0 = grid.zeros(components=2, boundary={"x-": pair, "x+": da.Neumann((0.0, 0.0))})

    @da.stencil
    def both(u, out):
        for part, target in zip(u, out, strict=True):
            target[0] = 2.0 * part[0] - part[1] - part[-1]

    solution = cg(both, grid.zeros(components=2), x0)
    np.testing.assert_allclose(solution.x.gather(), [[3.0] * 6, [-1.0] * 6], rtol=1e-7)


def test_inhomogeneous_conditions_of_the_right_hand_side_are_an_error():
    b = unit_grid(8).ones(boundary={"x": da.Dirichlet(1.0)})
    with pytest.raises(da.SolverError, match="inhomogeneous conditions on x-, x\\+"):
        cg(negative_laplacian, b)


def test_neither_the_right_hand_side_nor_the_first_guess_is_changed():
    _, b, exact = dirichlet_problem(12, 9)
    x0 = b.copy()
    before = b.gather().tobytes()
    for method in METHODS:
        solution = method(negative_laplacian, b, x0)
        assert solution.x is not x0
        assert error(solution.x, exact) < 1e-6
        assert b.gather().tobytes() == x0.gather().tobytes() == before


# ------------------------------------------------------------------------------- exact properties


@pytest.mark.parametrize("kind", ["dirichlet", "neumann", "periodic"])
@pytest.mark.parametrize("method", CONJUGATE)
def test_an_eigenmode_takes_one_iteration(method, kind):
    """-lap u = lambda u with lambda = sum 4 sin^2(k / 2), so that u = b / lambda."""
    cells, waves = (16, 12), (3, 2)
    grid = unit_grid(*cells, periodic=kind == "periodic")
    factor = 2.0 * np.pi if kind == "periodic" else np.pi
    k = [factor * m / n for m, n in zip(waves, cells, strict=True)]
    wave = np.sin if kind == "dirichlet" else np.cos
    x, y = (np.arange(n) + 0.5 for n in cells)
    mode = wave(k[0] * x)[:, None] * wave(k[1] * y)
    condition = DIRICHLET if kind == "dirichlet" else da.Neumann(0.0)
    b = field(grid, mode, boundary=sides(grid, condition))
    solution = method(negative_laplacian, b, rtol=1e-12)
    assert solution.iterations == 1
    eigenvalue = sum(4.0 * np.sin(part / 2.0) ** 2 for part in k)
    np.testing.assert_allclose(solution.x.gather(), mode / eigenvalue, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", CONJUGATE)
@pytest.mark.parametrize("distinct", [1, 2, 5])
def test_as_many_iterations_as_distinct_eigenvalues(method, distinct):
    @da.stencil
    def stretch(u, out):
        out[0] = (1.0 + da.index(0) % distinct) * u[0]

    b = field(unit_grid(60), rough(60))
    assert method(stretch, b, rtol=1e-12).iterations == distinct


@pytest.mark.parametrize("method", CONJUGATE)
def test_error_keeps_the_bound_of_the_condition_number(method):
    """|e_k|_A <= 2 ((sqrt(kappa) - 1) / (sqrt(kappa) + 1))^k |e_0|_A."""
    cells = (16, 12)
    _, b, exact = dirichlet_problem(*cells)
    matrix = laplacian_matrix(cells).toarray()
    eigenvalues = np.linalg.eigvalsh(matrix)
    root = np.sqrt(eigenvalues[-1] / eigenvalues[0])
    rate = (root - 1.0) / (root + 1.0)

    def energy(e):
        return np.sqrt(e.ravel() @ matrix @ e.ravel())

    for k in (5, 10, 20):
        x = method(negative_laplacian, b, max_iterations=k).x.gather()
        assert energy(x - exact) <= 2.0 * rate**k * energy(exact)


def test_residuals_of_cg_are_those_of_scipy():
    cells = (12, 9)
    _, b, _ = dirichlet_problem(*cells)
    matrix, host, expected = laplacian_matrix(cells), b.gather().ravel(), [1.0]
    sparse_linalg.cg(
        matrix,
        host,
        rtol=1e-8,
        callback=lambda x: expected.append(
            np.linalg.norm(host - matrix @ x) / np.linalg.norm(host)
        ),
    )
    for method in CONJUGATE:
        solution = method(negative_laplacian, b, rtol=1e-8)
        assert solution.iterations == len(expected) - 1
        np.testing.assert_allclose(solution.residuals, expected, rtol=1e-4)


def test_residuals_of_bicgstab_are_those_of_scipy():
    """Of an operator that is neither Hermitian nor easy, as long as rounding lets them agree."""
    n, phase, shift = 24, np.exp(0.7j), 0.1 + 0.4j
    b = field(unit_grid(n, periodic=True), rough(n) + 1j * rough(n, seed=2))
    step = np.roll(np.eye(n), 1, axis=1)
    matrix = (2.0 + shift) * np.eye(n) - phase * step - np.conj(phase) * step.T
    host, expected = b.gather(), [1.0]
    sparse_linalg.bicgstab(
        matrix,
        host,
        maxiter=6,
        callback=lambda x: expected.append(
            np.linalg.norm(host - matrix @ x) / np.linalg.norm(host)
        ),
    )
    solution = bicgstab(
        lambda u, out: magnetic(u, out, phase=phase, shift=shift), b, max_iterations=6
    )
    assert len(expected) == 7
    np.testing.assert_allclose(solution.residuals, expected, rtol=1e-6)


@pytest.mark.parametrize("cells", [(40, 30), (60,)])
def test_pipelined_cg_takes_as_many_iterations_as_cg(cells):
    _, b, _ = dirichlet_problem(*cells)
    for rtol in (1e-4, 1e-8, 1e-11):
        counts = [method(negative_laplacian, b, rtol=rtol).iterations for method in CONJUGATE]
        assert abs(counts[0] - counts[1]) <= 2, (rtol, counts)


def test_chebyshev_keeps_the_bound_of_its_polynomial():
    """|r_k| <= |r_0| / T_k(theta / delta), T_k the Chebyshev polynomial."""
    cells = (16, 12)
    _, b, _ = dirichlet_problem(*cells)
    eigenvalues = np.linalg.eigvalsh(laplacian_matrix(cells).toarray())
    low, high = eigenvalues[0], eigenvalues[-1]
    solution = chebyshev(negative_laplacian, b, bounds=(low, high))
    assert solution.converged
    sigma = (high + low) / (high - low)
    k = np.arange(solution.iterations + 1)
    bound = 1.0 / np.cosh(k * np.arccosh(sigma))
    assert np.all(np.array(solution.residuals) <= bound * (1.0 + 1e-6))


def test_chebyshev_with_one_eigenvalue():
    b = field(unit_grid(10), rough(10))
    assert chebyshev(identity, b, bounds=(1.0, 1.0), rtol=1e-12).iterations == 1


@pytest.mark.parametrize("kind", ["dirichlet", "periodic"])
def test_spectrum_lies_in_the_estimated_interval(kind):
    cells = (16, 12)
    grid = unit_grid(*cells, periodic=kind == "periodic")
    b = field(grid, rough(*cells) - rough(*cells).mean(), boundary=sides(grid, DIRICHLET))
    low, high = spectrum.estimate(System(negative_laplacian, b, None, Options()))
    eigenvalues = np.linalg.eigvalsh(laplacian_matrix(cells, kind).toarray())
    least = eigenvalues[eigenvalues > 1e-10][0]
    assert 0.5 * least < low <= least
    assert eigenvalues[-1] <= high < 1.2 * eigenvalues[-1]


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


# -------------------------------------------------------------------------------- singular systems


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


@pytest.mark.parametrize("module", ["cg", "pipelined", "bicgstab", "chebyshev"])
def test_examples_of_docstrings(module):
    found = doctest.testmod(importlib.import_module(f"solvers.linear.{module}"))
    assert found.attempted
    assert not found.failed
