"""Points inside a tile: the C functions that add to cells and record them, and their tables.

Cells are sorted by their place, so that a box finds its own by bisection. Where this rank computes
halo points for itself, added values go there too: a cell stands in the table once for each of its
images in the memory of the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distarray.arraylike import HostArray
from distarray.point_stages import Adding, PointStage, Recording
from distarray.regions import Box
from distarray.tiling.schedule import Application

if TYPE_CHECKING:
    from distarray.array import DistArray

#: Both functions have the signature of kernels. The memory has the address of local index 0 of each
#: component. The layout holds the numbers of components, cells, axes and slots, the bytes of a
#: value, of how many numbers it consists, and the cells: three indices, of which those of axes that
#: a grid has come last, the offset in bytes, and the slot. There is one slot of each component for
#: each cell, among `scalars` what is added, and in `results` what is recorded.
TEXT = r"""
#include <stdint.h>
#include <string.h>

struct cell { int64_t at[3], offset, slot; };

/* The first cell that does not come before this one. */
static int64_t first_of(const struct cell *cells, int64_t count, int64_t plane, int64_t line) {
  int64_t low = 0;
  while (low < count) {
    const int64_t middle = low + (count - low) / 2;
    const int64_t *at = cells[middle].at;
    if (at[0] < plane || (at[0] == plane && at[1] < line)) low = middle + 1;
    else count = middle;
  }
  return low;
}

#define CELLS(WORK) \
  const int64_t parts = layout[5], slots = layout[3], bytes = layout[4]; \
  const int64_t missing = 3 - layout[2]; \
  const struct cell *cells = (const struct cell *)(layout + 6); \
  int64_t low[3] = {0, 0, 0}, high[3] = {1, 1, 1}; \
  for (int64_t axis = missing; axis < 3; axis++) { \
    low[axis] = box[2 * (axis - missing)]; \
    high[axis] = box[2 * (axis - missing) + 1]; \
  } \
  for (int64_t plane = low[0]; plane < high[0]; plane++) \
    for (int64_t n = first_of(cells, layout[1], plane, low[1]); n < layout[1] \
        && cells[n].at[0] == plane && cells[n].at[1] < high[1]; n++) { \
      if (cells[n].at[2] < low[2] || cells[n].at[2] >= high[2]) continue; \
      for (int64_t c = 0; c < layout[0]; c++) { \
        char *value = (char *)memory[c] + cells[n].offset; \
        const int64_t slot = c * slots + cells[n].slot; \
        WORK; \
      } \
    }

#define ADD(TYPE) \
  for (int64_t p = 0; p < parts; p++) \
    ((TYPE *)value)[p] = (TYPE)(((TYPE *)value)[p] + ((const TYPE *)scalars)[slot * parts + p])

void add_at_points(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results) {
  CELLS(if (bytes == 4 * parts) { ADD(float); } else { ADD(double); })
}

void record_points(void *const *memory, const int64_t *layout, const void *scalars,
    const int64_t *box, void *const *results) {
  CELLS((void)parts; memcpy((char *)results + slot * bytes, value, bytes))
}
"""
_AXES = 3


@dataclass(frozen=True)
class PointCall:
    """A stage of points of one step: its array, which step it is, and the array that single steps
    use instead, if this one has wider halos.
    """

    plan: PointStage
    arguments: tuple[DistArray, ...]
    step: int = 0
    originals: tuple[DistArray, ...] | None = None

    @property
    def array(self) -> DistArray:
        return self.arguments[0]

    @property
    def symbol(self) -> str:
        return "add_at_points" if self.plan.writes else "record_points"

    @property
    def application(self) -> Application:
        """It reads and changes its points alone."""
        nothing = (0,) * self.array.layout.ndim
        serial = self.array.block.serial
        writes = frozenset({serial}) if self.plan.writes else frozenset[int]()
        return Application({serial: (nothing, nothing)}, writes)


class PointWork:
    """A `PointCall` bound to memory, as an application of `run_boxes`. Creation is Local.

    Attributes
    ----------
    box : Box
        Around all cells, in local indices; what is recorded lies within the owned ones.
    """

    def __init__(self, call: PointCall) -> None:
        self.call = call
        array, stage = call.array, call.plan
        block = array.block
        index, mine = stage.points.cells(array, stage.order)
        start = block.owned.start
        places = np.stack([i - s for i, s in zip(index, start, strict=True)], axis=1)
        if isinstance(stage, Recording):
            places, slots, self._count = places[mine], np.arange(mine.sum()), int(mine.sum())
        else:
            places, slots = _images(array, places)
            self._count = len(mine)
        order = np.lexsort(places.T[::-1])  # stable: parts of one cell keep their order
        places, slots = places[order], slots[order]
        self.box = (
            Box(tuple(places.min(axis=0).tolist()), tuple((places.max(axis=0) + 1).tolist()))
            if len(places)
            else Box((0,) * places.shape[1], (0,) * places.shape[1])
        )
        self._bind(places, slots)

    def _bind(self, places: HostArray, slots: HostArray) -> None:
        array = self.call.array
        block, dtype, ndim = array.block, array.dtype, places.shape[1]
        strides = np.array(block.memory.strides[len(array.components) :], np.int64)
        first = int(strides @ np.array(block.layout.halo))
        self.memory = np.array(
            [block.component(c).ctypes.data + first for c in np.ndindex(*array.components)],
            np.uint64,
        )
        cells = np.zeros((len(places), _AXES + 2), np.int64)
        cells[:, _AXES - ndim : _AXES] = places
        cells[:, _AXES], cells[:, _AXES + 1] = places @ strides, slots
        parts = 2 if dtype.kind == "c" else 1
        head = [len(self.memory), len(cells), ndim, self._count, dtype.itemsize, parts]
        self.layout = np.concatenate([np.array(head, np.int64), cells.ravel()])
        self._buffer = np.zeros((*array.components, self._count), dtype)

    def addresses(self, function: int) -> Sequence[int]:
        """The row of `run_boxes` for the function at this address."""
        data = self._buffer.ctypes.data
        return (
            function, self.memory.ctypes.data, self.layout.ctypes.data, data, data,
        )  # fmt: skip

    def begin(self, number: int) -> None:
        """Evaluate what is added in a step."""
        stage = self.call.plan
        if isinstance(stage, Adding):
            amounts = stage.points.amounts(self.call.array, stage.values(number), stage.order)
            self._buffer[...] = amounts

    def finish(self) -> None:
        """Hand over what was recorded."""
        stage = self.call.plan
        if isinstance(stage, Recording):
            (array,) = self.call.originals or self.call.arguments
            stage.keep(array, self._buffer.copy())


def _images(array: DistArray, places: HostArray) -> tuple[HostArray, HostArray]:
    """Local indices of the images of cells in a block's memory, and which cell each is of."""
    layout, owned = array.layout, array.block.owned
    found, cells = [places[:0]], [np.arange(0)]
    moves = [
        (-count, 0, count) if periodic else (0,)
        for count, periodic in zip(layout.points, layout.decomposition.periodic, strict=True)
    ]
    if not owned.empty:
        for move in itertools.product(*moves):
            moved = places + np.array(move)
            held = np.ones(len(places), bool)
            for axis, (halo, count) in enumerate(zip(layout.halo, owned.shape, strict=True)):
                held &= (moved[:, axis] >= -halo) & (moved[:, axis] < count + halo)
            found.append(moved[held])
            cells.append(np.flatnonzero(held))
    return np.concatenate(found), np.concatenate(cells)
