"""Many strided copies by one call of a compiled function.

Copies are described by rows of a table that the function reads. Axes that run on in both arrays are
joined, and two thin copies of one form, such as the two faces of a periodic axis, are made in one
pass: they touch the same rows of memory. Threads share the rows of a large copy; the next copy
begins when all are done.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends import native
from distarray.backends.base import BoxCopy, CopyList, Stream
from distarray.backends.calls import prepared

#: Bytes of a copy from which on threads share it.
PARALLEL_BYTES = 1 << 18

SOURCE = """\
#include <stdint.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* A strided copy: four loops around a run of `size` bytes, and perhaps a second copy like it. */
struct copy {
  const char *source; char *target; const char *twin_source; char *twin_target;
  int64_t size, n[4], s[4], t[4];
};

int distarray_threads = 1;

/* The part of a copy with rows first ... last of all that its outer loops count. */
static inline __attribute__((always_inline)) void
run(const struct copy *c, int64_t first, int64_t last, int64_t size, int twin) {
  const int64_t n = c->n[3], s_step = c->s[3], t_step = c->t[3];
  const int64_t s_twin = c->twin_source - c->source, t_twin = c->twin_target - c->target;
  int64_t k = first % c->n[2], j = first / c->n[2] % c->n[1], i = first / c->n[2] / c->n[1];
  for (int64_t row = first; row < last; row++) {
    const char *s = c->source + i * c->s[0] + j * c->s[1] + k * c->s[2];
    char *t = c->target + i * c->t[0] + j * c->t[1] + k * c->t[2];
    for (int64_t l = 0; l < n; l++, s += s_step, t += t_step) {
      memcpy(t, s, size);
      if (twin) memcpy(t + t_twin, s + s_twin, size);
    }
    if (++k == c->n[2]) {
      k = 0;
      if (++j == c->n[1]) j = 0, i++;
    }
  }
}

static inline __attribute__((always_inline)) void
part(const struct copy *c, int64_t first, int64_t last, int64_t size) {
  if (c->twin_source) run(c, first, last, size, 1); else run(c, first, last, size, 0);
}

static void copy(const struct copy *c, int64_t first, int64_t last) {
  switch (c->size) {  /* fixed sizes become single moves */
  case 1: part(c, first, last, 1); break;
  case 2: part(c, first, last, 2); break;
  case 4: part(c, first, last, 4); break;
  case 8: part(c, first, last, 8); break;
  case 16: part(c, first, last, 16); break;
  case 32: part(c, first, last, 32); break;
  default: part(c, first, last, c->size);
  }
}

void distarray_copy(const struct copy *copies, int64_t count) {
  for (const struct copy *c = copies; c < copies + count; c++) {
    const int64_t rows = c->n[0] * c->n[1] * c->n[2];
#ifdef _OPENMP
    if (rows * c->n[3] * c->size >= PARALLEL_BYTES && rows > 1 && distarray_threads > 1) {
#pragma omp parallel num_threads(distarray_threads)
      {
        const int64_t number = omp_get_thread_num(), threads = omp_get_num_threads();
        copy(c, rows * number / threads, rows * (number + 1) / threads);
      }
      continue;
    }
#endif
    copy(c, 0, rows);
  }
}
""".replace("PARALLEL_BYTES", str(PARALLEL_BYTES))

_LOOPS = 4
_COLUMNS = 5 + 3 * _LOOPS
#: Bytes of a run up to which two copies gain from being made together.
_THIN = 64
#: Effort spent on finding out whether two strided arrays overlap.
_OVERLAP_WORK = 1000


def prepare(copies: Sequence[BoxCopy]) -> CopyList:
    """Copies carried out as if in order, by one call of a compiled function or by NumPy. Local.

    Raises
    ------
    BackendError
        Source and target of a copy differ in shape or dtype.
    """
    function = compiled() if any(copy.source.size for copy in copies) else None
    if function is not None:
        return prepare_by(function, copies)
    return _NumpyCopies(_kept(copies))


def compiled() -> Any:
    """The function that makes copies, or None where nothing may be compiled. Local."""
    return native.load(SOURCE, "distarray_copy")


def prepare_by(function: Any, copies: Sequence[BoxCopy]) -> CompiledCopies:
    """The same by what `compiled` gave, whatever may be compiled by now. Local.

    Raises
    ------
    BackendError
        Source and target of a copy differ in shape or dtype.
    """
    return CompiledCopies(function, _kept(copies))


def _kept(copies: Sequence[BoxCopy]) -> list[BoxCopy]:
    """Those that move anything, of all that are checked."""
    for copy in copies:
        copy.require_alike()
    return [copy for copy in copies if copy.source.size]


class _NumpyCopies:
    def __init__(self, copies: Sequence[BoxCopy]) -> None:
        self._copies = copies

    def __call__(self, stream: Stream | None = None) -> None:
        for copy in self._copies:
            np.copyto(copy.target, copy.source)


class CompiledCopies:
    """Copies by a compiled function.

    Attributes
    ----------
    function : what makes them, given the address of the table and its length
    table : ndarray of int64
    """

    def __init__(self, function: Any, copies: Sequence[BoxCopy]) -> None:
        self._take(function, np.array(list(_table(copies)), np.int64).reshape(-1, _COLUMNS), copies)

    def _take(self, function: Any, table: HostArray, kept: Any) -> None:
        self.function, self.table = function, table
        address, count = ctypes.c_void_p(table.ctypes.data), ctypes.c_int64(len(table))
        self._call = prepared(function, address, count, kept=(table, kept))

    def __call__(self, stream: Stream | None = None) -> None:
        self._call()

    def moved(self, sources: int, targets: int) -> CompiledCopies:
        """The same between memory so many bytes further on, which the caller keeps. Local."""
        table = self.table.copy()
        table[:, 0] += sources
        table[:, 1] += targets
        twins = table[:, 2] != 0
        table[twins, 2] += sources
        table[twins, 3] += targets
        found = object.__new__(CompiledCopies)
        found._take(self.function, table, self)
        return found


def _table(copies: Sequence[BoxCopy]) -> Iterator[list[int]]:
    """Rows of the table: addresses of a copy and of its twin, or 0; bytes of a run; the loops."""
    for first, second in _pairs(copies):
        rows = list(_rows(first))
        if second is None:
            yield from ([*row[:2], 0, 0, *row[2:]] for row in rows)
        else:
            twins = _rows(second)
            yield from ([*r[:2], *twin[:2], *r[2:]] for r, twin in zip(rows, twins, strict=True))


def _rows(copy: BoxCopy) -> Iterator[list[int]]:
    """Addresses, bytes of a run and loops; loops beyond the table's are written out."""
    source, target = copy.source, copy.target
    size, loops = _loops(copy)
    inner, outer = loops[:_LOOPS], loops[_LOOPS:]
    inner += [[1, 0, 0]] * (_LOOPS - len(inner))
    columns = [value for column in zip(*reversed(inner), strict=True) for value in column]
    for index in itertools.product(*(range(extent) for extent, _, _ in outer)):
        s = sum(i * loop[1] for i, loop in zip(index, outer, strict=True))
        t = sum(i * loop[2] for i, loop in zip(index, outer, strict=True))
        yield [source.ctypes.data + s, target.ctypes.data + t, size, *columns]


