"""Real transforms of lines that diagonalise the second difference on a uniform axis.

With walls at both ends (zero normal derivative) the eigenvectors of

    (phi[i+1] - 2 phi[i] + phi[i-1]) / h^2

are cos(pi k (i + 1/2) / n) with eigenvalues -(2 sin(pi k / 2n) / h)^2, the cosine transform of type
II; on a periodic axis they are cas(2 pi k i / n) = cos + sin with eigenvalues -(2 sin(pi k / n) /
h)^2, the Hartley transform. Both are made from a real FFT of each line by itself and from products
of real numbers, so that the bits of a line do not depend on how many lines are transformed
together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


class Transform(Protocol):
    """A linear map of lines of `length` values, its inverse, and the eigenvalues of the second
    difference.
    """

    length: int

    def forward(self, lines: Array) -> Array:
        """Coefficients of lines along the last axis."""

    def backward(self, lines: Array) -> Array:
        """Lines of coefficients along the last axis."""

    def eigenvalues(self, mode: Array, spacing: float) -> Array:
        """Eigenvalue of the second difference for each mode number (float64, whole)."""


class Cosine:
    """DCT-II, `X[k] = sum_i x[i] cos(pi k (i + 1/2) / n)`, by one real FFT of n points.

    Makhoul, J. (1980) A fast cosine transform in one and two dimensions, IEEE Trans. ASSP 28(1),
    27-34: with v the even entries of x followed by the odd ones in reverse, and V its FFT, X[k] - i
    X[n-k] = exp(-i pi k / 2n) V[k].
    """

    def __init__(self, length: int) -> None:
        self.length = length
        angle = np.pi * np.arange(length // 2 + 1) / (2 * length)
        self._cos, self._sin = np.cos(angle), np.sin(angle)

    def forward(self, lines: Array) -> Array:
        n = self.length
        spectrum = np.fft.rfft(
            np.concatenate((lines[..., ::2], lines[..., 1::2][..., ::-1]), axis=-1)
        )
        re, im = spectrum.real, spectrum.imag
        low = re * self._cos + im * self._sin
        high = re * self._sin - im * self._cos
        return np.concatenate((low, high[..., (n - 1) // 2 : 0 : -1]), axis=-1)

    def backward(self, lines: Array) -> Array:
        n = self.length
        low = lines[..., : n // 2 + 1]
        high = np.zeros_like(low)  # coefficient n is zero
        high[..., 1:] = lines[..., : n - n // 2 - 1 : -1]
        spectrum = np.empty(low.shape, np.complex128)
        spectrum.real = low * self._cos + high * self._sin
        spectrum.imag = low * self._sin - high * self._cos
        values = np.fft.irfft(spectrum, n)
        result = np.empty_like(values)
        result[..., ::2] = values[..., : (n + 1) // 2]
        result[..., 1::2] = values[..., : (n + 1) // 2 - 1 : -1]
        return result

    def eigenvalues(self, mode: Array, spacing: float) -> Array:
        return -np.square(2.0 * np.sin(np.pi * mode / (2 * self.length)) / spacing)


class Hartley:
    """`X[k] = sum_i x[i] (cos + sin)(2 pi k i / n)`, by one real FFT of n points; its own inverse
    but for 1 / n.

    Bracewell, R. N. (1983) Discrete Hartley transform, J. Opt. Soc. Am. 73(12), 1832-1835.
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def forward(self, lines: Array) -> Array:
        spectrum = np.fft.rfft(lines)
        low = spectrum.real - spectrum.imag
        high = spectrum.real + spectrum.imag
        return np.concatenate((low, high[..., (self.length - 1) // 2 : 0 : -1]), axis=-1)

    def backward(self, lines: Array) -> Array:
        return self.forward(lines) / self.length

    def eigenvalues(self, mode: Array, spacing: float) -> Array:
        return -np.square(2.0 * np.sin(np.pi * mode / self.length) / spacing)


def along(axis: int, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` of lines along the last axis, applied along another axis of a block."""
    return functools.partial(_apply, axis, function)


def _apply(axis: int, function: Callable[[Array], Array], block: Array) -> Array:
    if block.size == 0:
        return block
    with np.errstate(all="ignore"):  # a state that is no longer finite is for the solver to notice
        return function(block.swapaxes(axis, -1)).swapaxes(axis, -1)
