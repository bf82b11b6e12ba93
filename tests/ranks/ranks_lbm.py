"""The lattice Boltzmann solver gives the same bits on any number of ranks and any process grid."""

import dataclasses

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from solvers.incompressible.shapes import Circle
from solvers.lbm import LatticeConfig, LatticeSolver
from tests.ranks.common import from_root
from tests.ranks.flow_states import alone, compare, state

SELDOM = (1, 2, 3, 8)  # on 4 ranks blocks have neighbours across corners
TIMEOUT = 240

CAVITY = LatticeConfig(
    cells=(18, 13),
    viscosity=0.01,
    bounds=((0.0, 18.0), (0.0, 13.0)),
    walls={"y+": (1.0, 0.0)},
    obstacles={"disc": Circle((8.0, 6.0), 3.0)},
    forces=("disc", "y+"),
    force=(1e-3, 0.0),
    measure_every=3,
)
CHANNEL = LatticeConfig(
    cells=(24, 9),
    viscosity=0.05,
    bounds=((0.0, 24.0), (0.0, 9.0)),
    inflow={"x-": (lambda t, x, y: y * (9.0 - y) / 25.0 * (1.0 + 0.1 * t), 0.0)},
    outflow={"x+": 0.0},
    collision="cumulant",
    measure_every=3,
)
BOX = LatticeConfig(
    cells=(9, 8, 10),
    viscosity=0.02,
    bounds=((0.0, 9.0), (0.0, 8.0), (0.0, 10.0)),
    periodic=(False, True, False),
    walls={"z+": (0.5, 0.25, 0.0)},
    initial=(0.0, lambda x, y, z: 0.3 * np.sin(2 * np.pi * y / 8.0) + 0.0 * (x + z), 0.0),
    measure_every=3,
)


def test_cavity_with_a_body_has_the_same_bits():
    compare(CAVITY, solver=LatticeSolver)


def test_channel_has_the_same_bits():
    compare(CHANNEL, solver=LatticeSolver)


def test_box_has_the_same_bits():
    compare(BOX, steps=5, solver=LatticeSolver)


def test_all_neighbours_of_a_cell_have_the_same_bits():
    periodic = dataclasses.replace(
        BOX, lattice="D3Q27", collision="bgk", periodic=True, walls={}, measure_every=100
    )
    compare(periodic, steps=3, solver=LatticeSolver)


def test_restart_on_other_ranks_has_the_same_bits(folder):
    flow = LatticeSolver(CAVITY)
    flow.run(max_steps=5)
    flow.save(folder / "state.h5")
    flow.run(max_steps=5)
    expected = flow.scalars(), flow.fields["populations"].gather().tobytes()

    def continued():
        again = LatticeSolver(CAVITY, comm=MPI.COMM_SELF)
        again.restore(folder / "state.h5")
        again.run(max_steps=5)
        return again.scalars(), again.fields["populations"].gather().tobytes()

    assert from_root(continued) == expected


def test_errors_are_the_same_on_all_ranks():
    over = {"disc": Circle((0.5, 4.0), 1.0)}
    with pytest.raises(da.SolverError, match="keep clear of inflows") as raised:
        LatticeSolver(dataclasses.replace(CHANNEL, obstacles=over))
    fast = dataclasses.replace(CAVITY, force=(10.0, 0.0), measure_every=1)
    with pytest.raises(da.SolverError, match="Mach number") as running:
        LatticeSolver(fast).run(max_steps=50)
    for error in (raised, running):
        texts = MPI.COMM_WORLD.allgather(str(error.value))
        assert set(texts) == {str(error.value)}


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    for config in (CAVITY, CHANNEL):
        expected = alone(config, 4, LatticeSolver, device="cpu")
        assert state(config, 4, LatticeSolver, device="simulated") == expected
