"""Compressible flow has the same bits on any number of ranks and any process grid, with the time
step that follows the state; what is refused is refused alike.
"""

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from solvers.euler import EulerConfig, EulerSolver, Inflow, Outflow, Split, Wall
from tests.ranks.flow_states import alone, compare, state

SELDOM = (1, 2, 3, 8)  # on 4 ranks blocks have neighbours across corners
TIMEOUT = 240

WORLD = MPI.COMM_WORLD
BEHIND, AHEAD = (2.0, 1.5, -0.5, 4.0), (1.0, 0.0, 0.0, 1.0)


def hump(x, y):
    near = np.exp(-20.0 * ((x - 0.4) ** 2 + (y - 0.6) ** 2))
    return 1.0 + near, 0.3 - near, 0.1 * near, 1.0 + 2.0 * near


#: Sides of all kinds, one of which moves with the time, and an obstacle.
BOX = EulerConfig(
    cells=(26, 25),
    initial=hump,
    sides={
        "x-": Inflow(BEHIND),
        "x+": Outflow(),
        "y-": Split(lambda t, x, y: x < 0.3 + t, Inflow(BEHIND), Wall()),
    },
    obstacles=lambda x, y: (abs(x - 0.7) < 0.1) & (abs(y - 0.5) < 0.15),
)
#: Friction reads around corners; three axes, with positivity.
TUBE = EulerConfig(
    cells=(12, 9, 8),
    initial=lambda x, y, z: (1.0, 0.1 * x, 0.2 * y * z, 0.1 * z, 1.0 + 0.5 * (x * y > 0.3)),
    periodic=(False, True, False),
    viscosity=0.01,
    gravity=(0.0, 0.0, -0.5),
    reconstruction="constant",
    riemann="rusanov",
    positivity=True,
)


def test_a_box_with_all_sides_and_an_obstacle_has_the_same_bits():
    compare(BOX, 8, EulerSolver)


def test_a_viscous_gas_on_three_axes_has_the_same_bits():
    compare(TUBE, 3, EulerSolver)


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    expected = alone(BOX, 8, EulerSolver, device="cpu")
    assert state(BOX, 8, EulerSolver, device="simulated") == expected


def test_an_initial_state_that_is_no_gas_is_the_same_error_on_all_ranks():
    config = EulerConfig(cells=(16,), initial=(1.0, 0.0, lambda x: x - 0.9))
    with pytest.raises(da.SolverError, match="The pressure of gas is above 0 everywhere") as e:
        EulerSolver(config)
    assert set(WORLD.allgather(str(e.value))) == {str(e.value)}
