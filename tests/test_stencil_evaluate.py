"""The reference executor against a few lines of independent NumPy."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distarray import exact
from distarray.geometry import AxisGeometry
from distarray.regions import Box
from distarray.stencil import language as da
from distarray.stencil.evaluate import bind
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.launch import ArrayView, LaunchGeometry
from tests.stencil_tools import launch, run, traced

RANDOM = np.random.default_rng(2)


def identical(actual: Any, expected: Any) -> None:
    """Equal to the bit, but for the sign of a zero; NaN equals NaN."""
    np.testing.assert_array_equal(actual, expected)
    assert np.asarray(actual).dtype == np.asarray(expected).dtype


# ---- stencils


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_diffusion_in_three_dimensions(dtype: str) -> None:
    def diffuse(u: Any, new: Any, *, r: Any) -> None:
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
        new[0, 0, 0] = u[0, 0, 0] + r * (around - 6.0 * u[0, 0, 0])

    u = RANDOM.normal(size=(7, 8, 9)).astype(dtype)
    new = np.full_like(u, 7)
    run(diffuse, u, new, halo=1, scalars={"r": 0.1})
    c = u[1:-1, 1:-1, 1:-1]
    around = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
    around = around + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
    identical(new[1:-1, 1:-1, 1:-1], c + np.array(0.1, dtype) * (around - np.array(6, dtype) * c))
    new[1:-1, 1:-1, 1:-1] = 7
    assert (new == 7).all()  # nothing outside the box was written


def test_dimension_free_forms() -> None:
    def laplacian(u: Any, new: Any) -> None:
        total = -2.0 * u.ndim * u[...]
        for axis in range(u.ndim):
            total += u.shift(axis, 1) + u.shift(axis, -1)
        new[...] = total

    for ndim in (1, 2, 3):
        u = RANDOM.normal(size=(6,) * ndim)
        new = np.zeros_like(u)
        run(laplacian, u, new, halo=1)
        inner = (slice(1, -1),) * ndim
        expected = -2.0 * ndim * u[inner]
        for axis in range(ndim):
            beside = [np.roll(u, -step, axis)[inner] for step in (1, -1)]
            expected = expected + (beside[0] + beside[1])
        identical(new[inner], expected)


def test_components_helpers_closures_and_loops() -> None:
    weights = [0.25, 0.5, 0.25]

    def smooth(field: Any, axis: int) -> Any:
        return sum(w * field.shift(axis, d) for w, d in zip(weights, (-1, 0, 1), strict=True))

    def kernel(v: Any, out: Any) -> None:
        for number, component in enumerate(v):
            out[number][0, 0] = smooth(component, number % 2)
        assert len(v) == 3

    v = RANDOM.normal(size=(3, 6, 7))
    out = np.zeros_like(v)
    run(kernel, v, out, halo=1, ndim=2)
    for number in range(3):
        axis, field = number % 2, v[number]
        total = 0 + 0.25 * np.roll(field, 1, axis) + 0.5 * field + 0.25 * np.roll(field, -1, axis)
        identical(out[number, 1:-1, 1:-1], total[1:-1, 1:-1])


def test_components_of_a_tensor() -> None:
    def kernel(t: Any, out: Any) -> None:
        out[0] = t[1, 0][0] + t[0][1][1]

    t, out = RANDOM.normal(size=(2, 2, 5)), np.zeros(5)
    run(kernel, t, out, halo=1)
    identical(out[1:-1], t[1, 0, 1:-1] + t[0, 1, 2:])


def test_the_last_write_wins_and_reads_see_it() -> None:
    def kernel(u: Any, out: Any) -> None:
        before = u[0]
        u[0] = before + 1.0
        u[0] += u[0]
        out[0] = u[0] - before

    u, out = RANDOM.normal(size=5), np.zeros(5)
    start = u.copy()
    bound = run(kernel, u, out)
    after = (start + 1.0) + (start + 1.0)
    identical(u, after)
    identical(out, after - start)
    assert [store.parameter for store in bound.program.stores] == [0, 1]


def test_two_stores_do_not_see_each_other() -> None:
    def swap(a: Any, b: Any) -> None:
        a[0], b[0] = b[0], a[0]

    a, b = np.arange(4.0), np.arange(4.0) + 10
    run(swap, a, b)
    assert a.tolist() == [10, 11, 12, 13]
    assert b.tolist() == [0, 1, 2, 3]


def test_a_mask_chooses_stores_and_their_reads() -> None:
    def kernel(u: Any, a: Any, b: Any) -> None:
        a[0] = u[0]
        b[0] = u[3]

    u, a, b = np.arange(5.0), np.zeros(5), np.zeros(5)
    bound, box = launch(kernel, u, a, b)
    bound.run(box, mask=1)  # u[3] would lie outside
    bound.run(Box((0,), (2,)), mask=2)
    bound.run(Box((0,), (0,)))
    assert a.tolist() == [0, 1, 2, 3, 4]
    assert b.tolist() == [3, 4, 0, 0, 0]


def test_statics_are_plain_values_and_defaults_apply() -> None:
    def kernel(u: Any, out: Any, *, order: Any, scale: Any = 2.0) -> None:
        out[0] = scale * (u[1] if order == 1 else u[-1])

    u, out = np.arange(5.0), np.zeros(5)
    run(kernel, u, out, halo=1, statics={"order": 1})
    identical(out[1:-1], 2.0 * u[2:])
    run(kernel, u, out, halo=1, statics={"order": 2, "scale": 3.0})
    identical(out[1:-1], 3.0 * u[:-2])


def test_in_place_reads_see_the_values_before_the_pass() -> None:
    def kernel(u: Any) -> None:
        u[0] = u[-1] + u[1]

    u = np.arange(6.0)
    run(kernel, u, halo=1, in_place=True)
    assert u.tolist() == [0, 2, 4, 6, 8, 5]


# ---- functions


FUNCTIONS = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "divide": lambda a, b: a / b,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "hypot": np.hypot,
    "less": lambda a, b: (a < b) * 1.0,
    "select": lambda a, b: np.where((a < b) | ~(b > 0) & (a != 0) ^ (a >= b), a, b),
    "clip": lambda a, b: np.clip(a, -0.5, b),
    "divmod": lambda a, b: divmod(a, b)[0] - divmod(a, b)[1],
    "reflected": lambda a, b: 2.0 // a + 3.0 % b + 1.0 / a,
    "single": lambda a, b: np.sqrt(abs(a)) + np.sign(b) + np.floor(a) * np.ceil(b) - np.trunc(a),
    "tests": lambda a, b: np.isnan(a) * 1.0 + np.isinf(b) * 2.0 + np.isfinite(a + b) * 4.0,
    "logic": lambda a, b: np.logical_and(a, b) * 1.0 + np.logical_xor(a, 0.0) + np.logical_not(b),
    "rounded": lambda a, b: np.round(a * 3) + np.rint(b) + np.fabs(a) + np.positive(b),
    "powers": lambda a, b: np.square(a) + np.reciprocal(b) + a**2 + np.real(b) + np.imag(a),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_floats_give_numpys_bits(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]

    def kernel(a: Any, b: Any, out: Any) -> None:
        out[0] = function(a[0], b[0])

    special = np.array([0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3.0, -0.25], dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(special, special))
    out = np.zeros(64, dtype)
    run(kernel, a, b, out)
    with np.errstate(all="ignore"):
        expected = function(a, b)
    identical(out, expected.astype(dtype))


INTEGER_FUNCTIONS = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "product": lambda a, b: a * b - b,
    "extrema": lambda a, b: np.minimum(a, b) + 3 * np.maximum(a, b),
    "bits": lambda a, b: (a & b) | (a ^ b) + ~a,
    "shifts": lambda a, b: (a << 2) + (b >> 1),
    "absolute": lambda a, b: abs(a) + np.sign(b) * 2,
    "whole": lambda a, b: np.floor(a) + np.isnan(b) + np.isfinite(a),
}


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8"])
@pytest.mark.parametrize("name", INTEGER_FUNCTIONS)
def test_functions_of_integers(name: str, dtype: str) -> None:
    function = INTEGER_FUNCTIONS[name]

    def kernel(a: Any, b: Any, out: Any) -> None:
        out[0] = function(a[0], b[0])

    numbers = np.array([1, 2, 3, 7, 100, 127, 5, 64], dtype)
    signed = numbers * np.array([1, -1] * 4).astype(dtype) if dtype != "u1" else numbers
    a, b = (grid.ravel() for grid in np.meshgrid(signed, signed[::-1]))
    out = np.zeros(64, dtype)
    run(kernel, a, b, out)
    with np.errstate(all="ignore"):
        identical(out, function(a, b).astype(dtype))


def test_truth_values_combine_as_numpys_do() -> None:
    def kernel(a: Any, b: Any, out: Any) -> None:
        out[0] = (a[0] + b[0]) & ~(a[0] * b[0]) | np.maximum(a[0], b[0]) & np.minimum(a[0], b[0])

    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    out = np.zeros(4, bool)
    run(kernel, a, b, out)
    identical(out, (a + b) & ~(a * b) | np.maximum(a, b) & np.minimum(a, b))


TRANSCENDENTAL = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
    "arccosh arctanh cbrt"
)


def precise(function: Any, *operands: Any) -> Any:
    return function(*(operand.astype(np.longdouble) for operand in operands))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", TRANSCENDENTAL.split())
def test_transcendental_functions_are_within_two_units(name: str, dtype: str) -> None:
    function = getattr(np, name)

    def kernel(u: Any, out: Any) -> None:
        out[0] = function(u[0])

    low, high = {"arccosh": (1.0, 9.0)}.get(name, (0.01, 0.99))
    u = np.linspace(low, high, 2001, dtype=dtype)
    out = np.zeros_like(u)
    run(kernel, u, out)
    units = 1 if dtype == "f4" else 2
    assert (abs(out - precise(function, u)) <= units * np.spacing(abs(out))).all()


@pytest.mark.parametrize("function", [np.arctan2, np.power, np.hypot])
def test_transcendental_functions_of_two_values(function: Any) -> None:
    def kernel(a: Any, b: Any, out: Any) -> None:
        out[0] = function(a[0], b[0])

    a, b = RANDOM.uniform(0.1, 5.0, 500), RANDOM.uniform(-4.0, 4.0, 500)
    out = np.zeros(500)
    run(kernel, a, b, out)
    assert (abs(out - precise(function, a, b)) <= np.spacing(abs(out))).all()


def test_cube_roots_of_special_values() -> None:
    def kernel(u: Any, out: Any) -> None:
        out[0] = np.cbrt(u[0])

    u = np.array([0.0, -0.0, 27.0, -8.0, np.inf, -np.inf, np.nan, 5e-324, 1e308])
    out = np.zeros_like(u)
    run(kernel, u, out)
    np.testing.assert_array_max_ulp(out, np.cbrt(u), 1)


def test_special_values_make_no_warnings() -> None:
    def kernel(u: Any, n: Any, out: Any) -> None:
        out[0] = np.log(u[0]) + np.sqrt(u[0]) + 1.0 / u[0] + np.exp(1000 * u[0])
        n[0] = u[0] / 0.0

    u = np.array([0.0, -1.0, np.inf, np.nan])
    run(kernel, u, np.zeros(4, np.int32), np.zeros(4))  # warnings are errors in this suite


# ---- complex numbers

complexes = st.complex_numbers(max_magnitude=1e6, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(complexes, complexes.filter(lambda z: abs(z) > 1e-6))
def test_complex_arithmetic_is_its_real_expansion(x: complex, y: complex) -> None:
    def kernel(a: Any, b: Any, out: Any) -> None:
        out[0][0] = a[0] * b[0]
        out[1][0] = a[0] / b[0]
        out[2][0] = a[0] + 2.0 * b[0].conjugate()
        out[3][0] = abs(a[0]) + 1j * a[0].imag
        out[4][0] = a[0] ** 2 + np.square(b[0]) + np.reciprocal(b[0])

    out = np.zeros((5, 1), complex)
    run(kernel, np.array([x]), np.array([y]), out)
    a, b, c, d = x.real, x.imag, y.real, y.imag

    def product(a: float, b: float, c: float, d: float) -> complex:
        return complex(a * c - b * d, a * d + b * c)

    def quotient(a: float, b: float, c: float, d: float) -> complex:
        size = c * c + d * d
        return complex((a * c + b * d) / size, (b * c - a * d) / size)

    identical(out[0, 0], np.complex128(product(a, b, c, d)))
    identical(out[1, 0], np.complex128(quotient(a, b, c, d)))
    identical(out[2, 0], np.complex128(x + product(2.0, 0.0, c, -d)))
    identical(out[3, 0], np.complex128(np.hypot(a, b) + product(0.0, 1.0, b, 0.0)))
    squares = product(a, b, a, b) + product(c, d, c, d)
    identical(out[4, 0], np.complex128(squares + quotient(1.0, 0.0, c, d)))


def test_complex_exponential_and_comparison() -> None:
    def kernel(a: Any, out: Any, same: Any) -> None:
        out[0] = np.exp(a[0])
        same[0] = (a[0] == a[0].conj()) & np.isfinite(a[0])

    a = np.array([0.3 + 0.7j, -1.0 + 2.0j, 2.5 + 0j])
    out, same = np.zeros(3, complex), np.zeros(3, bool)
    run(kernel, a, out, same)
    np.testing.assert_allclose(out, [cmath.exp(z) for z in a], rtol=1e-15)
    assert same.tolist() == [False, False, True]


def test_single_precision_complex_scalars() -> None:
    def kernel(a: Any, *, z: Any) -> None:
        a[0] = z * a[0]

    a = np.array([1 + 2j, 3 - 1j], np.complex64)
    c, d = a.real.copy(), a.imag.copy()
    run(kernel, a, scalars={"z": 0.1 + 0.3j})
    x, y = np.float32(0.1), np.float32(0.3)
    identical(a.real, x * c - y * d)
    identical(a.imag, x * d + y * c)


# ---- positions


def test_the_global_index_wraps_on_a_periodic_axis() -> None:
    def kernel(n: Any) -> None:
        n[0, 0] = da.index(0) * 100 + da.index("y") % 3

    for periodic, rows in ((True, [7, 0, 1, 2]), (False, [7, 8, 9, 10])):
        n = np.zeros((4, 5), np.int64)
        run(kernel, n, start=(7, 2), cells=(8, 8), periodic=periodic)
        columns = [2, 3, 4, 5, 6]
        identical(n, np.array([[r * 100 + c % 3 for c in columns] for r in rows]))


def test_coordinates_and_spacings() -> None:
    faces = np.array([0.0, 0.5, 0.75, 2.0, 2.25])
    axes = (AxisGeometry(4, 1.0, 3.0, False), AxisGeometry(4, 0.0, 2.25, False, faces))

    def kernel(out: Any) -> None:
        out[0][0, 0] = da.coordinate(0)
        out[1][0, 0] = da.coordinate("x", "x") + da.spacing(0)
        out[2][0, 0] = da.coordinate(1)
        out[3][0, 0] = da.coordinate(1, "xy")
        out[4][0, 0] = da.spacing(1)

    out = np.zeros((5, 2, 4))
    traced_arrays = ArrayParameter("out", np.dtype("f8"), (5,), (False, False))
    program = traced(kernel, 2, arrays={"out": traced_arrays})
    geometry = LaunchGeometry((1, 0), (4, 4), (False, False), axes)
    bind(program, [ArrayView(out, (0, 0), (1, 0))], geometry).run(Box((0, 0), (2, 4)))
    whole = np.ones((2, 4))
    identical(out[0], whole * np.array([[1 + 1.5 * 0.5], [1 + 2.5 * 0.5]]))
    identical(out[1], whole * np.array([[1 + 1 * 0.5 + 0.5], [1 + 2 * 0.5 + 0.5]]))
    identical(out[2], whole * (0.5 * (faces[:-1] + faces[1:])))
    identical(out[3], whole * faces[:-1])
    identical(out[4], whole * np.diff(faces))


def test_profiles_run_along_one_axis() -> None:
    def kernel(p: Any, u: Any) -> None:
        u[0, 0] = p[1] - p[0] + p.shift(0, -1)

    profile = ArrayParameter("p", np.dtype("f8"), (), None, profile_axis=0)
    program = traced(kernel, 2, arrays={"p": profile})
    p, u = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.zeros((3, 2))
    views = [ArrayView(p, (1,), (0,)), ArrayView(u, (0, 0), (0, 0))]
    launched = bind(program, views, LaunchGeometry((0, 0), (3, 2), (False, False), None))
    launched.run(Box((0, 0), (3, 2)))
    identical(u, np.array([[3.0, 3.0], [6.0, 6.0], [12.0, 12.0]]))


# ---- related grids


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_fine_and_coarse_reads(start: int) -> None:
    def restrict(f: Any, c: Any) -> None:
        c[0] = f.fine[0] + 10 * f.fine[1]

    def prolong(c: Any, f: Any) -> None:
        f[0] = c.coarse[0] - c.coarse[-1]

    fine = np.arange(40.0) ** 2  # all cells of the fine grid, beginning at -4
    coarse = np.arange(24.0) ** 3  # all cells of the coarse grid, beginning at -4
    geometry = LaunchGeometry((start,), (16,), (False,), None)

    out = np.zeros(5)
    array = ArrayParameter("f", np.dtype("f8"), (), (False,), level=1)
    program = traced(restrict, 1, arrays={"f": array})
    views = [ArrayView(fine, (4 + start,), (start,)), ArrayView(out, (0,), (start,))]
    bind(program, views, geometry).run(Box((0,), (5,)))
    identical(
        out, np.array([fine[4 + 2 * i] + 10 * fine[5 + 2 * i] for i in range(start, start + 5)])
    )

    out = np.zeros(5)
    array = ArrayParameter("c", np.dtype("f8"), (), (False,), level=-1)
    program = traced(prolong, 1, arrays={"c": array})
    views = [ArrayView(coarse, (4 + 1,), (1,)), ArrayView(out, (0,), (start,))]
    bind(program, views, geometry).run(Box((0,), (5,)))
    expected = [coarse[4 + i // 2] - coarse[4 + i // 2 - 1] for i in range(start, start + 5)]
    identical(out, np.array(expected))


# ---- colours and reductions


def test_two_colours_relax_in_place() -> None:
    def relax(u: Any) -> Any:
        u[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])
        return da.reduce.sum(1)

    u = RANDOM.normal(size=(7, 8))
    expected = u.copy()
    bound, box = launch(relax, u, halo=1, colours=2, start=(3, 2))
    for colour, count in ((0, 15), (1, 15)):
        bound.reset_reductions()
        bound.run(box, colour=colour)
        assert bound.partials()[0].tolist() == [count]
        before = expected.copy()
        for i in range(1, 6):
            for j in range(1, 7):
                if (i - 1 + 3 + j - 1 + 2) % 2 == colour:
                    across = (
                        before[i + 1, j] + before[i - 1, j] + before[i, j + 1] + before[i, j - 1]
                    )
                    expected[i, j] = 0.25 * across
    identical(u, expected)


def test_reductions_of_floats_over_several_boxes() -> None:
    def kernel(u: Any, new: Any) -> Any:
        new[0] = 2 * u[0]
        change = new[0] - u[0]
        return (
            da.reduce.max(abs(change)),
            da.reduce.min(change),
            da.reduce.sum(u[0]),
            da.reduce.sum(u[0], reproducible=True),
        )

    u = RANDOM.normal(size=12)
    bound, _ = launch(kernel, u, np.zeros(12))
    for mask in (0b11110, -1, 1):  # the last writes only
        bound.run(Box((0,), (5,)) if mask == 0b11110 else Box((5,), (12,)), mask=mask)
    greatest, least, total, limbs = bound.partials()
    assert greatest.tolist() == [max(abs(u)), 0]
    assert least.tolist() == [min(u), 0]
    np.testing.assert_allclose(total, [u.sum()], rtol=1e-14)
    assert exact.total(limbs) == math.fsum(u)
    bound.reset_reductions()
    assert [partial[0] for partial in bound.partials()[:3]] == [-np.inf, np.inf, 0.0]


def test_nan_is_flagged_beside_the_extremum() -> None:
    def kernel(u: Any) -> Any:
        return da.reduce.max(u[0]), da.reduce.min(u[0])

    bound = run(kernel, np.array([1.0, np.nan, 3.0]))
    assert [partial.tolist() for partial in bound.partials()] == [[3.0, 1.0], [1.0, 1.0]]
    bound = run(kernel, np.array([np.nan]))
    assert [partial.tolist() for partial in bound.partials()] == [[-np.inf, 1.0], [np.inf, 1.0]]


@pytest.mark.parametrize("dtype", ["i4", "i8", "u8"])
def test_reductions_of_integers_are_exact(dtype: str) -> None:
    def kernel(n: Any) -> Any:
        return da.reduce.max(n[0]), da.reduce.min(n[0]), da.reduce.sum(n[0])

    great = np.iinfo(dtype).max - 1
    n = np.array([3, great, 7, 11], dtype)
    greatest, least, total = run(kernel, n).partials()
    assert greatest.tolist() == [great, 0]
    assert least.tolist() == [3, 0]
    assert total.tolist() == [int(n.astype(np.int64).sum())]


def test_complex_sums_counts_and_truth_values() -> None:
    def kernel(z: Any) -> Any:
        return (
            da.reduce.sum(z[0], reproducible=True),
            da.reduce.sum(z[0]),
            da.reduce.sum(z[0].real > 0),
            da.reduce.sum(1),
        )

    z = np.array([1 + 2j, -3 + 0.5j, 2 - 1j])
    limbs, total, positive, count = run(kernel, z).partials()
    assert exact.total(limbs) == z.sum()
    assert total.tolist() == [z.sum()]
    assert positive.tolist() == [2]
    assert count.tolist() == [3]
