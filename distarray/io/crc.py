"""CRC-32 of the values of a box, as `zlib.crc32` gives it for their bytes in C order. No MPI.

zlib reads one byte after the other, about 1 GB/s. Where the compiler of the kernels is at hand and
the processor multiplies polynomials, large arrays take a function that folds 64 bytes at a time
(V. Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ instruction", Intel,
2009; the constants are theirs for the reflected polynomial 0xEDB88320), straight from strided
memory. Both give the same numbers.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.backends import native
from distarray.errors import BackendError

Values = np.ndarray[Any, Any]

#: Bytes of an array from which loading the compiled function is worth while.
LARGE = 4 << 20

_TEXT = r"""
#include <stddef.h>
#include <stdint.h>

#if defined(__PCLMUL__) && defined(__SSE4_1__)
#include <immintrin.h>

#define AHEAD 6
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define FOLD(x, k, y) _mm_xor_si128(y, _mm_xor_si128( \
    _mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)))

/* The state after at least 64 bytes, a multiple of 16. */
static uint32_t folded(uint32_t state, const unsigned char *p, size_t count) {
  const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by_8 = _mm_set_epi64x(0, 0x0163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low = _mm_setr_epi32(~0, 0, ~0, 0);
  __m128i a = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)state));
  __m128i b = LOAD(p + 16), c = LOAD(p + 32), d = LOAD(p + 48), rest;
  for (p += 64, count -= 64; count >= 64; p += 64, count -= 64) {
    a = FOLD(a, by_64, LOAD(p));
    b = FOLD(b, by_64, LOAD(p + 16));
    c = FOLD(c, by_64, LOAD(p + 32));
    d = FOLD(d, by_64, LOAD(p + 48));
  }
  a = FOLD(a, by_16, b);
  a = FOLD(a, by_16, c);
  a = FOLD(a, by_16, d);
  for (; count >= 16; p += 16, count -= 16) a = FOLD(a, by_16, LOAD(p));
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10));
  rest = _mm_srli_si128(a, 4);
  a = _mm_xor_si128(rest, _mm_clmulepi64_si128(_mm_and_si128(a, low), by_8, 0x00));
  rest = _mm_clmulepi64_si128(_mm_and_si128(a, low), barrett, 0x10);
  rest = _mm_clmulepi64_si128(_mm_and_si128(rest, low), barrett, 0x00);
  return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, rest), 1);
}

static uint32_t row_of(uint32_t state, const unsigned char *p, size_t count) {
  const size_t whole = count & ~(size_t)15;
  if (whole >= 64) {
    state = folded(state, p, whole);
    p += whole;
    count -= whole;
  }
  while (count--) {
    state ^= *p++;
    for (int bit = 0; bit < 8; bit++) state = (state >> 1) ^ (0xEDB88320u & -(state & 1));
  }
  return state;
}

/* found[0]: the CRC-32 of the rows of a box, found[1]: 1. shape and strides (bytes) have `axes`
   entries; a row of `count` bytes lies together. */
void crc_of_rows(uint32_t *found, const unsigned char *start, ptrdiff_t axes,
                 const ptrdiff_t *shape, const ptrdiff_t *strides, ptrdiff_t count) {
  ptrdiff_t index[32] = {0}, axis;
  uint32_t state = ~0u;
  do {
    /* Rows lie in pages of their own, where the processor does not look ahead by itself. */
    if (axes) {
      const unsigned char *later = start + AHEAD * strides[axes - 1];
      for (ptrdiff_t at = 0; at < count && at < 1024; at += 64) __builtin_prefetch(later + at);
    }
    state = row_of(state, start, (size_t)count);
    for (axis = axes - 1; axis >= 0; axis--) {
      start += strides[axis];
      if (++index[axis] < shape[axis]) break;
      start -= shape[axis] * strides[axis];
      index[axis] = 0;
    }
  } while (axis >= 0);
  found[0] = ~state;
  found[1] = 1;
}
#else
/* No such instructions: found[1] stays 0. */
void crc_of_rows(uint32_t *found, const unsigned char *start, ptrdiff_t axes,
                 const ptrdiff_t *shape, const ptrdiff_t *strides, ptrdiff_t count) {
  (void)found; (void)start; (void)axes; (void)shape; (void)strides; (void)count;
}
#endif
"""

#: The checksum of the bytes of an array in C order.
Function = Callable[[Values], int]


def function_for(nbytes: int) -> Function:
    """The function for arrays of this size: by zlib, or compiled for large ones. Local."""
    return (_compiled() if nbytes >= LARGE else None) or by_zlib


def by_zlib(values: Values) -> int:
    """The checksum by zlib. Local; on any thread."""
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


@functools.cache
def _compiled() -> Function | None:
    """The compiled function; None without a compiler or the instructions."""
    try:
        function = native.load(_TEXT, "crc_of_rows")
    except BackendError:  # checkpoints go on, more slowly
        return None
    if function is None:
        return None
    pointer, integer = ctypes.c_void_p, ctypes.c_ssize_t
    function.argtypes = [pointer, pointer, integer, pointer, pointer, integer]

    def by_folding(values: Values) -> int:
        if not values.size:
            return 0
        axes, row = _outside_rows(values)
        shape = np.array(values.shape[:axes], np.intp)
        strides = np.array(values.strides[:axes], np.intp)
        found = np.zeros(2, np.uint32)
        function(
            found.ctypes.data, values.ctypes.data, axes, shape.ctypes.data, strides.ctypes.data, row
        )
        return int(found[0])

    check = np.arange(300, dtype=np.uint8).reshape(3, 100)[:, :97]
    return by_folding if by_folding(check) == by_zlib(check) else None


def _outside_rows(values: Values) -> tuple[int, int]:
    """The number of axes of which the elements do not lie together, and the bytes that do."""
    row, axes = values.itemsize, values.ndim
    while axes and (values.strides[axes - 1] == row or values.shape[axes - 1] == 1):
        row *= values.shape[axes - 1]
        axes -= 1
    return axes, row
