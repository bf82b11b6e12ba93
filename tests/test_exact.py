"""Exact sums against fractions and math.fsum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distarray import exact
from distarray.backends.cpu import CpuBackend

LOADS = {"compiled": CpuBackend().load, "numpy": None}
finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


def _sum(values):
    """The sum of finite numbers by rational arithmetic, rounded once."""
    number = sum(map(Fraction, values), Fraction(0))
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@pytest.fixture(params=list(LOADS))
def load(request):
    return LOADS[request.param]


@settings(deadline=None, max_examples=150)
@given(st.lists(finite, max_size=40), st.sampled_from(list(LOADS)))
def test_sum_is_the_rounded_sum_of_fractions(values, way):
    assert exact.total(exact.partial_sum(np.array(values, np.float64), LOADS[way])) == _sum(values)


@settings(deadline=None, max_examples=60)
@given(st.lists(finite, max_size=60), st.randoms(use_true_random=False))
def test_any_order_and_any_division_give_the_same_limbs(values, random):
    whole = exact.partial_sum(np.array(values, np.float64))
    random.shuffle(values)
    cut = random.randint(0, len(values))
    parts = [
        exact.partial_sum(np.array(part, np.float64), CpuBackend().load)
        for part in (values[:cut], values[cut:])
    ]
    np.testing.assert_array_equal(exact.carried(exact.merged(*parts)), whole)


@pytest.mark.parametrize(
    "values",
    [
        [1e308, 1e308, -1e308, -1e308, 1.0],
        [5e-324, 5e-324, -1.0, 1.0],
        [2.0**-1074, 2.0**-1022, 2.0**-960, 2.0**-959, -(2.0**-1060)],
        [1.0, 2.0**-53, 2.0**-106],
        [1.0, 2.0**-53],
        [-0.0],
        [],
    ],
)
def test_extreme_values(values, load):
    assert exact.total(exact.partial_sum(np.array(values, np.float64), load)) == _sum(values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, np.nan, np.inf], np.nan),
        ([np.inf, -np.inf], np.nan),
        ([np.inf, 1e308], np.inf),
        ([-np.inf, 1.0], -np.inf),
        ([1.7e308, 1.7e308], np.inf),
        ([-1.7e308, -1.7e308], -np.inf),
    ],
)
def test_what_is_not_finite(values, expected, load):
    np.testing.assert_equal(exact.total(exact.partial_sum(np.array(values), load)), expected)


@pytest.mark.parametrize("shape", [(3000,), (7, 1500), (2, 3, 4, 5, 6), (1, 1), (0, 3), ()])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_strided_arrays_of_any_rank(shape, dtype, load):
    rng = np.random.default_rng(3)
    values = (
        rng.standard_normal(tuple(2 * n for n in shape)) * 10.0 ** rng.integers(-3, 4)
    ).astype(dtype)
    view = values[tuple(slice(None, None, 2) for _ in shape)]
    assert exact.total(exact.partial_sum(view, load)) == math.fsum(
        view.astype(float).ravel().tolist()
    )


def test_bytes_in_the_other_order(load):
    values = np.arange(10.0).astype(np.dtype(np.float64).newbyteorder())
    assert exact.total(exact.partial_sum(values, load)) == 45.0


def test_complex_sums_are_two(load):
    rng = np.random.default_rng(4)
    values = rng.standard_normal(100) + 1j * rng.standard_normal(100)
    limbs = exact.partial_sum(values, load)
    assert limbs.shape == (2, exact.LENGTH)
    assert exact.total(limbs) == complex(math.fsum(values.real), math.fsum(values.imag))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8"])
def test_integers_are_summed_in_int64(dtype, load):
    values = np.arange(300).astype(dtype)
    assert exact.total(exact.partial_sum(values, load)) == sum(map(int, values))


def test_carried_digits_have_one_form():
    limbs = exact.carried(exact.partial_sum(np.array([-1.0])))
    assert ((limbs[: exact.DIGITS - 1] >= 0) & (limbs[: exact.DIGITS - 1] < 2**32)).all()
    assert limbs[exact.DIGITS - 1] == -1
    assert exact.total(limbs) == -1.0
    np.testing.assert_array_equal(exact.carried(limbs), limbs)


def test_many_equal_numbers_do_not_overflow_a_digit(load):
    values = np.broadcast_to(np.float64(2.0**32 - 1), (2**22,))
    assert exact.total(exact.partial_sum(values, load)) == (2.0**32 - 1) * 2**22
