"""Million cell updates a second of D3Q19 with one rate, beside memory and a hand-written C loop.

`python -m solvers.lbm.bench --cells 96 128` times, in turn and on one core, steps as the solver
makes them, steps of the loop below, compiled with the same flags, and copies between two arrays.
The limit that memory sets is the bandwidth of the copies by the bytes that a step has to move: each
population is read and written once. Both steps are checked to give the same bits.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.by_hand import compiled
from solvers.lbm.collision import collision
from solvers.lbm.kernels import stream_collide
from solvers.lbm.lattice import lattice

#: The loop that the kernel is measured against: one pass over periodic layers that it fills first.
#: Populations are numbered as in `Lattice.velocities`. `row`, `plane` and `part` are the distances
#: between rows, planes and populations.
LOOP = r"""
#include <stddef.h>

#define Q 19
static const int velocity[Q][3] = {
  {0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1},
  {1, 1, 0}, {-1, -1, 0}, {1, -1, 0}, {-1, 1, 0}, {1, 0, 1}, {-1, 0, -1}, {1, 0, -1},
  {-1, 0, 1}, {0, 1, 1}, {0, -1, -1}, {0, 1, -1}, {0, -1, 1}};

/* Layers from which populations move into the box. */
static void fill(REAL *restrict f, ptrdiff_t n, ptrdiff_t row, ptrdiff_t plane, ptrdiff_t part) {
  const ptrdiff_t stride[3] = {plane, row, 1};
  for (int q = 1; q < Q; q++)
    for (int a = 0; a < 3; a++) {
      const int c = velocity[q][a];
      if (!c) continue;
      const ptrdiff_t to = c > 0 ? 0 : n + 1, from = c > 0 ? n : 1;
      const int b = a == 0 ? 1 : 0, d = a == 2 ? 1 : 2;
      for (ptrdiff_t i = 0; i < n + 2; i++) {
        REAL *line = f + q * part + i * stride[b];
        REAL *target = line + to * stride[a];
        const REAL *source = line + from * stride[a];
        for (ptrdiff_t j = 0; j < n + 2; j++) target[j * stride[d]] = source[j * stride[d]];
      }
    }
}

#define PAIR(q, dx, dy, dz) \
  const REAL a##q = p[q * part - (dx) * plane - (dy) * row - (dz)]; \
  const REAL b##q = p[(q + 1) * part + (dx) * plane + (dy) * row + (dz)]; \
  const REAL s##q = a##q + b##q, d##q = a##q - b##q;

