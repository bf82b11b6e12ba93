"""Sums without rounding: the same bits in any order, on any number of ranks. Pure, but for an
optional compiled loop.

A sum of floating-point numbers is kept as *limbs*: int64 digits of weight 2**(32 * l - 1088), wide
enough to hold every finite float64, two more for carries, and then three counts, of NaN, +infinity
and -infinity. Adding limbs, by MPI too, adds the sums. The result is rounded once, at the end.
Complex sums are two rows of limbs; sums of integers are int64.

Values are taken apart in slices of 32 bits, all numbers of a strip at once: with the unit 2**w of
the leading slice, trunc(x / 2**w) is exact, and so is what remains of x. A strip needs one pass per
slice that its numbers span.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from distarray.arraylike import HostArray

Limbs = np.ndarray[Any, np.dtype[np.int64]]

DIGITS = 68
LENGTH = DIGITS + 3  # digits, then the counts
_BITS = 32
_MASK = (1 << _BITS) - 1
_BASE = -1088  # exponent of digit 0; below the least subnormal, 2**-1074
_STRIP = (
    1 << 20
)  # numbers whose slices still add without rounding in float64: 2**20 * 2**32 < 2**53

#: Helpers for generated C text too; `x` has room for a whole number of groups of 8 and is used up.
C_HELPERS = """\
#define EXACT_DIGITS 68
#define EXACT_LENGTH (EXACT_DIGITS + 3)
#define EXACT_INFINITY INT64_C(0x7ff0000000000000)

static inline int64_t exact_bits(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & INT64_MAX;
}

static inline double exact_power(int64_t exponent) {  /* 2**exponent, normal */
  const int64_t bits = (exponent + 1023) << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static int64_t exact_largest(const double *x, int64_t n) {
  int64_t top = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t bits = exact_bits(x[i]);
    top = bits > top ? bits : top;
  }
  return top;
}

/* Counts and removes what is not finite. */
static void exact_count(int64_t *limbs, double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (exact_bits(x[i]) >= EXACT_INFINITY) {
      limbs[EXACT_DIGITS + (x[i] != x[i] ? 0 : x[i] > 0 ? 1 : 2)]++;
      x[i] = 0;
    }
}

/* Adds the multiples of 2**w in x to one digit and leaves the rest in x. */
static int64_t exact_slice(double *x, int64_t n, int64_t w) {
  const double scale = exact_power(-w), unit = exact_power(w);
  double lane[8] = {0};
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t l = 0; l < 8; l++) {
      const double multiple = __builtin_trunc(x[i + l] * scale);
      lane[l] += multiple;
      x[i + l] -= multiple * unit;
    }
  int64_t sum = 0;
  for (int64_t l = 0; l < 8; l++) sum += (int64_t)lane[l];
  return sum;
}

/* Adds n <= 1024 numbers to the limbs. */
static void exact_add(int64_t *limbs, double *x, int64_t n) {
  int64_t scaled = 0;
  for (; n % 8; n++) x[n] = 0;
  int64_t top = exact_largest(x, n);
  if (top >= EXACT_INFINITY) {
    exact_count(limbs, x, n);
    top = exact_largest(x, n);
  }
  while (top) {
    const int64_t exponent = (top >> 52 ? top >> 52 : 1) - 1023;
    const int64_t digit = (exponent + 1088) >> 5, w = 32 * digit - 1088;
    if (w < -960) {  /* 2**-w would overflow */
      for (int64_t i = 0; i < n; i++) x[i] *= 0x1p128;
      scaled = 4;
    } else
      limbs[digit - scaled] += exact_slice(x, n, w);
    top = exact_largest(x, n);
  }
}

/* Brings all digits but the last into 0 ... 2**32 - 1. */
static void exact_carry(int64_t *limbs) {
  for (int64_t l = 0; l + 1 < EXACT_DIGITS; l++) {
    const int64_t carry = limbs[l] >> 32;
    limbs[l] -= carry * (INT64_C(1) << 32);
    limbs[l + 1] += carry;
  }
}
"""

C_SOURCE = (
    "#include <stdint.h>\n#include <string.h>\n\n"
    + C_HELPERS
    + """
