"""Multigrid on one rank: the operator beside NumPy, exact solutions, rates, errors."""

import itertools
import math

import numpy as np
import pytest

import distarray as da
from solvers.linear import cg
from solvers.multigrid import EllipticOperator, Multigrid
from solvers.multigrid.npb import NpbMultigrid, charges, classes
from solvers.multigrid.weights import FIXED, Axis, coupling, transfer
from solvers.poisson.problems import published

D, N, R, S = da.Dirichlet, da.Neumann, da.Robin, da.Symmetry


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def put(grid, values, **options):
    u = grid.empty(**options)
    u[...] = values
    return u


def walls(grid, condition=None):
    return {
        name: condition or D(0.0)
        for name, p in zip(grid.axes, grid.periodic, strict=False)
        if not p
    }


def solve(grid, f, a=1.0, c=0.0, boundary=None, location=None, **options):
    made = {n: options.pop(n) for n in ("rtol", "max_cycles") if n in options}
    operator = EllipticOperator(grid, a, c, boundary=boundary, location=location)
    return Multigrid(operator, **options).solve(f, **made)


# ------------------------------------------------------------------ an independent discretisation


def layers(u, axis, h, low, high, periodic):
    """U with a layer at both ends of an axis, as the conditions (kind, values) say."""
    first, last = (np.take(u, [n], axis) for n in (0, -1))
    if periodic:
        return np.concatenate((last, u, first), axis)

    def layer(w, distance, condition):
        match condition:
            case D(value=g):
                return 2.0 * g - w
            case N(value=g):
                return w + distance * g
            case S(sign=sign):
                return sign * w
            case R(a=a, b=b, c=c):
                return (2.0 * c * distance + (2.0 * b - a * distance) * w) / (
                    a * distance + 2.0 * b
                )

    return np.concatenate((layer(first, h[0], low), u, layer(last, h[-1], high)), axis)


def elliptic(u, widths, a, c, conditions, periodic):
    """-div(a grad u) + c u in cells; a in cells, harmonic means weighted by widths."""
    total = c * u
    for axis, h in enumerate(widths):
        shape = [1] * u.ndim
        shape[axis] = -1
        sides = conditions[axis] if not periodic[axis] else (None, None)
        q = layers(u, axis, h, *sides, periodic[axis])
        mode = "wrap" if periodic[axis] else "edge"
        pads = [(1, 1) if n == axis else (0, 0) for n in range(u.ndim)]
        coefficient = np.pad(a, pads, mode)
        wide = np.pad(h, 1, mode).reshape(shape)
        count = u.shape[axis] + 1
        below_h, above_h = (np.take(wide, range(n, n + count), axis) for n in (0, 1))
        below_a, above_a = (np.take(coefficient, range(n, n + count), axis) for n in (0, 1))
        lengths = below_h + above_h
        face = lengths / (below_h / below_a + above_h / above_a)
        flux = face * np.diff(q, axis=axis) / (0.5 * lengths)
        total = total - np.diff(flux, axis=axis) / h.reshape(shape)
    return total


STRETCHED = {"y": np.linspace(0.0, 1.0, 24) ** 1.3}
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


@pytest.mark.parametrize("location", [None, "x", "y", "xy"])
@pytest.mark.parametrize("kind", ["as given", "other values", "fluxes", "none", "spoiled"])
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


# ------------------------------------------------------------------------ published, and rates


def test_briggs_problem_has_the_published_errors():
    errors = {}
    for row in published()[:4]:
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
    assert errors[64] / errors[128] == pytest.approx(4.0, abs=0.02)


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
    counts = [cycles((n,) * 3) for n in (16, 32, 64)]
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


@pytest.mark.parametrize("contrast", [1e3, 1e-3])
@pytest.mark.parametrize("n", [47, 64])
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


@pytest.mark.parametrize("contrast", [1e3, 1e8])
@pytest.mark.parametrize("rtol", [1e-8, 1e-12])
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


# ------------------------------------------------------------------- singular, stagnant, not finite


@pytest.mark.parametrize(("periodic", "values"), [(True, 0.0), (False, 0.0), (False, 0.25)])
def test_singular_problems_have_solutions_of_mean_zero(periodic, values):
    grid = da.Grid((24, 20), periodic=periodic)
    f = random(grid.shape)
    f -= f.mean() + (0.0 if periodic else 4.0 * values)  # what flows in must balance f
    found = solve(
        grid, put(grid, f), boundary=walls(grid, N(values)) if not periodic else None, rtol=1e-9
    )
    assert found.converged
    assert abs(float(found.x.mean())) < 1e-12


def test_incompatible_right_hand_sides_are_refused():
    grid = da.Grid((8, 8), periodic=True)
    with pytest.raises(da.SolverError, match="has the mean 1, but the operator maps constants"):
        solve(grid, grid.ones())


def test_stagnation_is_said():
    grid = da.Grid((16, 16))
    found = solve(
        grid, put(grid, random((16, 16))), boundary=walls(grid), rtol=1e-30, max_cycles=90
    )
    assert not found.converged
    assert "stagnates" in found.reason
    assert len(found.residuals) == found.iterations + 1
    found = solve(grid, put(grid, random((16, 16))), boundary=walls(grid), max_cycles=2)
    assert "after 2 cycles, the most allowed" in found.reason


