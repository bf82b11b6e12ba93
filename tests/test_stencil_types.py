"""Types of a kernel's values are NumPy's: compared with NumPy on arrays and Python numbers."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

from distarray.errors import StencilError
from distarray.stencil import calls
from distarray.stencil import language as da
from distarray.stencil.expression import ArrayParameter
from tests.stencil_tools import launch, run, traced

DTYPES = ["?", "i1", "i4", "i8", "u1", "u4", "u8", "f4", "f8", "c8", "c16"]
NUMBERS = [3, 2.5, 1 + 2j]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]


def type_of(function: Any, *dtypes: Any) -> Any:
    """The type of `function` of one array value for each dtype, as a kernel sees it."""
    found = []

    def kernel(a: Any, b: Any) -> Any:
        value = function(*(array[0] for array, _ in zip((a, b), dtypes, strict=False)))
        found.append(value.dtype)
        return da.reduce.sum(value)

    described = {
        name: ArrayParameter(name, np.dtype(dtype), (), (False,))
        for name, dtype in zip("ab", (*dtypes, "f8"), strict=False)
    }
    traced(kernel, 1, arrays=described)
    return found[0]


def outcome(function: Any, *arguments: Any) -> Any:
    """NumPy's dtype for a function, or None where it refuses."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments).dtype
    except TypeError:
        return None


@pytest.mark.parametrize("operation", ARITHMETIC)
def test_two_arrays_have_numpys_result_type(operation: Any) -> None:
    for left, right in itertools.product(DTYPES, DTYPES):
        expected = outcome(operation, np.ones(1, left), np.ones(1, right))
        if expected is None:
            with pytest.raises(StencilError, match="NumPy does not define"):
                type_of(operation, left, right)
        else:
            assert type_of(operation, left, right) == expected, (left, right)


@pytest.mark.parametrize("operation", ARITHMETIC)
def test_a_number_is_weak_on_either_side(operation: Any) -> None:
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        array, case = np.ones(1, dtype), (dtype, number)
        after = type_of(lambda a, n=number: operation(a, n), dtype)
        before = type_of(lambda a, n=number: operation(n, a), dtype)
        assert after == outcome(operation, array, number), case
        assert before == outcome(operation, number, array), case


@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(2)])
def test_a_numpy_scalar_from_outside_is_weak(number: Any) -> None:
    assert type_of(lambda a: number * a, "f4") == np.float32
    assert type_of(lambda a: a * number, "f4") == np.float32


UNARY = [np.sqrt, np.exp, np.sin, np.cbrt, np.rint, np.floor, np.sign, np.abs, np.negative, np.fabs]


@pytest.mark.parametrize("function", UNARY)
@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "f4", "f8"])
def test_functions_of_one_array(function: Any, dtype: str) -> None:
    assert type_of(function, dtype) == function(np.ones(1, dtype)).dtype


@pytest.mark.parametrize("dtype", ["i1", "u1", "?"])
def test_half_precision_is_refused_with_the_cure(dtype: str) -> None:
    assert np.sqrt(np.ones(1, dtype)).dtype == np.float16
    with pytest.raises(StencilError, match=r"computes in float16; convert with \.astype"):
        type_of(np.sqrt, dtype)


@pytest.mark.parametrize("other", [2, 2.5, 1j, "f4", "i2", "c8"])
def test_where_has_numpys_result_type(other: Any) -> None:
    for dtype in DTYPES:
        array = np.ones(1, dtype)
        if isinstance(other, str):
            expected = np.where([True], array, np.ones(1, other)).dtype
            found = type_of(lambda a, b: da.where(a != 0, a, b), dtype, other)
        else:
            expected = np.where([True], array, other).dtype
            found = type_of(lambda a: da.where(a != 0, a, other), dtype)
        assert found == expected, dtype


def test_where_of_two_numbers_is_no_scalar() -> None:
    assert type_of(lambda a: da.where(a > 0, 1.0, 0.0), "f4") == np.float64
    assert type_of(lambda a: da.where(a > 0, 1, 0), "f4") == np.int64


def test_positions_promote_as_arrays_do() -> None:
    assert type_of(lambda a: da.index(0) + 1, "f4") == np.int64
    assert type_of(lambda a: da.index(0) * a, "f4") == np.float64
    assert type_of(lambda a: da.coordinate(0) * a, "f4") == np.float64
    assert type_of(lambda a: da.spacing(0) * a, "f4") == np.float64


@pytest.mark.parametrize(("kind", "expected"), [(int, "f4"), (float, "f4"), (complex, "c8")])
def test_a_scalar_parameter_is_weak_whatever_its_kind(kind: Any, expected: str) -> None:
    found = []

    def kernel(u: Any, *, r: Any) -> None:
        found.append((u[0] * r).dtype)
        u[0] = u[0]

    single = {"u": ArrayParameter("u", np.dtype("f4"), (), (False,))}
    traced(kernel, 1, scalars={"r": kind}, arrays=single)
    assert found == [np.dtype(expected)]


