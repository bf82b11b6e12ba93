"""Linear solvers on one rank: against SciPy and exact discrete solutions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg as sparse_linalg

import distarray as da
from solvers.linear import bicgstab, cg, chebyshev, spectrum
from solvers.linear.system import Options, System
from tests.linear_tools import (
    CONJUGATE,
    DIRICHLET,
    METHODS,
    advected,
    difference_matrix,
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

#: Each method has kernels of its own for each kind of numbers; in each run the two that share most.
FEW = [
    method if method in (cg, bicgstab) else pytest.param(method, marks=pytest.mark.slow)
    for method in METHODS
]

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


@pytest.mark.parametrize("method", FEW)
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


@pytest.mark.parametrize("method", FEW)
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


@pytest.mark.parametrize("method", FEW)
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


@pytest.mark.parametrize("method", FEW)
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
