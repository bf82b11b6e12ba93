"""Shallow water has the same bits on any number of ranks and any process grid, the automatic time
step included.
"""

import numpy as np
from mpi4py import MPI

import distarray as da
from solvers.shallow_water import ShallowWaterConfig, ShallowWaterSolver
from tests.ranks.common import from_root, process_grids, refused

SELDOM = (1, 2, 4, 8)

STEPS = 12


def island(x, y):
    """Cut by the process grids: its middle lies on the edge of blocks of two and four ranks."""
    return -1.0 + 1.5 * np.exp(-30.0 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))


FLOOD = {
    "cells": (18, 16),
    "depth": lambda x, y: np.where(x + y < 0.6, 1.0, 0.0),
    "bathymetry": lambda x, y: 0.2 * x + 0.1 * np.sin(7.0 * y),
}
FORCED = {
    "cells": (18, 16),
    "depth": lambda x, y: 1.0 + 0.1 * np.sin(6.0 * x) * y,
    "velocity": (0.5, lambda x, y: 0.2 * x + 0.0 * y),
    "periodic": (False, True),
    "inflow": {"x-": (lambda t, x, y: 0.5 + 0.1 * np.sin(t) + 0.0 * y, 0.0)},
    "outflow": ("x+",),
    "manning": 0.03,
    "coriolis": 1.0,
    "beta": 0.5,
}
DAM = {"cells": (40,), "depth": lambda x: np.where(x < 0.5, 1.0, 0.0), "riemann": "roe"}


def state(options, steps=STEPS, comm=None, **more):
    """Bytes of all fields and the numbers of a run. Collective."""
    flow = ShallowWaterSolver(ShallowWaterConfig(**(options | more)), comm=comm)
    flow.run(max_steps=steps)
    values = {name: u.gather().tobytes() for name, u in flow.fields.items()}
    return values | {"time": flow.time, "residual": flow.residual, "scalars": flow.scalars()}


def alone(options, steps=STEPS):
    """The state of a run on the root alone, on every rank. Collective."""
    return from_root(lambda: state(options, steps, MPI.COMM_SELF))


def compare(options):
    expected, cells = alone(options), options["cells"]
    for ranks in process_grids(len(cells), [n // 2 for n in cells]):
        assert state(options, ranks=ranks) == expected, ranks


def test_a_flood_has_the_same_bits():
    compare(FLOOD)


def test_rotation_friction_and_inflow_have_the_same_bits():
    compare(FORCED)


def test_a_dry_dam_break_has_the_same_bits():
    compare(DAM)


def test_a_lake_around_an_island_on_the_edge_of_blocks_stays_at_rest():
    flow = ShallowWaterSolver(ShallowWaterConfig(cells=(16, 16), surface=0.1, bathymetry=island))
    flow.run(max_steps=100)
    h, q = flow.fields["depth"].gather(), flow.fields["discharge"].gather()
    assert h.min() == 0.0
    assert (abs(q) / np.where(h > flow.thin, h, 1.0)).max() < 1e-12


def test_a_restart_on_other_ranks_has_the_same_bits(folder):
    flow = ShallowWaterSolver(ShallowWaterConfig(**FLOOD))
    flow.run(max_steps=5)
    flow.save(folder / "state.h5")
    flow.run(max_steps=5)
    expected = flow.time, {name: u.gather().tobytes() for name, u in flow.fields.items()}

    def continued():
        again = ShallowWaterSolver(ShallowWaterConfig(**FLOOD), comm=MPI.COMM_SELF)
        again.restore(folder / "state.h5")
        again.run(max_steps=5)
        return again.time, {name: u.gather().tobytes() for name, u in again.fields.items()}

    assert from_root(continued) == expected


def test_a_negative_depth_of_one_rank_is_the_same_error_on_all():
    refused(
        da.SolverError,
        "A depth is at least 0, received one of -0.25",
        lambda: ShallowWaterSolver(
            ShallowWaterConfig(cells=(16, 16), depth=lambda x, y: (x > 0.04) * 1.25 - 0.25 + 0 * y)
        ),
    )


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    for options in (DAM, FORCED | {"cells": (12, 8)}):
        expected = alone(options, steps=3)
        flow = ShallowWaterSolver(ShallowWaterConfig(**options), device="simulated")
        flow.run(max_steps=3)
        for name, u in flow.fields.items():
            assert u.gather().tobytes() == expected[name], name
        assert flow.time == expected["time"]
