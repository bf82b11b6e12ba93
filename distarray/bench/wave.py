"""The acoustic wave equation, order 8 in space (25 points), float32, periodic, beside a C loop.

Both compute the same bits: they are compiled with the same flags, without contraction. The floor is
the time of the loop for as many cells that it visits in a block that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.arraylike import HostArray
from distarray.bench.heat import depth
from distarray.bench.loops import loop, with_layers
from distarray.bench.table import Row
from distarray.bench.timing import Sizes, in_turn
from distarray.comm import Communicator
from distarray.grid import Grid
from distarray.iterate import iterate
from distarray.kernels.apply import stencil

#: Largest ratios to the C loop with one step in each pass, and with several.
GATE, TILED_GATE = 1.05, 0.90
#: Weights of the second derivative at distances 0 to 4 (Fornberg, Math. Comp. 51 (1988) 699,
#: table 1).
WEIGHTS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)
WIDTH = 4
#: What a step must move, in bytes a cell: pressures read and written, and the speed.
_BYTES = 16
#: Cells of a block that with its layers takes less than a megabyte.
_CACHED = (16, 16, 128)


@stencil
def propagate(u: Any, old: Any, m: Any) -> None:
    """One step; `old` gets the new pressure, m is (speed * dt / spacing)^2."""
    second = 3 * WEIGHTS[0] * u[0, 0, 0]
    for d in range(1, WIDTH + 1):
        second = second + WEIGHTS[d] * (
            (u[d, 0, 0] + u[-d, 0, 0]) + (u[0, d, 0] + u[0, -d, 0]) + (u[0, 0, d] + u[0, 0, -d])
        )
    old[0, 0, 0] = 2.0 * u[0, 0, 0] - old[0, 0, 0] + m[0, 0, 0] * second


class Loop:
    """The C loop and its arrays. Local.

    Attributes
    ----------
    state : newer and older pressure
    speed : ndarray
    """

    def __init__(self, cells: Sequence[int]) -> None:
        self._step, self._sweep = loop("wave_step"), loop("wave_sweep")
        weights = [3 * WEIGHTS[0], *WEIGHTS[1:]]
        self._weights = np.array(weights, np.float32)
        *self.state, self.speed = _values(cells)

    def steps(self, count: int) -> None:
        """Advance; layers are filled first."""
        self._run(self._step, count)

    def sweeps(self, count: int) -> None:
        """The same without layers."""
        self._run(self._sweep, count)

    def _run(self, function: Any, count: int) -> None:
        for _ in range(count):
            u, old = self.state
            arrays = (array.ctypes.data for array in (u, old, self.speed))
            function(*arrays, *u.shape, self._weights.ctypes.data)
            self.state.reverse()


def fields(cells: Sequence[int], communicator: Communicator) -> list[DistArray]:
    """Newer and older pressure, and the speed, as the loop has them on one rank. Collective."""
    grid = Grid(cells, periodic=True, halo=WIDTH, comm=communicator, device="cpu")
    inside = (slice(WIDTH, -WIDTH),) * 3
    found = [grid.empty(np.float32) for _ in range(3)]
    for array, values in zip(found, _values(grid.local_shape), strict=True):
        with array.writing() as block:
            block[...] = values[inside]
    return found


def _values(cells: Sequence[int]) -> list[HostArray]:
    """Two pressures and the speed, with layers."""
    first, second, speed = (with_layers(cells, WIDTH, np.float32, seed) for seed in range(3))
    return [first, second, np.float32(0.1) * speed]


def stepped(arrays: Sequence[DistArray], steps: int, tile: int | str) -> Callable[[], object]:
    """Steps of the package. Local."""
    return lambda: iterate(propagate, *arrays, steps=steps, tile=tile)


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """The cube in all. Collective."""
    n, ranks, steps = sizes.cells, communicator.size, max(2, sizes.steps // 2)
    arrays = fields((n, n, n), communicator)
    beside, cached = Loop(arrays[0].block.owned.shape), Loop(_CACHED)
    visits = max(1, arrays[0].block.owned.size // int(np.prod(_CACHED)))
    acts = {
        "loop": lambda: beside.steps(steps),
        "plain": stepped(arrays, steps, 1),
        "tiled": stepped(arrays, steps, "auto"),
        "floor": lambda: cached.sweeps(visits),
    }
    found = in_turn(communicator, sizes.repeat, acts)
    moved = _BYTES * n**3
    each = {name: found[name] / steps for name in ("loop", "plain", "tiled")}
    what = f"wave {n}^3, 25 points, a step"
    tile = depth(propagate, communicator)
    gate, tiled_gate = (GATE, TILED_GATE) if ranks == 1 else (None, None)
    yield Row("wave", f"{what}, tile=1, C loop", ranks, each["plain"], each["loop"], gate, moved)
    yield Row(
        "wave", f"{what}, tile={tile}, C loop", ranks, each["tiled"], each["loop"],
        tiled_gate, moved,
    )  # fmt: skip
    share = arrays[0].block.owned.size / (visits * int(np.prod(_CACHED)))
    floor = found["floor"] * share
    yield Row("wave", "the same C loop on a block in the cache", ranks, floor, each["loop"])
