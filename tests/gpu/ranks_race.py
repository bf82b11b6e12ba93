"""An exchange that begins while a long kernel still writes what it sends.

Run by `tests.gpu.run` on several ranks that share a GPU. The halo must hold the new values; and
where the communication stream is made not to wait, it must not, or the test would prove nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.backends.cuda_streams import CudaStream
from tests.gpu.delay import delay

RANKS = (2, 4)
SIZE = MPI.COMM_WORLD.Get_size()
SHAPE = (8 * SIZE, 16, 12)
TURNS = 10
MILLISECONDS = 20.0


@da.stencil
def neighbours(u, new):
    """What lies in the halo along axis 0."""
    new[0, 0, 0] = u[-1, 0, 0] - 2.0 * u[1, 0, 0]


def numbered(grid: da.Grid) -> da.DistArray:
    """The global index of each cell."""
    return grid.from_function(lambda x, y, z: np.rint((x * 1000 + y * 100 + z) * 4096))


def wrong_cells(turn: int, u: da.DistArray, new: da.DistArray, values: Any) -> int:
    """Begin a long kernel that adds to all cells, then at once read neighbours; how many cells on
    all ranks are not what NumPy makes of them. Collective.
    """
    delay(u.grid.backend, milliseconds=MILLISECONDS)
    u += float(turn)
    neighbours(u, new)
    expected = np.roll(values, 1, axis=0) - 2.0 * np.roll(values, -1, axis=0)
    return int((new.gather() != expected).sum())


def fields() -> tuple[da.DistArray, da.DistArray, np.ndarray[Any, Any]]:
    """The field, its target and the field's values on the host."""
    grid = da.Grid(SHAPE, ranks=(SIZE, 1, 1), periodic=True, device="cuda")
    u = numbered(grid)
    return u, grid.zeros(), u.gather()


def test_the_halo_holds_what_a_long_kernel_writes() -> None:
    u, new, values = fields()
    for turn in range(1, TURNS):
        values = values + float(turn)
        assert wrong_cells(turn, u, new, values) == 0


def test_without_the_wait_it_does_not() -> None:
    u, new, values = fields()
    values = values + 1.0
    assert wrong_cells(1, u, new, values) == 0
    wait = CudaStream.wait

    def forgetful(stream: CudaStream, event: Any) -> None:
        if stream.name != "communication":
            wait(stream, event)

    CudaStream.wait = forgetful  # type: ignore[method-assign]
    try:
        values = values + 2.0
        assert wrong_cells(2, u, new, values) > 0
    finally:
        CudaStream.wait = wait  # type: ignore[method-assign]
