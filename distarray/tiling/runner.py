"""Runs through a list of boxes in C, so that a box costs a call and no Python."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends import threads
from distarray.backends.base import Backend
from distarray.tiling.fills import TEXT as FILL_TEXT
from distarray.tiling.points import TEXT as POINT_TEXT
from distarray.tiling.schedule import fronts

if TYPE_CHECKING:
    from distarray.block import Block

#: `run_boxes` calls for each row of a table the function of its application: rows of a tile in
#: order, tiles of a group at the same time, groups one after the other. `wrap_rows` has the
#: signature of kernels: it copies, for each row of a box of one array, the cells at both ends of
#: the last axis to the halo on the other side; its memory has an address for each component. Its
#: layout holds the number of components, that of the outer axes, the bytes of a row's cells and of
#: what is copied below and above, and the bytes between neighbours along the outer axes.
#: `wrap_lines` does likewise with whole rows at the ends of an outer axis, for the lines of the box
#: across it. Its layout: components, cells of the axis, cells to copy, bytes between lines along it
#: and across it, which axis that is, and bytes of a row with its halo. Where there is no axis
#: across it, the axis itself stands for it, along which the box has one cell.
TEXT = r"""
#include <stdint.h>
#include <string.h>

int distarray_threads = 1;

typedef void work(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results);

void run_boxes(int64_t count, const int64_t *groups, const int64_t *tiles, int64_t width,
    const int64_t *table, void *const *applications) {
#pragma omp parallel num_threads(distarray_threads) if (distarray_threads > 1)
  for (int64_t group = 0; group < count; group++) {
#pragma omp for schedule(dynamic)
    for (int64_t tile = groups[group]; tile < groups[group + 1]; tile++)
      for (int64_t n = tiles[tile]; n < tiles[tile + 1]; n++) {
        const int64_t *row = table + n * width;
        void *const *one = applications + 5 * row[0];
        ((work *)one[0])(one[1], one[2], one[3], row + 1, one[4]);
      }
  }
}

void wrap_lines(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results) {
  const int64_t components = layout[0], cells = layout[1], reach = layout[2];
  const int64_t pitch = layout[3], across = layout[4], nbytes = layout[6];
  const int64_t *lines = box + 2 * layout[5];
  for (int64_t c = 0; c < components; c++)
    for (int64_t l = lines[0]; l < lines[1]; l++) {
      char *first = (char *)memory[c] + l * across;
      for (int64_t m = 1; m <= reach; m++)
        memcpy(first - m * pitch, first + (cells - m) * pitch, nbytes);
      for (int64_t m = 0; m < reach; m++)
        memcpy(first + (cells + m) * pitch, first + m * pitch, nbytes);
    }
}

void wrap_rows(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results) {
  const int64_t components = layout[0], outer = layout[1];
  const int64_t row = layout[2], below = layout[3], above = layout[4];
  const int64_t *pitch = layout + 5;
  const int64_t planes = outer > 1 ? box[1] - box[0] : 1;
  const int64_t *lines = outer > 1 ? box + 2 : box;
  const int64_t plane_pitch = outer > 1 ? pitch[0] : 0, line_pitch = pitch[outer - 1];
  for (int64_t c = 0; c < components; c++)
    for (int64_t p = 0; p < planes; p++)
      for (int64_t l = lines[0]; l < lines[1]; l++) {
        char *first = (char *)memory[c] + l * line_pitch
            + (outer > 1 ? (box[0] + p) * plane_pitch : 0);
        memcpy(first - below, first + row - below, below);
        memcpy(first + row, first, above);
      }
}
"""


@functools.cache
def _function(backend: type[Backend], symbol: str) -> Any:
    texts = {"fill_layers": FILL_TEXT, "add_at_points": POINT_TEXT, "record_points": POINT_TEXT}
    return backend().load(texts.get(symbol, TEXT), symbol)


def function(backend: Backend, symbol: str) -> Any:
    """A function of the texts, or None where nothing compiles. Local."""
    return _function(type(backend), symbol)


class RowWrap:
    """Copies ends of rows to the halos of one array, as an application of `run_boxes`.

    Parameters
    ----------
    block : Block
    axis : the last one
    reach : cells of the halo to fill on both sides
    """

    symbol = "wrap_rows"

    def __init__(self, block: Block, axis: int, reach: int) -> None:
        pitches, item = _pitches(block), block.memory.itemsize
        self.memory = np.array(_origins(block), np.uint64)
        row = block.owned.shape[axis] * item
        self.layout = np.array(
            [len(self.memory), axis, row, *2 * [reach * item], *pitches[:-1]], np.int64
        )


class LineWrap:
    """Copies rows at both ends of an outer axis to its halos, as an application of `run_boxes`.

    Parameters
    ----------
    block : Block
    axis : which is periodic and held whole
    reach : cells of the halo to fill on both sides
    """

    symbol = "wrap_lines"

    def __init__(self, block: Block, axis: int, reach: int) -> None:
        pitches, item = _pitches(block), block.memory.itemsize
        other = 1 - axis if len(pitches) > 2 else axis
        before = block.layout.halo[-1] * item
        self.memory = np.array([origin - before for origin in _origins(block)], np.uint64)
        self.layout = np.array(
            [
                len(self.memory), block.owned.shape[axis], reach, pitches[axis],
                pitches[other] if other != axis else 0, other,
                block.memory.shape[-1] * item,
            ],
            np.int64,
        )  # fmt: skip


def _origins(block: Block) -> list[int]:
    """The address of the first owned cell of each component."""
    start = sum(i * s for i, s in zip(block.layout.halo, _pitches(block), strict=True))
    return [
        int(block.component(component).ctypes.data + start)
        for component in np.ndindex(*block.layout.components)
    ]


def _pitches(block: Block) -> tuple[int, ...]:
    """Bytes between neighbours along each axis."""
    return tuple(block.memory.strides[len(block.layout.components) :])


def table_of(work: HostArray, bounds: HostArray, rest: HostArray) -> HostArray:
    """The table of `run_boxes`: applications, boxes, and what kernels want to know besides."""
    return np.ascontiguousarray(
        np.concatenate([work[:, None], bounds.reshape(len(work), -1), rest], axis=1), np.int64
    )


class Runner:
    """A list of boxes, bound to its applications. Creation is Local.

    Parameters
    ----------
    backend : Backend
    table : ndarray of int64
        Of `table_of`.
    tiles : ndarray of int64
        In which tile each row is, shape (rows, axes); see `schedule.fronts`.
    applications : ndarray of uint64
        The addresses of the function, memory, layout, scalars and results of each.
    kept : anything that the addresses point into
    """

    def __init__(
        self,
        backend: Backend,
        table: HostArray,
        tiles: HostArray,
        applications: HostArray,
        kept: Sequence[Any],
    ) -> None:
        self._applications, self._kept = applications, kept
        if threads.count() > 1:
            order, self._tiles, self._groups = fronts(tiles)
            table = table[order]
        else:
            self._tiles, self._groups = np.array([0, len(table)]), np.array([0, 1])
        self._table = table
        self._run = function(backend, "run_boxes")

    def __call__(self) -> None:
        """Compute all boxes. Local."""
        table = self._table
        if len(table):
            self._run(
                ctypes.c_int64(len(self._groups) - 1),
                ctypes.c_void_p(self._groups.ctypes.data),
                ctypes.c_void_p(self._tiles.ctypes.data),
                ctypes.c_int64(table.shape[1]),
                ctypes.c_void_p(table.ctypes.data),
                ctypes.c_void_p(self._applications.ctypes.data),
            )


def address(function: Any) -> int:
    """The address of a compiled function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
