"""The time of a direct solution, and of multigrid beside it: `python -m solvers.fft_poisson.bench`.

Started by mpirun it measures the ranks of that job. Both solve the same problem with zero values at
all sides, in turn, so that other programs on the machine slow both; medians over the repetitions,
the slowest rank's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import distarray as da
from solvers.fft_poisson.solver import FFTPoisson
from solvers.multigrid import Multigrid


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the times. Collective under a launcher."""
    parser = argparse.ArgumentParser(
        prog="python -m solvers.fft_poisson.bench", description=__doc__
    )
    parser.add_argument("--cells", type=int, default=256, help="cells along each axis")
    parser.add_argument(
        "--repeat", type=int, default=5, help="solutions of which the median is taken"
    )
    parser.add_argument(
        "--multigrid", action="store_true", help="measure multigrid to a residual of 1e-8 as well"
    )
    options = parser.parse_args(arguments)
    if min(options.cells, options.repeat) < 1:
        parser.error("--cells and --repeat must be at least 1")
    grid = da.Grid((options.cells,) * 3)
    rhs, out = da.random.normal(grid, seed=1), grid.zeros()
    poisson = FFTPoisson(grid, dict.fromkeys(grid.axes, da.Dirichlet(0.0)))
    acts: dict[str, Callable[[], object]] = {"direct": lambda: poisson.solve_into(rhs, out)}
    if options.multigrid:
        cycles = Multigrid(poisson.operator)
        acts["multigrid"] = lambda: cycles.solve(rhs, rtol=1e-8)
    for name, seconds in _medians(grid, acts, options.repeat).items():
        da.log(f"{name:<10} {options.cells}^3 on {grid.size} ranks {seconds:8.3f} s")
    return 0


def _medians(grid: da.Grid, acts: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The median time of each action, after one call of each to warm up. Collective."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    clock = da.zeros((grid.size,), ranks=(grid.size,), comm=grid.communicator.handle)
    for round_ in range(repeat + 1):
        for name, act in acts.items():
            clock.max()  # all begin together
            began = time.perf_counter()
            act()
            clock.fill(time.perf_counter() - began)
            if round_:
                times[name].append(float(clock.max()))
    return {name: statistics.median(found) for name, found in times.items()}


if __name__ == "__main__":
    sys.exit(main())
