"""Every option of the incompressible solver gives the same bits on any number of ranks."""

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from tests.ranks.common import from_root
from tests.ranks.flow_states import compare

RANKS = (1, 2, 3, 8)
SELDOM = (1, 2, 8)

PLANE = {"cells": (26, 13), "viscosity": 0.02, "measure_every": 2}
JET = {"inflow": {"x-": (lambda t, x, y: (1.0 + np.sin(9 * t)) * y, 0.1)}, "outflow": ("x+",)}


def stretched(n):
    faces = np.linspace(0.0, 1.0, n + 1) ** 1.2
    return 0.5 * faces + 0.25 * (faces + 1.0 - faces[::-1])


FACES = {"x": stretched(26), "y": stretched(13)}


def test_outflow_on_a_stretched_grid():
    compare(IncompressibleConfig(**PLANE, **JET, coordinates=FACES, slip=("y-",)), 4)


def test_implicit_viscosity_with_an_outflow():
    compare(IncompressibleConfig(**PLANE, **JET, scheme="ab2-cn"), 4)


def test_weno_and_a_flow_rate():
    compare(
        IncompressibleConfig(
            **PLANE,
            periodic=(True, False),
            coordinates={"y": FACES["y"]},
            flow_rate={"x": 1.0},
            force=(0.0, lambda t, x, y: np.sin(t + x) * y),
            advection="weno",
        ),
        4,
    )


def test_pressure_by_multigrid():
    config = IncompressibleConfig(**PLANE, walls={"y+": (1.0, 0.0)}, pressure="multigrid")
    compare(config, 2)


def test_three_axes():
    compare(
        IncompressibleConfig(
            cells=(12, 7, 6),
            viscosity=0.05,
            periodic=(False, True, False),
            coordinates={"z": stretched(6)},
            inflow={
                "z-": (0.0, 0.0, lambda t, x, y, z: x + 0 * y),
                "z+": (0.0, 0.2, lambda t, x, y, z: np.sin(3 * x + t) + 0 * y),
            },
            scheme="ab2-cn",
            measure_every=2,
        ),
        3,
    )


WRONG = (
    {"inflow": {"x-": (1.0, 0.0)}},
    {"inflow": {"x-": (lambda t, x: 1.0, 0.0)}},
    {"coordinates": {"y": [0.0, 1.0]}},
    {"ranks": (1000, 1)},
    {"flow_rate": {"y": 1.0}},
)


def test_a_wrong_config_is_one_error_on_all_ranks():
    errors = (da.SolverError, da.GridError, da.BoundaryError, da.DecompositionError)
    for options in WRONG:
        with pytest.raises(errors) as raised:
            IncompressibleSolver(IncompressibleConfig(**(PLANE | options)))
        texts = MPI.COMM_WORLD.allgather(str(raised.value))
        assert set(texts) == {str(raised.value)}


def test_restart_on_other_ranks_has_the_same_bits(folder):
    config = IncompressibleConfig(**PLANE, **JET, coordinates=FACES, scheme="ab2-cn")
    flow = IncompressibleSolver(config)
    flow.run(max_steps=3)
    flow.save(folder / "state.h5")
    flow.run(max_steps=2)
    expected = flow.scalars(), {name: u.gather().tobytes() for name, u in flow.fields.items()}

    def continued():
        again = IncompressibleSolver(config, comm=MPI.COMM_SELF)
        again.restore(folder / "state.h5")
        again.run(max_steps=2)
        return again.scalars(), {name: u.gather().tobytes() for name, u in again.fields.items()}

    assert from_root(continued) == expected


def test_runs_that_differ_between_ranks_are_refused():
    rank = MPI.COMM_WORLD.rank
    for options, name in (
        ({"until": 1.0 + rank}, "until"),
        ({"max_steps": 2 + rank}, "max_steps"),
        ({"max_steps": 4, "every": 1 + rank}, "every"),
        ({"until": 0.5, "visits": [(0.01 * (1 + rank), lambda: None)]}, "the times of visits"),
        ({"max_steps": 2, "tensorboard": rank > 0}, "tensorboard"),
        ({"max_steps": 2}, "the configuration"),
    ):
        safety = 0.4 + (0.01 * rank if name == "the configuration" else 0.0)
        flow = IncompressibleSolver(IncompressibleConfig(**PLANE, safety=safety))
        if MPI.COMM_WORLD.size == 1:
            flow.run(**options)
            continue
        with pytest.raises(da.SolverError, match=f"but {name} is not: rank 0 has {name}=.*; pass"):
            flow.run(**options)
        assert flow.step_count == 0
        flow.run(max_steps=1)  # and nobody waits for what others have begun
