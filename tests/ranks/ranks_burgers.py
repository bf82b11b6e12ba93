"""Burgers' equation, with its automatic time step, gives the same bits on any ranks."""

import dataclasses

import numpy as np

import distarray as da
from solvers.burgers import BurgersConfig, BurgersSolver
from tests.ranks.common import refused
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


def test_what_is_wrong_is_one_error_on_all_ranks():
    for changes, text in (
        ({"viscosity": -1.0}, "viscosity is at least 0, received -1.0"),
        ({"initial": (lambda x, y: 1.0 / (x > 0.5 + 0.0 * y), 0.0)}, "values of 'u' are finite"),
    ):
        with np.errstate(divide="ignore"):
            refused(
                da.SolverError,
                text,
                lambda changes=changes: BurgersSolver(dataclasses.replace(WAVES, **changes)),
            )
