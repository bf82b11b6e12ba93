"""Real transforms of lines that diagonalise the second difference of cells on a uniform axis.

With ends that mirror (zero normal derivative, N) or change the sign (zero value, D) the
eigenvectors of

    (u[i+1] - 2 u[i] + u[i-1]) / h^2,  i = 0 ... n - 1,

are cos(pi m (i + 1/2) / n) or sin(pi m (i + 1/2) / n) with eigenvalues -(2 sin(pi m / 2n) / h)^2:

    N N   cos, m = k         cosine transform of type II
    D D   sin, m = k + 1     sine transform of type II
    N D   cos, m = k + 1/2   cosine transform of type IV
    D N   sin, m = k + 1/2   sine transform of type IV

On a periodic axis they are cas(2 pi k i / n) = cos + sin with eigenvalues -(2 sin(pi k / n) / h)^2,
the Hartley transform. All are made from an FFT of each line by itself and from sums and
products with numbers that run along contiguous lines, so that the bits of a line do not depend on
how many lines are transformed together.

Signs are changed by products: `np.negative` into memory with gaps is wrong for input with strides
of 64 bytes (NumPy 2.4).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


class LineMap(Protocol):
    """A linear map of lines, and its inverse."""

    def forward(self, lines: Array) -> Array:
        """Coefficients of lines along the last axis."""

    def backward(self, lines: Array) -> Array:
        """Lines of coefficients along the last axis."""


class Transform(LineMap, Protocol):
    """A map of lines of `length` values, and the eigenvalues of the second difference."""

    length: int

    def __init__(self, length: int) -> None: ...

    def eigenvalues(self, spacing: float) -> Array:
        """Eigenvalue of the second difference for each coefficient."""


class Cosine:
    """DCT-II, `X[k] = sum_i x[i] cos(pi k (i + 1/2) / n)`, by one real FFT of n points.

    Makhoul, J. (1980) A fast cosine transform in one and two dimensions, IEEE Trans. ASSP 28(1),
    27-34: with v the even entries of x followed by the odd ones in reverse, and V its FFT, X[k] - i
    X[n-k] = exp(-i pi k / 2n) V[k].
    """

    def __init__(self, length: int) -> None:
        self.length = length
        angle = np.pi * np.arange(length // 2 + 1) / (2 * length)
        self._turn = np.cos(angle) - 1j * np.sin(angle)
        self._turn_back = self._turn.conj()

    def forward(self, lines: Array) -> Array:
        result = np.empty(lines.shape)
        self.forward_into(result, lines[..., ::2], lines[..., 1::2])
        return result

    def forward_into(self, result: Array, even: Array, odd: Array) -> None:
        """Coefficients of the lines with these even and odd entries."""
        half, size = (self.length + 1) // 2, self.length // 2 + 1
        result[..., :half], result[..., half:] = even, odd[..., ::-1]
        spectrum = np.fft.rfft(result)
        spectrum *= self._turn
        result[..., :size] = spectrum.real
        np.multiply(spectrum.imag[..., half - 1 : 0 : -1], -1.0, out=result[..., size:])

    def backward(self, lines: Array) -> Array:
        result = np.empty(lines.shape)
        self.backward_into(result[..., ::2], result[..., 1::2], lines)
        return result

    def backward_into(self, even: Array, odd: Array, lines: Array) -> None:
        """The even and odd entries of the lines with these coefficients."""
        n = self.length
        size = n // 2 + 1
        spectrum = np.empty((*lines.shape[:-1], size), np.complex128)
        spectrum.real = lines[..., :size]
        spectrum.imag[..., 0] = 0.0  # coefficient n is zero
        np.multiply(lines[..., : n - size : -1], -1.0, out=spectrum.imag[..., 1:])
        spectrum *= self._turn_back
        values = np.fft.irfft(spectrum, n)
        even[...] = values[..., : (n + 1) // 2]
        odd[...] = values[..., : (n + 1) // 2 - 1 : -1]

    def eigenvalues(self, spacing: float) -> Array:
        return _squares(np.arange(self.length), self.length, spacing)


class Sine:
    """DST-II, `X[k] = sum_i x[i] sin(pi (k + 1) (i + 1/2) / n)`: coefficient n - 1 - k of the
    DCT-II of (-1)^i x[i], since sin(pi (i + 1/2)) = (-1)^i and cos(pi (i + 1/2)) = 0.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._cosine = Cosine(length)

    def forward(self, lines: Array) -> Array:
        result = np.empty(lines.shape)
        self._cosine.forward_into(result, lines[..., ::2], -lines[..., 1::2])
        return result[..., ::-1]

    def backward(self, lines: Array) -> Array:
        result = np.empty(lines.shape)
        self._cosine.backward_into(result[..., ::2], result[..., 1::2], lines[..., ::-1])
        np.multiply(result[..., 1::2], -1.0, out=result[..., 1::2])
        return result

    def eigenvalues(self, spacing: float) -> Array:
        return _squares(np.arange(self.length) + 1, self.length, spacing)


