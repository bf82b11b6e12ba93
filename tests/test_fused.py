"""Expressions of arrays against NumPy, one function after the other on the whole array, whatever is
written after an expression was.
"""

# ruff: noqa: F811

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_array_equal

import distarray as da
from distarray import ArrayError
from distarray.fused import executor
from distarray.testing import wipe_halo
from tests.devices import current, host
from tests.fused_tools import SHAPE, field, grid, how, passes, same, waits  # noqa: F401

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
COMPARISONS = [np.less, np.less_equal, np.equal, np.not_equal, np.greater]
BINARY = [
    np.add, np.subtract, np.multiply, np.true_divide, np.minimum, np.maximum, np.hypot,
    np.floor_divide, np.remainder, np.power, np.logical_and, *COMPARISONS,
]  # fmt: skip
UNARY = [
    np.negative, np.absolute, np.sqrt, np.sin, np.exp, np.tanh, np.square, np.floor, np.sign,
    np.isfinite, np.logical_not,
]  # fmt: skip


# ---- values


@st.composite
def expressions(draw: Any, depth: int = 3) -> Any:
    """A function of a list of arrays, which may have been put into one of NumPy."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        number = draw(st.integers(0, 3))
        return lambda arrays: arrays[number]
    inner = draw(expressions(depth - 1))
    if draw(st.booleans()):
        function = draw(st.sampled_from(UNARY))
        return lambda arrays: function(inner(arrays))
    function = draw(st.sampled_from(BINARY))
    if draw(st.booleans()):
        other = draw(expressions(depth - 1))
        return lambda arrays: function(inner(arrays), other(arrays))
    number = draw(
        st.sampled_from([True, 0, 2, 3, 0.5, -1.25, np.float32(1.5), np.float64(2.5), np.int64(7)])
    )
    if draw(st.booleans()):
        return lambda arrays: function(inner(arrays), number)
    return lambda arrays: function(number, inner(arrays))


def check_expressions(examples: int) -> None:
    """Draw expressions, the same in every run: those that are compiled are found in the cache."""

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(expression=expressions(), dtypes=st.tuples(*[st.sampled_from(DTYPES)] * 4))
    def check(expression: Any, dtypes: tuple[str, ...]) -> None:
        grid = da.Grid(SHAPE, periodic=True)
        pairs = [field(grid, dtype, n) for n, dtype in enumerate(dtypes)]
        expected: Any = None
        with contextlib.suppress(TypeError, ValueError), np.errstate(all="ignore"):
            expected = expression([values for _, values in pairs])
        if expected is None:  # the same is refused, and when it is written
            with pytest.raises((da.ArrayError, da.UnsupportedError), match=r"not take|not supp"):
                expression([u for u, _ in pairs])
            return
        with contextlib.suppress(da.UnsupportedError):  # NumPy's float16 on the way
            same(expression([u for u, _ in pairs]), expected)
            compared.append(expected.dtype)

    compared: list[Any] = []
    check()
    assert len(compared) > examples // 2
    assert len(set(compared)) > 2


def test_expressions_have_the_bits_and_types_of_numpy(how: str) -> None:
    if current() != "cpu":
        pytest.skip("functions of a device have their own last bits")
    check_expressions(15 if how == "compiled" else 100)


@pytest.mark.slow
def test_many_expressions_have_the_bits_and_types_of_numpy(how: str) -> None:
    if current() != "cpu":
        pytest.skip("functions of a device have their own last bits")
    check_expressions(200 if how == "compiled" else 2000)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex128"])
def test_numbers_change_without_another_form(grid: da.Grid, dtype: str, how: str) -> None:
    u, values = field(grid, dtype)
    v, others = field(grid, dtype, 1)
    for number in (2, 3, 100):
        same(number * u + v - u * number, number * values + others - values * number)
    assert len(executor._seen) <= 1


def test_complex_numbers_follow_the_real_expansion(grid: da.Grid, how: str) -> None:
    u, a = field(grid, "complex128")
    v, b = field(grid, "complex128", 1)
    u += 1j * v
    a = a + 1j * b
    found = (u * v + u / (v + 2j) - (1 + 2j) * np.conjugate(u)).gather()
    re = a.real * b.real - a.imag * b.imag
    im = a.real * b.imag + a.imag * b.real
    size = b.real**2 + 4.0
    re += (a.real * b.real + a.imag * 2.0) / size - (a.real + 2.0 * a.imag)
    im += (a.imag * b.real - a.real * 2.0) / size - (2.0 * a.real - a.imag)
    np.testing.assert_allclose(found, re + 1j * im, rtol=1e-14, atol=1e-14)


def test_the_bits_of_a_function_do_not_depend_on_what_it_stands_in(grid: da.Grid, how: str) -> None:
    """Alone, NumPy computes it; within more, compiled code may."""
    u, _ = field(grid)
    u[...] = np.random.default_rng(5).uniform(-30, 30, SHAPE)
    for function in (np.sin, np.cos, np.tan, np.tanh, np.exp, np.expm1, np.arctan, np.cbrt, np.log):
        alone = function(u)
        before = alone.gather()
        same(function(u) + 0.0 * u, before + 0.0 * u.gather())
        same(alone * 1.0, before)


def test_components_broadcast(grid: da.Grid, how: str) -> None:
    u, a = field(grid, components=(3,))
    v, b = field(grid, seed=1)
    w, c = field(grid, seed=2, components=(2, 3))
    same(2 * u + v * v, 2 * a + b * b)
    same(w * u - v / 4, c * a - b / 4)
    same(u[1] + 2 * u[0] * v, a[1] + 2 * a[0] * b)


@pytest.mark.parametrize("location", [None, "x", "xy"])
def test_results_are_arrays_in_every_respect(grid: da.Grid, location: str | None, how: str) -> None:
    grid = da.Grid(SHAPE, halo=(2, 1))
    u = grid.full(3.0, location=location, boundary={"x": da.Dirichlet(1.0)}, halo=(2, 1))
    r = 2 * u + 1
    plain = u.copy()
    assert isinstance(r, da.DistArray)
    assert type(r) is type(u)
    for name in ("shape", "ndim", "size", "nbytes", "dtype", "halo", "location", "ranks", "device",
                 "local_shape", "local_slices", "components"):  # fmt: skip
        assert getattr(r, name) == getattr(plain, name), name
    assert r.grid is grid
    assert not r.boundary
    assert r.block.version == 0
    assert repr(r) == repr(plain)
    assert waits(r)
    expected = 2 * u.gather() + 1
    assert host(r.padded).shape == host(plain.padded).shape
    assert not waits(r)
    inside = tuple(slice(h, -h or None) for h in r.halo)
    framed = host(r.padded).copy()
    assert_array_equal(framed[inside], expected)
    framed[inside] = 0
    assert not framed.any()  # a halo that nobody has asked for is zero
    for read in (
        lambda a: a[1, 2], lambda a: a[1:3].gather(), lambda a: a.sum(), lambda a: a.max(),
        lambda a: a.argmax(), lambda a: a.mean(axis=0).gather(), lambda a: a.copy().gather(),
        lambda a: a.astype("float32").gather(), np.asarray, lambda a: da.dot(a, a),
        lambda a: np.where(a > 6, a, 0).gather(), lambda a: np.array_equal(a, a),
        lambda a: a.local.sum(),
    ):  # fmt: skip
        whole = np.asarray(read(2 * u + 1))
        other = grid.empty_like(r)
        other[...] = expected
        assert_array_equal(whole, np.asarray(read(other)))


def test_kernels_take_expressions(grid: da.Grid, how: str) -> None:
    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0]

    u, values = field(grid)
    new = grid.zeros()
    shift(2 * u + 1, new)
    assert_array_equal(new.gather(), np.roll(2 * values + 1, 1, axis=0))
    found = da.iterate(shift, u - 1, new, steps=3)
    assert_array_equal(found.gather(), np.roll(values - 1, 3, axis=0))


def test_powers(grid: da.Grid, how: str) -> None:
    for dtype in ("float64", "float32", "int32"):
        u, a = field(grid, dtype)
        for exponent in (2, 2.0, 3, 0.5, np.float64(2.0)):
            with np.errstate(all="ignore"):
                same(u**exponent + u, np.power(a, exponent) + a)


# ---- errors come when the expression is written


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda u: u + da.Grid((8, 8)).zeros(), "differ in shape or location"),
        (lambda u: u + u.grid.zeros(location="x"), "differ in shape or location"),
        (lambda u: u + "text", "does not combine with"),
        (lambda u: u + np.ones((2, 2, 2)), "does not broadcast with"),
        (lambda u: (u > 0) - (u > 1), "does not take bool and bool"),
        (lambda u: u.astype("int8") + 300, "does not take int8 and 300"),
        (lambda u: np.add(u, 1, where=u > 0), "with where="),
        (lambda u: np.add(u, 1.5, out=u.astype("int64")), "does not take float64"),
    ],
)
def test_refusals(grid: da.Grid, write: Callable[..., Any], message: str, how: str) -> None:
    u, _ = field(grid)
    with pytest.raises((da.ArrayError, da.UnsupportedError), match=message):
        write(u)


# ---- what is written later does not change a value


def writes(u: da.DistArray, grid: da.Grid) -> list[Callable[[], Any]]:
    """Every way to write an array of floats."""

    @da.stencil
    def set_to(new: Any, *, value: float) -> None:
        new[0, 0] = value

    @da.stencil
    def grow(u: Any, new: Any) -> None:
        new[0, 0] = u[0, 0] + 1.0

    def lend() -> None:
        with u.writing() as values:
            values[...] = 7.0

    other = grid.zeros()
    points = grid.points([(0.3, 0.4)])
    return [
        lambda: u.fill(7.0),
        lambda: operator.setitem(u, (2, 3), 7.0),
        lambda: operator.setitem(u, slice(1, 3), 7.0),
        lambda: operator.setitem(u, ..., other + 7.0),
        lambda: operator.setitem(u, ..., u + 7.0),
        lambda: operator.iadd(u, 7.0),
        lambda: np.multiply(u, 3.0, out=u),
        lambda: np.sin(u, out=u),
        lambda: set_to(u, value=7.0),
        lambda: grow(other, u),
        lambda: da.iterate(grow, other, u, steps=5),
        lambda: da.iterate(grow, u, other, steps=4, tile=2),
        lambda: points.add(u, 3.0),
        lend,
        lambda: wipe_halo(u),
    ]


@pytest.mark.parametrize("number", range(15))
def test_an_expression_has_the_values_of_when_it_was_written(
    grid: da.Grid, number: int, how: str
) -> None:
    grid = da.Grid(SHAPE, periodic=True)
    u, values = field(grid)
    write = writes(u, grid)[number]
    write()  # plans that are kept write without asking for memory again
    u[...] = values
    r = 2 * u + 1
    s = r * u
    assert waits(s)
    write()
    same(r, 2 * values + 1)
    same(s, (2 * values + 1) * values)


@pytest.mark.parametrize("number", range(15))
def test_a_write_to_an_array_that_waits_itself(number: int, how: str) -> None:
    """What was made of it keeps its values, and it has those of an array that did not wait."""
    grid = da.Grid(SHAPE, periodic=True)
    v, values = field(grid)
    u = v + 0.5
    r = 2 * u + 1
    s = r * u
    write = writes(u, grid)[number]
    assert waits(u)
    assert waits(s)
    write()
    same(s, (2 * (values + 0.5) + 1) * (values + 0.5))
    same(r, 2 * (values + 0.5) + 1)
    other = grid.zeros()
    other[...] = values + 0.5
    writes(other, grid)[number]()
    same(u, other.gather())


def test_an_array_that_waits_takes_what_was_made_of_it(grid: da.Grid, how: str) -> None:
    v, values = field(grid)
    for write, expected in (
        (lambda u, r: operator.setitem(u, ..., r), lambda x: 2 * x),
        (lambda u, r: operator.setitem(u, ..., r + u), lambda x: 3 * x),
        (operator.imul, lambda x: 2 * x * x),
        (lambda u, r: np.subtract(r, 1.0, out=u), lambda x: 2 * x - 1),
    ):
        u = v + 0.5
        r = 2 * u
        assert waits(u)
        write(u, r)
        same(r, 2 * (values + 0.5))
        same(u, expected(values + 0.5))


def test_callbacks_may_keep_expressions(grid: da.Grid, how: str) -> None:
    @da.stencil
    def grow(u: Any, new: Any) -> None:
        new[0, 0] = u[0, 0] + 1.0

    u, values = field(grid)
    kept = []
    da.iterate(
        grow, u, grid.zeros(), steps=6, every=2,
        callback=lambda steps, time, arrays: kept.append(2 * arrays[0] + steps),
    )  # fmt: skip
    for count, r in zip((2, 4, 6), kept, strict=True):
        same(r, 2 * (values + count) + count)


def test_points_that_a_condition_fixes_later(how: str) -> None:
    grid = da.Grid(SHAPE)
    u = grid.full(3.0, location="x")
    r = 2 * u + 1
    u.boundary["x-"] = da.Dirichlet(5.0)
    assert_array_equal(r.gather(), np.full((10, 11), 7.0))
    assert u[0, 0] == 5.0
    s = u + u
    s.boundary["x"] = da.Dirichlet(0.0)
    assert s[0, 0] == s[-1, 0] == 0
    r = 2 * u + 1
    u[...] = r
    assert (r[0, 0], u[0, 0], r[1, 0], u[1, 0]) == (11.0, 5.0, 7.0, 7.0)


def test_an_array_that_is_lent_for_writing_is_read_at_once(grid: da.Grid, how: str) -> None:
    u, values = field(grid)
    with u.writing() as lent:
        r = 2 * u
        assert not waits(r)
        lent[...] = 0.0
    same(r, 2 * values)


def test_a_write_that_forgets_its_readers_is_an_error(grid: da.Grid, how: str) -> None:
    u, _ = field(grid)
    r = 2 * u
    with pytest.raises(ArrayError, match="still to be computed"):
        u.block.changed()
    assert waits(r)


def test_numbers_that_are_arrays_are_copied(grid: da.Grid, how: str) -> None:
    u, values = field(grid)
    number = np.array(2.0)
    r = number * u + 1
    number[...] = 5.0
    same(r, 2.0 * values + 1)
    whole = np.arange(99.0).reshape(SHAPE)
    r = whole * u + 1
    whole[...] = 0
    same(r, np.arange(99.0).reshape(SHAPE) * values + 1)
