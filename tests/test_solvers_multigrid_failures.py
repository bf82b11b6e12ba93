"""Multigrid where there is little to solve, or nothing: singular, stagnant, not finite, refused."""

import math

import numpy as np
import pytest

import distarray as da
from solvers import linear
from solvers.multigrid import EllipticOperator, Multigrid
from tests.multigrid_tools import D, N, R, put, random, solve, walls


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
    ({"dtype": "half"}, "must be float32 or float64, got dtype='half'; use float"),
    ({"dtype": "many"}, "must be float32 or float64, got dtype='many'; use float"),
    ({"grid": None}, "EllipticOperator takes a Grid, got None; make one by da.Grid"),
    ({"a": np.ones(3)}, "or a DistArray of them, got one of type ndarray; change it"),
    ({"a": "complex"}, "a must be real, got DistArray"),
    ({"mean": []}, "mean must be 'harmonic' or 'arithmetic', got one of type list"),
    ({"a": {"x": 1.0}}, "a has arrays for the axes x"),
    ({"a": {"x": 1.0, "y": 1.0}}, "must be a DistArray of a grid"),
    ({"a": "zeros"}, "a must be above 0 everywhere"),
    ({"a": "faces"}, "belongs on"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_operators_that_are_refused(options, message):
    grid = da.Grid((8, 8))
    options = {"boundary": walls(grid)} | options
    arrays = {
        "zeros": grid.zeros(),
        "faces": grid.ones(location="x"),
        "complex": grid.ones(dtype=complex),
    }
    if isinstance(options.get("a"), str):
        options["a"] = arrays[options["a"]]
    with pytest.raises(da.SolverError, match=message):
        EllipticOperator(**{"grid": grid, **options})


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


def test_a_guess_whose_conditions_the_operator_ignores_is_refused():
    """Conjugate gradients would solve for zero at the sides, and say that they have converged."""
    grid = da.Grid((8, 8))
    operator = EllipticOperator(grid, boundary=walls(grid, D(1.0)))
    with pytest.raises(da.SolverError, match=r"conditions of x0 on x-, x\+, y-, y\+ have values"):
        linear.cg(operator, operator.zeros() + 1.0, operator.solution())
    b = operator.zeros()
    operator.rhs(grid.zeros(), b)
    assert float(abs(linear.cg(operator, b, rtol=1e-12).x - 1.0).max()) < 1e-10


def test_what_is_no_operator_and_no_array_is_refused():
    with pytest.raises(da.SolverError, match="takes an EllipticOperator, got one of type function"):
        Multigrid(lambda u, out: None)
    operator = EllipticOperator(da.Grid((4,)), boundary={"x": D(0.0)})
    with pytest.raises(da.SolverError, match="applies to DistArrays, got one of type ndarray"):
        operator(np.ones(4), operator.zeros())
    with pytest.raises(da.SolverError, match="The right-hand side, one of type ndarray, must lie"):
        Multigrid(operator).solve(np.ones(4))