#define RELAX(q, w, v, along) { \
  const REAL u = along, m = rho * u; \
  const REAL even = omega * (HALF * s##q - w * (common + FOUR_HALF * m * u)); \
  const REAL odd = omega * (HALF * d##q - v * m); \
  g[q * part] = a##q - (even + odd); \
  g[(q + 1) * part] = b##q - (even - odd); }

void lattice_step(REAL *restrict f, REAL *restrict out, ptrdiff_t n, ptrdiff_t row,
                  ptrdiff_t plane, ptrdiff_t part, double rate) {
  const REAL omega = (REAL)rate, HALF = (REAL)0.5, FOUR_HALF = (REAL)4.5;
  const REAL w0 = (REAL)(1.0 / 3.0), w1 = (REAL)(1.0 / 18.0), w2 = (REAL)(1.0 / 36.0);
  const REAL v1 = (REAL)(3.0 * (1.0 / 18.0)), v2 = (REAL)(3.0 * (1.0 / 36.0));
  fill(f, n, row, plane, part);
  for (ptrdiff_t i = 1; i <= n; i++)
    for (ptrdiff_t j = 1; j <= n; j++) {
#pragma omp simd
      for (ptrdiff_t k = 1; k <= n; k++) {
        const REAL *restrict p = f + i * plane + j * row + k;
        REAL *restrict g = out + i * plane + j * row + k;
        const REAL rest = p[0];
        PAIR(1, 1, 0, 0) PAIR(3, 0, 1, 0) PAIR(5, 0, 0, 1)
        PAIR(7, 1, 1, 0) PAIR(9, 1, -1, 0) PAIR(11, 1, 0, 1)
        PAIR(13, 1, 0, -1) PAIR(15, 0, 1, 1) PAIR(17, 0, 1, -1)
        const REAL excess = rest + (s1 + s3 + s5 + (s7 + s9) + (s11 + s13) + (s15 + s17));
        const REAL rho = (REAL)1.0 + excess, inverse = (REAL)1.0 / rho;
        const REAL ux = (d1 + (d7 + d9) + (d11 + d13)) * inverse;
        const REAL uy = (d3 + (d7 - d9) + (d15 + d17)) * inverse;
        const REAL uz = (d5 + (d11 - d13) + (d15 - d17)) * inverse;
        const REAL common = excess - (REAL)1.5 * rho * (ux * ux + uy * uy + uz * uz);
        g[0] = rest - omega * (rest - w0 * common);
        RELAX(1, w1, v1, ux) RELAX(3, w1, v1, uy) RELAX(5, w1, v1, uz)
        RELAX(7, w2, v2, ux + uy) RELAX(9, w2, v2, ux - uy) RELAX(11, w2, v2, ux + uz)
        RELAX(13, w2, v2, ux - uz) RELAX(15, w2, v2, uy + uz) RELAX(17, w2, v2, uy - uz)
      }
    }
}
"""

#: Largest ratio to the C loop.
GATE = 1.15
OMEGA = 1.7
_Q = 19
_PAGE = 4096


@dataclass(frozen=True)
class Row:
    """One cube: cells per axis, type, and medians in seconds of a step, a step of the C loop and
    the copy of all populations.
    """

    cells: int
    dtype: str
    step: float
    loop: float
    copy: float
    same_bits: bool

    @property
    def ratio(self) -> float:
        return self.step / self.loop

    def updates(self, seconds: float) -> float:
        """Million cell updates a second."""
        return self.cells**3 / seconds / 1e6

    def __str__(self) -> str:
        gbs = 2 * _Q * self.cells**3 * np.dtype(self.dtype).itemsize / self.copy / 1e9
        return (
            f"{self.cells:4d}^3 {self.dtype}  {self.updates(self.step):6.1f} MLUPS  C loop "
            f"{self.updates(self.loop):6.1f}  ratio {self.ratio:5.3f} (gate {GATE})  memory "
            f"{self.updates(self.copy):6.1f} ({gbs:.1f} GB/s, {self.copy / self.step:.0%})  "
            f"{'same bits' if self.same_bits else 'BITS DIFFER'}"
        )


def rows(
    cells: Sequence[int],
    dtypes: Sequence[str] = ("float64", "float32"),
    *,
    repeat: int = 7,
    steps: int = 20,
) -> list[Row]:
    """Measure cubes on this rank alone. Local; set OMP_NUM_THREADS=1 for one core.

    Raises
    ------
    BackendError
        No C compiler.
    """
    return [_measured(n, dtype, repeat, steps) for dtype in dtypes for n in cells]


def _measured(cells: int, dtype: str, repeat: int, steps: int) -> Row:
    grid = da.Grid((cells,) * 3, periodic=True, comm=None, device="cpu")
    kernel = stream_collide(lattice("D3Q19", 3), collision("bgk"))
    state = [grid.zeros(dtype, components=(_Q,)) for _ in range(2)]
    loop = _Loop(cells, dtype)
    for q in range(_Q):
        values = da.random.uniform(grid, seed=1, stream=q)
        state[0][q][...] = 1e-2 * (values - 0.5)
        loop.state[0][(q, *loop.inside)] = state[0][q].gather()

    def advance() -> None:
        for _ in range(steps):
            kernel(*state, omega=OMEGA, odd=OMEGA)
            state.reverse()

    def copy() -> None:
        for _ in range(steps):
            loop.copy()

    times: list[list[float]] = [[], [], []]
    for turn in range(repeat + 1):
        for kind, act in enumerate((advance, lambda: loop.advance(steps), copy)):
            seconds = _timed(act) / steps
            if turn:
                times[kind].append(seconds)
        if not turn:
            own, other = (np.asarray(s) for s in (state[0].gather(), loop.interior()))
            same = own.tobytes() == np.ascontiguousarray(other).tobytes()
    step, looped, copied = map(statistics.median, times)
    share = _Q * cells**3 / loop.size
    return Row(cells, dtype, step, looped, copied * share, same)


def _timed(act: Callable[[], Any]) -> float:
    """Seconds of this thread, so that other programs take no part."""
    began = time.thread_time()
    act()
    return time.thread_time() - began


class _Loop:
    """The populations of the C loop, with one layer around. Rows of the box start cache lines;
    planes and populations take all places of a page. Steps are even in number.
    """

    def __init__(self, cells: int, dtype: str) -> None:
        text = LOOP.replace("REAL", {"float64": "double", "float32": "float"}[dtype])
        size, pointer = ctypes.c_ssize_t, ctypes.c_void_p
        arguments = (pointer, pointer, size, size, size, size, ctypes.c_double)
        line = 64 // np.dtype(dtype).itemsize
        row = -(-(cells + 2) // line) * line
        self._function, self._cells = compiled(text, "lattice_step", *arguments), cells
        # Planes and populations an odd number of cache lines apart.
        self._plane = (row * (cells + 2) // line | 1) * line
        self._part = (self._plane * (cells + 2) // line | 1) * line
        self._row = row
        self._memory = [_aligned(_Q * self._part, dtype, place) for place in range(3)]
        self.inside = (slice(1, cells + 1),) * 3
        self.state = [self._view(memory) for memory in self._memory[:2]]
        self.size = self._memory[0].size

    def _view(self, memory: Any) -> Any:
        shape = (_Q, *(self._cells + 2,) * 3)
        strides = (self._part, self._plane, self._row, 1)
        return np.lib.stride_tricks.as_strided(
            memory, shape, tuple(s * memory.itemsize for s in strides)
        )

    def copy(self) -> None:
        np.copyto(self._memory[2], self._memory[0])

    def interior(self) -> Any:
        """The populations in the box."""
        return self.state[0][(slice(None), *self.inside)]

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self._function(
                self._memory[0].ctypes.data, self._memory[1].ctypes.data, self._cells,
                self._row, self._plane, self._part, OMEGA,
            )  # fmt: skip
            self._memory[:2] = self._memory[1::-1]
            self.state.reverse()


def _aligned(size: int, dtype: str, place: int) -> Any:
    """Zeros whose second element starts a cache line, so that rows of the box do, at different
    places of a page.
    """
    itemsize = np.dtype(dtype).itemsize
    raw = np.zeros(size * itemsize + 3 * _PAGE, np.uint8)
    begin = -raw.ctypes.data % _PAGE + 27 * 64 * place + 64 - itemsize
    return raw[begin : begin + size * itemsize].view(dtype)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table. Local."""
    parser = argparse.ArgumentParser(prog="python -m solvers.lbm.bench", description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[64, 96, 128], metavar="N")
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--repeat", type=int, default=7, metavar="N")
    chosen = parser.parse_args(arguments)
    for row in rows(chosen.cells, chosen.dtype, repeat=chosen.repeat):
        da.log(row)


if __name__ == "__main__":
    main()
