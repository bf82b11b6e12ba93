"""What a launch of a CUDA kernel is handed by value: pure arithmetic on boxes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.regions import Box
from distarray.stencil.cuda.codegen import CudaCode, CudaKernel
from distarray.stencil.cuda.states import FAN
from distarray.stencil.cuda.tiles import LOG_THREADS, MOST_BOXES, THREADS, launch_dtype

Extents = tuple[int, int, int]

#: Tiles that keep all processors of a large device at work; a thread goes more steps where there
#: are more, up to a number beyond which it has nothing to win.
ENOUGH_TILES, MOST_STEPS = 2048, 16
#: Blocks of a kernel with reductions: few, since each thread leaves a state; and tiles a block.
MOST_BLOCKS, MOST_BLOCKS_EXACT, TILES_PER_BLOCK, LEAST_BLOCKS = 1024, 256, 8, 128
#: Elements by which rows are aligned: those of a float64 that share a line of 128 bytes.
LINE = 16
#: Positions that 32 bits hold, less room for offsets.
_NARROW = 2**31 - 2**20
_COMBINE_THREADS = 128


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel launch.

    Attributes
    ----------
    kernel : CudaKernel
        Its pointers are those of the program's arrays and tables, then the scalars and the layout;
        `values` is its `launch`. Of the kernel `combine` it is `combine`, after two pointers.
    values : array of bytes
    grid, block : numbers of blocks and of their threads
    scratch : int
        Words of 8 bytes of scratch memory that this launch and those after it refer to.
    """

    kernel: CudaKernel
    values: np.ndarray[Any, np.dtype[np.uint8]]
    grid: Extents
    block: Extents
    scratch: int = 0


def wide(shapes: Sequence[tuple[Sequence[int], Sequence[int]]]) -> bool:
    """Whether any array, by its shape and its strides in elements, needs positions of 64 bits."""
    spans = (
        sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides, strict=True))
        for shape, strides in shapes
    )
    return any(span >= _NARROW for span in spans)


def launches(
    code: CudaCode, boxes: Sequence[tuple[Box, int]], start: Sequence[int], colour: int = 0
) -> list[Launch]:
    """The launches that compute disjoint boxes of local indices, each with its mask.

    Parameters
    ----------
    start : sequence of int
        Global index of local index 0 along each axis.
    colour : {0, 1}
        Which points a two-colour program computes; see `BoundLaunch.run`.
    """
    every = (1 << code.outputs) - 1
    chosen = [(box, mask & every) for box, mask in boxes if not box.empty and mask & every]
    complete = all(mask == every for _, mask in chosen)
    kernel = code.kernel if complete or code.masked is None else code.masked
    found: list[Launch] = []
    for begin in range(0, len(chosen), MOST_BOXES):
        found += _launch(code, kernel, chosen[begin : begin + MOST_BOXES], start, colour)
    return found


def _launch(
    code: CudaCode,
    kernel: CudaKernel,
    boxes: Sequence[tuple[Box, int]],
    start: Sequence[int],
    colour: int,
) -> Iterator[Launch]:
    values = np.zeros((), launch_dtype(code.ndim, code.wide))
    tilings = [_Tiling(box, code.colours) for box, _ in boxes]
    steps = max(1, min(sum(t.tiles(1) for t in tilings) // ENOUGH_TILES, MOST_STEPS))
    while sum(tiling.tiles(steps) for tiling in tilings) >= 2**31:
        steps *= 2
    values["start"], values["steps"] = start, steps
    values["parity"], values["count"] = (colour + sum(start)) & 1, len(boxes)
    tiles = 0
    for place, ((box, mask), tiling) in enumerate(zip(boxes, tilings, strict=True)):
        entry = values["boxes"][place]
        entry["mask"], entry["begin"], entry["end"] = mask, box.start, box.stop
        entry["first"], entry["shift"] = tiling.first, tiling.shift
        entry["first_tile"] = tiles
        tiles += tiling.tiles(steps)
    values["tiles"] = tiles
    blocks = _blocks(code, tiles)
    states = blocks * THREADS if code.accumulators else 0
    merging = list(_merging(code, states))
    scratch = max([code.scratch * states, *(launch.scratch for launch in merging)])
    yield Launch(kernel, _bytes(values), (blocks, 1, 1), (THREADS, 1, 1), scratch)
    yield from merging


def _blocks(code: CudaCode, tiles: int) -> int:
    if not code.accumulators:
        return tiles
    most = MOST_BLOCKS_EXACT if any(a.exact for a in code.accumulators) else MOST_BLOCKS
    return min(tiles, most, max(LEAST_BLOCKS, tiles // TILES_PER_BLOCK))


def _merging(code: CudaCode, states: int) -> Iterator[Launch]:
    """Launches that merge this many states of threads with the results."""
    source, combine = 0, code.combine
    while states and combine is not None:
        targets = -(-states // FAN) if states > FAN else 0
        target = source + code.scratch * states
        values = np.array([source, states, target, targets], np.int64)
        blocks = max(1, -(-targets // _COMBINE_THREADS))
        words = target + code.scratch * max(targets, 1)
        yield Launch(combine, _bytes(values), (blocks, 1, 1), (_COMBINE_THREADS, 1, 1), words)
        source, states = target, targets


class _Tiling:
    """How a box is divided into tiles.

    Attributes
    ----------
    first : int
        Position along the last axis at which the first tile begins.
    shift : int
        Base-2 logarithm of a tile's threads along the last axis.
    """

    def __init__(self, box: Box, colours: int) -> None:
        *others, extent = box.shape
        self.first = 0
        if colours > 1:
            extent = -(-extent // 2)
        else:
            self.first = box.start[-1]
            if others and extent > LINE:
                self.first -= self.first % LINE
                extent += box.start[-1] - self.first
        self._extents = (*others, extent)
        self.shift = LOG_THREADS
        if others:
            rows = others[-1]
            self.shift = min(_shifts(extent), key=lambda shift: _covering(extent, rows, shift))

    def tiles(self, steps: int) -> int:
        """Tiles of threads that go this many steps."""
        *others, extent = self._extents
        if not others:
            return -(-extent // (steps * THREADS))
        across = -(-extent // (1 << self.shift))
        rows = 1 << (LOG_THREADS - self.shift)
        if len(others) == 1:
            return across * -(-others[0] // (rows * steps))
        first, *middle, last = others
        return across * -(-last // rows) * math.prod(middle) * -(-first // steps)


def _shifts(extent: int) -> range:
    """Threads along the last axis, as logarithms: a warp, or more if rows are few; fewer only for
    boxes that are thin there.
    """
    least = min(5, (extent - 1).bit_length())
    return range(least, LOG_THREADS + 1)


def _covering(extent: int, rows: int, shift: int) -> int:
    """Tiles that cover a plane."""
    return -(-extent // (1 << shift)) * -(-rows // (THREADS >> shift))


def _bytes(values: HostArray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(values.tobytes(), np.uint8)
