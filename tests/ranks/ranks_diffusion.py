"""Diffusion, explicit and implicit, has the same bits on any ranks and any process grid."""

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from solvers.diffusion import DiffusionConfig, DiffusionSolver
from solvers.diffusion.exact import amplification, eigenvalue
from tests.ranks.common import from_root
from tests.ranks.flow_states import process_grids

RANKS = (1, 2, 3, 4, 8)
SELDOM = (1, 2, 4, 8)
TIMEOUT = 240

PLANE = {
    "cells": (21, 18),
    "diffusivity": (lambda x, y: 1.0 + x * y, np.linspace(0.5, 2.0, 21 * 18).reshape(21, 18)),
    "boundary": {
        "x-": da.Dirichlet(lambda t, x, y: np.sin(5.0 * t) * y),
        "x+": da.Robin(1.0, 0.5, 0.3),
        "y+": da.Neumann(0.2),
    },
    "initial": lambda x, y: np.cos(9.0 * x * y),
    "source": lambda t, x, y: np.exp(-t) * x + 0.0 * y,
    "measure_every": 2,
}
BOX = {
    "cells": (10, 9, 8),
    "periodic": (True, False, True),
    "initial": lambda x, y, z: np.cos(9.0 * x * y) + z,
    "measure_every": 3,
}


def state(options, steps, comm=MPI.COMM_WORLD, **more):
    heat = DiffusionSolver(DiffusionConfig(**options | more), comm=comm)
    heat.run(max_steps=steps)
    return heat.fields["u"].gather().tobytes(), heat.time, heat.residual, heat.scalars()


def compare(options, steps):
    alone = from_root(lambda: state(options, steps, MPI.COMM_SELF))
    assert state(options, steps) == alone
    for ranks in process_grids(DiffusionConfig(**options)):
        assert state(options, steps, ranks=ranks) == alone, ranks


def test_explicit_steps_have_the_same_bits():
    compare(PLANE, 12)
    compare(BOX, 6)


def test_implicit_steps_have_the_same_bits():
    compare(PLANE | {"scheme": "tr-bdf2"}, 3)


def test_a_mode_decays_by_the_discrete_factor():
    heat = DiffusionSolver(
        DiffusionConfig(
            cells=(24, 16), periodic=True, initial=lambda x, y: np.cos(2 * np.pi * (2 * x + y))
        )
    )
    start, dt = heat.fields["u"].gather(), heat.stable_dt()
    for _ in range(50):
        heat.step(dt)
    z = dt * eigenvalue((4 * np.pi, 2 * np.pi), heat.config.spacing, (1.0, 1.0))
    expected = amplification(heat.config.integrator, z) ** 50
    assert abs(heat.fields["u"].gather() - expected * start).max() < 1e-12 * expected


def test_what_is_wrong_is_one_error_on_all_ranks():
    wrong = (
        {"diffusivity": lambda x, y: y - 0.2 + 0 * x},
        {"diffusivity": -1.0},
        {"scheme": "rk4"},
        {"boundary": {"x": da.Outflow()}, "scheme": "tr-bdf2"},
    )
    for options in wrong:
        with pytest.raises(da.SolverError) as raised:
            DiffusionSolver(DiffusionConfig(**PLANE | options))
        texts = MPI.COMM_WORLD.allgather(str(raised.value))
        assert set(texts) == {str(raised.value)}
    heat = DiffusionSolver(DiffusionConfig(**PLANE))
    with pytest.raises(da.SolverError, match="lies between 0 and"):
        heat.step(1.1 * heat.limit)