def test_scalars_alone_are_computed_in_float64_and_cast_where_they_meet_an_array() -> None:
    def kernel(u: Any, *, a: Any, b: Any) -> None:
        u[0] = u[0] * (a / b + 1e-9)

    u = np.full(4, 3.0, np.float32)
    run(kernel, u, scalars={"a": 1.0, "b": 3.0})
    expected = np.float32(3.0) * np.float32(1.0 / 3.0 + 1e-9)
    assert u.tolist() == [expected] * 4


def test_integer_scalars_divide_as_python_does() -> None:
    def kernel(u: Any, *, n: Any) -> None:
        u[0] = n / 2 + n // 2 + n % 3 + n**2

    u = np.zeros(1)
    run(kernel, u, scalars={"n": 7})
    assert u[0] == 7 / 2 + 7 // 2 + 7 % 3 + 7**2


def test_truth_values_of_scalars_count_as_integers() -> None:
    def kernel(u: Any, *, n: Any) -> None:
        u[0] = (n > 3) + (n > 5)

    u = np.zeros(1)
    run(kernel, u, scalars={"n": 7})
    assert u[0] == 2


def test_a_write_casts_and_a_later_read_sees_the_cast_value() -> None:
    def kernel(u: Any, single: Any, out: Any) -> None:
        single[0] = u[0] / 3.0
        out[0] = single[0]

    u, single, out = np.array([1.0, 2.0]), np.zeros(2, np.float32), np.zeros(2)
    run(kernel, u, single, out)
    assert single.tolist() == (u / 3.0).astype(np.float32).tolist()
    assert out.tolist() == single.astype(np.float64).tolist()
    assert out[0] != u[0] / 3.0


def test_a_float_written_to_integers_is_truncated() -> None:
    def kernel(u: Any, n: Any) -> None:
        n[0] = u[0]

    n = np.zeros(4, np.int32)
    run(kernel, np.array([-1.7, -0.2, 0.9, 2.9]), n)
    assert n.tolist() == [-1, 0, 0, 2]


def test_an_integer_that_the_dtype_cannot_hold_is_refused() -> None:
    with pytest.raises(StencilError, match="combines the integer 300 with uint8"):
        type_of(lambda a: a + 300, "u1")
    with pytest.raises(StencilError, match="outside the range of int64"):
        type_of(lambda a: a + 2**63, "f8")


def test_signed_and_unsigned_64_bit_integers_have_no_common_comparison() -> None:
    with pytest.raises(StencilError, match="have no common type"):
        type_of(operator.lt, "i8", "u8")


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2, 0.5, 2.0, 1.7, -3.3, 7])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_powers_of_floats(exponent: Any, dtype: str) -> None:
    values = np.linspace(0.3, 7.7, 40, dtype=dtype)
    out = np.zeros(40, dtype)

    def kernel(u: Any, new: Any) -> None:
        new[0] = u[0] ** exponent

    run(kernel, values, out)
    expected = values.astype(np.float64) ** float(exponent)
    np.testing.assert_allclose(out, expected, rtol=4 * np.finfo(dtype).eps)
    if exponent in (0, 1, 2, -1, 0.5):  # NumPy's own short cuts, bit for bit
        assert out.tolist() == (values**exponent).tolist()


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 13])
def test_powers_of_integers_are_exact_and_wrap(exponent: int) -> None:
    values = np.arange(-9, 9)
    out = np.zeros(18, np.int64)

    def kernel(u: Any, new: Any) -> None:
        new[0] = u[0] ** exponent

    run(kernel, values, out)
    assert out.tolist() == (values**exponent).tolist()


def test_powers_that_are_refused() -> None:
    with pytest.raises(StencilError, match="raises int64 to a power that is no small constant"):
        type_of(operator.pow, "i8", "i8")
    with pytest.raises(StencilError, match="raises complex128 to a power"):
        type_of(lambda a: a**2.5, "c16")
    with pytest.raises(StencilError, match="raises int64 to a power"):
        type_of(lambda a: a**-1, "i8")


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_power_with_an_exponent_that_is_not_finite(value: float) -> None:
    def kernel(u: Any, new: Any) -> None:
        new[0] = u[0] ** value

    out = np.zeros(2)
    run(kernel, np.array([0.5, 2.0]), out)
    np.testing.assert_array_equal(out, np.array([0.5, 2.0]) ** value)


def test_weak_types_are_not_taken_for_dtypes() -> None:
    # np.dtype("f8") == float is true in Python.
    assert not calls.same_type(float, np.dtype("f8"))
    assert calls.same_type(np.dtype("f8"), np.dtype(np.float64))

    def kernel(u: Any, *, r: Any) -> None:
        u[0] = r

    bound, _ = launch(kernel, np.zeros(2), scalars={"r": 1.5})
    assert bound.program.stores[0].value.dtype is not float


def test_constants_of_scalars_alone_are_folded() -> None:
    def kernel(u: Any, *, r: Any) -> None:
        u[0] = da.where(True, 2.0, r) * u[0]

    bound, _ = launch(kernel, np.ones(2), scalars={"r": 1.5})
    functions = [type(node).__name__ for node in bound.program.stores[0].value.operands]
    assert functions == ["Constant", "Read"]
