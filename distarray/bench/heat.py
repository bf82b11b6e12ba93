"""The heat equation in three dimensions, 7 points, float64, periodic.

`heat`: a cube in all beside the C loop, on several ranks beside as many copies of the loop at the
same time, each for its share of the cells and without exchange; with one step in each pass over
memory and with as many as `tile="auto"` finds best; and a copy of as many numbers.
`efficiency`: ranks together beside as many runs of one rank each, all at the same time; and what
it costs on this machine that ranks wait for each other in each step: C loops with a barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.bench.loops import copies, loop, with_layers
from distarray.bench.table import Row
from distarray.bench.timing import Sizes, in_turn
from distarray.comm import Communicator, SerialCommunicator
from distarray.grid import Grid
from distarray.iterate import iterate
from distarray.kernels.apply import StencilKernel, stencil

#: Largest ratios to the C loop with one step in each pass, and with several.
GATE, TILED_GATE = 1.06, 0.62
#: Least efficiency of two ranks, by cells along the axes of each cube.
EFFICIENCY = {128: 0.90, 256: 0.95}
#: What a step must move, in bytes a cell.
_BYTES = 16
_R = 0.1


@stencil
def diffuse(u: Any, new: Any, *, r: Any) -> None:
    """One explicit step of the heat equation."""
    new[0, 0, 0] = u[0, 0, 0] + r * (
        u[1, 0, 0]
        + u[-1, 0, 0]
        + u[0, 1, 0]
        + u[0, -1, 0]
        + u[0, 0, 1]
        + u[0, 0, -1]
        - 6.0 * u[0, 0, 0]
    )


def fields(cells: Sequence[int], communicator: Communicator) -> tuple[DistArray, DistArray]:
    """A wave and room for the next step. Collective."""
    grid = Grid(cells, periodic=True, comm=communicator, device="cpu")
    u = grid.from_function(lambda x, y, z: np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y) + 0 * z)
    return u, grid.empty_like(u)


def stepped(
    arrays: tuple[DistArray, DistArray], steps: int, tile: int | str
) -> Callable[[], object]:
    """Steps of the package. Local."""
    return lambda: iterate(diffuse, *arrays, steps=steps, tile=tile, r=_R)


def looped(
    cells: Sequence[int], steps: int, together: Communicator | None = None
) -> Callable[[], None]:
    """Steps of the C loop, after each of which ranks wait for each other if they are `together`.
    Local, or Collective if they do.
    """
    function = loop("heat_step", fast=True)
    state = [with_layers(cells, 1, np.float64, seed) for seed in (0, 1)]

    def act() -> None:
        for _ in range(steps):
            u, v = state
            function(u.ctypes.data, v.ctypes.data, *u.shape, _R)
            state.reverse()
            if together is not None:
                together.barrier()

    return act


def depth(kernel: StencilKernel, communicator: Communicator) -> str:
    """How many steps of a kernel `tile="auto"` makes in one pass, as it found last. Local."""
    known = list(kernel.depths_on(communicator).values())
    return f"auto ({known[-1]})" if known else "auto"


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """The cube in all. Collective."""
    n, steps, ranks = sizes.cells, sizes.steps, communicator.size
    arrays = fields((n, n, n), communicator)
    count = arrays[0].block.owned.size
    acts = {
        "loop": looped(arrays[0].block.owned.shape, steps),
        "plain": stepped(arrays, steps, 1),
        "tiled": stepped(arrays, steps, "auto"),
        "copy": copies(count),
    }
    found = in_turn(communicator, sizes.repeat, acts)
    moved = _BYTES * n**3
    each = {name: found[name] / steps for name in ("loop", "plain", "tiled")}
    what, tile = f"heat {n}^3, a step", depth(diffuse, communicator)
    yield Row("heat", f"{what}, tile=1, C loop", ranks, each["plain"], each["loop"], GATE, moved)
    yield Row(
        "heat", f"{what}, tile={tile}, C loop", ranks, each["tiled"], each["loop"],
        TILED_GATE, moved,
    )  # fmt: skip
    yield Row("heat", f"copy of {n}^3, C", ranks, found["copy"], nbytes=moved)


def efficiency(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """Cubes for each rank: together, and each for itself at the same time. Collective."""
    if communicator.size == 1:
        return
    for n in sorted({sizes.cells // 2, sizes.cells}):
        steps = sizes.steps
        together = fields((n * communicator.size, n, n), communicator)
        alone = fields((n, n, n), SerialCommunicator())
        acts = {
            "plain": stepped(together, steps, 1),
            "plain alone": stepped(alone, steps, 1),
            "tiled": stepped(together, steps, "auto"),
            "tiled alone": stepped(alone, steps, "auto"),
            "loop": looped((n, n, n), steps, communicator),
            "loop alone": looped((n, n, n), steps),
        }
        single = ("plain alone", "tiled alone", "loop alone")
        found = in_turn(communicator, sizes.repeat, acts, single=single)
        least = EFFICIENCY.get(n)
        for name, how, gate in (
            ("plain", "tile=1", None if least is None else 1.0 / least),
            ("tiled", f"tile={depth(diffuse, communicator)}", None),
            ("loop", "C loop and barrier", None),
        ):
            what = f"{communicator.size} x {n}^3, {how}, {communicator.size} single runs"
            yield Row(
                "efficiency", what, communicator.size, found[name] / steps,
                found[f"{name} alone"] / steps, gate, communicator.size * _BYTES * n**3,
            )  # fmt: skip