class HalfCosine:
    """DCT-IV, `X[k] = sum_i x[i] cos(pi (k + 1/2) (i + 1/2) / n)`, its own inverse but for 2 / n.

    For even n by one complex FFT of n / 2 points: with w[j] = exp(-i pi (j + 1/8) / n) and Z the
    FFT of (x[2j] + i x[n-1-2j]) w[j], X[2k] - i X[n-1-2k] = w[k] Z[k]; the cosines of entry n-1-2j
    are, but for their sign, the sines of entry 2j.

    For odd n, of (x[0], ..., x[n-1], -x[n-1], ..., -x[0]) the terms of coefficient 2 k + 1 of the
    DCT-II are equal in pairs, so that it is twice X[k]. So for 2 as well: of one complex point in
    each line NumPy multiplies several lines together, and rounds by how many there are.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._cosine = Cosine(2 * length) if length % 2 or length == 2 else None
        angle = np.pi * (np.arange(length // 2) + 0.125) / length
        self._turn = np.cos(angle) - 1j * np.sin(angle)

    def forward(self, lines: Array) -> Array:
        if self._cosine is not None:
            twice = np.concatenate((lines, -lines[..., ::-1]), axis=-1)
            return 0.5 * self._cosine.forward(twice)[..., 1::2]
        pairs = np.empty((*lines.shape[:-1], self.length // 2), np.complex128)
        pairs.real, pairs.imag = lines[..., ::2], lines[..., ::-2]
        pairs *= self._turn
        pairs = np.fft.fft(pairs)
        pairs *= self._turn
        result = np.empty(lines.shape)
        result[..., ::2] = pairs.real
        np.multiply(pairs.imag[..., ::-1], -1.0, out=result[..., 1::2])
        return result

    def backward(self, lines: Array) -> Array:
        return self.forward(lines) * (2.0 / self.length)

    def eigenvalues(self, spacing: float) -> Array:
        return _squares(np.arange(self.length) + 0.5, self.length, spacing)


class HalfSine:
    """DST-IV, `X[k] = sum_i x[i] sin(pi (k + 1/2) (i + 1/2) / n)`: (-1)^k times coefficient k of
    the DCT-IV of the reversed line; its own inverse but for 2 / n.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._cosine, self._signs = HalfCosine(length), _alternating(length)

    def forward(self, lines: Array) -> Array:
        return self._cosine.forward(lines[..., ::-1]) * self._signs

    def backward(self, lines: Array) -> Array:
        return self._cosine.backward(lines * self._signs)[..., ::-1]

    def eigenvalues(self, spacing: float) -> Array:
        return self._cosine.eigenvalues(spacing)


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

    def eigenvalues(self, spacing: float) -> Array:
        return _squares(2 * np.arange(self.length), self.length, spacing)


#: The transform for the ends of an axis: whether the value (else the normal derivative) is zero.
BY_ENDS: dict[tuple[bool, bool], type[Transform]] = {
    (False, False): Cosine,
    (True, True): Sine,
    (False, True): HalfCosine,
    (True, False): HalfSine,
}


#: Name and type of the same in `da.fft`, but for a factor.
LIBRARY: dict[type[Any], tuple[str, int]] = {
    Cosine: ("dct", 2),
    Sine: ("dst", 2),
    HalfCosine: ("dct", 4),
    HalfSine: ("dst", 4),
    Hartley: ("dht", 2),  # by ducc0 alone
}


def _alternating(length: int) -> Array:
    return np.where(np.arange(length) % 2, -1.0, 1.0)


def _squares(mode: Any, length: int, spacing: float) -> Array:
    """-(2 sin(pi m / 2n) / h)^2"""
    values: Array = -np.square(2.0 * np.sin(np.pi * mode / (2 * length)) / spacing)
    return values