def _loops(copy: BoxCopy) -> tuple[int, list[list[int]]]:
    """Bytes of a contiguous run, and [extent, source stride, target stride] innermost first."""
    source, target = copy.source, copy.target
    size = source.dtype.itemsize
    loops: list[list[int]] = []
    for axis in sorted(range(source.ndim), key=lambda axis: abs(target.strides[axis])):
        extent, s, t = source.shape[axis], source.strides[axis], target.strides[axis]
        if extent == 1:
            continue
        if not loops and s == t == size:
            size *= extent
        elif loops and (s, t) == (loops[-1][0] * loops[-1][1], loops[-1][0] * loops[-1][2]):
            loops[-1][0] *= extent
        else:
            loops.append([extent, s, t])
    return size, loops


# ---- twins


def _pairs(copies: Sequence[BoxCopy]) -> Iterator[tuple[BoxCopy, BoxCopy | None]]:
    """All copies in order, thin ones with a later one of the same form that may move up to them."""
    waiting = [(copy, _form(copy)) for copy in copies]
    while waiting:
        first, form = waiting.pop(0)
        place = _twin(first, form, waiting)
        yield first, None if place is None else waiting.pop(place)[0]


def _twin(
    first: BoxCopy, form: tuple[Any, ...], later: Sequence[tuple[BoxCopy, tuple[Any, ...]]]
) -> int | None:
    """The place of the nearest in memory: the other end of the same rows, not another field."""
    size, _ = _loops(first)
    if size > _THIN:
        return None
    alike = [place for place, (_, other) in enumerate(later) if other == form]
    if not alike:
        return None
    place = min(alike, key=lambda place: _distance(first, later[place][0]))
    between = (first, *(copy for copy, _ in later[:place]))
    return place if all(_independent(later[place][0], other) for other in between) else None


def _distance(one: BoxCopy, other: BoxCopy) -> int:
    """Bytes between what two copies read, and between what they write."""
    read = one.source.ctypes.data - other.source.ctypes.data
    return int(abs(read) + abs(one.target.ctypes.data - other.target.ctypes.data))


def _form(copy: BoxCopy) -> tuple[Any, ...]:
    source, target = copy.source, copy.target
    return source.dtype, source.shape, source.strides, target.strides


def _independent(one: BoxCopy, other: BoxCopy) -> bool:
    """Whether two copies give the same in any order, and interleaved."""
    pairs = ((one.target, other.target), (one.target, other.source), (one.source, other.target))
    return not any(_overlap(a, b) for a, b in pairs)


def _overlap(a: Any, b: Any) -> bool:
    try:
        # NumPy's stubs know only two of the values that max_work may have.
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
