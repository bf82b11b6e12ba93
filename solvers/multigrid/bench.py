"""What multigrid costs: cycles and seconds for cubes with values at all sides:
`python -m solvers.multigrid.bench`. Started by mpirun it measures the ranks of that job.

The times are those that a user sees once kernels are compiled: `setup` makes the grid, the operator
and the levels, `solve` includes the making of the plans of all calls.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import distarray as da
from solvers.multigrid.operator import EllipticOperator
from solvers.multigrid.solver import Multigrid


@dataclass(frozen=True)
class Row:
    """One cube: its cells per axis, cycles to 1e-8, and seconds."""

    cells: int
    cycles: int
    setup: float
    solve: float

    def __str__(self) -> str:
        total = self.setup + self.solve
        return (
            f"{self.cells:4d}^3  {self.cycles:3d} cycles  setup {self.setup:6.3f} s  solve "
            f"{self.solve:6.3f} s  together {total:6.3f} s"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Collective under a launcher."""
    parser = argparse.ArgumentParser(prog="python -m solvers.multigrid.bench", description=__doc__)
    parser.add_argument(
        "--cells", type=int, nargs="+", default=[32, 64, 128], help="cells along each axis"
    )
    options = parser.parse_args(arguments)
    if min(options.cells) < 1:
        parser.error("--cells must be at least 1")
    for cells in options.cells:
        da.log(measured(cells))
    return 0


def measured(cells: int, *, rtol: float = 1e-8, device: str = "auto") -> Row:
    """Solve `-lap u = f`, float64, on a cube. Collective."""
    da.zeros((1,))  # starts MPI, which is no part of the set-up
    began = time.perf_counter()
    grid = da.Grid((cells,) * 3, device=device)
    operator = EllipticOperator(grid, boundary=dict.fromkeys("xyz", da.Dirichlet(0.0)))
    solver = Multigrid(operator)
    made = time.perf_counter() - began
    f = da.random.uniform(grid, seed=0)
    grid.communicator.barrier()
    began = time.perf_counter()
    found = solver.solve(f, rtol=rtol)
    seconds = np.array([made, time.perf_counter() - began])
    setup, solve = grid.communicator.allreduce(seconds, "max")
    return Row(cells, found.iterations, float(setup), float(solve))


if __name__ == "__main__":
    sys.exit(main())
