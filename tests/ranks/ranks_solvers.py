"""The incompressible solver gives the same bits on any number of ranks and any process grid."""

import pytest
from mpi4py import MPI

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from tests.ranks.common import from_root
from tests.ranks.flow_states import alone, compare, replaced, state

RANKS = (1, 2, 3, 8)
SELDOM = (1, 2, 8)

CAVITY = IncompressibleConfig(
    cells=(18, 13), viscosity=0.01, walls={"y+": (1.0, 0.0)}, measure_every=4
)
BOX = IncompressibleConfig(
    cells=(10, 9, 8),
    viscosity=0.02,
    periodic=(False, True, False),
    walls={"z+": (1.0, 0.25, 0.0)},
    initial=(0.0, 0.5, 0.0),
    force=(0.0, lambda x, y, z: x * z, 0.0),
    measure_every=4,
)

NARROW = IncompressibleConfig(
    cells=(16, 3), viscosity=0.05, walls={"x-": (0.0, 1.0)}, measure_every=4
)


def test_cavity_has_the_same_bits():
    compare(CAVITY)


def test_box_has_the_same_bits():
    compare(BOX)


def test_a_box_narrower_than_the_ranks_has_the_same_bits():
    compare(NARROW)


def test_restart_on_other_ranks_has_the_same_bits(folder):
    flow = IncompressibleSolver(CAVITY)
    flow.run(max_steps=6)
    flow.save(folder / "state.h5")
    flow.run(max_steps=10)
    expected = flow.residual, {name: u.gather().tobytes() for name, u in flow.fields.items()}

    def continued():
        again = IncompressibleSolver(CAVITY, comm=MPI.COMM_SELF)
        again.restore(folder / "state.h5")
        again.run(max_steps=10)
        return again.residual, {name: u.gather().tobytes() for name, u in again.fields.items()}

    assert from_root(continued) == expected


def test_a_state_that_blows_up_is_the_same_error_on_all_ranks():
    flow = IncompressibleSolver(replaced(CAVITY, viscosity=0.5))
    with pytest.raises(da.SolverError) as raised:
        step_often(flow)
    texts = MPI.COMM_WORLD.allgather(str(raised.value))
    assert set(texts) == {str(raised.value)}


def step_often(flow):
    for _ in range(200):
        flow.step(1.0)


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    for config in (CAVITY, BOX):
        expected = alone(config, 8, device="cpu")
        assert state(config, 8, device="simulated") == expected
