"""Complex arithmetic by its real expansion, against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from distarray.complexmath import joined, product, quotient, scaled


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_products_quotients_and_multiples_of_whole_numbers(dtype: type) -> None:
    x, y = np.array([1 + 2j, 3 - 1j], dtype), np.array([3 - 4j, 2j], dtype)
    for found, expected in (
        (product(x, y), [11 + 2j, 2 + 6j]),
        (quotient(x, y), [(-5 + 10j) / 25, -0.5 - 1.5j]),
        (scaled(x, x.real.dtype.type(-2)), [-2 - 4j, -6 + 2j]),
        (product(x[0], y[1]), -4 + 2j),
    ):
        np.testing.assert_array_equal(found, np.array(expected, dtype))
        assert found.dtype == dtype


def test_infinite_parts_follow_the_formula() -> None:
    infinite, i = np.complex128(complex(math.inf, 0.0)), np.complex128(1j)
    with np.errstate(all="ignore"):
        found = product(infinite, i)
        assert np.isnan(quotient(i, np.complex128(0.0)))
    assert math.isnan(found.real)
    assert found.imag == math.inf


def test_each_operation_is_rounded_once() -> None:
    """With e = 2**-30: (1 + e)**2 = 1 + 2 e + e**2, whose last term is lost before (1 + 2 e) is
    taken away; a fused operation would keep it.
    """
    e = 2.0**-30
    x, y = np.complex128(complex(1 + e, 1.0)), np.complex128(complex(1 + e, 1 + 2 * e))
    assert product(x, y).real == 0.0


def test_parts_broadcast() -> None:
    found = joined(np.ones((2, 1)), np.arange(3.0))
    np.testing.assert_array_equal(found, [[1, 1 + 1j, 1 + 2j]] * 2)
