"""A short test of an installation: the same steps by kernels on all ranks and by NumPy on each.

`mpirun -n 2 python -m distarray.selftest 2` also checks that there are two ranks.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import distarray as da
from distarray.comm import Communicator, default
from distarray.errors import BackendError, CommunicationError

SHAPE = (13, 18)
STEPS = 5


@da.stencil
def smooth(u: Any, new: Any, *, r: Any) -> None:
    """One step of diffusion."""
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


def run(comm: Communicator) -> str:
    """What was tested, when all is right. Collective.

    Raises
    ------
    BackendError
        A kernel's result differs from NumPy's.
    CommunicationError
        A sum over all ranks is wrong.
    """
    grid = da.Grid(SHAPE, periodic=True, comm=comm)
    u = grid.from_function(start)
    u = da.iterate(smooth, u, grid.empty_like(u), steps=STEPS, r=0.1)
    computed, expected = u.gather(), numpy_steps(start(*positions()), 0.1)
    if not np.array_equal(computed, expected):
        raise BackendError(
            f"{STEPS} steps of diffusion differ from NumPy's by up to "
            f"{np.abs(computed - expected).max():.1e}; try DISTARRAY_EXECUTOR=numpy."
        )
    total = u.sum(reproducible=True)
    if abs(total - expected.sum()) > 1e-9:
        raise CommunicationError(f"The sum over all ranks is {total}, not {expected.sum()}.")
    return "kernels, halos and sums are right"


def start(x: Any, y: Any) -> Any:
    """The values to begin with."""
    return np.sqrt(1.0 + x) * (2.0 - y)


def positions() -> tuple[Any, ...]:
    """The cell centres of the unit square, from their formula."""
    axes = [(np.arange(n) + 0.5) * (1.0 / n) for n in SHAPE]
    return axes[0][:, np.newaxis], axes[1][np.newaxis, :]


def numpy_steps(u: Any, r: float) -> Any:
    """The same steps without the package, each operation in the kernel's order."""
    for _ in range(STEPS):
        near = np.roll(u, -1, 0) + np.roll(u, 1, 0) + np.roll(u, -1, 1) + np.roll(u, 1, 1)
        u = u + r * (near - 4.0 * u)
    return u


def meet(ranks: int) -> Communicator:
    """The ranks that mpirun started. Collective.

    Raises
    ------
    CommunicationError
        They are not so many.
    """
    comm = default()
    if comm.size != ranks:
        raise CommunicationError(f"mpirun was to start {ranks} ranks, but MPI sees {comm.size}.")
    return comm


def main(ranks: int) -> int:
    """Check the number of ranks and run the test; 0 when all is right. Collective."""
    comm = meet(ranks)
    text = run(comm)
    if comm.rank == 0:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
