"""Complex products and quotients by their real expansion, with the bits that compiled kernels give.

NumPy may contract or scale what it computes; here every real operation is rounded once, in the
order written down:

(a + ib)(c + id) = (ac - bd) + i(ad + bc),  (a + ib)/(c + id) = ((ac + bd) + i(bc - ad)) / (cc + dd)
"""

from __future__ import annotations

from typing import Any

import numpy as np


def joined(real: Any, imaginary: Any) -> Any:
    """The complex numbers with these parts, which broadcast; a scalar of scalars."""
    real, imaginary = np.broadcast_arrays(real, imaginary)
    value = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    value.real, value.imag = real, imaginary
    return value[()]


def product(one: Any, other: Any) -> Any:
    """The product of complex arrays or NumPy scalars of one dtype."""
    a, b, c, d = one.real, one.imag, other.real, other.imag
    return joined(a * c - b * d, a * d + b * c)


def quotient(one: Any, other: Any) -> Any:
    """The quotient of complex arrays or NumPy scalars of one dtype."""
    a, b, c, d = one.real, one.imag, other.real, other.imag
    size = c * c + d * d
    return joined((a * c + b * d) / size, (b * c - a * d) / size)


def scaled(values: Any, factor: Any) -> Any:
    """Complex values times real factors: each part times the factor."""
    return joined(values.real * factor, values.imag * factor)
