"""The direct solver: transforms by their defining sums, exact discrete answers, dense systems."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import distarray as da
from distarray import line_transforms
from solvers.fft_poisson import FFTPoisson
from solvers.fft_poisson.transforms import BY_ENDS, Cosine, HalfCosine, HalfSine, Hartley, Sine
from solvers.multigrid import EllipticOperator

KINDS = (Cosine, Sine, HalfCosine, HalfSine, Hartley)
LENGTHS = (1, 2, 3, 4, 5, 8, 37, 64, 127)
ZERO = {"F": da.Neumann(0.0), "V": da.Dirichlet(0.0)}
#: The ends of an axis: periodic, or a given flux or value at the low and the high side.
ENDS = ("P", "FF", "VV", "FV", "VF")


def matrix(kind, n):
    k, i = np.meshgrid(np.arange(n), np.arange(n) + 0.5, indexing="ij")
    if kind is Hartley:
        angle = 2 * np.pi * k * (i - 0.5) / n
        return np.cos(angle) + np.sin(angle)
    shift = {Cosine: 0.0, Sine: 1.0, HalfCosine: 0.5, HalfSine: 0.5}[kind]
    function = np.cos if kind in (Cosine, HalfCosine) else np.sin
    return function(np.pi * (k + shift) * i / n)


def second_difference(ends, widths):
    """-u'' on cells of these widths, a dense matrix; beyond an end the value is mirrored."""
    n = len(widths)
    found = np.zeros((n, n))
    for i in range(n):
        for step, end in ((-1, 0), (1, -1)):
            j = i + step
            outside = not 0 <= j < n and ends != "P"
            between = widths[i] if outside else 0.5 * (widths[i] + widths[j % n])
            weight = 1.0 / (widths[i] * between)
            found[i, i] += weight
            if outside:
                found[i, i] -= weight * (1.0 if ends[end] == "F" else -1.0)
            else:
                found[i, j % n] -= weight
    return found


def laplacian(ends, widths, c=0.0):
    """-lap + c on the product of axes, a dense matrix."""
    total = c * np.eye(np.prod([len(w) for w in widths]))
    for axis, (end, width) in enumerate(zip(ends, widths, strict=True)):
        factors = [np.eye(len(w)) for w in widths]
        factors[axis] = second_difference(end, width)
        product = np.ones((1, 1))
        for factor in factors:
            product = np.kron(product, factor)
        total = total + product
    return total


def box(shape, ends, **options):
    return da.Grid(shape, periodic=tuple(end == "P" for end in ends), **options)


def conditions(ends):
    return {
        f"{name}{sign}": ZERO[letter]
        for name, end in zip("xyz", ends, strict=False)
        if end != "P"
        for sign, letter in zip("-+", end, strict=True)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_are_their_defining_sums(kind, n):
    lines = np.random.default_rng(1).standard_normal((5, n))
    transform = kind(n)
    forward = transform.forward(lines)
    np.testing.assert_allclose(forward, lines @ matrix(kind, n).T, rtol=0, atol=1e-12 * n)
    np.testing.assert_allclose(transform.backward(forward), lines, rtol=0, atol=1e-13 * n)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("n", [1, 2, 4, 5, 37])
def test_modes_are_eigenvectors_of_the_second_difference(ends, n):
    h = 0.3
    kind = Hartley if ends == "P" else BY_ENDS[ends[0] == "V", ends[1] == "V"]
    transform = kind(n)
    vectors, values = transform.backward(np.eye(n)), transform.eigenvalues(h)
    operator = second_difference(ends, np.full(n, h))
    np.testing.assert_allclose(vectors @ operator.T, -values[:, None] * vectors, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 37])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_bits_of_a_line_do_not_depend_on_its_block(kind, n, way):
    block = np.random.default_rng(3).standard_normal((6, 7, n))
    function = getattr(kind(n), way)
    whole = np.ascontiguousarray(function(block))
    for i in range(6):
        alone = function(np.asfortranarray(block[i : i + 1, 2:3]))
        assert np.ascontiguousarray(alone).tobytes() == whole[i : i + 1, 2:3].tobytes()


def mode(end, number, x):
    """A mode of the unit interval with these ends, and its wave number."""
    k = np.pi * {"P": 2 * number, "FF": number, "VV": number}.get(end, number - 0.5)
    return (np.sin if end[0] == "V" else np.cos)(k * x), k


def discrete_number(k, h):
    """The eigenvalue of the second difference: (2 sin(k h / 2) / h)^2."""
    return np.square(2.0 * np.sin(0.5 * k * h) / h)


#: Each kind of end beside another one, and beside itself.
PAIRS = [(one, ENDS[(i + step) % 5]) for step in (0, 1) for i, one in enumerate(ENDS)]
TRIPLES = [("P", "FF", "VV"), ("FV", "P", "VF"), ("VV", "FV", "P")]


@pytest.mark.parametrize("ends", PAIRS + TRIPLES, ids="-".join)
def test_the_answer_for_a_mode_is_exact_but_for_its_discrete_wave_number(ends):
    shape = (16, 12, 10)[: len(ends)]
    grid = box(shape, ends)
    numbers = (2, 1, 3)

    def product(*x):
        found = 1.0
        for end, number, along in zip(ends, numbers, x, strict=False):
            found = found * mode(end, number, along)[0]
        return found

    k = [mode(end, number, 0.0)[1] for end, number in zip(ends, numbers, strict=False)]
    total = sum(discrete_number(ki, 1.0 / n) for ki, n in zip(k, shape, strict=True))
    phi = grid.from_function(product)
    for c in (0.0, 3.0):
        solution = FFTPoisson(grid, conditions(ends), c=c).solve(phi)
        assert solution.converged
        assert solution.residuals[-1] <= 1e-10
        np.testing.assert_allclose(
            solution.x.gather(), phi.gather() / (total + c), rtol=0, atol=1e-14
        )


@pytest.mark.parametrize("ends", [*PAIRS[5:], TRIPLES[1]], ids="-".join)
def test_the_error_falls_with_the_square_of_the_spacing(ends):
    errors = []
    for n in (64, 128) if len(ends) == 2 else (32, 64):
        grid = box((n,) * len(ends), ends)

        def exact(*x):
            found = 1.0
            for end, along in zip(ends, x, strict=True):
                found = found * mode(end, 1, along)[0]
            return found

        k2 = sum(mode(end, 1, 0.0)[1] ** 2 for end in ends)
        u = grid.from_function(exact)
        solution = FFTPoisson(grid, conditions(ends)).solve(k2 * u)
        assert solution.residuals[-1] <= 1e-10
        errors.append(float(abs(solution.x - u).mean()))
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < 0.01


def balanced(values, ends, widths, c):
    """The values without their mean, weighted by volume, where only such ones have a solution."""
    if c or any("V" in end for end in ends):
        return values
    volume = np.ones(())
    for width in widths:
        volume = np.multiply.outer(volume, width)
    return values - (values * volume).sum() / volume.sum()


#: Ends of three axes and what is stretched: each value of one with each of any other one, as in two
#: orthogonal Latin squares.
STRETCHED = ("x", "y", "z", "", "xyz")
MIXTURES = [
    ((ENDS[i], ENDS[j], ENDS[(i + j) % 5]), STRETCHED[(i + 2 * j) % 5])
    for i, j in itertools.product(range(5), repeat=2)
]


@pytest.mark.parametrize(("ends", "stretched"), MIXTURES)
def test_dense_systems(ends, stretched):
    shape, rng = (5, 3, 4), np.random.default_rng(2)
    positions = [np.linspace(0.0, 1.0, n + 1) for n in shape]
    coordinates = {}
    for name in stretched:
        positions["xyz".index(name)] **= 1.4
        coordinates[name] = positions["xyz".index(name)]
    widths = [np.diff(p) for p in positions]
    grid = box(shape, ends, coordinates=coordinates or None)
    for c in (0.0, 7.0):
        values = balanced(rng.standard_normal(shape), ends, widths, c)
        f = grid.zeros()
        f[...] = values
        found = FFTPoisson(grid, conditions(ends), c=c).solve(f)
        assert found.converged
        expected = np.linalg.lstsq(laplacian(ends, widths, c), values.ravel())[0].reshape(shape)
        difference = balanced(found.x.gather() - expected, ends, widths, c)
        np.testing.assert_allclose(difference, 0.0, atol=1e-11)


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 5), (2, 1)])
@pytest.mark.parametrize("end", ENDS)
def test_axes_of_one_and_two_cells(shape, end):
    for stretched in (False, True):
        faces = {"x": np.linspace(0, 1, shape[0] + 1) ** 1.5} if stretched else None
        grid = box(shape, (end,) * len(shape), coordinates=faces)
        f = grid.ones()
        solution = FFTPoisson(grid, conditions((end,) * len(shape)), c=2.0).solve(f)
        assert solution.converged
        if "V" not in end:
            np.testing.assert_allclose(solution.x.gather(), 0.5, rtol=1e-14)


def test_values_of_conditions_are_lifted():
    # u = t (x^2 - y^2 + x) is harmonic; its value is given at one side, its derivative at others.
    grid = da.Grid((12, 9))
    boundary = {
        "x-": da.Dirichlet(lambda t, x, y: t * (0 * x - y * y)),
        "x+": da.Neumann(lambda t, x, y: t * (3.0 + 0 * y)),
        "y-": da.Neumann(0.0),
        "y+": da.Neumann(-4.0),
    }
    poisson = FFTPoisson(grid, boundary)
    solution = poisson.solve(grid.zeros(), time=2.0)
    operator = EllipticOperator(grid, boundary=boundary)
    b, r = operator.zeros(), operator.zeros()
    operator.rhs(grid.zeros(), b, time=2.0)
    operator.residual(solution.x, b, r)
    assert float(da.norm(r)) <= 1e-11 * float(da.norm(b))
    exact = grid.from_function(lambda x, y: 2.0 * (x * x - y * y + x))
    assert float(abs(solution.x - exact).max()) < 0.02


@pytest.mark.parametrize("ends", [("VV", "VV"), ("FV", "P"), ("VF", "FF")])
def test_a_linear_solution_is_exact(ends):
    grid = box((7, 6), ends, coordinates={"x": np.linspace(0.0, 1.0, 8) ** 1.2})
    boundary = {
        "x-": da.Dirichlet(1.0) if ends[0][0] == "V" else da.Neumann(-3.0),
        "x+": da.Dirichlet(4.0) if ends[0][1] == "V" else da.Neumann(3.0),
    }
    if ends[1] == "VV":
        boundary |= {"y": da.Dirichlet(lambda t, x, y: 1.0 + 3.0 * x)}
    elif ends[1] == "FF":
        boundary |= {"y": da.Neumann(0.0)}
    solution = FFTPoisson(grid, boundary).solve(grid.zeros())
    exact = grid.from_function(lambda x, y: 1.0 + 3.0 * x + 0 * y)
    np.testing.assert_allclose(solution.x.gather(), exact.gather(), rtol=0, atol=1e-12)


def test_solve_into_drops_the_mean_and_scales():
    grid = da.Grid((8, 6), periodic=(True, False))
    f = grid.from_function(lambda x, y: np.sin(2 * np.pi * x) * np.cos(np.pi * y) + 5.0)
    poisson = FFTPoisson(grid, {"y": da.Neumann(0.0)})
    assert poisson.singular
    out = grid.zeros()
    poisson.solve_into(f, out)
    assert abs(float(out.mean())) < 1e-16
    twice = f.copy()
    poisson.solve_into(twice, twice, scale=-2.0)
    assert np.array_equal(twice.gather(), -2.0 * out.gather())


def test_the_solution_says_what_it_is():
    grid = da.Grid((8,))
    poisson = FFTPoisson(grid, {"x": da.Dirichlet(0.0)})
    solution = poisson.solve(grid.ones())
    assert (solution.iterations, solution.converged, solution.residuals[0]) == (1, True, 1.0)
    assert len(solution.residuals) == 2
    assert "is at most the tolerance 1e-10" in solution.reason
    # 1517 equations in numbers of 53 bits are not all met to 100 bits.
    rough = da.Grid((37, 41), periodic=True)
    f = rough.zeros()
    f[...] = np.random.default_rng(4).standard_normal(f.shape)
    missed = FFTPoisson(rough, c=1.0).solve(f, rtol=1e-30)
    assert not missed.converged
    assert 1e-30 < missed.residuals[1] < 1e-10
    assert "is above the tolerance 1e-30" in missed.reason
    zero = poisson.solve(grid.zeros())
    assert zero.converged
    assert zero.residuals == (0.0, 0.0)


def test_what_has_no_solution_is_refused():
    grid = da.Grid((8, 8))
    closed = FFTPoisson(grid, {"x": da.Neumann(0.0), "y": da.Neumann(0.0)})
    with pytest.raises(da.SolverError, match=r"has the mean 1, .* subtract the mean\."):
        closed.solve(grid.ones())
    flowing = FFTPoisson(grid, {"x": da.Neumann(1.0), "y": da.Neumann(0.0)})
    with pytest.raises(da.SolverError, match=r"has the mean 2, "):
        flowing.solve(grid.zeros())
    f = grid.zeros()
    f[3, 3] = np.nan
    with pytest.raises(da.SolverError, match="not finite"):
        closed.solve(f)


@pytest.mark.parametrize("rtol", [0.0, -1.0, 1.0, float("nan"), "small", True])
def test_tolerances_that_are_refused(rtol):
    grid = da.Grid((8,))
    poisson = FFTPoisson(grid, {"x": da.Dirichlet(0.0)})
    with pytest.raises(da.SolverError, match="rtol"):
        poisson.solve(grid.ones(), rtol=rtol)


def test_first_guesses_that_are_refused():
    grid = da.Grid((8,))
    poisson = FFTPoisson(grid, {"x": da.Dirichlet(0.0)})
    for guess, text in ((3, "x0 must be a DistArray"), (da.Grid((9,)).ones(), "another grid")):
        with pytest.raises(da.SolverError, match=text):
            poisson.solve(grid.ones(), guess)


def test_what_it_cannot_do_is_refused():
    grid = da.Grid((8, 8))
    closed = {"x": da.Neumann(0.0), "y": da.Neumann(0.0)}
    for text, call in {
        "Dirichlet or Neumann conditions, got Robin at y\\+; use": lambda: FFTPoisson(
            grid, closed | {"y+": da.Robin(1.0, 1.0, 0.0)}
        ),
        "c must be a number, got an array": lambda: FFTPoisson(grid, closed, c=grid.ones()),
        "must be float64 in the cells": lambda: FFTPoisson(grid, closed).solve(
            grid.zeros(location="x")
        ),
        "must be float64": lambda: FFTPoisson(grid, closed).solve(grid.zeros(np.float32)),
    }.items():
        with pytest.raises(da.SolverError, match=text.replace("(", r"\(")):
            call()
    with pytest.raises(da.SolverError, match="c must be a finite number of at least 0"):
        FFTPoisson(grid, closed, c=-1.0)
    other = da.Grid((4, 16)).zeros()
    with pytest.raises(da.SolverError, match="must be float64 in the cells"):
        FFTPoisson(grid, closed).solve_into(other, other)
    with pytest.raises(da.ArrayError, match="cannot take what map_lines makes"):
        FFTPoisson(grid, closed).solve_into(grid.zeros(), other)


@pytest.mark.parametrize("ends", [("FF", "VV", "FV"), ("VF", "P", "VV"), ("FV", "VF", "FF")])
def test_numpy_alone_gives_what_a_library_gives(ends, monkeypatch):
    pytest.importorskip("scipy")
    grid = da.Grid((9, 16, 12), periodic=tuple(end == "P" for end in ends))
    boundary = {
        f"{axis}{side}": ZERO[kind]
        for axis, kinds in zip("xyz", ends, strict=True)
        if kinds != "P"
        for side, kind in zip("-+", kinds, strict=True)
    }
    poisson = FFTPoisson(grid, boundary, c=0.5)
    rhs = da.random.normal(grid, seed=8)
    assert any(isinstance(step, da.fft.LineTransform) for _, step in poisson._forward)
    expected = poisson.solve(rhs)

    def missing(*_):
        raise da.UnsupportedError("neither is installed")

    monkeypatch.setattr(da.fft, "LineTransform", missing)
    found = FFTPoisson(grid, boundary, c=0.5).solve(rhs)
    assert found.converged
    assert expected.converged
    np.testing.assert_allclose(found.x.gather(), expected.x.gather(), rtol=1e-11, atol=1e-12)
    assert found.x.gather().tobytes() != expected.x.gather().tobytes()


def test_periodic_lines_are_transformed_by_ducc0_and_without_it_by_numpy(monkeypatch):
    pytest.importorskip("ducc0")
    grid = da.Grid((9, 16), periodic=(True, False))
    boundary = {"y": da.Dirichlet(0.0)}
    rhs = da.random.normal(grid, seed=8)

    def solved():
        poisson = FFTPoisson(grid, boundary)
        steps = [*(step for _, step in poisson._forward), poisson._modes_there_and_back[0]]
        names = sorted(getattr(step, "name", "numpy") for step in steps)
        return names, poisson.solve(rhs).x.gather()

    names, expected = solved()
    assert names == ["dht", "dst"]
    monkeypatch.setitem(sys.modules, "ducc0.fft", None)
    line_transforms.library.cache_clear()
    try:
        names, found = solved()
    finally:
        line_transforms.library.cache_clear()
    assert names == ["dst", "numpy"]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", [Hartley, *BY_ENDS.values()])
def test_transforms_of_lines_wherever_they_lie(kind):
    """Lines that lie 1 to 9 values apart, forward and backward in memory."""
    for length, apart in itertools.product((1, 2, 5, 8, 9), range(1, 10)):
        memory = np.random.default_rng(apart).random((length, apart))
        for lines in (memory[:, :2].T, memory[::-1, :2].T):
            transform, whole = kind(length), np.ascontiguousarray(lines)
            for way in (transform.forward, transform.backward):
                np.testing.assert_array_equal(way(lines), way(whole))


@pytest.mark.parametrize("shape", [(2, 5, 1), (1, 9, 2), (3, 6, 2)])
def test_few_lines_along_an_axis_between(shape):
    grid = da.Grid(shape)
    f = grid.empty()
    f[...] = np.random.default_rng(3).random(shape)
    assert FFTPoisson(grid, {name: da.Dirichlet(0.0) for name in "xyz"}).solve(f).converged
