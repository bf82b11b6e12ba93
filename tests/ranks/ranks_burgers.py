"""Burgers' equation, with its automatic time step, gives the same bits on any ranks."""

import numpy as np

from solvers.burgers import BurgersConfig, BurgersSolver
from tests.ranks.flow_states import alone, compare, state

RANKS = (1, 2, 3, 4, 8)
SELDOM = (1, 2, 4, 8)

WAVES = BurgersConfig(
    cells=(19, 16),
    periodic=(True, False),
    viscosity=0.002,
    initial=(
        lambda x, y: 0.3 + np.sin(2 * np.pi * x) * np.cos(3 * y),
        lambda x, y: np.cos(2 * np.pi * x) - y,
    ),
)


def test_waves_have_the_same_bits():
    compare(WAVES, 10, BurgersSolver)


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    expected = alone(WAVES, 6, BurgersSolver, device="cpu")
    assert state(WAVES, 6, BurgersSolver, device="simulated") == expected
