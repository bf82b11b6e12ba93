"""C helpers that generated kernels call: NumPy's rules where C has others, and the rows of fused
reductions. Pure.

Each helper is a template; `text` makes those that a kernel calls, for the types it calls them with.
"""

from __future__ import annotations

import re

from distarray.exact import C_HELPERS

_HEADER = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
"""

# GCC joins the products and sums of neighbouring parts, re = a c - b d and im = a d + b c, into
# fused instructions even under -ffp-contract=off (seen with version 12). There must be none, then.
_UNFUSED = """\
#if defined __GNUC__ && !defined __clang__
#ifdef __x86_64__
#pragma GCC target("no-fma,no-fma4,no-avx512f")
#else
#pragma GCC optimize("no-tree-vectorize")
#endif
#endif"""

# T: the C type, N: its name in NumPy, U: the unsigned type, W: its width in bits, F: the C
# library's suffix.
_ANY = {
    "sign": "static inline T sign_N(T x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }",
}
_INTEGER = {
    "floor_divide": """\
static inline T floor_divide_N(T a, T b) {
  if (b == 0) return 0;
  if (b == (T)-1 && (T)-1 < 0) return (T)(0 - (U)a);
  return a / b - ((a % b != 0) & ((a < 0) != (b < 0)));
}""",
    "remainder": """\
static inline T remainder_N(T a, T b) {
  if (b == 0 || (b == (T)-1 && (T)-1 < 0)) return 0;
  const T rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "fmod": """\
static inline T fmod_N(T a, T b) { return b == 0 || (b == (T)-1 && (T)-1 < 0) ? 0 : a % b; }""",
    "absolute": "static inline T absolute_N(T x) { return x < 0 ? (T)(0 - (U)x) : x; }",
    "minimum": "static inline T minimum_N(T a, T b) { return a < b ? a : b; }",
    "maximum": "static inline T maximum_N(T a, T b) { return a > b ? a : b; }",
    "fmin": "static inline T fmin_N(T a, T b) { return a < b ? a : b; }",
    "fmax": "static inline T fmax_N(T a, T b) { return a > b ? a : b; }",
    "left_shift": """\
static inline T left_shift_N(T a, T b) { return (U)b < W ? (T)((U)a << b) : 0; }""",
    "right_shift": """\
static inline T right_shift_N(T a, T b) { return (U)b < W ? a >> b : a < 0 ? -1 : 0; }""",
}
_FLOAT = {
    "floor_divide": """\
static inline T floor_divide_N(T a, T b) {
  if (b == 0) return a / b;
  const T rest = fmodF(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return copysignF((T)0, a / b);
  const T whole = floorF(quotient);
  return quotient - whole > (T)0.5 ? whole + 1 : whole;
}""",
    "remainder": """\
static inline T remainder_N(T a, T b) {
  const T rest = fmodF(a, b);
  if (b == 0) return rest;
  if (rest == 0) return copysignF((T)0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    # NaN wins in minimum and maximum and loses in fmin and fmax. One choice after another, each
    # without a branch of its own: joined conditions kept GCC 12 from vectorising nested calls.
    "minimum": """\
static inline T minimum_N(T a, T b) { const T low = a < b ? a : b; return a != a ? a : low; }""",
    "maximum": """\
static inline T maximum_N(T a, T b) { const T high = a > b ? a : b; return a != a ? a : high; }""",
    "fmin": """\
static inline T fmin_N(T a, T b) { const T low = a < b ? a : b; return b != b ? a : low; }""",
    "fmax": """\
static inline T fmax_N(T a, T b) { const T high = a > b ? a : b; return b != b ? a : high; }""",
    "isnan": "static inline bool isnan_N(T x) { return x != x; }",
    "isinf": "static inline bool isinf_N(T x) { return fabsF(x) == INFINITY; }",
    "isfinite": "static inline bool isfinite_N(T x) { return fabsF(x) < INFINITY; }",
    # What leaves the range of an integer is undefined in C, and compilers differ within one row:
    # they saturate constants, take (double)(int32_t)x for trunc(x), and have other instructions for
    # vectors than for numbers. A zero that they cannot know, added before and joined after, leaves
    # them the processor's own conversion, of numbers as of vectors.
    "int32_from": """\
static inline int32_t int32_from_N(T x, int64_t hidden) {
  return (int32_t)(x + (T)hidden) ^ (int32_t)hidden;
}""",
    "int64_from": """\
static inline int64_t int64_from_N(T x, int64_t hidden) {
  return (int64_t)(x + (T)hidden) ^ hidden;
}""",
    "uint64_from": """\
static inline uint64_t uint64_from_N(T x, int64_t hidden) {
  const bool high = x >= (T)0x1p63;
  const T rest = high ? x - (T)0x1p63 : x;
  const int64_t low = (int64_t)(rest + (T)hidden) ^ hidden;
  return (uint64_t)low ^ (uint64_t)high << 63;
}""",
}

# Functions of the C library that err by three ulp, here with the rounding errors of their last
# steps put back.
_CLOSE = {
    "tanh_float64": """\
static double tanh_float64(double x) {
  const double size = fabs(x);
  if (size > 22) return copysign(1.0, x);
  const double t = expm1(2 * size), sum = t + 2, part = sum - t;
  const double lost = (t - (sum - part)) + (2 - part), quotient = t / sum;
  return copysign(quotient + (fma(-quotient, sum, t) - quotient * lost) / sum, x);
}""",
    "cbrt_float64": """\
static double cbrt_float64(double x) {
  const bool small = fabs(x) < 0x1p-900;
  const double z = small ? 0x1p300 * x : x;
  const double y = cbrt(z), square = y * y, cube = square * y;
  if (y == 0 || !(fabs(y) < INFINITY)) return y;
  const double lost = fma(square, y, -cube) + fma(y, y, -square) * y;
  return (small ? 0x1p-100 : 1) * (y - ((cube - z) + lost) / (3 * square));
}""",
}

# Rows of a fused reduction: n values enter `total`. Eight lanes let sums and extrema use vectors in
# a fixed order.
_SUM = """\
static void add_sum_N(T *total, const T *x, int64_t n) {
  T lane[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t l = 0; l < 8; l++) lane[l] += x[i + l];
  for (; i < n; i++) lane[i % 8] += x[i];
  const T low = (lane[0] + lane[1]) + (lane[2] + lane[3]);
  const T high = (lane[4] + lane[5]) + (lane[6] + lane[7]);
  *total += low + high;
}"""
_EXTREMUM = """\
static void add_NAME_N(T *total, const T *x, int64_t n) {
  T lane[8], nan[8] = {0};
  int64_t i = 0;
  for (int64_t l = 0; l < 8; l++) lane[l] = total[0];
  for (; i + 8 <= n; i += 8)
    for (int64_t l = 0; l < 8; l++) {
      lane[l] = x[i + l] SIGN lane[l] ? x[i + l] : lane[l];
      nan[l] = x[i + l] != x[i + l] ? 1 : nan[l];
    }
  for (; i < n; i++) {
    lane[0] = x[i] SIGN lane[0] ? x[i] : lane[0];
    nan[0] = x[i] != x[i] ? 1 : nan[0];
  }
  for (int64_t l = 0; l < 8; l++) {
    total[0] = lane[l] SIGN total[0] ? lane[l] : total[0];
    total[1] = nan[l] != 0 ? 1 : total[1];
  }
}"""
# Kernels in stages: points of the tiles, about equally large, into which an axis is divided, and
# threads. Whole vectors leave no rest.
_TILES = """\
static int64_t tile_size(int64_t extent, int64_t most, int64_t vector) {
  const int64_t tiles = (extent + most - 1) / most;
  return (extent + tiles * vector - 1) / (tiles * vector) * vector;
}"""
_THREADS = """\
#ifdef _OPENMP
#include <omp.h>
#endif
static int64_t thread_count(int64_t most) {
#ifdef _OPENMP
  const int64_t count = omp_in_parallel() ? 1 : distarray_threads;
  return count < most ? count : most;
#else
  return most < 1 ? most : 1;
#endif
}"""
_WIDTHS = ("8", "16", "32", "64")
_FLOATS = {"float32": ("float", "f"), "float64": ("double", "")}


def text(words: frozenset[str], *, exact_products: bool) -> str:
    """What stands above a kernel that uses these words: includes, types and helpers.

    `exact_products` keeps a compiler from fusing the products of complex numbers into sums.
    """
    parts = [_UNFUSED] if exact_products else []
    parts += [_HEADER, "union scalar { double real[2]; int64_t integer; };"]
    for name, part in (("complex64", "float"), ("complex128", "double")):
        if name in words:
            parts.append(f"typedef struct {{ {part} re, im; }} {name};")
    parts += ["int distarray_threads = 1;"] if "distarray_threads" in words else []
    parts += [found for word in sorted(words) if (found := helper(word)) is not None]
    if "hidden_zero" in words:
        parts.append("static const volatile int64_t hidden_zero = 0;")
    parts += [_TILES] if "tile_size" in words else []
    parts += [_THREADS] if "thread_count" in words else []
    if "exact_add" in words:
        parts.append(C_HELPERS)
    return "\n".join(parts)


def helper(word: str) -> str | None:
    """The definition of a helper by its full name, such as minimum_float64."""
    if word in _CLOSE:
        return _CLOSE[word]
    name, _, kind = word.rpartition("_")
    if name == "add_sum":
        return filled(_SUM, kind)
    if name in ("add_min", "add_max"):
        template = _EXTREMUM.replace("NAME", name[4:]).replace(
            "SIGN", "<" if name == "add_min" else ">"
        )
        return filled(template, kind)
    found = (_FLOAT if kind in _FLOATS else _INTEGER).get(name) or _ANY.get(name)
    return None if found is None else filled(found, kind)


def filled(template: str, kind: str) -> str | None:
    """A template for one type; None if that is no type of helpers."""
    if kind in _FLOATS:
        c_type, ending = _FLOATS[kind]
        values = {"T": c_type, "N": kind, "F": ending, "U": c_type, "W": ""}
    elif kind.removeprefix("u").startswith("int") and kind.endswith(_WIDTHS):
        width = kind.rpartition("int")[2]
        values = {"T": f"{kind}_t", "N": kind, "F": "", "U": f"uint{width}_t", "W": width}
    else:
        return None
    # Placeholders are single capitals that stand alone, or end a name after _ or a lower-case
    # letter.
    return re.sub(r"(?<![A-Z])([TNFUW])(?![A-Za-z])", lambda match: values[match[1]], template)