def test_zero_right_hand_side_and_first_guess():
    grid = da.Grid((16, 16))
    found = solve(grid, grid.zeros(), boundary=walls(grid))
    assert (found.iterations, found.converged) == (0, True)
    operator = EllipticOperator(grid, boundary=walls(grid))
    f = put(grid, random((16, 16)))
    first = Multigrid(operator).solve(f)
    again = Multigrid(operator).solve(f, first.x)
    assert again.iterations == 0
    seen = []
    Multigrid(operator).solve(f, callback=lambda *given: seen.append(given))
    assert seen == list(enumerate(first.residuals))[1:]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    grid = da.Grid((8, 8))
    f = grid.ones()
    f[3, 4] = bad
    with pytest.raises(da.SolverError, match="not finite"):
        solve(grid, f, boundary=walls(grid))
    guess = grid.zeros()
    guess[1, 1] = bad
    with pytest.raises(da.SolverError, match="no longer finite"):
        Multigrid(EllipticOperator(grid, boundary=walls(grid))).solve(grid.ones(), guess)


def test_single_precision():
    grid = da.Grid((32, 32))
    operator = EllipticOperator(grid, boundary=walls(grid), dtype="float32")
    f = put(grid, random((32, 32)), dtype="float32")
    found = Multigrid(operator).solve(f, rtol=1e-5)
    assert found.converged
    assert found.x.dtype == np.float32


REFUSED = [
    ({"a": -1.0}, "a must be a finite number above 0"),
    ({"c": -1.0}, "c must be a finite number of at least 0"),
    ({"boundary": {"x": D(0.0)}}, "side 'y-' has no condition"),
    ({"boundary": {"x": D(0.0), "y": da.Outflow()}}, "must be Dirichlet, Neumann, Robin"),
    ({"boundary": {"x": D(0.0), "y": R(-1.0, 1.0, 0.0)}}, "needs numbers a and b not below 0"),
    ({"mean": "geometric"}, "mean must be 'harmonic' or 'arithmetic'"),
    ({"dtype": int}, "must be float32 or float64"),
    ({"a": {"x": 1.0}}, "a has arrays for the axes x"),
    ({"a": {"x": 1.0, "y": 1.0}}, "must be a DistArray of a grid"),
    ({"a": "zeros"}, "a must be above 0 everywhere"),
    ({"a": "faces"}, "belongs on"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_operators_that_are_refused(options, message):
    grid = da.Grid((8, 8))
    options = {"boundary": walls(grid)} | options
    arrays = {"zeros": grid.zeros(), "faces": grid.ones(location="x")}
    if isinstance(options.get("a"), str):
        options["a"] = arrays[options["a"]]
    with pytest.raises(da.SolverError, match=message):
        EllipticOperator(grid, **options)


REFUSED_OPTIONS = [
    ({"cycle": "U"}, "cycle must be one of 'V', 'W', 'F', got 'U'"),
    ({"cycle": []}, "cycle must be one of"),
    ({"smoother": "sor"}, "smoother must be one of"),
    ({"before": 0, "after": 0}, "must be at least 1 in all"),
    ({"before": 1.5}, "before must be a whole number of at least 0, got 1.5"),
    ({"after": -1}, "after must be a whole number of at least 0, got -1"),
    ({"after": True}, "after must be a whole number"),
    ({"levels": 0}, "levels must be a whole number of at least 1, got 0"),
    ({"levels": 2.5}, "levels must be a whole number of at least 1, got 2.5"),
    ({"symmetric": 3}, "symmetric must be True or False, got 3"),
    ({"accelerated": "yes"}, "accelerated must be True or False, got 'yes'"),
    ({"reproducible": "no"}, "reproducible must be True or False"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED_OPTIONS)
def test_options_that_are_refused(options, message):
    operator = EllipticOperator(da.Grid((8,)), boundary={"x": D(0.0)})
    with pytest.raises(da.SolverError, match=message):
        Multigrid(operator, **options)


REFUSED_LIMITS = [
    ({"rtol": -1.0}, "rtol must be a number of at least 0 and below 1, got -1.0"),
    ({"rtol": math.nan}, "rtol must be a number of at least 0 and below 1, got nan"),
    ({"rtol": 0.0}, "rtol and atol are both 0"),
    ({"atol": math.inf}, "atol must be a finite number of at least 0, got inf"),
    ({"max_cycles": -3}, "max_cycles must be a whole number of at least 0, got -3"),
    ({"max_cycles": 2.5}, "max_cycles must be a whole number of at least 0, got 2.5"),
    ({"callback": 3}, "callback= takes a function, got int"),
    ({"x0": 3}, "x0 must be a DistArray like the right-hand side, got int"),
    ({"x0": "other grid"}, "x0 lies on another grid"),
    ({"x0": "faces"}, "x0 and the right-hand side differ in shape"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED_LIMITS)
def test_solutions_that_are_refused(options, message):
    grid = da.Grid((8,))
    arrays = {"other grid": da.Grid((4,)).ones(), "faces": grid.ones(location="x")}
    options = {k: arrays.get(v, v) if isinstance(v, str) else v for k, v in options.items()}
    with pytest.raises(da.SolverError, match=message):
        Multigrid(EllipticOperator(grid, boundary={"x": D(0.0)})).solve(grid.ones(), **options)


def test_right_hand_sides_that_are_refused():
    grid = da.Grid((8, 8))
    operator = EllipticOperator(grid, boundary=walls(grid))
    for rhs in (grid.ones(location="x"), da.Grid((4, 4)).ones(), 1.0):
        with pytest.raises(da.SolverError, match="must lie on"):
            Multigrid(operator).solve(rhs)


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
