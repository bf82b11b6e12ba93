"""The operator of multigrid beside NumPy, exact solutions, and the weights along one axis."""

import itertools
import math

import numpy as np
import pytest

import distarray as da
from solvers.multigrid import EllipticOperator, Multigrid
from solvers.multigrid.weights import FIXED, Axis, coupling, transfer
from tests.multigrid_tools import STRETCHED, D, N, R, S, elliptic, put, random, solve

CASES = {
    "mixed": (
        {"shape": (20, 23)},
        {"x-": D(0.5), "x+": N(-2.0), "y-": R(1.0, 0.7, 2.0), "y+": S(-1)},
    ),
    "stretched": (
        {"shape": (16, 23), "coordinates": STRETCHED},
        {"x-": N(1.0), "x+": R(2.0, 0.3, -1.0), "y": D(1.5)},
    ),
    "periodic": ({"shape": (17, 12), "periodic": (True, False)}, {"y-": D(-1.0), "y+": S(1)}),
    "three axes": (
        {"shape": (9, 8, 7), "bounds": [(0.0, 1.0), (0.0, 0.9), (1.0, 2.0)]},
        {"x": D(0.3), "y": N(0.2), "z-": R(1.0, 1.0, 1.0), "z+": D(0.0)},
    ),
    "one axis": ({"shape": (37,)}, {"x-": D(1.0), "x+": N(0.5)}),
}


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_solutions_solve_the_equations(name, varying):
    options, boundary = CASES[name]
    grid = da.Grid(**options)
    a = np.exp(random(grid.shape, 1)) if varying else np.full(grid.shape, 1.7)
    c = random(grid.shape, 2) ** 2 if varying else 3.0
    f = random(grid.shape)
    found = solve(
        grid,
        put(grid, f),
        put(grid, a) if varying else 1.7,
        put(grid, c) if varying else 3.0,
        boundary,
        rtol=1e-11,
    )
    assert found.converged, found.reason
    sides = [
        [boundary.get(f"{name}{sign}", boundary.get(name)) for sign in "-+"]
        for name in grid.axes[: grid.ndim]
    ]
    widths = [axis.widths(np.arange(axis.cells)) for axis in grid.geometry]
    image = elliptic(found.x.gather(), widths, a, c, sides, grid.periodic)
    assert np.abs(image - f).max() < 1e-7 * max(1.0, np.abs(found.x.gather()).max() * 40**2 / 1e3)


@pytest.mark.parametrize("location", ["x", "y", "xy"])
def test_linear_functions_are_exact_on_points_with_values_as_functions_and_arrays(location):
    grid = da.Grid((21, 16), bounds=[(0.0, 1.5), (-1.0, 1.0)])
    exact = grid.from_function(lambda x, y: 1.0 + 2.0 * x - 3.0 * y, location=location)
    value = D(lambda t, x, y: t + 2.0 * x - 3.0 * y)
    boundary = {"x": value, "y-": value, "y+": value if "y" in location else N(-3.0)}
    operator = EllipticOperator(grid, boundary=boundary, location=location)
    f = grid.zeros(location=location)
    found = Multigrid(operator).solve(f, time=1.0, rtol=1e-12)
    assert found.converged
    found.x.boundary.update(
        {side: D(lambda t, x, y: 1.0 + 2.0 * x - 3.0 * y) for side in ("x-", "x+", "y-")}
    )
    if "y" in location:
        found.x.boundary["y+"] = D(lambda t, x, y: 1.0 + 2.0 * x - 3.0 * y)
    assert np.abs((found.x - exact).gather()).max() < 1e-10


