"""Compressible flow has the same bits on any number of ranks and any process grid, with the time
step that follows the state; what is refused is refused alike.
"""

import dataclasses

import numpy as np

import distarray as da
from solvers.euler import EulerConfig, EulerSolver, Inflow, Outflow, Split, Wall
from tests.ranks.common import refused
from tests.ranks.flow_states import alone, compare, state

SELDOM = (1, 2, 3, 8)  # on 4 ranks blocks have neighbours across corners
TIMEOUT = 240

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


def test_what_is_wrong_is_one_error_on_all_ranks():
    for changes, text in (
        ({"initial": (1.0, 0.0, 0.0, lambda x, y: x - 0.9 + 0.0 * y)}, "The pressure of gas is"),
        ({"initial": (lambda x, y: y - 0.1 + 0.0 * x, 0.0, 0.0, 1.0)}, "The density of gas is"),
        ({"gamma": 1.0}, "'gamma' is above 1, received 1.0"),
        ({"courant": 1.5}, "above 0 and at most 1, received courant=1.5"),
        ({"riemann": "roe"}, "one of 'hllc', 'hll', 'rusanov', 'exact'"),
        ({"initial": lambda x, y: (1.0, 0.0)}, "returns density, one velocity per axis and"),
        ({"obstacles": lambda x, y: (x < 0.1) & (y < 0.1)}, "one over the side 'x-'"),
    ):
        refused(
            da.SolverError,
            text,
            lambda changes=changes: EulerSolver(dataclasses.replace(BOX, **changes)),
        )
