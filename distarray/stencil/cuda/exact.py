"""Sums without rounding on a device: CUDA text that adds to the limbs of `exact`. Pure.

A thread keeps its sum as two floats, `high` and `low`, whose sum is exact as long as the numbers
are of like magnitude: what a floating-point addition loses is a floating-point number itself
(Knuth, The Art of Computer Programming 2, 4.2.2, Theorem B). What is too much for the two, and all
that is not finite, goes to limbs of the thread's own in device memory, which are set to zero when
they are first needed. The states of threads are then merged in the same way.
"""

from __future__ import annotations

from distarray.exact import DIGITS, LENGTH

#: Members of the first words of a thread's sum in device memory: the two floats, and whether limbs
#: are in use.
HEAD_MEMBERS = ("real", "real", "integer")
HEAD = len(HEAD_MEMBERS)
#: Words of 8 bytes that it takes with its limbs.
WORDS = HEAD + LENGTH

HELPERS = f"""\
/* A sum; neighbouring limbs lie `stride` words apart. */
struct exact {{ double high, low; union number *limbs; int64_t stride; bool used; }};

/* Adds a number to limbs: its 53 bits lie across three digits of 32. */
static void exact_put(union number *limbs, int64_t stride, double x) {{
  union number bits;
  bits.real = x;
  const int64_t size = bits.integer & INT64_MAX;
  const int exponent = (int)(size >> 52);
  if (exponent == 2047) {{
    limbs[({DIGITS} + (x != x ? 0 : x > 0 ? 1 : 2)) * stride].integer++;
    return;
  }}
  const uint64_t unit = (uint64_t)1 << 52;
  const uint64_t digits = (exponent ? unit : 0) | ((uint64_t)size & (unit - 1));
  const int place = (exponent ? exponent : 1) + 13, shift = place & 31;
  const int64_t sign = bits.integer < 0 ? -1 : 1, mask = INT64_C(0xffffffff);
  const uint64_t head = digits << shift, tail = digits >> 1 >> (63 - shift);
  union number *first = limbs + (place >> 5) * stride;
  first[0].integer += sign * (int64_t)(head & (uint64_t)mask);
  first[stride].integer += sign * (int64_t)(head >> 32);
  first[2 * stride].integer += sign * (int64_t)tail;
}}

/* Makes sure that there are limbs. */
static void exact_open(struct exact &sum) {{
  if (sum.used) return;
#pragma unroll 1
  for (int digit = 0; digit < {LENGTH}; digit++) sum.limbs[digit * sum.stride].integer = 0;
  sum.used = true;
}}

static void exact_take(struct exact &sum, double x) {{
  double lost = x;
  if (fabs(x) < 0x1p1000) {{
    const double high = sum.high + x, part = high - sum.high;
    const double rest = (sum.high - (high - part)) + (x - part);
    const double low = sum.low + rest, share = low - sum.low;
    lost = (sum.low - (low - share)) + (rest - share);
    sum.high = high;
    sum.low = low;
  }}
  if (lost != 0) {{
    exact_open(sum);
    exact_put(sum.limbs, sum.stride, lost);
  }}
}}

/* Brings all digits but the last into 0 ... 2**32 - 1. */
static void exact_carry(union number *limbs, int64_t stride) {{
#pragma unroll 1
  for (int digit = 0; digit + 1 < {DIGITS}; digit++) {{
    const int64_t carry = limbs[digit * stride].integer >> 32;
    limbs[digit * stride].integer -= carry * (INT64_C(1) << 32);
    limbs[(digit + 1) * stride].integer += carry;
  }}
}}

/* Completes the state of a sum in memory, behind whose first three words its limbs are already. */
static void exact_write(const struct exact &sum, union number *state) {{
  state[0].real = sum.high;
  state[sum.stride].real = sum.low;
  state[2 * sum.stride].integer = sum.used;
  if (sum.used) exact_carry(sum.limbs, sum.stride);
}}
"""

MERGE_HELPER = f"""\
/* Adds the sum of another thread, whose first words are handed over. */
static void exact_merge(struct exact &sum, double high, double low, int64_t used,
                        const union number *limbs, int64_t stride) {{
  exact_take(sum, high);
  exact_take(sum, low);
  if (used == 0) return;
  exact_open(sum);
#pragma unroll 1
  for (int digit = 0; digit < {LENGTH}; digit++)
    sum.limbs[digit * sum.stride].integer += limbs[digit * stride].integer;
}}
"""
