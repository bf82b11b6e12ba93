"""Linear transport gives the same bits on any number of ranks and any process grid."""

import dataclasses

import numpy as np

import distarray as da
from solvers.advection import AdvectionConfig, AdvectionSolver
from tests.ranks.common import refused
from tests.ranks.flow_states import compare

RANKS = (1, 2, 3, 4, 8)
SELDOM = (1, 2, 4, 8)


def hump(*x):
    return np.exp(-20.0 * sum((c - 0.4) ** 2 for c in x))


CORNERS = AdvectionConfig(
    cells=(17, 14), velocity=(1.0, -0.5), initial=hump, scheme="ctu", courant=0.8
)
TURNING = AdvectionConfig(
    cells=(18, 16),
    periodic=(False, True),
    boundary={"x-": da.Dirichlet(lambda t, x, y: 0.1 + t + 0.0 * y)},
    velocity=(lambda x, y: 0.5 - y, lambda x, y: x - 0.5),
    initial=hump,
    scheme="upwind3",
    positivity=True,
)
BOX = AdvectionConfig(
    cells=(9, 12, 10), velocity=(1.0, 0.5, -0.25), initial=hump, scheme="muscl", dtype="float32"
)


def test_corner_transport_has_the_same_bits():
    compare(CORNERS, 6, AdvectionSolver)


def test_turning_has_the_same_bits():
    compare(TURNING, 6, AdvectionSolver)


def test_a_box_has_the_same_bits():
    compare(BOX, 6, AdvectionSolver)


def test_what_is_wrong_is_one_error_on_all_ranks():
    def holed(x, y):
        return np.where(x < 0.1, np.nan, y)

    for changes, text in (
        ({"scheme": "quick"}, "'scheme' is one of 'auto', 'constant', 'upwind3'"),
        ({"courant": 1.5}, "above 0 and at most 1, received courant=1.5"),
        ({"initial": holed}, "values of 'c' are finite"),
        (
            {"initial": lambda x, y: x - 0.05 + 0.0 * y, "positivity": True},
            "not so at the start, received -0.02",
        ),
    ):
        refused(
            da.SolverError,
            text,
            lambda changes=changes: AdvectionSolver(dataclasses.replace(CORNERS, **changes)),
        )
