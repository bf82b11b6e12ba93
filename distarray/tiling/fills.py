"""The C function that fills boundary layers beside a box, and the rows of numbers that it reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: `fill_layers` has the signature of kernels. Its layout holds the number of fills, that of axes,
#: and the fills. There are three axes, of which those that a grid has come last; along that of its
#: face a fill counts layers from 1 on. `first` and `last` are the points that it follows from: it
#: is left out for boxes without any of them.
TEXT = r"""
#include <stdint.h>

enum { ADD, SUBTRACT, SCALE, SCALE_COMPLEX, POLYNOMIAL, SET };

struct place { int64_t address, stride[3]; };
struct range { int64_t low, high, below, start, above, stop; };
struct fill {
  int64_t kind, type, parts, terms, term_stride, axis, first, last, layers;
  struct place target, source, alpha, beta, mask;
  struct range range[3];
};

static inline char *at(const struct place *p, const int64_t *i) {
  return (char *)p->address + i[0] * p->stride[0] + i[1] * p->stride[1] + i[2] * p->stride[2];
}

/* `t` the target, `s` what it mirrors, `a` and `b` coefficients. */
#define ROW(WORK) \
  for (int64_t n = 0; n < count; n++) \
    if (!f->mask.address || mask[n * f->mask.stride[2]]) { \
      TYPE *t = (TYPE *)(target + n * f->target.stride[2]); \
      const TYPE *s = (const TYPE *)(source + n * f->source.stride[2]); \
      const TYPE *a = (const TYPE *)(alpha + n * f->alpha.stride[2]); \
      const TYPE *b = (const TYPE *)(beta + n * f->beta.stride[2]); \
      (void)s, (void)a, (void)b; \
      WORK; \
    }
#define PARTS(VALUE) ROW(for (int64_t c = 0; c < f->parts; c++) t[c] = (TYPE)(VALUE))
#define NEXT(Q) ((const TYPE *)((const char *)s + (Q) * f->term_stride))[c]
#define FILL(NAME) \
static void NAME(const struct fill *f, const int64_t *low, const int64_t *high) { \
  int64_t i[3] = {low[0], low[1], low[2]}; \
  const int64_t count = high[2] - low[2]; \
  for (i[0] = low[0]; i[0] < high[0]; i[0]++) \
    for (i[1] = low[1]; i[1] < high[1]; i[1]++) { \
      char *target = at(&f->target, i); \
      const char *source = at(&f->source, i), *mask = at(&f->mask, i); \
      const char *alpha = at(&f->alpha, i), *beta = at(&f->beta, i); \
      switch (f->kind) { \
      case ADD: PARTS(s[c] + a[c]) break; \
      case SUBTRACT: PARTS(a[c] - s[c]) break; \
      case SCALE: PARTS((TYPE)(b[0] * s[c]) + a[c]) break; \
      case SCALE_COMPLEX: ROW( \
          const TYPE re = (TYPE)(s[0] * b[0] - s[1] * b[1]); \
          const TYPE im = (TYPE)(s[0] * b[1] + s[1] * b[0]); \
          t[0] = (TYPE)(re + a[0]); t[1] = (TYPE)(im + a[1])) break; \
      case POLYNOMIAL: ROW( \
          for (int64_t c = 0; c < f->parts; c++) { \
            TYPE sum = (TYPE)(b[0] * s[c]); \
            for (int64_t q = 1; q < f->terms; q++) sum = (TYPE)(sum + (TYPE)(b[q] * NEXT(q))); \
            t[c] = sum; \
          }) break; \
      case SET: PARTS(a[c]) break; \
      } \
    } \
}

#define TYPE uint8_t
FILL(fill_1)
#undef TYPE
#define TYPE uint16_t
FILL(fill_2)
#undef TYPE
#define TYPE uint32_t
FILL(fill_4)
#undef TYPE
#define TYPE uint64_t
FILL(fill_8)
#undef TYPE
#define TYPE float
FILL(fill_float)
#undef TYPE
#define TYPE double
FILL(fill_double)

typedef void filling(const struct fill *f, const int64_t *low, const int64_t *high);
static filling *const of_type[] = {fill_1, fill_2, fill_4, fill_8, fill_float, fill_double};

void fill_layers(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results) {
  const struct fill *f = (const struct fill *)(layout + 2);
  const int64_t missing = 3 - layout[1];
  for (int64_t n = 0; n < layout[0]; n++, f++) {
    int64_t low[3] = {0, 0, 0}, high[3] = {1, 1, 1};
    for (int64_t axis = missing; axis < 3; axis++) {
      low[axis] = box[2 * (axis - missing)];
      high[axis] = box[2 * (axis - missing) + 1];
    }
    if (low[f->axis] >= f->last || high[f->axis] <= f->first) continue;
    for (int64_t axis = missing; axis < 3; axis++) {
      const struct range *r = &f->range[axis];
      if (low[axis] < r->low) low[axis] = r->low;
      if (high[axis] > r->high) high[axis] = r->high;
      if (low[axis] < r->below) low[axis] = r->start;
      if (high[axis] > r->above) high[axis] = r->stop;
    }
    low[f->axis] = 1;
    high[f->axis] = f->layers + 1;
    of_type[f->type](f, low, high);
  }
}
"""
_KINDS = ("add", "subtract", "scale", "scale complex", "polynomial", "set")
_AXES = 3
NEVER = 1 << 62


class Place:
    """Values over the axes: where those of local indices 0 are, and bytes between neighbours."""

    def __init__(self, address: int, strides: Sequence[int], kept: Any = None) -> None:
        self.address, self.strides, self.kept = address, tuple(strides), kept

    def words(self) -> list[int]:
        return [self.address, *(0,) * (_AXES - len(self.strides)), *self.strides]

    def moved(self, axis: int, cells: int) -> Place:
        return Place(self.address + cells * self.strides[axis], self.strides)

    def along(self, axis: int, first: int, step: int) -> Place:
        """The same, with `first + step * n` along an axis for the n-th layer."""
        strides = list(self.strides)
        strides[axis] *= step
        return Place(self.address + first * self.strides[axis], strides)


NOWHERE = Place(0, ())


@dataclass
class Fill:
    """What is done for one component at one face, as words of `fill_layers`."""

    kind: str
    axis: int
    #: Points along the axis that the layers follow from.
    points: tuple[int, int]
    layers: int
    target: Place
    source: Place = NOWHERE
    alpha: Place = NOWHERE
    beta: Place = NOWHERE
    mask: Place = NOWHERE
    terms: int = 1
    term_stride: int = 0
    #: Of other axes: the points that are done, and how far beyond the ends, from which points on.
    limits: dict[int, tuple[int, int]] = field(default_factory=dict)
    beyond: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)

    def words(self, dtype: np.dtype[Any], ndim: int) -> list[int]:
        missing = _AXES - ndim
        parts = 2 if dtype.kind == "c" else 1
        size = dtype.itemsize // parts
        number = {4: 4, 8: 5}[size] if dtype.kind in "fc" else {1: 0, 2: 1, 4: 2, 8: 3}[size]
        places = (self.target, self.source, self.alpha, self.beta, self.mask)
        ranges = [
            (
                *self.limits.get(axis - missing, (-NEVER, NEVER)),
                *self.beyond.get(axis - missing, (-NEVER, 0, NEVER, 0)),
            )
            for axis in range(_AXES)
        ]
        head = [_KINDS.index(self.kind), number, parts, self.terms, self.term_stride]
        head += [self.axis + missing, *self.points, self.layers]
        return [*head, *itertools.chain(*(p.words() for p in places)), *itertools.chain(*ranges)]
