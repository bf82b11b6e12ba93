"""What the rank tests of solvers share: the state after some steps, and its comparison with that of
one rank.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from mpi4py import MPI

from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from tests.ranks.common import from_root

#: Process grids to try; those of many ranks are tried from the flattest to the most cut.
MOST = 4


def state(
    config: Any, steps: int, solver: Any = IncompressibleSolver, **options: Any
) -> dict[str, Any]:
    """Bytes of all fields, and the numbers of a run, after some steps. Collective."""
    flow = solver(config, **options)
    flow.run(max_steps=steps)
    values: dict[str, Any] = {name: u.gather().tobytes() for name, u in flow.fields.items()}
    return values | {"time": flow.time, "residual": flow.residual, "scalars": flow.scalars()}


def alone(
    config: Any, steps: int, solver: Any = IncompressibleSolver, **options: Any
) -> dict[str, Any]:
    """The state of a run on the root alone, on every rank. Collective."""
    found: dict[str, Any] = from_root(
        lambda: state(config, steps, solver, comm=MPI.COMM_SELF, **options)
    )
    return found


def replaced(config: IncompressibleConfig, **changes: Any) -> IncompressibleConfig:
    return IncompressibleConfig(**{**vars(config), **changes})


def process_grids(config: Any) -> list[tuple[int, ...]]:
    """Up to `MOST` ways to cut a flow into as many blocks as there are ranks."""
    size, cells = MPI.COMM_WORLD.Get_size(), config.cells
    found = [
        grid
        for grid in _cuts(size, len(cells))
        if all(n >= 3 * r for n, r in zip(cells, grid, strict=True))
    ]
    step = max(1, math.ceil(len(found) / MOST))
    return found[::step]


def _cuts(size: int, ndim: int) -> list[tuple[int, ...]]:
    if ndim == 1:
        return [(size,)]
    return [
        (n, *rest)
        for n in range(1, size + 1)
        if size % n == 0
        for rest in _cuts(size // n, ndim - 1)
    ]


def compare(config: Any, steps: int = 8, solver: Any = IncompressibleSolver) -> None:
    """Require the bits of one rank on the default process grid and on others. Collective."""
    expected = alone(config, steps, solver)
    assert state(config, steps, solver) == expected
    for ranks in process_grids(config):
        chosen = dataclasses.replace(config, ranks=ranks)
        assert state(chosen, steps, solver) == expected, ranks