def test_neumann_ends_on_points_and_varying_coefficients_between_points():
    """U = cos(pi x) on nodes, second order, with a = 1 + x in the cells between them."""
    errors = []
    for n in (16, 32):
        grid = da.Grid((n,))
        a = grid.from_function(lambda x: 1.0 + x)
        f = grid.from_function(
            lambda x: np.pi * np.sin(np.pi * x) + (1.0 + x) * np.pi**2 * np.cos(np.pi * x)
            + np.cos(np.pi * x),
            location="x",
        )  # fmt: skip
        for given in (a, {"x": a}):
            found = solve(grid, f, given, 1.0, {"x": N(0.0)}, "x", rtol=1e-12)
            exact = np.cos(np.pi * np.linspace(0.0, 1.0, n + 1))
            error = np.abs(found.x.gather() - exact).max()
        errors.append(error)
    assert 3.8 < errors[0] / errors[1] < 4.2


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        (None, "spoiled"),
        (None, "other values"),
        ("x", "as given"),
        ("y", "fluxes"),
        ("xy", "as given"),
        ("xy", "other values"),
        ("xy", "none"),
        ("xy", "spoiled"),
    ],
)
def test_the_operator_takes_conditions_as_homogeneous(location, kind):
    """Whatever those of its argument are; A u + lift = f for the solution."""
    grid = da.Grid((8, 7))
    boundary = {"x": D(1.0), "y-": D(lambda t, x, y: 2.0 + x), "y+": D(-3.0)}
    operator = EllipticOperator(grid, c=1.0, boundary=boundary, location=location)
    f = grid.from_function(lambda x, y: np.exp(x - y), location=location)
    b, r, image = operator.zeros(), operator.zeros(), operator.zeros()
    operator.rhs(f, b)
    solution = Multigrid(operator).solve(f, rtol=1e-12).x
    given = {
        "as given": solution.boundary,
        "other values": {side: D(5.0) for side in solution.boundary},
        "fluxes": {side: N(0.0) for side in solution.boundary},
        "none": None,
        "spoiled": {side: D(math.inf) for side in solution.boundary},
    }[kind]
    u = grid.zeros(location=location, boundary=given)
    u[...] = solution
    operator.residual(u, b, r)
    operator(u, image)
    assert np.abs(r.gather()).max() < 1e-9
    ends = tuple(slice(1, -1) if name in (location or "") else slice(None) for name in "xy")
    assert np.abs((b - image).gather()[ends]).max() < 1e-9
    # Twice the values inside give twice the image: the operator is linear.
    u[...] = 2.0 * solution
    twice = operator.zeros()
    operator(u, twice)
    assert np.abs((twice - 2.0 * image).gather()).max() < 1e-9


# ------------------------------------------------------------------------------- one axis, pure


def matrices(fine, coarse, *, adjoint):
    found = transfer(fine, coarse, adjoint=adjoint)
    up, down = np.zeros((fine.count, coarse.count)), np.zeros((coarse.count, fine.count))
    for k, d in itertools.product(range(fine.count), (-1, 0, 1)):
        place = k // 2 + d
        if coarse.periodic or 0 <= place < coarse.count:
            up[k, place % coarse.count] += found.prolong[d + 1][k]
        else:
            assert found.prolong[d + 1][k] == 0.0
    for d, weights in found.restrict.items():
        for i in range(coarse.count):
            if weights[i]:
                down[i, (2 * i + d) % fine.count] += weights[i]
    return up, down


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("n", [6, 7, 12, 13])
def test_transfers_along_an_axis(n, periodic, points):
    h = 1.0 + 0.3 * np.cos(np.arange(n))
    joined = np.add.reduceat(h, np.arange(0, n, 2))
    for ends in ((1.0, 1.0), (-1.0, 0.4), (FIXED, FIXED)):
        if (FIXED in ends) and not points:
            continue
        fine, coarse = (Axis(w, periodic, points, ends) for w in (h, joined))
        up, down = matrices(fine, coarse, adjoint=True)
        weighted = up.T * fine.volumes / coarse.volumes[:, None]
        assert np.allclose(down, weighted, atol=1e-14)
        if ends == (1.0, 1.0):
            assert np.allclose(up.sum(axis=1), 1.0)  # constants are kept
            mean = matrices(fine, coarse, adjoint=False)[1]
            assert np.allclose(coarse.volumes @ mean, fine.volumes)  # and integrals


def test_couplings_are_symmetric_in_the_weighted_inner_product():
    h = 1.0 + 0.3 * np.cos(np.arange(9))
    for periodic, points in itertools.product((False, True), repeat=2):
        axis = Axis(h, periodic, points, (1.0, 1.0))
        found = coupling(axis)
        low, high = axis.volumes * found.low, axis.volumes * found.high
        assert np.allclose(np.roll(low, -1), high)
        assert np.allclose(found.own, found.low + found.high)