/* Adds a strided array of four axes, of double or float, to the limbs. */
void exact_sum(const char *data, const int64_t *n, const int64_t *stride, int64_t single,
               int64_t *limbs) {
  double strip[1024];
  for (int64_t i = 0; i < n[0]; i++) {
    for (int64_t j = 0; j < n[1]; j++)
      for (int64_t k = 0; k < n[2]; k++) {
        const char *row = data + i * stride[0] + j * stride[1] + k * stride[2];
        for (int64_t begin = 0; begin < n[3]; begin += 1024) {
          const int64_t count = n[3] - begin < 1024 ? n[3] - begin : 1024;
          const char *p = row + begin * stride[3];
          if (single)
            for (int64_t l = 0; l < count; l++) strip[l] = *(const float *)(p + l * stride[3]);
          else if (stride[3] == sizeof(double))
            memcpy(strip, p, count * sizeof(double));
          else
            for (int64_t l = 0; l < count; l++) strip[l] = *(const double *)(p + l * stride[3]);
          exact_add(limbs, strip, count);
        }
      }
    exact_carry(limbs);
  }
}
"""
)

_LOOPS = 4


def partial_sum(values: HostArray, load: Callable[[str, str], Any] | None = None) -> Limbs:
    """The exact sum of an array's elements, to be added to those of other ranks. Local.

    Parameters
    ----------
    values : array of bool, integers, float32, float64 or complex
    load : the `load` of a backend for C text; NumPy does the work without it or where nothing
    compiles.

    Returns
    -------
    int64 array: (1,) for integers, (LENGTH,) for floats, (2, LENGTH) for complex numbers; digits
    are carried.
    """
    values = np.asarray(values)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "biu":
        return np.array([values.sum(dtype=np.int64)])
    if values.dtype.kind == "c":
        return np.stack([partial_sum(values.real, load), partial_sum(values.imag, load)])
    limbs: Limbs = np.zeros(LENGTH, np.int64)
    function = None if load is None else load(C_SOURCE, "exact_sum")
    if function is None or values.dtype.itemsize > np.dtype(np.float64).itemsize:
        for strip in _strips(values):
            _add(limbs, strip)
    else:
        _add_compiled(
            function, limbs, values if values.dtype.itemsize > 2 else values.astype(np.float32)
        )
    return carried(limbs)


def carried(limbs: Limbs) -> Limbs:
    """The same sum in its one form: digits in 0 ... 2**32 - 1, the sign in the last."""
    if limbs.ndim > 1:
        return np.stack([carried(row) for row in limbs])
    # Integers of Python: ten times as fast as NumPy on one number after the other.
    digits, carry = limbs.tolist(), 0
    for place in range(DIGITS - 1):
        carry += digits[place]
        digits[place] = carry & _MASK
        carry >>= _BITS
    digits[DIGITS - 1] += carry
    return np.array(digits, np.int64)


def merged(first: Limbs, second: Limbs) -> Limbs:
    """The sum of two partial sums: what MPI does with them elementwise."""
    return first + second


def total(limbs: Limbs) -> int | float | complex:
    """The value of a sum, rounded once to float64, ties to even.

    NaN where a NaN or both infinities entered; an infinity where one of them entered or the sum is
    too large.
    """
    if limbs.ndim == 2:
        return complex(_rounded(limbs[0]), _rounded(limbs[1]))
    return int(limbs[0]) if limbs.size == 1 else _rounded(limbs)


def _rounded(limbs: Limbs) -> float:
    nan, above, below = (bool(count) for count in limbs[DIGITS:])
    if nan or (above and below):
        return float("nan")
    if above or below:
        return float("inf") if above else float("-inf")
    number = sum(int(digit) << (_BITS * place) for place, digit in enumerate(limbs[:DIGITS]))
    try:
        return number / (1 << -_BASE)  # true division of integers is rounded correctly
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _strips(values: HostArray) -> Iterator[HostArray]:
    """The values as new float64 vectors that `_add` may use up."""
    if values.size <= _STRIP:
        yield values.astype(np.float64).ravel()
    elif values.ndim > 1:
        for part in values:
            yield from _strips(part)
    else:
        for begin in range(0, values.size, _STRIP):
            yield values[begin : begin + _STRIP].astype(np.float64)


def _add(limbs: Limbs, x: HostArray) -> None:
    """`exact_add` of the C text, in NumPy."""
    finite = np.isfinite(x)
    if not finite.all():
        limbs[DIGITS:] += [np.isnan(x).sum(), (x == np.inf).sum(), (x == -np.inf).sum()]
        x = np.where(finite, x, 0.0)
    scaled = 0
    while (top := float(np.max(np.abs(x), initial=0.0))) > 0.0:
        digit = (max(int(np.frexp(top)[1]) - 1, -1022) - _BASE) // _BITS
        w = _BITS * digit + _BASE
        if w < -960:
            x *= 2.0**128
            scaled = 4
            continue
        multiples = np.trunc(x * 2.0**-w)
        limbs[digit - scaled] += int(multiples.sum())
        x -= multiples * 2.0**w


def _add_compiled(function: Any, limbs: Limbs, values: HostArray) -> None:
    if values.ndim > _LOOPS:
        for part in values:
            _add_compiled(function, limbs, part)
        return
    unused = _LOOPS - values.ndim
    table = np.array([(1,) * unused + values.shape, (0,) * unused + values.strides], np.int64)
    single = int(values.dtype == np.float32)
    function(
        ctypes.c_void_p(values.ctypes.data),
        ctypes.c_void_p(table.ctypes.data),
        ctypes.c_void_p(table[1].ctypes.data),
        ctypes.c_int64(single),
        ctypes.c_void_p(limbs.ctypes.data),
    )
