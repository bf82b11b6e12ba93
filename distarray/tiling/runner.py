"""Runs through a list of boxes in C, so that a box costs a call and no Python."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import Backend
from distarray.layout import Component
from distarray.regions import Box

#: `run_boxes` calls for each row of a table the function of its application. `wrap_rows` has the
#: signature of kernels: it copies, for each row of a box of one array, the cells at both ends of
#: the last axis to the halo on the other side. Its layout holds the bytes between neighbours along
#: the outer axes, of an element and of a row's cells, and the bytes to copy below and above.
TEXT = r"""
#include <stdint.h>
#include <string.h>

typedef void work(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results);

void run_boxes(int64_t count, int64_t width, const int64_t *table, void *const *applications) {
  for (int64_t n = 0; n < count; n++, table += width) {
    void *const *one = applications + 5 * table[0];
    ((work *)one[0])(one[1], one[2], one[3], table + 1, one[4]);
  }
}

void wrap_rows(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results) {
  const int64_t components = layout[0], apart = layout[1], outer = layout[2];
  const int64_t row = layout[3], below = layout[4], above = layout[5];
  const int64_t *pitch = layout + 6;
  const int64_t planes = outer > 1 ? box[1] - box[0] : 1;
  const int64_t *lines = outer > 1 ? box + 2 : box;
  const int64_t plane_pitch = outer > 1 ? pitch[0] : 0, line_pitch = pitch[outer - 1];
  for (int64_t c = 0; c < components; c++)
    for (int64_t p = 0; p < planes; p++)
      for (int64_t l = lines[0]; l < lines[1]; l++) {
        char *first = (char *)memory[0] + c * apart + l * line_pitch
            + (outer > 1 ? (box[0] + p) * plane_pitch : 0);
        memcpy(first - below, first + row - below, below);
        memcpy(first + row, first, above);
      }
}
"""


@functools.cache
def _function(backend: type[Backend], symbol: str) -> Any:
    return backend().load(TEXT, symbol)


def function(backend: Backend, symbol: str) -> Any:
    """A function of the text, or None where nothing compiles. Local."""
    return _function(type(backend), symbol)


class RowWrap:
    """Copies ends of rows to the halos of one array, as an application of `run_boxes`.

    Parameters
    ----------
    memory : ndarray
        Padded, components first.
    components : tuple of int
    origin : where the first owned cell is, along each grid axis
    cells : of a row
    low, high : cells of the halo to fill below and above
    """

    def __init__(
        self,
        memory: HostArray,
        components: Component,
        origin: Sequence[int],
        cells: int,
        reach: tuple[int, int],
    ) -> None:
        item, depth = memory.itemsize, len(components)
        grid = memory.strides[depth:]
        first = memory.ctypes.data + sum(i * s for i, s in zip(origin, grid, strict=True))
        count = int(np.prod(components, dtype=int))
        apart = memory.strides[depth - 1] if depth else 0
        outer = grid[:-1]
        self.memory = np.array([first], np.uint64)
        self.layout = np.array(
            [count, apart, len(outer), cells * item, reach[0] * item, reach[1] * item, *outer],
            np.int64,
        )


def table_of(rows: Sequence[tuple[int, Box, Sequence[int]]]) -> HostArray:
    """The table of `run_boxes`: an application, a box, and what kernels want to know besides."""
    return np.array(
        [
            (number, *(b for pair in zip(box.start, box.stop, strict=True) for b in pair), *rest)
            for number, box, rest in rows
        ],
        np.int64,
    )


class Runner:
    """A list of boxes, bound to its applications. Creation is Local.

    Parameters
    ----------
    backend : Backend
    table : ndarray of int64
    applications : sequence of five addresses
        Of the function, memory, layout, scalars and results of each.
    kept : anything that the addresses point into
    """

    def __init__(
        self, backend: Backend, table: HostArray, applications: HostArray, kept: Sequence[Any]
    ) -> None:
        self._table, self._applications, self._kept = table, applications, kept
        self._run = function(backend, "run_boxes")

    def __call__(self) -> None:
        """Compute all boxes. Local."""
        table = self._table
        if len(table):
            self._run(
                ctypes.c_int64(len(table)),
                ctypes.c_int64(table.shape[1]),
                ctypes.c_void_p(table.ctypes.data),
                ctypes.c_void_p(self._applications.ctypes.data),
            )


def address(function: Any) -> int:
    """The address of a compiled function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
