"""What stands above the text of a CUDA kernel: types and helpers. Pure.

The helpers are those of the C text but for what C leaves undefined, since there the processor's own
conversions are used and the compiler is told that integers wrap.
"""

from __future__ import annotations

import re

from distarray.stencil import preamble
from distarray.stencil.cuda import exact

# NVRTC has no header of its own; a host compiler gets these from <cstdint> and <cmath>.
_TYPES = """\
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT8_C(x) x
#define INT16_C(x) x
#define INT32_C(x) x
#define INT64_C(x) x##LL
#define UINT8_C(x) x
#define UINT16_C(x) x
#define UINT32_C(x) x##U
#define UINT64_C(x) x##ULL
#define INT32_MIN (-INT32_C(2147483647) - 1)
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#endif
union scalar { double real[2]; int64_t integer; };"""

_NUMBER = "union number { double real; int64_t integer; uint64_t natural; };"

# Floats out of range become the integers that x86 makes of them.
_CONVERSIONS = {
    "int32_from": """\
static int32_t int32_from_N(T x) {
  return x > (T)-2147483649.0 && x < (T)0x1p31 ? (int32_t)x : INT32_MIN;
}""",
    "int64_from": """\
static int64_t int64_from_N(T x) {
  return x >= (T)-0x1p63 && x < (T)0x1p63 ? (int64_t)x : INT64_MIN;
}""",
    "uint64_from": """\
static uint64_t uint64_from_N(T x) {
  const bool high = x >= (T)0x1p63;
  const T rest = high ? x - (T)0x1p63 : x;
  const int64_t low = rest >= (T)-0x1p63 && rest < (T)0x1p63 ? (int64_t)rest : INT64_MIN;
  return (uint64_t)low ^ (uint64_t)high << 63;
}""",
}
# Signed integers that leave their range wrap around, as in NumPy.
_WRAPPED = {
    "wrapped_add": "static T wrapped_add_N(T a, T b) { return (T)((U)a + (U)b); }",
    "wrapped_subtract": "static T wrapped_subtract_N(T a, T b) { return (T)((U)a - (U)b); }",
    "wrapped_multiply": "static T wrapped_multiply_N(T a, T b) { return (T)((U)a * (U)b); }",
    "wrapped_negative": "static T wrapped_negative_N(T x) { return (T)(0 - (U)x); }",
}
_OWN = {**_CONVERSIONS, **_WRAPPED}

_WORDS = """
    alignas alignof and and_eq bitand bitor catch char16_t char32_t class compl constexpr const_cast
    decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public reinterpret_cast static_assert static_cast
    template this thread_local throw try typeid typename using virtual wchar_t xor xor_eq

    threadIdx blockIdx blockDim gridDim warpSize dim3
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t

    index_t launch box tile shift step here row stop across parity number exact combine scratch
    thread threads
"""

#: Words that variables of the text must not take, besides those of C text.
RESERVED = frozenset(_WORDS.split())


def text(words: frozenset[str]) -> str:
    """What stands above a kernel that uses these words."""
    parts = [_TYPES]
    if "number" in words:
        parts.append(_NUMBER)
    for name, part, size in (("complex64", "float", 8), ("complex128", "double", 16)):
        if name in words:
            parts.append(f"struct alignas({size}) {name} {{ {part} re, im; }};")
    parts += [found for word in sorted(words) if (found := _helper(word)) is not None]
    if "exact" in words:
        parts.append(_on_device(exact.HELPERS))
    if "exact_merge" in words:
        parts.append(_on_device(exact.MERGE_HELPER))
    return "\n".join(parts)


def _helper(word: str) -> str | None:
    name, _, kind = word.rpartition("_")
    found = preamble.filled(_OWN[name], kind) if name in _OWN else preamble.helper(word)
    return None if found is None else _on_device(found)


def _on_device(helpers: str) -> str:
    """Helpers in C as functions of the device."""
    return re.sub(
        r"^static (inline )?", "static __device__ __forceinline__ ", helpers, flags=re.MULTILINE
    )
