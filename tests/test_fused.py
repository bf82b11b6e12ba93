"""Expressions of arrays against NumPy, one function after the other on the whole array; what is
written after an expression was; how many passes are made, and what memory they take.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import operator
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_array_equal

import distarray as da
from distarray import ArrayError, elementwise, spans
from distarray.fused import executor, node
from distarray.testing import wipe_halo
from tests.devices import current, host

SHAPE = (9, 11)
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


@pytest.fixture(params=["in pieces", "compiled"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small arrays are put off like large ones, and computed by NumPy or by compiled code."""
    monkeypatch.setattr(elementwise, "LEAST_SIZE", 1)
    monkeypatch.setattr(elementwise, "LEAST_ROW", 1)
    enough = -1 if request.param == "compiled" else 1 << 62
    monkeypatch.setattr(executor, "CELLS_BEFORE_COMPILING", enough)
    monkeypatch.setattr(executor, "_seen", _Seen() if request.param == "compiled" else {})
    return str(request.param)


class _Seen(dict[Any, tuple[int, int]]):
    """Every form was seen before."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key, (1, 0))


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid(SHAPE, periodic=True)


def field(grid: da.Grid, dtype: str = "float64", seed: int = 0, components: Any = ()) -> Any:
    """An array of random values, and the values."""
    random = np.random.default_rng(seed)
    values = random.integers(-3, 4, (*components, *grid.shape)) * (0.5 if dtype[0] == "f" else 1)
    u = grid.zeros(dtype, components=components)
    u[...] = values.astype(dtype)
    return u, values.astype(dtype)


def passes(run: Callable[[], Any]) -> list[int]:
    """Over how many cells each pass was that a call made."""
    with spans.record() as recording:
        run()
    return [event.tally.cells for event in recording.named("expression")]


def waits(u: da.DistArray) -> bool:
    return u.block.deferred is not None


def same(found: da.DistArray, expected: Any) -> None:
    assert found.dtype == expected.dtype
    values = found.gather()
    assert_array_equal(values, expected)
    if expected.dtype.kind == "f":
        signs = ~np.isnan(expected)
        assert_array_equal(np.signbit(values)[signs], np.signbit(expected)[signs])


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


# ---- errors come when the expression is written


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda u, other: u + other, "differ in shape or location"),
        (lambda u, other: u + "text", "does not combine with"),
        (lambda u, other: u + np.ones((2, 2, 2)), "does not broadcast with"),
        (lambda u, other: (u > 0) - (u > 1), "does not take bool and bool"),
        (lambda u, other: u.astype("int8") + 300, "does not take int8 and 300"),
        (lambda u, other: np.add(u, 1, where=u > 0), "with where="),
        (lambda u, other: np.add(u, 1.5, out=u.astype("int64")), "does not take float64"),
    ],
)
def test_refusals(grid: da.Grid, write: Callable[..., Any], message: str, how: str) -> None:
    u, _ = field(grid)
    other = grid.zeros(location="x") if message.startswith("differ") else u
    if message.startswith("differ"):
        other = da.Grid((8, 8)).zeros()
    with pytest.raises((da.ArrayError, da.UnsupportedError), match=message):
        write(u, other)


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


# ---- assignment


def test_assignment_is_one_pass_without_memory(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, a = field(grid)
    v, b = field(grid, seed=1)
    out, narrow = grid.zeros(), grid.zeros("float32")
    many = grid.zeros(components=(2,))
    made = allocations(monkeypatch, u)

    def compute() -> None:
        out[...] = 2 * u + v * v - 1

    assert passes(compute) == [99]
    narrow[...] = 2 * u + v / 3
    np.add(2 * u, v, out=many[1])
    out += 2 * v
    u[...] = 2 * u + v
    assert made == []
    assert_array_equal(narrow.gather(), (2 * a + b / 3).astype("float32"))
    assert_array_equal(many.gather(), np.stack([0 * a, 2 * a + b]))
    same(out, 2 * a + b * b - 1 + 2 * b)
    same(u, 2 * a + b)


def test_in_place_operators_are_one_pass(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, a = field(grid)
    v, b = field(grid, seed=1)
    made = allocations(monkeypatch, u)

    def compute() -> None:
        nonlocal u
        u += 0.5 * (v - u * u)
        u -= np.sin(u) * u
        u *= u + 1

    done = passes(compute)
    a = a + 0.5 * (b - a * a)
    a = a - np.sin(a) * a
    a = a * (a + 1)
    np.testing.assert_allclose(u.gather(), a, rtol=1e-12)
    if sys.version_info < (3, 14):  # where an operand without a name can be told
        assert made == []
        assert done == [99] * 3


def test_in_place_operators_leave_what_has_a_name(grid: da.Grid, how: str) -> None:
    u, a = field(grid)
    r = 2 * u + 1
    kept = [u - 3, u * u]

    def named(s: da.DistArray) -> None:
        nonlocal u
        u += s
        same(s, a * 5)

    u += r
    same(r, 2 * a + 1)
    same(kept[0], a - 3)
    a = u.gather()
    named(u * 5)
    a = u.gather()
    kept[0] = u - 3
    u -= kept[0]
    same(kept[0], a - 3)
    a = u.gather()
    u = operator.iadd(u, 2 * u)
    same(u, a + 2 * a)
    u += u
    same(u, 2 * (a + 2 * a))


def test_assignment_to_what_is_read_elsewhere(grid: da.Grid, how: str) -> None:
    u, a = field(grid, components=(3,))
    u[...] = u[1] * u + 1
    same(u, a[1] * a + 1)
    a = u.gather()
    u[0] = u[2] + u[1] * 2
    a[0] = a[2] + a[1] * 2
    same(u, a)
    np.multiply(u, u[0], out=u)
    same(u, a * a[0])


def test_what_is_assigned_to_a_narrower_type_may_be_kept(grid: da.Grid, how: str) -> None:
    u, a = field(grid, "float32")
    r = u * np.float64(1 / 3)
    u[...] = r
    same(u, (a * np.float64(1 / 3)).astype("float32"))
    same(r, a * np.float64(1 / 3))


def test_powers(grid: da.Grid, how: str) -> None:
    for dtype in ("float64", "float32", "int32"):
        u, a = field(grid, dtype)
        for exponent in (2, 2.0, 3, 0.5, np.float64(2.0)):
            with np.errstate(all="ignore"):
                same(u**exponent + u, np.power(a, exponent) + a)


def test_what_is_assigned_may_be_kept(grid: da.Grid, how: str) -> None:
    for dtype in ("float64", "int64", "bool"):
        u, a = field(grid, dtype)
        r = u == 1 if dtype == "bool" else 2 * u + 1
        expected = a == 1 if dtype == "bool" else 2 * a + 1
        later = np.logical_not(r)
        u[...] = r
        same(u, expected)
        same(r, expected)
        u[...] = r
        u[...] = np.zeros(SHAPE, dtype)
        same(r, expected)
        same(later, np.logical_not(expected))


# ---- passes and memory


def allocations(monkeypatch: pytest.MonkeyPatch, u: da.DistArray) -> list[int]:
    """The sizes of blocks that are made memory for from now on."""
    made: list[int] = []
    backend = type(u.block.backend)
    for name in ("allocate", "allocate_again"):
        plain = getattr(backend, name)

        def counted(self: Any, *args: Any, _plain: Any = plain) -> Any:
            memory = _plain(self, *args)
            made.append(memory.size)
            return memory

        monkeypatch.setattr(backend, name, counted)
    return made


def test_an_expression_is_one_pass(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, a = field(grid)
    v, b = field(grid, seed=1)
    made = allocations(monkeypatch, u)
    found: list[da.DistArray] = []
    done = passes(lambda: found.append(2 * u + np.sin(v) * u - v / 3))
    assert done == []
    assert made == []
    done = passes(lambda: found[0].local)
    assert done == [99]
    assert len(set(made)) == 1
    assert passes(lambda: found[0].local) == []
    np.testing.assert_allclose(found[0].gather(), 2 * a + np.sin(b) * a - b / 3, rtol=1e-14)


def test_forms_are_compiled_once_they_have_come_often(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []
    run = executor.run
    monkeypatch.setattr(executor, "run", lambda *args: ways.append(run(*args)))
    monkeypatch.setattr(executor, "CELLS_BEFORE_COMPILING", 3 * 99)
    monkeypatch.setattr(executor, "_seen", {})
    u, _ = field(grid)
    for number in range(5):
        (number * u + u).local  # noqa: B018
    if current() == "cpu":
        assert ways == ["in pieces"] * 3 + ["compiled"] * 2
        (u + 1).local  # noqa: B018
        assert len(ways) == 5  # a single function is NumPy's
        monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
        (2 * u + u).local  # noqa: B018
        assert ways[-1] == "in pieces"
    else:
        assert ways == ["compiled"] * 5


def test_what_is_dropped_is_never_computed(grid: da.Grid, how: str) -> None:
    u, values = field(grid)
    alive = weakref.ref(u.block)

    def drop(u: da.DistArray) -> None:
        for _ in range(5):
            assert waits(np.sin(u) + 1)

    assert passes(functools.partial(drop, u)) == []
    r = 2 * u + 1
    del u
    gc.collect()
    assert alive() is not None  # an expression keeps what it reads
    same(r, 2 * values + 1)
    gc.collect()
    assert alive() is None  # until it has its values


def test_parts_that_are_used_again(grid: da.Grid, how: str) -> None:
    u, a = field(grid)
    sine = np.sin(u)
    r, s = sine * 2 + u, sine * 3 - u
    assert len(passes(lambda: r.local)) == 2
    assert not waits(sine)  # costly, and it may be asked for
    assert len(passes(lambda: s.local)) == 1
    cheap = u * u
    r, s = cheap + 1 - u, cheap - 1 + u
    assert len(passes(lambda: r.local)) == 1
    assert waits(cheap)  # not costly
    assert len(passes(lambda: s.local)) == 2
    assert not waits(cheap)  # but needed for the second time
    same(r, a * a + 1 - a)
    same(s, a * a - 1 + a)
    both = u + 1
    same(both * both + both, (a + 1) * (a + 1) + (a + 1))


def test_long_sums_are_computed_in_parts(grid: da.Grid, how: str) -> None:
    u, a = field(grid)
    fields = [field(grid, seed=n) for n in range(30)]
    s, expected = u, a
    count = 0
    for _ in range(300):
        s, expected = s + u, expected + a
        deferred: Any = s.block.deferred
        assert deferred is None or deferred.steps <= node.MOST_STEPS
        count += deferred is None
    same(s, expected)
    s, expected = u, a
    for v, b in fields:
        s, expected = s * v + 1, expected * b + 1
        assert len(s.block.deferred.places) <= node.MOST_ARRAYS  # type: ignore[union-attr]
    same(s, expected)
    s, expected = u, a
    for _ in range(8):
        s, expected = s + s, expected + expected
    same(s, expected)


def test_an_expression_takes_memory_for_its_result_alone() -> None:
    grid = da.Grid((512, 512))
    if grid.device != "cpu":
        pytest.skip("counts memory of the host")
    u, v = grid.full(2.0), grid.full(3.0)
    (u - v / 3 + 1).local  # noqa: B018 - what is imported and kept at the first time
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        r = 2 * u + np.sin(v) * u - v / 3
        assert tracemalloc.get_traced_memory()[1] - before < r.nbytes // 20
        assert r[3, 4] == 2 * 2.0 + np.sin(3.0) * 2.0 - 3.0 / 3
        assert tracemalloc.get_traced_memory()[1] - before < 1.4 * r.nbytes
    finally:
        tracemalloc.stop()


def test_memory_of_results_is_used_again_when_nobody_sees_it() -> None:
    grid = da.Grid((512, 512), periodic=True)
    if grid.device != "cpu":
        pytest.skip("drivers keep memory themselves")

    @da.stencil
    def around(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0] + u[1, 0] + u[0, 1]

    u, new = grid.full(2.0), grid.zeros()
    r = 2 * u + 1
    around(r, new)
    address, kept = r.local.ctypes.data, r.local[3:5]
    del r
    s = 3 * u + 1
    s.local  # noqa: B018
    assert_array_equal(kept, 5.0)  # what is seen is not overwritten
    del kept
    gc.collect()
    found = set()
    for number in range(6):
        t = number * u + 1
        assert_array_equal(t.local, 2.0 * number + 1)
        assert t.padded[0, 0] == t.padded[0, 5] == t.padded[7, -1] == 0
        found.add(t.local.ctypes.data)
        del t
    assert len(found) <= 2
    assert address


def test_small_arrays_are_computed_at_once(grid: da.Grid) -> None:
    u, values = field(grid)
    r = 2 * u + 1
    assert not waits(r)
    same(r, 2 * values + 1)
